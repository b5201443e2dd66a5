//! Emulated device: the kernels' own source compiled for the CPU, with every access checked.
//!
//! It runs work in order and refuses the same things as a device: recorded launches run only when replayed, and no
//! copies to or from the host happen while recording. A late one defers work until a caller waits for it, as a device
//! may: this exposes host memory that is freed or overwritten too early. (Data written too late shows on one that is
//! not late.)

mod memory;

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::device::{Allocate, Copies, Device, GpuError, Graphs, Priority, Result};
use crate::launch::{Address, Launch};

use memory::HostBuffer;
pub use memory::{EmulatedMemory, EmulatedPendingCopy, EmulatedStaging};

/// As `OmniCall` in `emulator/emulator.cpp`.
#[repr(C)]
struct Call {
    name: *const c_char,
    args: *const u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    backwards: u32,
}

#[expect(unsafe_code, reason = "the emulator is C++, as the kernels are")]
// SAFETY: as `emulator/emulator.cpp` declares them.
unsafe extern "C" {
    fn omni_emulator_alloc(bytes: usize) -> *mut c_void;
    fn omni_emulator_free(memory: *mut c_void);
    fn omni_emulator_owns(address: u64, bytes: usize) -> c_int;
    fn omni_emulator_kernel(index: usize, params: *mut *const c_char, threads: *mut u32) -> *const c_char;
    fn omni_emulator_launch(call: *const Call, error: *mut c_char, error_size: usize) -> c_int;
}

/// Order in which the threads of a block run. A correct kernel gives equal results in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// First thread first.
    #[default]
    Forwards,
    /// Last thread first.
    Backwards,
}

/// State and counters of a queue.
#[derive(Debug, Default)]
struct Queue {
    recording: Option<Vec<Launch>>,
    /// Launches that were run, alone or in a graph.
    run: u64,
    replayed: u64,
    busy: Duration,
    /// Work of a late one that no caller has waited for.
    waiting: VecDeque<Work>,
    /// Pieces of work queued, and completed.
    asked: u64,
    done: u64,
    /// First error, with which every later call fails, too.
    broken: Option<GpuError>,
}

