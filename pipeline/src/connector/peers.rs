//! Links to stages in other processes: items of sequences go there without passing a server.
//!
//! In: the outputs of a sequence, and the stage that they are for. Out: the items at that stage, many sequences over
//! one connection, and the end of each. No sequence waits for a link: while there is none its items go to its server,
//! and a link is made for later sequences.

mod inbound;
mod outbound;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use omni_engine::Stamp;
use omni_proto::stage::v1::Heartbeat;
use omni_proto::stage::v1::frame::Body;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::link::{Link, LinkError};
use super::local::EdgeReader;
use super::protocol::LATEST_LOSS;
use super::replica::Connected;
use super::wire::NO_SEQUENCE;
use crate::clock::Clock;
use crate::stage::{CancelFlag, End, LinkToken, NextStage, Notifier};
pub(super) use inbound::Inbound;

/// Connects to the stage at an address.
pub type Dial = Arc<dyn Fn(&[u8]) -> io::Result<Connected> + Send + Sync>;

/// Most links; items for further stages go to their servers.
const MOST_LINKS: usize = 1 << 8;
/// Wait before a failed link is dialled again.
const AGAIN: Duration = Duration::from_secs(5);
/// Time for which a failed link that no sequence asks for is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Sequences that may wait for the thread of a link.
const MAILBOX: usize = 256;
/// Interval of heartbeats at each end of a link.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Silence of the other end of a link after which new sequences go by their server: two missed heartbeats.
const QUIET: Duration = HEARTBEAT.saturating_mul(2).saturating_add(Duration::from_secs(1));
/// Silence of the other end of a link after which the link is dropped, with sequences or without, so that the next
/// sequence does not meet a dead link. A server that has sequences at a process that is gone gives it up earlier
/// ([`LATEST_LOSS`]), so those sequences go on at another replica, and not at the same one without the link.
const SILENCE: Duration = LATEST_LOSS.saturating_add(HEARTBEAT);

/// Parts of a stage's links to other stages.
#[derive(derive_more::Debug)]
#[debug("PeerParts {{ stage: {:?}, .. }}", self.stage)]
pub struct PeerParts {
    /// Its name.
    pub stage: &'static str,
    /// Opens connections to others.
    pub dial: Dial,
    /// Greeting with which it introduces itself.
    pub greeting: Vec<u8>,
    /// Time for which a link without sequences is kept.
    pub idle: Duration,
    /// The time.
    pub clock: Clock,
}

/// Counts of sequences by their way to the next stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Links that work.
    pub links: usize,
    /// Sequences that went by a link.
    pub linked: u64,
    /// Sequences that went by their server because there was no link.
    pub relayed: u64,
}

/// Links of a stage to others. Clones share them; when the last is dropped, the links end.
#[derive(Debug, Clone)]
pub struct Peers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parts: Arc<PeerParts>,
    links: Mutex<HashMap<Arc<[u8]>, Held>>,
    linked: AtomicU64,
    relayed: AtomicU64,
}

/// A link, and the thread that works for it.
#[derive(Debug)]
struct Held {
    handle: Arc<LinkHandle>,
    thread: Option<JoinHandle<()>>,
    /// Time of the last request for it.
    asked: Stamp,
}

/// Handle of a link for other threads.
#[derive(Debug, Default)]
struct LinkHandle {
    state: Mutex<State>,
    wake: Notifier,
    stop: CancelFlag,
    /// `true` if its other end has been silent for [`QUIET`].
    quiet: AtomicBool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Making,
    Works(mpsc::Sender<Outgoing>),
    Failed(Stamp),
}

impl LinkHandle {
    /// Closes the link if no sequence has a place on it; returns true if it did. No sequence can get one afterwards.
    fn retire(&self, now: Stamp) -> bool {
        let mut state = self.state.lock();
        let unused = matches!(&*state, State::Works(jobs) if jobs.capacity() == jobs.max_capacity());
        if unused {
            *state = State::Failed(now);
        }
        unused
    }
}

/// A sequence for a link.
struct Outgoing {
    token: LinkToken,
    outputs: EdgeReader,
    ended: oneshot::Sender<LinkEnd>,
}

/// End of a sequence that went by a link. If the sender is dropped without a value, the sequence counts as
/// [severed](Self::Severed).
#[derive(Debug)]
pub(super) enum LinkEnd {
    /// All items have arrived, and so has their end. Not used for a loss: the server reports that, and has to know of
    /// it first.
    Ended(End),
    /// The link has broken, or one of the two stages does not continue the sequence.
    Severed(String),
}

/// A place for one sequence on a link.
pub(super) struct LinkPermit {
    place: mpsc::OwnedPermit<Outgoing>,
    token: LinkToken,
    /// Wakes the thread that takes the outputs.
    pub(super) wake: Notifier,
    peers: Peers,
}

impl LinkPermit {
    /// Sends the outputs over the link. The receiver gets their end.
    pub(super) fn send(self, outputs: EdgeReader) -> oneshot::Receiver<LinkEnd> {
        let (ended, told) = oneshot::channel();
        self.place.send(Outgoing {
            token: self.token,
            outputs,
            ended,
        });
        self.wake.notify();
        self.peers.0.linked.fetch_add(1, Ordering::Relaxed);
        told
    }
}

