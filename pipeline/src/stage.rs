//! Stages: pools of replicas, each a thread that drives one engine.
//!
//! A [`StagePool`] binds an utterance to one of its replicas. A replica takes jobs from a bounded mailbox, steps its
//! engine, and passes outputs on through the [`EdgeSender`] that came with the job. It never waits for a reader: a
//! sender that is full pauses its own sequence and no other. Between steps it checks for cancellations, for senders
//! that have room again and for receivers that have more; with nothing to do it sleeps without using the processor.
//! It does not know the other ends of receivers and senders.

mod ar;
mod backoff;
mod cancel_timer;
mod chunk;
mod device;
mod driver;
mod events;
mod family;
mod flow;
mod generation;
mod handle;
mod job;
mod launch;
mod notifier;
mod one_shot;
mod pool;
mod progress;
mod refused;
mod replica;
mod residency;
mod route;
mod sides;
mod starvation;
mod status;
mod unknown;
mod worker;

pub use cancel_timer::{CancelTimer, OnReleased};
pub use device::SharedDevice;
pub use events::{
    CacheFigures, EngineEvent, EngineSink, IgnoreEngines, KvFormat, KvPosition, Listen, Refusal, SeqEnd,
    SeqTaken,
};
pub use family::{ArBackend, BackendError, ChunkBackend, OneShotBackend, StageFamily, WarmUp};
pub use flow::{EdgeFull, EdgeReceiver, EdgeSender, End, Recv, TransferStamps};
pub use generation::TurnTimeouts;
pub use handle::{JobRefused, StageHandle};
pub use job::{LinkToken, NextStage, StageJob};
pub use launch::{EngineSettings, Launch, StageSettings};
pub(crate) use notifier::NotifierFd;
pub use notifier::{CancelFlag, Notifier};
pub use pool::{
    Lease, MakeReplica, NoReplica, PoolError, PoolParts, ReplicaView, StagePool, StartThread, StepLimits,
};
pub use progress::{StageProgress, StageSnapshot};
pub use replica::{Changes, ReplicaId, ReplicaState, ReplicaStats};
pub use route::Router;
pub use status::ReplicaStatus;
pub use worker::StageBody;
pub(crate) use worker::{Core, Fault, StageParts, stage_of};
