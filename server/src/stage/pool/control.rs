//! A pool as the operator sees it: looking at its replicas and changing which there are.

use std::fmt;
use std::io;

use super::super::replica::{ReplicaId, ReplicaState, ReplicaStats};
use crate::config::Device;

/// Why no replica of a stage takes work now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoReplica {
    /// They are being built for the first time.
    Loading,
    /// They died and are being built anew.
    Restarting(String),
    /// None of them could be built.
    Failed(String),
    /// All are cordoned or removed.
    Closed,
}

impl NoReplica {
    /// Whether it is worth waiting.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Loading | Self::Restarting(_))
    }
}

/// Why a replica could not be added or changed.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// There is none with that id.
    #[error("stage {stage} has no replica {id}")]
    Unknown {
        /// Name of the stage.
        stage: &'static str,
        /// What was asked for.
        id: ReplicaId,
    },
    /// The pool has been stopped.
    #[error("stage {stage} is being stopped")]
    Stopped {
        /// Name of the stage.
        stage: &'static str,
    },
    /// The system gives no thread.
    #[error("stage {stage}: a thread could not be started")]
    Thread {
        /// Name of the stage.
        stage: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// One replica as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaView {
    /// Its id.
    pub id: ReplicaId,
    /// What it computes on.
    pub device: Device,
    /// Whether it can work.
    pub state: ReplicaState,
    /// It gets no new work.
    pub cordoned: bool,
    /// It goes when its last work is done.
    pub leaving: bool,
    /// Utterances that work with it.
    pub in_flight: usize,
    /// Its figures.
    pub stats: ReplicaStats,
    /// What it died of last, or why it cannot work.
    pub last_error: Option<String>,
    /// The process that it works in, if it has one of its own now.
    pub process: Option<u32>,
}

/// Changing a pool while it works, whatever its jobs are.
pub trait PoolControl: Send + Sync + fmt::Debug {
    /// Name of the stage.
    fn stage(&self) -> &'static str;

    /// Its replicas, ids ascending; of those that were removed the last few.
    fn replicas(&self) -> Vec<ReplicaView>;

    /// Threads that were given up because a step does not return, and that have not ended yet.
    fn left_behind(&self) -> usize;

    /// Gives a replica no new work.
    ///
    /// # Errors
    /// [`PoolError::Unknown`].
    fn cordon(&self, id: ReplicaId) -> Result<(), PoolError>;

    /// Gives it work again.
    ///
    /// # Errors
    /// [`PoolError::Unknown`].
    fn uncordon(&self, id: ReplicaId) -> Result<(), PoolError>;

    /// Gives it no new work, and stops it when the last it has is done.
    ///
    /// # Errors
    /// [`PoolError::Unknown`].
    fn remove(&self, id: ReplicaId) -> Result<(), PoolError>;

    /// Adds one; it takes work when its model is built.
    ///
    /// # Errors
    /// [`PoolError::Thread`], [`PoolError::Stopped`].
    fn add(&self) -> Result<ReplicaId, PoolError>;

    /// Stops all of them after the step in progress. Their sequences fail.
    fn stop(&self);
}