/// Deferred work of a late queue.
#[derive(Debug)]
enum Work {
    Launch(Box<Launch>),
    Graph(Arc<[Launch]>),
    Send {
        to: Address,
        from: Arc<HostBuffer>,
        bytes: usize,
    },
    Receive {
        from: Address,
        to: Arc<HostBuffer>,
        bytes: usize,
    },
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Emulated {
    queue: Arc<Mutex<Queue>>,
    order: Order,
    late: bool,
}

/// Launches with the arguments that they had when they were recorded.
#[derive(Debug, Clone)]
pub struct EmulatedGraph(Arc<[Launch]>);

impl EmulatedGraph {
    /// The launches, in order.
    pub fn launches(&self) -> &[Launch] {
        &self.0
    }
}

impl Emulated {
    /// A device whose blocks run their threads in this order.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            ..Self::default()
        }
    }

    /// A device that does nothing before a caller waits for it.
    pub fn late() -> Self {
        Self {
            late: true,
            ..Self::default()
        }
    }

    /// Launches run by this queue so far, in graphs or not.
    pub fn launches_run(&self) -> u64 {
        self.queue().run
    }

    /// Graphs replayed by this queue so far.
    pub fn graphs_replayed(&self) -> u64 {
        self.queue().replayed
    }

    /// The kernels that the emulator has: name, types of the parameters, most threads of a block.
    pub fn kernels() -> Vec<(String, String, u32)> {
        let mut kernels = Vec::new();
        loop {
            let mut params = std::ptr::null();
            let mut threads = 0;
            #[expect(unsafe_code, reason = "the emulator is C++")]
            // SAFETY: the outputs are valid for writing; the texts are constants of the program.
            let (name, params) = unsafe {
                let name = omni_emulator_kernel(kernels.len(), &raw mut params, &raw mut threads);
                if name.is_null() {
                    return kernels;
                }
                (CStr::from_ptr(name), CStr::from_ptr(params))
            };
            let text = |s: &CStr| s.to_string_lossy().into_owned();
            kernels.push((text(name), text(params), threads));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, launch: &Launch) -> Result<()> {
        let failed = |reason: String| GpuError::Kernel {
            kernel: launch.kernel.name,
            reason,
        };
        let name = format!("{}\0", launch.kernel.name);
        let mut error = [0_u8; 512];
        let call = Call {
            name: name.as_ptr().cast(),
            args: launch.args.bits().as_ptr(),
            grid: launch.grid.0,
            block: launch.block.0,
            shared: launch.shared,
            backwards: u32::from(self.order == Order::Backwards),
        };
        #[expect(unsafe_code, reason = "the emulator is C++")]
        // SAFETY: the name ends in a zero; there are as many arguments as the kernel's signature has letters, which
        // `Launch::flaw` has compared and a test compares with the emulator's own; kernels reach memory only through
        // pointers that are checked against the buffers there are.
        let status = unsafe { omni_emulator_launch(&raw const call, error.as_mut_ptr().cast(), error.len()) };
        if status == 0 {
            return Ok(());
        }
        let text = CStr::from_bytes_until_nul(&error).map_or("", |text| text.to_str().unwrap_or(""));
        Err(failed(text.to_owned()))
    }

    /// Does one thing, or keeps it until a caller waits.
    fn ask(&self, work: Work) -> Result<()> {
        let mut queue = self.queue();
        queue.asked += 1;
        if !self.late {
            queue.done += 1;
            return self.work(&mut queue, &work);
        }
        queue.waiting.push_back(work);
        Ok(())
    }

    /// Runs deferred work up to a mark.
    fn catch_up(&self, mark: u64) -> Result<()> {
        let mut queue = self.queue();
        while queue.done < mark
            && let Some(work) = queue.waiting.pop_front()
        {
            queue.done += 1;
            if queue.broken.is_none() {
                queue.broken = self.work(&mut queue, &work).err();
            }
        }
        queue.broken.clone().map_or(Ok(()), Err)
    }

    fn work(&self, queue: &mut Queue, work: &Work) -> Result<()> {
        match work {
            Work::Launch(launch) => {
                queue.run += 1;
                self.run(launch)
            }
            Work::Graph(launches) => {
                queue.replayed += 1;
                queue.run += launches.len() as u64;
                let begun = Instant::now();
                let done = launches.iter().try_for_each(|launch| self.run(launch));
                queue.busy += begun.elapsed();
                done
            }
            Work::Send { to, from, bytes } => self.copy_in(*to, &from.content()[..*bytes]),
            Work::Receive { from, to, bytes } => to.change(|to| self.copy_out(*from, &mut to[..*bytes])),
        }
    }

    fn copy_in(&self, to: Address, from: &[u8]) -> Result<()> {
        Self::owned(to, from.len())?;
        #[expect(unsafe_code, reason = "device addresses are numbers")]
        // SAFETY: `owned` has found `from.len()` bytes of a live buffer there, which no reference points into.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), to.0 as *mut u8, from.len());
        }
        Ok(())
    }

    fn copy_out(&self, from: Address, to: &mut [u8]) -> Result<()> {
        Self::owned(from, to.len())?;
        #[expect(unsafe_code, reason = "device addresses are numbers")]
        // SAFETY: as in `copy_in`.
        unsafe {
            std::ptr::copy_nonoverlapping(from.0 as *const u8, to.as_mut_ptr(), to.len());
        }
        Ok(())
    }

    /// Returns an error unless the range is within one buffer.
    fn owned(at: Address, bytes: usize) -> Result<()> {
        #[expect(unsafe_code, reason = "the emulator is C++")]
        // SAFETY: only compares numbers.
        let owns = unsafe { omni_emulator_owns(at.0, bytes) } != 0;
        if owns || bytes == 0 {
            return Ok(());
        }
        Err(GpuError::Address { address: at.0, bytes })
    }

    /// That nothing is recorded.
    fn not_recording(&self) -> Result<()> {
        match self.queue().recording {
            None => Ok(()),
            Some(_) => Err(GpuError::Recording(
                "nothing can be copied to or from the host while launches are recorded",
            )),
        }
    }
}

