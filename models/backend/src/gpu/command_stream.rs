//! A queue of work with the memory that it uses, and the steps that it knows already.
//!
//! Outside of a step, what is asked for is launched at once. Inside one nothing is: launches are kept, as the values
//! that they are, and what they need of the host is put together in one place. At the end that goes to the device in
//! one copy, and the launches as one graph, which is recorded when a key is met first. When it is met again, the
//! launches are compared with the recorded ones, one by one, and only the graph is launched. So a graph never does
//! anything but what the networks' code has just asked for: if that differs, or if a graph cannot be made, the step is
//! launched without one, and such steps always are from there on.

use std::collections::HashMap;

use omni_gpu::{Address, Device, GpuError, Launch, Memory, Staging};

use super::arena::{Arena, Piece};
use super::watch::Watch;
use crate::StepKey;

/// Bytes that a step can bring from the host, most.
const STAGED: usize = 4 << 20;
/// Every piece of them begins at a multiple of this.
const ALIGNMENT: usize = 16;
/// Steps that are remembered, most: of those with prompts, and of the others.
const REMEMBERED: usize = 256;
/// Least size of the host buffer for downloads, in bytes.
const FEWEST_INCOMING: usize = 16 << 10;

/// Address in device memory, with its owner.
pub(super) enum Place<D: Device> {
    Piece(Piece<D>),
    /// Memory owned elsewhere: the staging area of the running step, or data kept between steps.
    Fixed(Address),
    /// In memory of its own, which stays from step to step.
    Own(D::Memory),
}

impl<D: Device> Place<D> {
    pub(super) fn address(&self) -> Address {
        match self {
            Self::Piece(piece) => piece.address(),
            Self::Fixed(address) => *address,
            Self::Own(memory) => memory.address(),
        }
    }
}

/// Memory of the steps of one network. They run one after another, so they share it, except for the upload buffers:
/// the host may fill one while the device still reads the other.
struct Stage<D: Device> {
    host: [Outgoing<D>; 2],
    arena: Arena<D>,
    device: D::Memory,
}

/// Bytes that the host uploads in one step.
struct Outgoing<D: Device> {
    staging: D::Staging,
    /// Number of its last copy to the device.
    sent: u64,
}

/// A download in flight.
pub struct PendingCopy<D: Device> {
    copy: D::PendingCopy,
    bytes: usize,
    /// Uploads made before it.
    sent: u64,
}

/// A step that was done before.
struct Known<D: Device> {
    launches: Vec<Launch>,
    graph: Option<D::Graph>,
    /// [`CommandStream::epoch`] at that time.
    epoch: u64,
    used: u64,
}

/// The step that is being put together.
struct Open<D: Device> {
    key: StepKey,
    /// `true` if the step is unique: it becomes no graph.
    once: bool,
    launches: Vec<Launch>,
    /// Length of the prefix of a recorded step that the launches have matched so far; `None` once they differ.
    like: Option<usize>,
    /// Bytes brought from the host, and by which of the two.
    staged: usize,
    host: usize,
    /// Uploads that did not fit among the staged bytes.
    beside: Vec<D::Memory>,
}

pub(super) struct CommandStream<D: Device> {
    pub(super) device: D,
    stages: HashMap<&'static str, Stage<D>>,
    loose: Arena<D>,
    known: HashMap<StepKey, Known<D>>,
    open: Option<Open<D>>,
    /// See [`omni_gpu::kernels::Scratch`].
    pub(super) counters: Option<D::Memory>,
    /// Host memory that nothing comes to now.
    incoming: Vec<D::Staging>,
    /// Uploads queued so far, and how many of them are known to be complete.
    sent: u64,
    over: u64,
    /// Counts the times that memory which steps refer to was moved.
    epoch: u64,
    steps: u64,
    /// `true` if steps are recorded as graphs.
    pub(super) graphs: bool,
}

impl<D: Device> CommandStream<D> {
    pub(super) fn new(device: D, graphs: bool) -> Self {
        Self {
            device,
            loose: Arena::new(),
            stages: HashMap::new(),
            known: HashMap::new(),
            open: None,
            counters: None,
            incoming: Vec::new(),
            sent: 0,
            over: 0,
            epoch: 0,
            steps: 0,
            graphs,
        }
    }

    /// Memory for something that is computed.
    pub(super) fn take(&self, bytes: usize) -> omni_gpu::Result<Place<D>> {
        let stage = self
            .open
            .as_ref()
            .and_then(|open| self.stages.get(open.key.stage));
        let arena = stage.map_or(&self.loose, |stage| &stage.arena);
        arena.take(&self.device, bytes).map(Place::Piece)
    }

