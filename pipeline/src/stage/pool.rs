//! The replicas of a stage: routing, addition and removal.
//!
//! In: a function that makes a replica and one that starts its thread. Out: [`Lease`]s. An utterance takes one lease
//! per stage when it is admitted and works with that replica until it ends; a lease counts as work in flight until it
//! is dropped. A replica that is cordoned gets no new leases; one that is removed also stops, once the last lease is
//! back. One whose thread does not return from a step gets another thread ([`StagePool::watch`]); its leases are lost
//! then.

mod control;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::events::Listen;
use super::generation::{WatchdogNotifier, WorkerGeneration};
use super::handle::{JobRefused, StageHandle};
use super::job::StageJob;
use super::notifier::Notifier;
use super::replica::{Changes, ReplicaId, ReplicaState};
use super::route::Router;
use super::status::ReplicaStatus;
use super::worker::StageBody;
use crate::settings::{Restart, Routing};

pub use control::{NoReplica, PoolError, ReplicaView};
pub use watch::StepLimits;

/// Removed replicas that are still shown.
const REMOVED_SHOWN: usize = 8;

/// Makes the parts of one replica: its handle, and the body of its thread.
pub type MakeReplica<J = StageJob> = Box<dyn Fn(ReplicaStatus) -> (StageHandle<J>, StageBody) + Send + Sync>;
/// Starts a thread with a name. Threads are started, and waited for, by the composition root.
pub type StartThread = Arc<dyn Fn(&str, StageBody) -> io::Result<()> + Send + Sync>;

/// Parts of a pool.
#[derive(derive_more::Debug)]
#[debug("PoolParts {{ stage: {:?}, routing: {:?}, .. }}", self.stage, self.routing)]
pub struct PoolParts<J = StageJob> {
    /// Name of the stage.
    pub stage: &'static str,
    /// Makes replicas.
    pub make: MakeReplica<J>,
    /// Starts their threads.
    pub start: StartThread,
    /// Names of their devices: one for all, or one for each.
    pub devices: Vec<String>,
    /// Number formats by name: one for all replicas, or one for each. Replicas of one format give equal outputs.
    pub formats: Vec<String>,
    /// Choice of an utterance's replica.
    pub routing: Routing,
    /// Schedule by which a replica that died is rebuilt.
    pub restart: Restart,
    /// Longest turns of its threads; `None` if their process enforces them.
    pub steps: Option<StepLimits>,
    /// `true` if replicas [join](StagePool::join) from elsewhere: work then waits for one while there is none.
    pub joined: bool,
    /// Notified at every change; shared by the pools of a pipeline.
    pub changes: Changes,
    /// Listeners of the engines.
    pub listen: Listen,
}

/// Desired state of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Wanted {
    Serving,
    Cordoned,
    Removed,
}

struct Replica<J> {
    status: ReplicaStatus,
    /// Its own constructor, if it is not made like the others of its pool.
    make: Option<MakeReplica<J>>,
    /// Number format that it computes in.
    format: Arc<str>,
    /// Address at which other processes reach it, if they do.
    address: Option<Arc<[u8]>>,
    /// Current thread of the replica.
    thread: Mutex<Arc<ReplicaThread<J>>>,
    leases: AtomicUsize,
    wanted: AtomicU8,
}

/// A thread that works for a replica.
struct ReplicaThread<J> {
    status: ReplicaStatus,
    handle: StageHandle<J>,
}

impl<J> Replica<J> {
    fn thread(&self) -> Arc<ReplicaThread<J>> {
        Arc::clone(&self.thread.lock())
    }

    fn set_thread(&self, thread: ReplicaThread<J>) {
        *self.thread.lock() = Arc::new(thread);
    }

    fn is(&self, wanted: Wanted) -> bool {
        self.wanted.load(Ordering::SeqCst) == wanted as u8
    }

    fn takes_work(&self) -> bool {
        self.is(Wanted::Serving) && self.status.is_ready()
    }

    /// Work in flight. A replica that also works for others counts its engine's figures if they are higher.
    fn queue(&self, shared: bool) -> usize {
        let own = self.leases.load(Ordering::SeqCst);
        let stats = self.status.stats();
        if shared {
            own.max((stats.running + stats.waiting) as usize)
        } else {
            own
        }
    }

    /// Stops it if it is to be removed and has no lease left. Called after each of the two has changed.
    fn stop_if_unused(&self) {
        if self.is(Wanted::Removed) && self.leases.load(Ordering::SeqCst) == 0 {
            self.thread().handle.stop();
        }
    }
}

struct Slots<J> {
    /// Ids ascending.
    replicas: Vec<Arc<Replica<J>>>,
    next: u32,
    router: Router,
    /// `true` if another replica may join at any time.
    joined: bool,
    stopped: bool,
    /// Threads that were left behind.
    left: Vec<WorkerGeneration>,
    /// Replicas without a thread: too many threads are left behind, or the system gives none.
    vacant: Vec<Unassigned>,
}

