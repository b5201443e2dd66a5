//! A stage that runs for others: `--role stage`.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use dynamo_runtime::DistributedRuntime;
use dynamo_runtime::component::{Endpoint, StartedEndpoint};
use dynamo_runtime::discovery::DiscoveryInstance;
use dynamo_runtime::pipeline::network::Ingress;
use dynamo_runtime::pipeline::network::egress::addressed_router::AddressedPushRouter;
use omni_config::Config;
use omni_family::model_identity;
use omni_pipeline::connector::{PeerParts, Peers};
use omni_pipeline::settings::of_replica;
use omni_pipeline::stage::ReplicaState;
use omni_server::app::{StageListener, StageMember};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::card::{Card, ENDPOINT, Identity, all};
use crate::probes::Probes;
use crate::runtime::{Presence, connect};
use crate::settings::{Found, Network};
use crate::signals::Signals;
use crate::tunnel::{StageTunnel, dial};

/// Between two tries to register again, after discovery was lost.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval between checks that files still list a replica.
const POLL_FILES: Duration = Duration::from_secs(2);
/// Attempts of a replica to get a number of its own before it gives up.
const TRIES: u32 = 64;
/// Least time between two such tries. A front end that has not read that the first card was taken back would refuse
/// the second.
const ASIDE: Duration = Duration::from_millis(200);
/// Interval between checks of connections that are closing.
const POLL_CONNECTIONS: Duration = Duration::from_millis(20);
/// Longest time that front ends of a replica that has died are waited for.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after which a host's last bytes have reached the network.
const IN_TUNNEL: Duration = Duration::from_millis(100);
/// Longest time that discovery may take to forget a replica.
const WITHDRAWAL: Duration = Duration::from_secs(1);
/// Time for which a link to the next stage without sequences is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Runs one replica of `stage` until a signal, or until it has died.
///
/// # Errors
/// If the model cannot be loaded, the others cannot be found, or the replica has died.
pub async fn run(config: &Config, stage: &str, number: Option<u32>, network: &Network) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let identity = {
        let model = config.model.clone();
        let asked = tokio::task::spawn_blocking(move || model_identity(&model));
        Identity::new(asked.await?.context("the model cannot be read")?)
    };
    let begun = Instant::now();
    let member = tokio::select! {
        member = load(config, stage, number.unwrap_or_default()) => member?,
        // Stopped while loading: there is nothing to drain.
        () = signals.next() => return Ok(()),
    };
    tracing::info!(
        stage,
        seconds = begun.elapsed().as_secs_f64(),
        model = identity.model,
        "ready"
    );
    let probes = Probes::new(&member);
    let _serving = match network.probes {
        Some(address) => Some(probes.serve(address).await?),
        None => None,
    };
    let mut held = None;
    let gave_up = Arc::new(Notify::new());
    let formats = config.deploy.number_formats(member.stage());
    let format = of_replica(&formats, number.unwrap_or_default());
    let part = Stage {
        member: &member,
        identity: &identity,
        format: format.cloned().unwrap_or_default(),
        given: number,
        network,
        probes: &probes,
        gave_up: Arc::clone(&gave_up),
    };
    let registered = tokio::select! {
        ended = part.keep_registered(&mut held) => ended,
        died = died(&member) => Err(died),
        // A hung step leaves the state unchanged; connections detect it.
        () = gave_up.notified() => Err(anyhow::anyhow!("the replica has died or hangs")),
        () = signals.next() => Ok(()),
    };
    probes.unregistered();
    if let Err(error) = registered {
        // Front ends are to hear that the model failed: a connection that is cut means that the process is gone.
        tokio::join!(withdraw(held.take()), told(&member));
        return Err(error);
    }
    withdraw(held.take()).await;
    drain(member.listener(), config.limits.drain_timeout, &mut signals).await;
    // A stopped replica would fail its work for good. Work of a process that is gone runs again elsewhere.
    if member.listener().connections() == 0 {
        tokio::task::spawn_blocking(move || member.stop()).await??;
    }
    Ok(())
}

