//! Starting a replica: its settings, and where its status is written.

use std::time::Duration;

use omni_engine::{ArConfig, ChunkConfig, OneShotConfig, RepetitionLimit, StreamOptions};

use super::ar::Ar;
use super::chunk::Chunk;
use super::device::SharedDevice;
use super::family::{ArBackend, ChunkBackend, OneShotBackend};
use super::handle::StageHandle;
use super::one_shot::OneShot;
use super::replica::ReplicaId;
use super::status::ReplicaStatus;
use super::unknown::Unknown;
use super::worker::{StageBody, stage};
use crate::clock::Clock;

/// Settings of a stage's replicas.
#[derive(Debug, Clone)]
pub struct StageSettings {
    /// Jobs that may wait to be taken.
    pub mailbox: usize,
    /// Stage that gives it items, and the longest time for which it may deliver nothing.
    pub upstream: Option<(&'static str, Duration)>,
    /// Engine settings.
    pub engine: EngineSettings,
}

/// Settings of an engine.
#[derive(Debug, Clone)]
pub enum EngineSettings {
    /// An autoregressive stage.
    Ar {
        /// Limits of the scheduler.
        config: ArConfig,
        /// Repetition at which a sequence is ended; never if the limit is not [valid](RepetitionLimit::is_valid).
        /// `None`: as the model says.
        repetition: Option<RepetitionLimit>,
    },
    /// Settings of a chunk stage.
    Chunk {
        /// Limits and chunk policy.
        config: ChunkConfig,
        /// Options of its streams.
        options: StreamOptions,
        /// Samples that are decoded from a frame.
        samples_per_frame: u32,
    },
    /// Settings of a one-shot stage.
    OneShot(OneShotConfig),
}

/// A replica that is about to be started. Its family passes the builder of its model, by the kind of the stage.
#[derive(Debug)]
pub struct Launch {
    settings: StageSettings,
    status: ReplicaStatus,
    clock: Clock,
    device: SharedDevice,
}

impl Launch {
    /// Creates the launch of the replica that writes `status`.
    pub fn new(settings: StageSettings, status: ReplicaStatus, clock: Clock) -> Self {
        Self {
            settings,
            status,
            clock,
            device: SharedDevice::default(),
        }
    }

    /// Sets its device, which it may share.
    #[must_use]
    pub fn on(mut self, device: SharedDevice) -> Self {
        self.device = device;
        self
    }

    /// Id of the replica.
    pub fn replica(&self) -> ReplicaId {
        self.status.id()
    }

    /// An autoregressive stage.
    ///
    /// # Panics
    /// If its settings are those of another kind: the graph and its family disagree.
    pub fn autoregressive<B: ArBackend>(self, backend: B) -> (StageHandle, StageBody) {
        let EngineSettings::Ar { config, repetition } = self.settings.engine else {
            self.disagree("autoregressive");
        };
        let core = Ar::new(
            backend,
            (config, repetition),
            self.settings.upstream,
            &self.status,
            self.clock,
        );
        stage(core, self.status, self.settings.mailbox, self.clock, self.device)
    }

    /// A chunk stage.
    ///
    /// # Panics
    /// If its settings are those of another kind: the graph and its family disagree.
    pub fn chunk<B: ChunkBackend>(self, backend: B) -> (StageHandle, StageBody) {
        let EngineSettings::Chunk {
            ref config,
            options,
            samples_per_frame,
        } = self.settings.engine
        else {
            self.disagree("a chunk stage");
        };
        let streams = (config.clone(), options, samples_per_frame);
        let core = Chunk::new(backend, streams, self.settings.upstream, &self.status, self.clock);
        stage(core, self.status, self.settings.mailbox, self.clock, self.device)
    }

    /// A one-shot stage.
    ///
    /// # Panics
    /// If its settings are those of another kind: the graph and its family disagree.
    pub fn one_shot<B: OneShotBackend>(self, backend: B) -> (StageHandle, StageBody) {
        let EngineSettings::OneShot(config) = self.settings.engine else {
            self.disagree("a one-shot stage");
        };
        let core = OneShot::new(backend, config, &self.status, self.clock);
        stage(core, self.status, self.settings.mailbox, self.clock, self.device)
    }

    /// A stage that the family does not have, although its graph names it. It is never ready, and says why.
    pub fn unknown(self) -> (StageHandle, StageBody) {
        let core = Unknown(self.status.stage());
        stage(core, self.status, self.settings.mailbox, self.clock, self.device)
    }

    fn disagree(&self, kind: &str) -> ! {
        unreachable!(
            "stage {} is {kind} to its family, its settings are {:?}",
            self.status.stage(),
            self.settings
        )
    }
}
