//! Choice of an utterance's replica.

use crate::settings::Routing;

use super::replica::ReplicaId;

/// Choice of a replica by policy. Equal calls give equal choices.
#[derive(Debug)]
pub struct Router {
    policy: Routing,
    /// The one chosen last.
    last: Option<ReplicaId>,
}

impl Router {
    /// A router with this policy.
    pub fn new(policy: Routing) -> Self {
        Self { policy, last: None }
    }

    /// Chooses among `candidates`, each with its work in flight, ids ascending. `None` if there are none.
    pub fn pick(&mut self, candidates: &[(ReplicaId, usize)]) -> Option<ReplicaId> {
        let least = candidates.iter().map(|(_, queue)| *queue).min()?;
        let chosen = match self.policy {
            Routing::RoundRobin => self.next(candidates.iter().map(|(id, _)| *id)),
            // Among equals they take turns, so that an idle server uses all of them.
            Routing::LeastQueue => {
                self.next(candidates.iter().filter(|(_, q)| *q == least).map(|(id, _)| *id))
            }
        };
        self.last = chosen.or(self.last);
        chosen
    }

    /// The first one behind the last chosen, else the first.
    fn next(&self, mut ids: impl Iterator<Item = ReplicaId> + Clone) -> Option<ReplicaId> {
        let behind = ids.clone().find(|id| self.last.is_none_or(|last| *id > last));
        behind.or_else(|| ids.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(policy: Routing, queues: &[&[(u32, usize)]]) -> Vec<u32> {
        let mut router = Router::new(policy);
        let pick = |queues: &&[(u32, usize)]| {
            let candidates: Vec<_> = queues
                .iter()
                .map(|(id, queue)| (ReplicaId(*id), *queue))
                .collect();
            router.pick(&candidates).expect("there are candidates").0
        };
        queues.iter().map(pick).collect()
    }

    #[test]
    fn round_robin_goes_on_behind_the_last_also_when_replicas_come_and_go() {
        let all: &[(u32, usize)] = &[(0, 9), (1, 0), (2, 0)];
        let fewer: &[(u32, usize)] = &[(0, 9), (2, 0)];
        assert_eq!(
            picks(Routing::RoundRobin, &[all, all, all, all, fewer, all]),
            [0, 1, 2, 0, 2, 0]
        );
    }

    #[test]
    fn least_queue_takes_the_shortest_and_takes_turns_among_equals() {
        let equal: &[(u32, usize)] = &[(0, 1), (1, 1)];
        let shorter: &[(u32, usize)] = &[(0, 1), (1, 3), (2, 0)];
        assert_eq!(
            picks(Routing::LeastQueue, &[equal, equal, equal, shorter]),
            [0, 1, 0, 2]
        );
    }

    #[test]
    fn without_candidates_there_is_no_choice() {
        assert_eq!(Router::new(Routing::LeastQueue).pick(&[]), None);
    }
}
