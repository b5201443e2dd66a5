//! Operators' view of a pool: listing its replicas, adding and removing them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::super::replica::{ReplicaId, ReplicaState, ReplicaStats};
use super::super::status::ReplicaStatus;
use super::{MakeReplica, Replica, StagePool, Wanted};
use crate::settings::of_replica;

/// Reason why no replica of a stage takes work now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoReplica {
    /// They are being built for the first time.
    Loading,
    /// They died and are being rebuilt.
    Restarting(String),
    /// None could be built.
    Failed(String),
    /// All are cordoned or removed.
    Closed,
    /// One has joined from elsewhere, and the connection to it is in progress.
    Joining,
    /// None has joined, or all have left; or those that joined cannot work, with the last one's reason.
    Absent(Option<String>),
}

impl NoReplica {
    /// Returns true if waiting may help.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Loading | Self::Restarting(_) | Self::Joining | Self::Absent(_)
        )
    }
}

/// Reason why a replica could not be added or changed.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// There is none with that id.
    #[error("stage {stage} has no replica {id}")]
    Unknown {
        /// Name of the stage.
        stage: &'static str,
        /// Id in the request.
        id: ReplicaId,
    },
    /// The pool has been stopped.
    #[error("stage {stage} is being stopped")]
    Stopped {
        /// Name of the stage.
        stage: &'static str,
    },
    /// The system gave no thread.
    #[error("stage {stage}: a thread could not be started")]
    Thread {
        /// Name of the stage.
        stage: &'static str,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// Snapshot of one replica.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaView {
    /// Its id.
    pub id: ReplicaId,
    /// Name of its device.
    pub device: String,
    /// State.
    pub state: ReplicaState,
    /// `true` if it gets no new work.
    pub cordoned: bool,
    /// `true` if it is removed when its work is done.
    pub leaving: bool,
    /// Number of utterances that work with it.
    pub in_flight: usize,
    /// Its figures.
    pub stats: ReplicaStats,
    /// Message of its last death, or the reason why it cannot work.
    pub last_error: Option<String>,
    /// Id of its process, if it has one of its own now.
    pub process: Option<u32>,
}

/// A replica elsewhere: its number, its number format and address, and its constructor.
type Joins<J> = (ReplicaId, (Arc<str>, Option<Arc<[u8]>>), MakeReplica<J>);

/// Operators' view of a pool.
impl<J: Send + 'static> StagePool<J> {
    /// Its replicas, ids ascending; of those that were removed the last few.
    pub fn replicas(&self) -> Vec<ReplicaView> {
        let mut slots = self.shared.slots.lock();
        slots.tidy();
        let view = |replica: &Arc<Replica<J>>| ReplicaView {
            id: replica.status.id(),
            device: of_replica(&self.shared.parts.devices, replica.status.id().0)
                .cloned()
                .unwrap_or_default(),
            state: replica.status.state(),
            cordoned: replica.is(Wanted::Cordoned),
            leaving: replica.is(Wanted::Removed),
            in_flight: replica.leases.load(Ordering::SeqCst),
            stats: replica.status.stats(),
            last_error: replica.status.last_error(),
            process: replica.status.process(),
        };
        slots.replicas.iter().map(view).collect()
    }

    /// Number of threads that were left behind because a step does not return, and that have not ended yet.
    pub fn left_behind(&self) -> usize {
        self.shared.slots.lock().left_behind()
    }

    /// Gives a replica no new work.
    ///
    /// # Errors
    /// [`PoolError::Unknown`].
    pub fn cordon(&self, id: ReplicaId) -> Result<(), PoolError> {
        self.want(id, Wanted::Cordoned)
    }

    /// Gives it work again.
    ///
    /// # Errors
    /// [`PoolError::Unknown`].
    pub fn uncordon(&self, id: ReplicaId) -> Result<(), PoolError> {
        self.want(id, Wanted::Serving)
    }

    /// Gives it no new work, and stops it when the last it has is done.
    ///
    /// # Errors
    /// [`PoolError::Unknown`].
    pub fn remove(&self, id: ReplicaId) -> Result<(), PoolError> {
        self.want(id, Wanted::Removed)
    }

    /// Adds one; it takes work when its model is built.
    ///
    /// # Errors
    /// [`PoolError::Thread`], [`PoolError::Stopped`].
    pub fn add(&self) -> Result<ReplicaId, PoolError> {
        self.place(None)
    }

    /// Adds the remote replica `id`, with its number format, its address for other processes, if any, and the
    /// constructor `make` of the connection to it. An existing replica with that id counts as gone: it was restarted.
    ///
    /// # Errors
    /// [`PoolError::Thread`], [`PoolError::Stopped`].
    pub fn join(
        &self,
        id: ReplicaId,
        (format, address): (&str, Option<Arc<[u8]>>),
        make: MakeReplica<J>,
    ) -> Result<(), PoolError> {
        self.place(Some((id, (format.into(), address), make))).map(drop)
    }

    fn place(&self, joins: Option<Joins<J>>) -> Result<ReplicaId, PoolError> {
        let parts = &self.shared.parts;
        let stage = self.stage();
        let mut slots = self.shared.slots.lock();
        if slots.stopped {
            return Err(PoolError::Stopped { stage });
        }
        slots.tidy();
        let (id, (format, address), make) = match joins {
            Some((id, tells, make)) => (id, tells, Some(make)),
            None => {
                let format = of_replica(&parts.formats, slots.next).cloned();
                (
                    ReplicaId(slots.next),
                    (format.unwrap_or_default().into(), None),
                    None,
                )
            }
        };
        slots.forget(id);
        let listener = (parts.listen)(stage, id);
        let mut status =
            ReplicaStatus::new(stage, id, parts.restart, parts.changes.clone()).observed_by(listener);
        if make.is_some() {
            status = status.of_joined();
        }
        if parts.steps.is_some() {
            status = status.watched_by(self.shared.notifier.clone());
        }
        let thread = self
            .occupy(make.as_ref(), status.clone())
            .map_err(|source| PoolError::Thread { stage, source })?;
        slots.next = slots.next.max(id.0.saturating_add(1));
        let replica = Replica {
            status,
            make,
            format,
            address,
            thread: Mutex::new(Arc::new(thread)),
            leases: AtomicUsize::new(0),
            wanted: AtomicU8::new(Wanted::Serving as u8),
        };
        let place = slots.replicas.partition_point(|other| other.status.id() < id);
        slots.replicas.insert(place, Arc::new(replica));
        drop(slots);
        self.shared.parts.changes.announce();
        Ok(id)
    }

    /// Stops all of them after the step in progress. Their sequences fail.
    pub fn stop(&self) {
        let mut slots = self.shared.slots.lock();
        slots.stopped = true;
        for replica in &slots.replicas {
            replica.thread().handle.stop();
        }
    }
}