/// Waits until every front end knows that the replica has died, for at most [`NOTIFY_TIMEOUT`].
async fn told(member: &StageMember) {
    let hung_up = async {
        hung_up(member.listener()).await;
        // The last message is still in its tunnel.
        tokio::time::sleep(IN_TUNNEL).await;
    };
    if tokio::time::timeout(NOTIFY_TIMEOUT, hung_up).await.is_err() {
        tracing::warn!("shutdown notice did not reach every front end");
    }
}

/// The stage, when it is warm.
async fn load(config: &Config, stage: &str, replica: u32) -> anyhow::Result<StageMember> {
    let config = config.clone();
    let stage = stage.to_owned();
    let starting = tokio::task::spawn_blocking(move || StageMember::start(&config, &stage, replica));
    let member = starting.await??;
    let mut changes = member.changes();
    loop {
        match member.state() {
            ReplicaState::Ready => return Ok(member),
            ReplicaState::Loading => changes.changed().await?,
            ReplicaState::Restarting { message } | ReplicaState::Failed { message } => {
                bail!("stage {} could not be built: {message}", member.stage())
            }
            ReplicaState::Removed => bail!("stage {} was stopped", member.stage()),
        }
    }
}

/// Waits until the replica has died. To begin afresh is for the process as a whole.
async fn died(member: &StageMember) -> anyhow::Error {
    let mut changes = member.changes();
    loop {
        match member.state() {
            ReplicaState::Ready | ReplicaState::Loading => {}
            state => return anyhow::anyhow!("the replica has died: {state:?}"),
        }
        if changes.changed().await.is_err() {
            return anyhow::anyhow!("the replica has ended");
        }
    }
}

/// Registration of a stage.
struct Stage<'a> {
    member: &'a StageMember,
    identity: &'a Identity,
    /// Number format that it computes in.
    format: String,
    /// The number that it was given.
    given: Option<u32>,
    network: &'a Network,
    probes: &'a Probes,
    gave_up: Arc<Notify>,
}

/// A registration, with its runtime.
type Held = Option<(DistributedRuntime, Registration)>;

