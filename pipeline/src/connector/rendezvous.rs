//! Sequences whose items come by a link: each is opened by a server, and the stage before it attaches its items.
//! Either may come first.
//!
//! The first one makes the edge and leaves the other end of it here, under the token that both know. A server whose
//! items come by itself after all takes the writer back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::Stamp;
use parking_lot::Mutex;

use super::local::{EdgeReader, EdgeWriter, stamped_edge};
use super::stream::OPEN_CREDIT;
use crate::clock::Clock;
use crate::stage::{LinkToken, Notifier};

/// Most sequences whose items were attached and that were not opened.
const MOST_EARLY: usize = 1 << 10;

/// Time for which such a sequence is kept.
pub(super) const EARLY: Duration = Duration::from_secs(10);

/// Sequences of one replica. Clones share them.
#[derive(Clone, derive_more::Debug)]
#[debug("Rendezvous {{ waiting: {:?} }}", self.0.waiting.lock().sides.len())]
pub(super) struct Rendezvous(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    /// Notifier of the stage that takes the items.
    stage: Notifier,
    clock: Clock,
}

#[derive(Default)]
struct Waiting {
    sides: HashMap<LinkToken, Side>,
    early: usize,
}

/// Side that arrived first and waits for the other.
enum Side {
    /// The sequence was opened, and no items have come.
    Opened(EdgeWriter),
    /// Items were attached, and the sequence was not opened.
    Attached { items: Box<EdgeReader>, since: Stamp },
}

impl Rendezvous {
    /// Creates the meeting point of the replica that `stage` notifies.
    pub(super) fn new(stage: Notifier, clock: Clock) -> Self {
        Self(Arc::new(Shared {
            waiting: Mutex::default(),
            stage,
            clock,
        }))
    }

    fn edge(&self) -> (EdgeWriter, EdgeReader) {
        stamped_edge(OPEN_CREDIT, None, Some(self.0.stage.clone()), self.0.clock)
    }

    /// Opens a sequence with that token; returns the edge of its items. None if it was opened before.
    pub(super) fn expect(&self, token: LinkToken) -> Option<(EdgeReader, Expected)> {
        // No link may be left that does.
        self.give_up_late(self.0.clock.now());
        let mut waiting = self.0.waiting.lock();
        let items = match waiting.sides.remove(&token) {
            Some(Side::Attached { items, .. }) => {
                waiting.early -= 1;
                *items
            }
            Some(opened @ Side::Opened(_)) => {
                waiting.sides.insert(token, opened);
                return None;
            }
            None => {
                let (writer, items) = self.edge();
                waiting.sides.insert(token, Side::Opened(writer));
                items
            }
        };
        let expected = Expected {
            token,
            rendezvous: self.clone(),
        };
        Some((items, expected))
    }

    /// Attaches items with that token; returns the edge for them. `writer` is notified when there is room. None if
    /// another stage has attached items, or if too many are attached before their sequences.
    pub(super) fn attach(&self, token: LinkToken, writer: Notifier) -> Option<EdgeWriter> {
        let mut waiting = self.0.waiting.lock();
        let edge = match waiting.sides.remove(&token) {
            Some(Side::Opened(edge)) => edge,
            Some(attached @ Side::Attached { .. }) => {
                waiting.sides.insert(token, attached);
                return None;
            }
            None if waiting.early >= MOST_EARLY => return None,
            None => {
                let (edge, items) = self.edge();
                let attached = Side::Attached {
                    items: Box::new(items),
                    since: self.0.clock.now(),
                };
                waiting.sides.insert(token, attached);
                waiting.early += 1;
                edge
            }
        };
        edge.woken_by(writer);
        Some(edge)
    }

    /// Withdraws items that were attached. If their sequence was not opened, nothing is kept for it.
    pub(super) fn forget(&self, token: LinkToken) {
        let mut waiting = self.0.waiting.lock();
        let early = match waiting.sides.remove(&token) {
            Some(opened @ Side::Opened(_)) => {
                waiting.sides.insert(token, opened);
                return;
            }
            early => early,
        };
        waiting.early -= usize::from(early.is_some());
        // As below.
        drop(waiting);
    }

    /// Drops items that were attached for [`EARLY`] and whose sequence was not opened.
    pub(super) fn give_up_late(&self, now: Stamp) {
        let mut waiting = self.0.waiting.lock();
        let late = waiting
            .sides
            .extract_if(|_, side| matches!(side, Side::Attached { since, .. } if now.since(*since) >= EARLY));
        let late: Vec<_> = late.collect();
        waiting.early -= late.len();
        // The drop notifies their links, which may call this.
        drop(waiting);
    }
}

/// A sequence whose items come by a link, unless they come by its server.
#[derive(Debug)]
pub(super) struct Expected {
    token: LinkToken,
    rendezvous: Rendezvous,
}

impl Expected {
    /// Takes the edge back for the server; `writer` is notified when there is room. None if a stage has attached its
    /// items.
    pub(super) fn take_back(&self, writer: Notifier) -> Option<EdgeWriter> {
        let edge = self.remove()?;
        edge.woken_by(writer);
        Some(edge)
    }

    /// Returns true if its items were attached, or the expectation was withdrawn.
    #[cfg(test)]
    pub(super) fn is_attached(&self) -> bool {
        !self.rendezvous.0.waiting.lock().sides.contains_key(&self.token)
    }

    fn remove(&self) -> Option<EdgeWriter> {
        let mut waiting = self.rendezvous.0.waiting.lock();
        match waiting.sides.remove(&self.token)? {
            Side::Opened(edge) => Some(edge),
            // A second attachment with the token, after the first was over.
            attached @ Side::Attached { .. } => {
                waiting.sides.insert(self.token, attached);
                None
            }
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

#[cfg(test)]
mod tests;
