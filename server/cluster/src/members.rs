//! The replicas that a front end finds: its pools follow discovery.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dynamo_runtime::DistributedRuntime;
use dynamo_runtime::discovery::{DiscoveryEvent, DiscoveryInstance};
use dynamo_runtime::pipeline::network::egress::addressed_router::AddressedPushRouter;
use futures::StreamExt as _;
use omni_config::Config;
use omni_core::orchestrator::Orchestrator;
use omni_pipeline::clock::Clock;
use omni_pipeline::stage::{ReplicaId, ReplicaState};
use omni_server::app::joined;
use tokio::time::Instant;

use crate::card::{Card, Identity, all};
use crate::tunnel::Tunnel;

/// Interval between attempts to reach unreachable replicas, and before discovery is asked again.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time before a replica that could not be reached is tried again.
const LONGEST: Duration = Duration::from_secs(30);

/// Connections to replicas.
pub struct Members {
    runtime: DistributedRuntime,
    router: Arc<AddressedPushRouter>,
    orchestrator: Orchestrator,
    identity: Identity,
    namespace: String,
    mailbox: usize,
    load_timeout: Duration,
    clock: Clock,
    /// By discovery id.
    known: HashMap<u64, Member>,
    /// Card that a pool has under a stage and a number: two may have the same one for a while.
    used: HashMap<(String, u32), u64>,
}