    /// Brings bytes of the host.
    pub(super) fn bring(&mut self, bytes: &[u8]) -> omni_gpu::Result<Place<D>> {
        if let Some(open) = &mut self.open
            && let Some(stage) = self.stages.get_mut(open.key.stage)
        {
            let from = open.staged;
            let end = open.staged + bytes.len();
            if end <= STAGED {
                let staging = &mut stage.host[open.host].staging;
                staging.content_mut()[from..end].copy_from_slice(bytes);
                open.staged = end.next_multiple_of(ALIGNMENT);
                return Ok(Place::Fixed(stage.device.address().offset(from)));
            }
            // Memory of its own: an arena might return a place that this step has freed but its queued launches
            // still write.
            let memory = self.device.alloc(bytes.len())?;
            self.device.upload(memory.address(), bytes)?;
            let place = Place::Fixed(memory.address());
            open.beside.push(memory);
            return Ok(place);
        }
        let piece = self.loose.take(&self.device, bytes.len())?;
        self.device.upload(piece.address(), bytes)?;
        Ok(Place::Piece(piece))
    }

    pub(super) fn launch(&mut self, launch: Launch, watch: &Watch) -> omni_gpu::Result<()> {
        let Some(open) = &mut self.open else {
            watch.launched(1);
            return self.device.launch(&launch);
        };
        if let Some(same) = &mut open.like {
            let known = self.known.get(&open.key).map_or(&[][..], |known| &known.launches);
            if known.get(*same) == Some(&launch) {
                *same += 1;
                return Ok(());
            }
            open.launches.extend_from_slice(&known[..*same]);
            open.like = None;
        }
        open.launches.push(launch);
        Ok(())
    }

    /// Waits for the queue and downloads.
    pub(super) fn fetch(&mut self, from: Address, to: &mut [u8], watch: &Watch) -> omni_gpu::Result<()> {
        if self.open.is_some() {
            return Err(GpuError::Recording(
                "what a step computes cannot be looked at before its end",
            ));
        }
        self.device.download(from, to)?;
        watch.worked(self.device.take_busy());
        self.waited();
        Ok(())
    }

    pub(super) fn wait(&mut self) -> omni_gpu::Result<()> {
        self.device.wait()?;
        self.waited();
        Ok(())
    }

    /// Everything asked for is done.
    fn waited(&mut self) {
        self.over = self.sent;
    }

    /// Asks for a copy to the host.
    pub(super) fn download_async(&mut self, from: Address, bytes: usize) -> omni_gpu::Result<PendingCopy<D>> {
        if self.open.is_some() {
            return Err(GpuError::Recording(
                "what a step computes cannot be looked at before its end",
            ));
        }
        let fits = |staging: &D::Staging| staging.content().len() >= bytes;
        let to = match self.incoming.iter().position(fits) {
            Some(found) => self.incoming.swap_remove(found),
            None => self
                .device
                .staging(bytes.next_power_of_two().max(FEWEST_INCOMING))?,
        };
        Ok(PendingCopy {
            copy: self.device.download_async(from, to, bytes)?,
            bytes,
            sent: self.sent,
        })
    }

    /// Waits for a copy to the host.
    pub(super) fn wait_copy(&mut self, pending: PendingCopy<D>, watch: &Watch) -> omni_gpu::Result<Vec<u8>> {
        let PendingCopy { copy, bytes, sent } = pending;
        let staging = self.device.wait_copy(copy)?;
        watch.worked(self.device.take_busy());
        self.over = self.over.max(sent);
        let content = staging.content()[..bytes].to_vec();
        self.incoming.push(staging);
        Ok(content)
    }

    /// Memory that steps refer to is moved.
    pub(super) fn moved(&mut self) {
        self.epoch += 1;
    }

    /// Begins a step; `false` if it is to be done without.
    pub(super) fn begin(&mut self, key: StepKey, watch: &Watch) -> omni_gpu::Result<bool> {
        if !self.graphs || self.open.is_some() {
            return Ok(false);
        }
        self.steps += 1;
        self.make_stage(key.stage)?;
        if self
            .known
            .get(&key)
            .is_some_and(|known| known.graph.is_some() && known.epoch != self.epoch)
        {
            self.known.remove(&key);
        }
        let like = match self.known.get_mut(&key) {
            Some(Known {
                graph: None, used, ..
            }) => {
                *used = self.steps;
                watch.fell_back_again();
                return Ok(false);
            }
            Some(known) => {
                known.used = self.steps;
                Some(0)
            }
            None => None,
        };
        if !self.is_whole(key.stage) {
            watch.fell_back(key, "what an earlier step computed is still held");
            return Ok(false);
        }
        self.open(key, like, false)?;
        Ok(true)
    }

    /// Begins a step that does not repeat; returns `false` if its operations must be launched one by one.
    pub(super) fn begin_once(&mut self, stage: &'static str) -> omni_gpu::Result<bool> {
        if !self.graphs || self.open.is_some() {
            return Ok(false);
        }
        self.make_stage(stage)?;
        if !self.is_whole(stage) {
            return Ok(false);
        }
        let key = StepKey {
            stage,
            rows: 0,
            also: 0,
            ends: 0,
        };
        self.open(key, None, true)?;
        Ok(true)
    }