impl Peers {
    /// Creates the links of a stage, none at first.
    pub fn new(parts: PeerParts) -> Self {
        Self(Arc::new(Shared {
            parts: Arc::new(parts),
            links: Mutex::default(),
            linked: AtomicU64::new(0),
            relayed: AtomicU64::new(0),
        }))
    }

    /// Counts a sequence that goes by its server because [`reserve`](Self::reserve) had no place for it.
    pub(super) fn relays(&self) {
        self.0.relayed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts of links and sequences so far.
    pub fn counts(&self) -> LinkCounts {
        let links = self.0.links.lock();
        let works = links
            .values()
            .filter(|held| matches!(*held.handle.state.lock(), State::Works(_)));
        LinkCounts {
            links: works.count(),
            linked: self.0.linked.load(Ordering::Relaxed),
            relayed: self.0.relayed.load(Ordering::Relaxed),
        }
    }

    /// Reserves a place for a sequence on the link to `next`, if there is one now. If there is no link, starts one,
    /// unless one has failed just now.
    pub(super) fn reserve(&self, next: &NextStage) -> Option<LinkPermit> {
        let parts = &self.0.parts;
        let now = parts.clock.now();
        let mut links = self.0.links.lock();
        links.retain(|_, held| !(held.is_failed() && now.since(held.asked) >= REMEMBERED));
        let count = links.len();
        let Some(held) = links.get_mut(&next.address) else {
            if count >= MOST_LINKS {
                return None;
            }
            let held = Held::start(parts, next, false, now);
            links.insert(Arc::clone(&next.address), held);
            return None;
        };
        held.asked = now;
        let mut state = held.handle.state.lock();
        let failed = match &*state {
            State::Making => return None,
            State::Works(_) if held.handle.quiet.load(Ordering::Relaxed) => return None,
            State::Works(jobs) => match jobs.clone().try_reserve_owned() {
                Ok(place) => {
                    return Some(LinkPermit {
                        place,
                        token: next.token,
                        wake: held.handle.wake.clone(),
                        peers: self.clone(),
                    });
                }
                Err(TrySendError::Full(_)) => return None,
                // Its thread has panicked.
                Err(TrySendError::Closed(_)) => {
                    *state = State::Failed(now);
                    now
                }
            },
            State::Failed(at) => *at,
        };
        drop(state);
        if now.since(failed) >= AGAIN {
            *held = Held::start(parts, next, true, now);
        }
        None
    }
}

impl Drop for Shared {
    /// Stops all links before it waits for the first.
    fn drop(&mut self) {
        let links = self.links.get_mut();
        links.values().for_each(Held::stop);
    }
}

impl Held {
    fn stop(&self) {
        self.handle.stop.set();
        self.handle.wake.notify();
    }

    /// Starts a link to `next`; `again` if one has failed before.
    fn start(parts: &Arc<PeerParts>, next: &NextStage, again: bool, now: Stamp) -> Self {
        let handle = Arc::<LinkHandle>::default();
        let theirs = Arc::clone(&handle);
        let parts = Arc::clone(parts);
        let next = next.clone();
        let thread = std::thread::Builder::new().name(format!("link-{}", next.stage));
        let thread = thread.spawn(move || outbound::run(&theirs, &parts, &next, again));
        if let Err(error) = &thread {
            tracing::warn!(%error, "thread for a link to the next stage could not be started");
            *handle.state.lock() = State::Failed(now);
        }
        Self {
            handle,
            thread: thread.ok(),
            asked: now,
        }
    }

    fn is_failed(&self) -> bool {
        matches!(*self.handle.state.lock(), State::Failed(_))
    }
}

/// The thread of a link ends with it.
impl Drop for Held {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("thread of a link to the next stage panicked");
        }
    }
}

/// Sends heartbeats over a link, and detects that the other end sends none.
struct Keepalive {
    told: Stamp,
    heard: Stamp,
    looked: Stamp,
}

impl Keepalive {
    fn new(now: Stamp) -> Self {
        Self {
            told: now,
            heard: now,
            looked: now,
        }
    }

    /// Records a message of the other end.
    fn heard(&mut self, now: Stamp) {
        self.heard = now;
    }

    /// Returns true if the other end has been silent for [`QUIET`].
    fn is_quiet(&self) -> bool {
        self.looked.since(self.heard) >= QUIET
    }

    /// Checks both; called at least every [`HEARTBEAT`].
    fn look(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let now = link.now();
        // A thread that was delayed itself cannot judge the other end.
        if now.since(self.looked) >= 2 * HEARTBEAT {
            self.heard = now;
        }
        self.looked = now;
        if now.since(self.heard) >= SILENCE {
            return Err(LinkError::Silent(SILENCE));
        }
        if now.since(self.told) >= HEARTBEAT {
            self.told = now;
            link.say(NO_SEQUENCE, Body::Heartbeat(Heartbeat {}))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