impl Allocate for Emulated {
    type Memory = EmulatedMemory;
    type Staging = EmulatedStaging;

    fn room(&self) -> Result<(usize, usize)> {
        const GIB: usize = 1 << 30;
        Ok((GIB, GIB))
    }

    fn alloc(&self, bytes: usize) -> Result<EmulatedMemory> {
        #[expect(unsafe_code, reason = "the emulator's memory is its own")]
        // SAFETY: gives a new buffer or null.
        let at = unsafe { omni_emulator_alloc(bytes.max(1)) };
        match NonNull::new(at) {
            Some(at) => Ok(EmulatedMemory::new(at, bytes, self.clone())),
            None => Err(GpuError::Memory {
                asked: bytes,
                reason: "the host has no more".into(),
            }),
        }
    }

    fn staging(&self, bytes: usize) -> Result<EmulatedStaging> {
        Ok(EmulatedStaging::new(bytes))
    }
}

impl Copies for Emulated {
    type PendingCopy = EmulatedPendingCopy;

    fn upload(&self, to: Address, from: &[u8]) -> Result<()> {
        self.wait()?;
        self.copy_in(to, from)
    }

    fn download(&self, from: Address, to: &mut [u8]) -> Result<()> {
        self.wait()?;
        self.copy_out(from, to)
    }

    fn upload_async(&self, to: Address, from: &EmulatedStaging, bytes: usize) -> Result<()> {
        self.not_recording()?;
        from.holds(bytes)?;
        Self::owned(to, bytes)?;
        let from = from.buffer();
        self.ask(Work::Send { to, from, bytes })
    }

    fn download_async(
        &self,
        from: Address,
        to: EmulatedStaging,
        bytes: usize,
    ) -> Result<EmulatedPendingCopy> {
        self.not_recording()?;
        to.holds(bytes)?;
        Self::owned(from, bytes)?;
        let buffer = to.buffer();
        self.ask(Work::Receive {
            from,
            to: buffer,
            bytes,
        })?;
        Ok(EmulatedPendingCopy::new(self.clone(), self.queue().asked, to))
    }

    fn wait_copy(&self, mut pending: EmulatedPendingCopy) -> Result<EmulatedStaging> {
        self.not_recording()?;
        pending.wait()
    }
}

impl Graphs for Emulated {
    type Graph = EmulatedGraph;

    fn record(&self) -> Result<()> {
        let mut queue = self.queue();
        if queue.recording.is_some() {
            return Err(GpuError::Recording("launches are being recorded already"));
        }
        queue.recording = Some(Vec::new());
        Ok(())
    }

    fn recorded(&self) -> Result<EmulatedGraph> {
        match self.queue().recording.take() {
            Some(launches) => Ok(EmulatedGraph(launches.into())),
            None => Err(GpuError::Recording("nothing is being recorded")),
        }
    }

    fn replay(&self, graph: &EmulatedGraph) -> Result<()> {
        self.not_recording()?;
        self.ask(Work::Graph(Arc::clone(&graph.0)))
    }

    fn take_busy(&self) -> Duration {
        std::mem::take(&mut self.queue().busy)
    }
}

impl Device for Emulated {
    fn name(&self) -> String {
        "emulated".into()
    }

    fn fork(&self, _: Priority) -> Result<Self> {
        Ok(Self {
            queue: Arc::default(),
            ..*self
        })
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        if let Some(reason) = launch.flaw() {
            return Err(GpuError::Kernel {
                kernel: launch.kernel.name,
                reason,
            });
        }
        if launch.grid.count() == 0 {
            return Ok(());
        }
        if let Some(recorded) = &mut self.queue().recording {
            recorded.push(*launch);
            return Ok(());
        }
        self.ask(Work::Launch(Box::new(*launch)))
    }

    fn wait(&self) -> Result<()> {
        self.not_recording()?;
        self.catch_up(u64::MAX)
    }
}