    fn make_stage(&mut self, stage: &'static str) -> omni_gpu::Result<()> {
        if self.stages.contains_key(stage) {
            return Ok(());
        }
        let outgoing = || {
            let staging = self.device.staging(STAGED)?;
            Ok::<_, GpuError>(Outgoing { staging, sent: 0 })
        };
        let made = Stage {
            arena: Arena::new(),
            host: [outgoing()?, outgoing()?],
            device: self.device.alloc(STAGED)?,
        };
        self.stages.insert(stage, made);
        Ok(())
    }

    /// Returns true if no result of a stage's steps is held.
    fn is_whole(&self, stage: &'static str) -> bool {
        let stage = self.stages.get(stage);
        stage.is_none_or(|stage| stage.arena.is_whole())
    }

    fn open(&mut self, key: StepKey, like: Option<usize>, once: bool) -> omni_gpu::Result<()> {
        let stage = self.stages.get(key.stage);
        let free = stage.and_then(|stage| stage.host.iter().position(|host| host.sent <= self.over));
        if free.is_none() {
            self.wait()?;
        }
        self.open = Some(Open {
            key,
            once,
            launches: Vec::new(),
            like,
            staged: 0,
            host: free.unwrap_or(0),
            beside: Vec::new(),
        });
        Ok(())
    }

    /// Excludes steps of this key from graphs; reports the reason the first time.
    pub(super) fn refuse(&mut self, key: StepKey, reason: &str, watch: &Watch) {
        if self.known.contains_key(&key) {
            return watch.fell_back_again();
        }
        watch.fell_back(key, reason);
        self.remember(key, Vec::new(), None);
    }

    /// Gives a step up that failed while it was put together.
    pub(super) fn abandon(&mut self) {
        self.open = None;
    }

    /// Ends a step: asks the device for all of it.
    pub(super) fn finish(&mut self, watch: &Watch) -> omni_gpu::Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        if let Some(stage) = self.stages.get_mut(open.key.stage) {
            self.sent += 1;
            let host = &mut stage.host[open.host];
            host.sent = self.sent;
            self.device
                .upload_async(stage.device.address(), &host.staging, open.staged)?;
        }
        if open.once {
            watch.launched(open.launches.len());
            open.launches
                .iter()
                .try_for_each(|launch| self.device.launch(launch))?;
            if !open.beside.is_empty() {
                // Freed only when the device no longer reads it.
                self.device.wait()?;
            }
            return Ok(());
        }
        if let Some(same) = open.like {
            let known = self.known.get(&open.key);
            if let Some(known) = known
                && known.launches.len() == same
                && let Some(graph) = &known.graph
            {
                watch.replayed(same);
                return self.device.replay(graph);
            }
            if let Some(known) = known {
                open.launches.extend_from_slice(&known.launches[..same]);
            }
        }
        let graph = if self.known.contains_key(&open.key) {
            Err("its operations differ from those that were recorded".to_owned())
        } else if !open.beside.is_empty() {
            Err(format!("it needs more than {STAGED} bytes of the host"))
        } else {
            self.record(&open.launches).map_err(|e| e.to_string())
        };
        let graph = match graph {
            Ok(graph) => {
                watch.recorded(open.launches.len());
                self.device.replay(&graph)?;
                Some(graph)
            }
            Err(reason) => {
                watch.fell_back(open.key, &reason);
                watch.launched(open.launches.len());
                open.launches
                    .iter()
                    .try_for_each(|launch| self.device.launch(launch))?;
                None
            }
        };
        self.remember(open.key, open.launches, graph);
        if !open.beside.is_empty() {
            // Freed only when the device no longer reads it.
            self.device.wait()?;
        }
        Ok(())
    }

    fn record(&self, launches: &[Launch]) -> omni_gpu::Result<D::Graph> {
        self.device.record()?;
        let launched = launches.iter().try_for_each(|launch| self.device.launch(launch));
        let graph = self.device.recorded();
        launched.and(graph)
    }

    fn remember(&mut self, key: StepKey, launches: Vec<Launch>, graph: Option<D::Graph>) {
        // Prompts of many sizes do not displace the steps that every frame takes, nor many of those the prompts.
        let alike = self
            .known
            .iter()
            .filter(|(known, _)| (known.ends > 0) == (key.ends > 0));
        if alike.clone().count() >= REMEMBERED {
            let oldest = alike.min_by_key(|(_, known)| known.used).map(|(key, _)| *key);
            oldest.map(|key| self.known.remove(&key));
        }
        let launches = if graph.is_some() { launches } else { Vec::new() };
        let known = Known {
            launches,
            graph,
            epoch: self.epoch,
            used: self.steps,
        };
        self.known.insert(key, known);
    }
}

impl<D: Device> Drop for CommandStream<D> {
    fn drop(&mut self) {
        // The device may still read the host's memory. After a failure it does not; but the first error may be
        // another caller's, kept until the next call.
        if self.device.wait().is_err() {
            let _ = self.device.wait();
        }
    }
}