/// A replica without a thread, and the delay before the next one begins.
#[derive(Debug, Clone, Copy)]
struct Unassigned {
    id: ReplicaId,
    delay: Duration,
}

struct Shared<J> {
    parts: PoolParts<J>,
    slots: Mutex<Slots<J>>,
    /// Notified by threads that begin a turn.
    notifier: WatchdogNotifier,
}

/// The replicas of one stage. Clones share the pool.
#[derive(derive_more::Debug)]
#[debug("StagePool {{ stage: {:?}, .. }}", self.shared.parts.stage)]
pub struct StagePool<J = StageJob> {
    shared: Arc<Shared<J>>,
}

impl<J> Clone for StagePool<J> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<J: Send + 'static> StagePool<J> {
    /// A pool of `replicas` replicas, each building its model on its own thread.
    ///
    /// # Errors
    /// [`PoolError::Thread`]; replicas started before are stopped.
    pub fn new(parts: PoolParts<J>, replicas: u32) -> Result<Self, PoolError> {
        let slots = Slots {
            replicas: Vec::new(),
            next: 0,
            router: Router::new(parts.routing),
            joined: parts.joined,
            stopped: false,
            left: Vec::new(),
            vacant: Vec::new(),
        };
        let shared = Shared {
            parts,
            slots: Mutex::new(slots),
            notifier: WatchdogNotifier::default(),
        };
        let pool = Self {
            shared: Arc::new(shared),
        };
        for _ in 0..replicas {
            pool.add()?;
        }
        Ok(pool)
    }

    /// Name of the stage.
    pub fn stage(&self) -> &'static str {
        self.shared.parts.stage
    }

    /// Leases a replica that takes work, by the pool's routing.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn bind(&self) -> Result<Lease<J>, NoReplica> {
        self.bind_among(|_| true)?.ok_or(NoReplica::Closed)
    }

    /// As [`bind`](Self::bind), among replicas of a number format: work begun by another of them continues with equal
    /// outputs.
    ///
    /// # Errors
    /// The reason none is available.
    pub fn bind_like(&self, format: &str) -> Result<Lease<J>, NoReplica> {
        let lease = self.bind_among(|replica| &*replica.format == format)?;
        lease.ok_or_else(|| NoReplica::Absent(Some(format!("none computes in {format}"))))
    }

    /// Leases a replica for which `among` is true; none if only others take work.
    fn bind_among(&self, among: impl Fn(&Replica<J>) -> bool) -> Result<Option<Lease<J>>, NoReplica> {
        let mut slots = self.shared.slots.lock();
        let takes_work = slots.replicas.iter().filter(|replica| replica.takes_work());
        let working: Vec<_> = takes_work.cloned().collect();
        if working.is_empty() {
            return Err(slots.why_none());
        }
        let candidates: Vec<_> = working
            .iter()
            .filter(|replica| among(replica))
            .map(|replica| (replica.status.id(), replica.queue(slots.joined)))
            .collect();
        let Some(id) = slots.router.pick(&candidates) else {
            return Ok(None);
        };
        let replica = slots.find(id).expect("it was a candidate");
        replica.leases.fetch_add(1, Ordering::SeqCst);
        Ok(Some(Lease {
            life: replica.status.life(),
            thread: replica.thread(),
            replica: Arc::clone(replica),
        }))
    }

    /// Returns true if its replicas are processes of their own, which can be lost without this one.
    pub fn is_apart(&self) -> bool {
        self.shared.parts.steps.is_none()
    }

    /// Starts a thread that writes `status`, for a replica that `make` makes, or else like the others of the pool.
    fn occupy(&self, make: Option<&MakeReplica<J>>, status: ReplicaStatus) -> io::Result<ReplicaThread<J>> {
        let parts = &self.shared.parts;
        let (handle, body) = make.unwrap_or(&parts.make)(status.clone());
        (parts.start)(&format!("{}-{}", parts.stage, status.id()), body)?;
        Ok(ReplicaThread { status, handle })
    }

    /// Checks that some replica takes work now.
    ///
    /// # Errors
    /// The reason why none does.
    pub fn check(&self) -> Result<(), NoReplica> {
        let slots = self.shared.slots.lock();
        if slots.replicas.iter().any(|replica| replica.takes_work()) {
            Ok(())
        } else {
            Err(slots.why_none())
        }
    }

    fn want(&self, id: ReplicaId, wanted: Wanted) -> Result<(), PoolError> {
        let stage = self.stage();
        let slots = self.shared.slots.lock();
        let known = slots.find(id).filter(|replica| !replica.is(Wanted::Removed));
        let replica = known.ok_or(PoolError::Unknown { stage, id })?;
        replica.wanted.store(wanted as u8, Ordering::SeqCst);
        replica.stop_if_unused();
        drop(slots);
        self.shared.parts.changes.announce();
        Ok(())
    }
}