impl Stage<'_> {
    fn endpoint(&self, runtime: &DistributedRuntime) -> anyhow::Result<Endpoint> {
        let namespace = runtime.namespace(self.network.name.clone())?;
        Ok(namespace.component(self.member.stage())?.endpoint(ENDPOINT))
    }

    /// Registers the stage, and again whenever discovery was lost. Connections last meanwhile. `held` is the
    /// registration that is valid.
    async fn keep_registered(&self, held: &mut Held) -> anyhow::Result<()> {
        let mut runtime = connect(self.network, Presence::Registered).await?;
        // For all registrations: links outlive them, and so does the port at which the next stage answers.
        let peers = Peers::new(PeerParts {
            stage: self.member.stage(),
            dial: dial(AddressedPushRouter::from_runtime_provider(&runtime).await?),
            greeting: self.identity.greeting(),
            idle: IDLE,
            clock: self.member.clock(),
        });
        let mut registration = Registration::new(&runtime, self, &peers, None).await?;
        loop {
            let (_, current) = held.insert((runtime.clone(), registration));
            self.keep_announced(&runtime, current, &peers).await;
            self.probes.unregistered();
            tracing::warn!("registration lost; connections continue, registering again");
            (runtime, registration) = self.register_again(&current.card, &peers).await;
            withdraw(held.take()).await;
        }
    }

    /// Announces the replica again whenever discovery has forgotten it, until its runtime has lost discovery.
    async fn keep_announced(
        &self,
        runtime: &DistributedRuntime,
        registration: &mut Registration,
        peers: &Peers,
    ) {
        let lost = runtime.runtime().shutdown_started_token();
        loop {
            self.probes.registered(registration.card.replica, runtime, peers);
            tokio::select! {
                () = lost.cancelled() => return,
                () = self.forgotten(runtime, &registration.card) => {}
            }
            self.probes.unregistered();
            tracing::warn!(
                "registration expired: discovery took this replica for dead; connections continue, registering again"
            );
            // A failed attempt may still be listed, under an id that was not compared.
            while let Err(error) = registration.announce_again(runtime, self).await {
                tracing::warn!("{error:#}");
                tokio::select! {
                    () = lost.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
            tracing::info!(replica = registration.card.replica, "registered again");
        }
    }

    /// Waits until files no longer list the replica: others remove the files of a process that stalls for some
    /// seconds. Other kinds of discovery notify the runtime.
    async fn forgotten(&self, runtime: &DistributedRuntime, card: &Card) {
        if !matches!(self.network.found, Found::File(_)) {
            return std::future::pending().await;
        }
        let id = card.instance.instance_id;
        let own =
            |found: &DiscoveryInstance| Card::of(found).is_some_and(|card| card.instance.instance_id == id);
        loop {
            tokio::time::sleep(POLL_FILES).await;
            match runtime.discovery().list(all(&card.instance.namespace)).await {
                Ok(found) if !found.iter().any(own) => return,
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "discovery files cannot be read"),
            }
        }
    }

    /// Registers the replica that had that card; tries until it works.
    async fn register_again(&self, had: &Card, peers: &Peers) -> (DistributedRuntime, Registration) {
        let mut connected: Option<DistributedRuntime> = None;
        loop {
            tokio::time::sleep(AGAIN).await;
            let lost =
                |runtime: &DistributedRuntime| runtime.runtime().shutdown_started_token().is_cancelled();
            let runtime = match connected.take().filter(|runtime| !lost(runtime)) {
                Some(runtime) => runtime,
                None => match connect(self.network, Presence::Registered).await {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        tracing::warn!("{error:#}");
                        continue;
                    }
                },
            };
            match Registration::new(&runtime, self, peers, Some(had)).await {
                Ok(registration) => return (runtime, registration),
                Err(error) => tracing::warn!("{error:#}"),
            }
            connected = Some(runtime);
        }
    }

    /// Registers a card: with the given replica number, or else with the one that it `had`, or, if that is taken,
    /// with the lowest free one. Of two that take the same number at once, at least one sees the other: it withdraws
    /// its card, waits for a time of its own, and tries again, unless the number was given.
    async fn announce(
        &self,
        runtime: &DistributedRuntime,
        endpoint: &StartedEndpoint,
        had: Option<&Card>,
    ) -> anyhow::Result<(Card, DiscoveryInstance)> {
        let discovery = runtime.discovery();
        let instance = endpoint.instance();
        let before = had.map(|card| card.instance.instance_id);
        let taken = |cards: &[(DiscoveryInstance, Card)]| -> BTreeSet<u32> {
            let own = |id| id == instance.instance_id || Some(id) == before;
            let others = cards.iter().filter(|(_, card)| !own(card.instance.instance_id));
            others.map(|(_, card)| card.replica).collect()
        };
        for time in 0..TRIES {
            let cards = self.cards(runtime).await?;
            // One of an attempt that failed would forbid this one.
            let left = cards
                .iter()
                .find(|(_, card)| card.instance.instance_id == instance.instance_id);
            if let Some((found, _)) = left {
                discovery.unregister(found.clone()).await?;
            }
            let taken_before = taken(&cards);
            let kept = had
                .map(|card| card.replica)
                .filter(|number| !taken_before.contains(number));
            let free = || {
                (0..)
                    .find(|number| !taken_before.contains(number))
                    .unwrap_or_default()
            };
            let replica = self.given.or(kept).unwrap_or_else(free);
            let tells = (self.identity.clone(), self.format.clone());
            let card = Card::new(replica, tells, instance.clone());
            let found = discovery.register(card.spec()?).await?;
            if !taken(&self.cards(runtime).await?).contains(&replica) {
                return Ok((card, found));
            }
            if self.given.is_some() {
                tracing::warn!(
                    replica,
                    "replica number in use by another replica; front ends use the one that joined last"
                );
                return Ok((card, found));
            }
            discovery.unregister(found).await?;
            let mut hasher = DefaultHasher::new();
            (instance.instance_id, time).hash(&mut hasher);
            tokio::time::sleep(ASIDE + Duration::from_millis(hasher.finish() % 64)).await;
        }
        bail!("no number is free among the replicas of {}", instance.component)
    }

    /// Cards of all replicas of the stage, including this one, if registered.
    async fn cards(&self, runtime: &DistributedRuntime) -> anyhow::Result<Vec<(DiscoveryInstance, Card)>> {
        let found = runtime.discovery().list(all(&self.network.name)).await?;
        let cards = found.into_iter().filter_map(|found| {
            let card = Card::of(&found)?;
            Some((found, card))
        });
        Ok(cards
            .filter(|(_, card)| card.stage() == self.member.stage())
            .collect())
    }
}

