//! One replica for several connections.
//!
//! Every connection numbers its sequences from the beginning. The replica tells them apart by the connection's number
//! in their upper bits. Engine events of a sequence go to its connection, under the number that it has there; events
//! of the whole replica go to all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use omni_engine::SeqId;
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::connector::forwarder::EventForwarder;
use crate::connector::link::LinkError;
use crate::connector::peers::Peers;
use crate::connector::rendezvous::Rendezvous;
use crate::stage::{
    CacheFigures, Changes, EngineEvent, EngineSink, ReplicaStats, ReplicaStatus, SeqEnd, SeqTaken,
    StageHandle, TurnTimeouts,
};

/// Bits of a sequence's number that are its connection's own.
const OWN: u32 = 48;

/// A replica and where its state is written.
pub(super) struct WholeReplica {
    pub(super) stage: Arc<StageHandle>,
    pub(super) status: ReplicaStatus,
    pub(super) changes: Changes,
    pub(super) timeouts: TurnTimeouts,
}

/// A replica that works for several connections. Clones share it; when the last is dropped, the replica stops.
#[derive(Clone, derive_more::Debug)]
#[debug("SharedReplica {{ status: {:?}, .. }}", self.replica.status)]
pub struct SharedReplica {
    pub(super) replica: Arc<WholeReplica>,
    pub(super) router: EventRouter,
    pub(super) rendezvous: Rendezvous,
    pub(super) peers: Option<Peers>,
}

impl SharedReplica {
    /// Creates the replica `stage`, which writes `status`, sends events to `router` and does not take longer than
    /// `timeouts` for a turn. `changes` notifies when its state changes. It reaches no other stages.
    pub fn new(
        stage: StageHandle,
        (status, router): (ReplicaStatus, EventRouter),
        changes: Changes,
        (timeouts, clock): (TurnTimeouts, Clock),
    ) -> Self {
        let rendezvous = Rendezvous::new(stage.wake().clone(), clock);
        let replica = WholeReplica {
            stage: Arc::new(stage),
            status,
            changes,
            timeouts,
        };
        Self {
            replica: Arc::new(replica),
            router,
            rendezvous,
            peers: None,
        }
    }

    /// The same replica, for connections whose sequences may continue to other stages through `peers`.
    pub fn reaching(&self, peers: Peers) -> Self {
        Self {
            peers: Some(peers),
            ..self.clone()
        }
    }

    /// Status of the replica.
    pub fn status(&self) -> &ReplicaStatus {
        &self.replica.status
    }

    /// Statistics of the replica.
    pub fn stats(&self) -> ReplicaStats {
        self.replica.status.stats()
    }

    /// Connections that it works for.
    pub fn connections(&self) -> usize {
        self.router.0.lock().forwarders.len()
    }

    /// Stops it after the step in progress. Its sequences fail.
    pub fn stop(&self) {
        self.replica.stage.stop();
    }
}

/// Routes the events of a replica's engine to its connections. Clones share it.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("EventRouter {{ connections: {:?} }}", self.0.lock().forwarders.len())]
pub struct EventRouter(Arc<Mutex<Members>>);

#[derive(Default)]
struct Members {
    last: u16,
    forwarders: BTreeMap<u16, EventForwarder>,
    /// Sent once by the engine, and passed to every connection that joins later.
    cache: Option<CacheFigures>,
}

impl EventRouter {
    /// Adds `forwarder` to the receivers of events.
    pub(super) fn join(&self, forwarder: EventForwarder) -> Result<Membership, LinkError> {
        let mut members = self.0.lock();
        // Numbers are assigned in turn, so that leftovers of a connection that ended are not taken for the next
        // one's.
        let after = members.last.checked_add(1).unwrap_or(1);
        let free = (after..=u16::MAX).chain(1..after);
        let number = free
            .into_iter()
            .find(|number| !members.forwarders.contains_key(number));
        let Some(number) = number else {
            let what = format!("the replica works for {} connections already", u16::MAX);
            return Err(LinkError::Protocol(what));
        };
        if let Some(cache) = members.cache {
            forwarder.on_event(&EngineEvent::Cache(cache));
        }
        members.last = number;
        members.forwarders.insert(number, forwarder);
        drop(members);
        Ok(Membership {
            number,
            router: self.clone(),
        })
    }