#[derive(Debug)]
struct Member {
    card: Card,
    /// It is known to take work.
    ready: bool,
    /// `true` once the log has reported it as unreachable, until it is reached.
    unreached: bool,
    /// Time of the next attempt if it could not be reached, and the wait after that.
    again: (Instant, Duration),
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members")
            .field("namespace", &self.namespace)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Members {
    /// Members of the front end with an orchestrator.
    ///
    /// # Errors
    /// If connections cannot be made.
    pub async fn new(
        runtime: DistributedRuntime,
        (orchestrator, clock): (Orchestrator, Clock),
        (identity, namespace): (Identity, String),
        config: &Config,
    ) -> anyhow::Result<Self> {
        let router = AddressedPushRouter::from_runtime_provider(&runtime).await?;
        Ok(Self {
            runtime,
            router,
            orchestrator,
            identity,
            namespace,
            // As for a replica of this process.
            mailbox: 8 * config.max_active + 16,
            load_timeout: config.deploy.load_timeout,
            clock,
            known: HashMap::new(),
            used: HashMap::new(),
        })
    }

    /// Follows discovery forever. While discovery is down, everything stays as it is.
    pub async fn follow(mut self) {
        let Ok(model) = self.orchestrator.model() else {
            return;
        };
        let mut changes = model.pipeline.changes().follow();
        let mut look = tokio::time::interval(LOOK);
        loop {
            match self
                .runtime
                .discovery()
                .list_and_watch(all(&self.namespace), None)
                .await
            {
                Ok(mut events) => loop {
                    tokio::select! {
                        event = events.next() => match event {
                            Some(Ok(event)) => self.take(event),
                            Some(Err(error)) => {
                                tracing::warn!(%error, "discovery watch failed; known replicas stay in use");
                                break;
                            }
                            None => break,
                        },
                        Ok(()) = changes.changed() => self.look(),
                        _ = look.tick() => self.try_again(),
                    }
                },
                Err(error) => tracing::warn!(%error, "discovery query failed; known replicas stay in use"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn take(&mut self, event: DiscoveryEvent) {
        match event {
            DiscoveryEvent::Added(found) => self.found(&found),
            DiscoveryEvent::Removed(id) => self.lost(id.instance_id()),
            DiscoveryEvent::Resync(all) => {
                let gone: Vec<_> = self.known.keys().copied().collect();
                let there: Vec<_> = all.iter().map(DiscoveryInstance::instance_id).collect();
                for id in gone.into_iter().filter(|id| !there.contains(id)) {
                    self.lost(id);
                }
                for found in &all {
                    self.found(found);
                }
            }
            DiscoveryEvent::ModelTaintsUpdated(_) => {}
        }
    }

    fn found(&mut self, found: &DiscoveryInstance) {
        let id = found.instance_id();
        let Some(card) = Card::of(found) else {
            if !self.known.contains_key(&id) {
                tracing::warn!(id, "discovered instance ignored: it has no stage card");
            }
            return;
        };
        match self.known.get(&id) {
            Some(member) if place(&member.card) == place(&card) => return,
            // It has registered again under another id. The watch reports no removal; a new watch begins with the
            // present instances.
            Some(_) => self.lost(id),
            None => {}
        }
        if let Some(why) = self.identity.refuses(&card.identity) {
            let stage = card.stage();
            let replica = card.replica;
            let address = card.instance.transport.address();
            tracing::warn!(stage, replica, address, why, "replica refused");
            return;
        }
        let format = &card.format;
        let mut others = self.known.values().map(|member| &member.card);
        if let Some(other) = others.find(|other| other.stage() == card.stage() && other.format != *format) {
            let stage = card.stage();
            let replica = card.replica;
            let others = &other.format;
            tracing::warn!(
                stage,
                replica,
                format,
                others,
                "stage has replicas of different number formats; a sequence cannot resume on a replica of another format"
            );
        }
        self.join_first(&card);
        self.used.insert(place(&card), id);
        let member = Member {
            card,
            ready: false,
            unreached: false,
            again: (Instant::now() + LOOK, LOOK),
        };
        self.known.insert(id, member);
    }

    /// Logs the replicas that now take work.
    fn look(&mut self) {
        let used = &self.used;
        for (id, member) in &mut self.known {
            let card = &member.card;
            if used.get(&place(card)) != Some(id) {
                member.ready = false;
                continue;
            }
            let ready = state(&self.orchestrator, card) == Some(ReplicaState::Ready);
            let was = std::mem::replace(&mut member.ready, ready);
            if ready && !was {
                member.unreached = false;
                let stage = card.stage();
                let replica = card.replica;
                tracing::info!(stage, replica, "replica ready");
            }
        }
    }

    /// Joins a replica for the first time with this card.
    fn join_first(&self, card: &Card) {
        let stage = card.stage();
        let replica = card.replica;
        let format = &card.format;
        let address = card.instance.transport.address();
        match self.orchestrator.pool(stage) {
            Some(_) => tracing::info!(stage, replica, address, format, "replica joined"),
            None => tracing::warn!(stage, replica, "replica ignored: the model has no such stage"),
        }
        self.join(card);
    }

    fn join(&self, card: &Card) {
        let stage = card.stage();
        let replica = card.replica;
        let Some(pool) = self.orchestrator.pool(stage) else {
            return;
        };
        let tunnel = Tunnel::new(Arc::clone(&self.router), card.instance.clone());
        let limits = (self.mailbox, self.load_timeout);
        let make = joined(Box::new(tunnel), self.identity.greeting(), limits, self.clock);
        if let Err(error) = pool.join(ReplicaId(replica), (&card.format, card.address()), make) {
            tracing::error!(stage, replica, %error, "replica cannot join");
        }
    }

    /// Drains a replica: it gets no new work, and its connection closes when the present work is done.
    fn lost(&mut self, id: u64) {
        let Some(Member { card, .. }) = self.known.remove(&id) else {
            return;
        };
        let stage = card.stage();
        let replica = card.replica;
        // The same replica may be back as another instance.
        if self.used.get(&place(&card)) != Some(&id) {
            return;
        }
        let mut others = self.known.iter();
        if let Some((&other, member)) = others.find(|(_, member)| place(&member.card) == place(&card)) {
            let next = member.card.clone();
            tracing::info!(stage, replica, "replica left: another one has its number");
            self.join_first(&next);
            self.used.insert(place(&next), other);
            return;
        }
        self.used.remove(&place(&card));
        tracing::info!(stage, replica, "replica left");
        if let Some(pool) = self.orchestrator.pool(stage)
            && let Err(error) = pool.remove(ReplicaId(replica))
        {
            tracing::debug!(stage, replica, %error, "replica that left was not in the pool");
        }
    }

    /// Tries again to join replicas that were unreachable.
    fn try_again(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        let used = &self.used;
        for (id, member) in self.known.iter_mut().filter(|(_, member)| member.again.0 <= now) {
            let card = &member.card;
            if used.get(&place(card)) != Some(id) {
                continue;
            }
            let stage = card.stage();
            let replica = card.replica;
            match state(&self.orchestrator, card) {
                Some(ReplicaState::Failed { message }) => {
                    // It may be gone, and its card be left for a while.
                    if !std::mem::replace(&mut member.unreached, true) {
                        tracing::warn!(
                            stage,
                            replica,
                            message,
                            "replica unreachable; retrying until it is reached"
                        );
                    }
                    let wait = (member.again.1 * 2).min(LONGEST);
                    member.again = (now + wait, wait);
                    due.push(card.clone());
                }
                _ => member.again = (now + LOOK, LOOK),
            }
        }
        for card in due {
            self.join(&card);
        }
    }
}

/// Key by which a pool knows the replica with that card.
fn place(card: &Card) -> (String, u32) {
    (card.stage().to_owned(), card.replica)
}

/// The state of the replica with that card, if there is one.
fn state(orchestrator: &Orchestrator, card: &Card) -> Option<ReplicaState> {
    let replicas = orchestrator.pool(card.stage())?.replicas();
    let view = replicas
        .into_iter()
        .find(|view| view.id == ReplicaId(card.replica));
    view.map(|view| view.state)
}