/// A replica that is found.
struct Registration {
    card: Card,
    found: DiscoveryInstance,
    endpoint: StartedEndpoint,
}

impl Registration {
    async fn new(
        runtime: &DistributedRuntime,
        stage: &Stage<'_>,
        peers: &Peers,
        had: Option<&Card>,
    ) -> anyhow::Result<Self> {
        let member = stage.member;
        let identity = stage.identity;
        let tunnel = StageTunnel::new(
            member.listener().reaching(peers.clone()),
            identity.clone(),
            Arc::clone(&stage.gave_up),
        );
        let endpoint = stage
            .endpoint(runtime)?
            .endpoint_builder()
            .handler(Ingress::for_engine(Arc::new(tunnel))?)
            .start_with_registration()
            .await?;
        let (card, found) = match stage.announce(runtime, &endpoint, had).await {
            Ok(announced) => announced,
            Err(error) => {
                end(endpoint);
                return Err(error);
            }
        };
        tracing::info!(
            stage = member.stage(),
            replica = card.replica,
            address = endpoint.instance().transport.address(),
            "registered"
        );
        Ok(Self {
            card,
            found,
            endpoint,
        })
    }

    /// Registers the endpoint and a card again, under the same instance id.
    async fn announce_again(
        &mut self,
        runtime: &DistributedRuntime,
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        stage.endpoint(runtime)?.register_endpoint_instance().await?;
        (self.card, self.found) = stage.announce(runtime, &self.endpoint, Some(&self.card)).await?;
        Ok(())
    }
}

/// Withdraws a registration: front ends give the replica no more work, and disconnect when done.
async fn withdraw(held: Held) {
    let Some((runtime, registration)) = held else {
        return;
    };
    let Registration { found, endpoint, .. } = registration;
    match tokio::time::timeout(WITHDRAWAL, runtime.discovery().unregister(found)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "deregistration failed"),
        Err(_) => tracing::debug!("deregistration skipped: discovery does not answer"),
    }
    end(endpoint);
}

/// Ends an endpoint, which waits for its connections.
fn end(endpoint: StartedEndpoint) {
    tokio::spawn(async move {
        if let Err(error) = endpoint.shutdown().await {
            tracing::debug!(%error, "endpoint shutdown failed");
        }
    });
}

/// Waits until no front end is connected, for `timeout` at most.
async fn drain(listener: &StageListener, timeout: Duration, signals: &mut Signals) {
    tracing::info!(connections = listener.connections(), "draining");
    tokio::select! {
        () = hung_up(listener) => tracing::info!("last front end disconnected"),
        () = tokio::time::sleep(timeout) => {
            tracing::warn!(connections = listener.connections(), "the drain timeout is over");
        }
        () = signals.next() => tracing::warn!("told to stop at once"),
    }
}

/// Waits until no front end is connected.
async fn hung_up(listener: &StageListener) {
    while listener.connections() > 0 {
        tokio::time::sleep(POLL_CONNECTIONS).await;
    }
}