    fn one(&self, seq: SeqId, event: &EngineEvent) {
        let number = u16::try_from(seq.0 >> OWN).unwrap_or_default();
        if let Some(forwarder) = self.0.lock().forwarders.get(&number) {
            forwarder.on_event(event);
        }
    }
}

/// Number of a sequence at its connection.
fn at_connection(seq: SeqId) -> SeqId {
    SeqId(seq.0 & ((1 << OWN) - 1))
}

impl EngineSink for EventRouter {
    fn on_event(&self, event: &EngineEvent) {
        match event {
            EngineEvent::Taken(taken) => {
                let told = SeqTaken {
                    seq: at_connection(taken.seq),
                    ..*taken
                };
                self.one(taken.seq, &EngineEvent::Taken(told));
            }
            EngineEvent::Finished(end) => {
                let told = SeqEnd {
                    seq: at_connection(end.seq),
                    ..end.clone()
                };
                self.one(end.seq, &EngineEvent::Finished(told));
            }
            event => {
                let mut members = self.0.lock();
                if let EngineEvent::Cache(cache) = event {
                    members.cache = Some(*cache);
                }
                for forwarder in members.forwarders.values() {
                    forwarder.on_event(event);
                }
            }
        }
    }

    fn on_event_of(&self, seq: SeqId, event: &EngineEvent) {
        self.one(seq, event);
    }
}

/// Membership of one connection.
pub(super) struct Membership {
    number: u16,
    router: EventRouter,
}

impl Membership {
    /// Number by which the replica knows a sequence of this connection.
    pub(super) fn own(&self, seq: SeqId) -> Result<SeqId, LinkError> {
        match seq.0 >> OWN {
            0 => Ok(SeqId((u64::from(self.number) << OWN) | seq.0)),
            _ => {
                let what = format!("sequence {} was opened, expected a number below 2^{OWN}", seq.0);
                Err(LinkError::Protocol(what))
            }
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.router.0.lock().forwarders.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stage::Notifier;

    fn connection(router: &EventRouter) -> (EventForwarder, Membership) {
        let forwarder = EventForwarder::new(Notifier::default());
        let membership = router.join(forwarder.clone()).unwrap();
        (forwarder, membership)
    }

    fn taken(seq: SeqId) -> EngineEvent {
        EngineEvent::Taken(SeqTaken {
            seq,
            arrived: omni_engine::Stamp::default(),
            max_outputs: None,
        })
    }

    #[test]
    fn each_connection_hears_of_its_own_sequences_by_its_own_numbers_and_all_hear_of_the_replica() {
        let router = EventRouter::default();
        let (first, one) = connection(&router);
        let (second, two) = connection(&router);
        let ours = one.own(SeqId(7)).unwrap();
        let theirs = two.own(SeqId(7)).unwrap();
        assert_ne!(ours, theirs);
        let after = Duration::from_millis(3);
        router.on_event(&taken(ours));
        router.on_event_of(theirs, &EngineEvent::FirstOutput { after });
        router.on_event(&EngineEvent::Starved);
        assert_eq!(first.take().told, [taken(SeqId(7)), EngineEvent::Starved]);
        assert_eq!(
            second.take().told,
            [EngineEvent::FirstOutput { after }, EngineEvent::Starved]
        );
    }

    #[test]
    fn a_connection_that_ended_hears_nothing_and_its_number_is_not_the_next_ones() {
        let router = EventRouter::default();
        let (forwarder, membership) = connection(&router);
        let seq = membership.own(SeqId(1)).unwrap();
        drop(membership);
        let (next, other) = connection(&router);
        router.on_event(&taken(seq));
        assert!(forwarder.take().is_empty() && next.take().is_empty());
        assert_ne!(other.own(SeqId(1)).unwrap(), seq);
    }

    #[test]
    fn a_connection_that_comes_late_is_told_of_the_cache() {
        let router = EventRouter::default();
        let cache = EngineEvent::Cache(CacheFigures {
            block_size: 16,
            blocks: 4,
            max_len: 64,
            prefix_caching: false,
            position: None,
        });
        router.on_event(&cache);
        let (late, _membership) = connection(&router);
        assert_eq!(late.take().told, [cache]);
    }

    #[test]
    fn a_number_that_would_be_another_connections_is_refused() {
        let (_, membership) = connection(&EventRouter::default());
        assert!(matches!(
            membership.own(SeqId(1 << OWN)),
            Err(LinkError::Protocol(_))
        ));
    }
}