impl<J> Slots<J> {
    fn find(&self, id: ReplicaId) -> Option<&Arc<Replica<J>>> {
        self.replicas.iter().find(|replica| replica.status.id() == id)
    }

    /// Removes the replica with that id from the list, if there is one. It stops when its work is done.
    fn forget(&mut self, id: ReplicaId) {
        let Some(place) = self.replicas.iter().position(|replica| replica.status.id() == id) else {
            return;
        };
        let gone = self.replicas.remove(place);
        gone.wanted.store(Wanted::Removed as u8, Ordering::SeqCst);
        gone.stop_if_unused();
    }

    /// Reason why no replica takes work: of all replicas' reasons, the one most likely to pass.
    fn why_none(&self) -> NoReplica {
        let mut why = if self.joined {
            NoReplica::Absent(None)
        } else {
            NoReplica::Closed
        };
        for replica in self.replicas.iter().filter(|replica| replica.is(Wanted::Serving)) {
            match replica.status.state() {
                // Its model is built elsewhere, possibly long ago: the connection is in progress.
                ReplicaState::Loading if self.joined => why = NoReplica::Joining,
                ReplicaState::Loading => return NoReplica::Loading,
                _ if why == NoReplica::Joining => {}
                ReplicaState::Restarting { message } => why = NoReplica::Restarting(message),
                // Another one may join.
                ReplicaState::Failed { message } if matches!(why, NoReplica::Absent(_)) => {
                    why = NoReplica::Absent(Some(message));
                }
                ReplicaState::Failed { message } if !why.may_pass() => why = NoReplica::Failed(message),
                ReplicaState::Failed { .. } | ReplicaState::Ready | ReplicaState::Removed => {}
            }
        }
        why
    }

    /// Number of threads that were left behind and have not ended.
    fn left_behind(&mut self) -> usize {
        self.left.retain(|generation| !generation.has_ended());
        self.left.len()
    }

    /// Drops all but the last few removed replicas.
    fn tidy(&mut self) {
        // A replica whose model failed to build had ended before it was removed.
        let gone = |replica: &Arc<Replica<J>>| match replica.status.state() {
            ReplicaState::Removed => true,
            ReplicaState::Failed { .. } => replica.is(Wanted::Removed),
            _ => false,
        };
        let mut surplus = self.replicas.iter().filter(|replica| gone(replica)).count();
        self.replicas.retain(|replica| {
            let forget = gone(replica) && surplus > REMOVED_SHOWN;
            surplus -= usize::from(forget);
            !forget
        });
    }
}

/// Lease of a replica; counts as work in flight.
#[derive(derive_more::Debug)]
#[debug("Lease {{ replica: {:?}, .. }}", self.replica.status.id())]
pub struct Lease<J = StageJob> {
    replica: Arc<Replica<J>>,
    /// Thread that works for the replica.
    thread: Arc<ReplicaThread<J>>,
    /// Life of the replica when it was bound.
    life: u32,
}

impl<J> Lease<J> {
    /// Name of the stage.
    pub fn stage(&self) -> &'static str {
        self.replica.status.stage()
    }

    /// Id of the replica.
    pub fn id(&self) -> ReplicaId {
        self.replica.status.id()
    }

    /// Number format that it computes in, in words.
    pub fn format(&self) -> &Arc<str> {
        &self.replica.format
    }

    /// Address at which other processes reach it, if they do.
    pub fn address(&self) -> Option<&Arc<[u8]>> {
        self.replica.address.as_ref()
    }

    /// Returns true if it has not died since it was bound. A cordoned one is alive: it finishes its work.
    pub fn is_alive(&self) -> bool {
        self.replica.status.life() == self.life
    }

    /// Returns true if it died because its process became unreachable: its work is not known to be at fault.
    pub fn is_severed(&self) -> bool {
        self.replica.status.was_severed(self.life)
    }

    /// The replica's notifier.
    pub fn wake(&self) -> &Notifier {
        self.thread.handle.wake()
    }

    /// Submits a job; never waits.
    ///
    /// # Errors
    /// [`JobRefused`]; the job is dropped then.
    pub fn submit(&self, job: J) -> Result<(), JobRefused> {
        self.thread.handle.submit(job)
    }

    /// Waits until its thread is given up because a step does not return, and returns the message. Jobs sent to it
    /// get nothing more, not even an end.
    pub async fn lost(&self) -> String {
        self.thread.handle.lost().await;
        match self.replica.status.state() {
            ReplicaState::Restarting { message } => message,
            _ => "a step of its model has not returned".to_owned(),
        }
    }
}

impl<J> Drop for Lease<J> {
    fn drop(&mut self) {
        self.replica.leases.fetch_sub(1, Ordering::SeqCst);
        self.replica.stop_if_unused();
    }
}

#[cfg(test)]
mod tests;
