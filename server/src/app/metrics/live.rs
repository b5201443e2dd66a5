//! The instruments of a server whose model is known.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_engine::{StageGraph, StageNode};
use omni_family::DeviceFigures;
use omni_telemetry::{
    AudioInstruments, ComputingInstruments, ComputingStats, EdgeEnd, EdgeInstruments, EngineIndex,
    EngineInstruments, EngineMapError, HearingInstruments, HopRecord, OneProcess, OwnProcessInstruments,
    PipelineInstruments, Replica, SessionInstruments, StageInfo, StageKind, Telemetry, Throughput,
    TorchServeInstruments, with_exemplar,
};
use parking_lot::Mutex;

use super::account::{Account, Stream};
use crate::config::Device;
use crate::config::deploy;
use crate::session::Packet;
use omni_pipeline::connector::{Hop, Place, TransferStamps};
use omni_pipeline::settings::of_replica;
use omni_pipeline::stage::ReplicaId;

/// A stage of the pipeline.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    node: StageNode,
    /// What it computes on: one for all replicas, or one for each.
    devices: Vec<Device>,
    /// Replicas at the start.
    replicas: u32,
}

impl Stage {
    pub(super) fn new(node: StageNode, deploy: &deploy::Stage) -> Self {
        Self {
            node,
            devices: deploy.devices.clone(),
            replicas: deploy.replicas,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.node.name
    }

    /// As vLLM-Omni has it: what is no language model generates.
    fn kind(&self) -> StageKind {
        match self.node.kind {
            omni_engine::StageKind::Autoregressive => StageKind::Llm,
            omni_engine::StageKind::Chunk | omni_engine::StageKind::OneShot => StageKind::Generation,
        }
    }

    fn info(&self, replica: Replica) -> StageInfo {
        StageInfo {
            replica,
            name: self.name().to_owned(),
            kind: self.kind(),
            device: of_replica(&self.devices, replica.replica)
                .copied()
                .unwrap_or_default()
                .to_string(),
        }
    }
}

/// What stages do for a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Roles {
    /// Encodes the recordings of conversations.
    pub(super) encoder: Option<&'static str>,
    /// Gives audio.
    pub(super) audio: Option<&'static str>,
}

impl Roles {
    fn of(graph: &StageGraph) -> Self {
        let (answers, speech) = (graph.answers(), graph.speech());
        Self {
            encoder: answers
                .and_then(|stage| graph.encoder(stage.name))
                .map(|stage| stage.name),
            audio: speech.last().map(|stage| stage.name),
        }
    }
}

/// See the module's text.
pub(super) struct Live {
    pub(super) pipeline: PipelineInstruments,
    pub(super) sessions: Arc<SessionInstruments>,
    pub(super) torchserve: Arc<TorchServeInstruments>,
    pub(super) sample_rate: u32,
    /// Their places are their ids, which dashboards know.
    stages: Vec<Stage>,
    pub(super) roles: Roles,
    /// Engines are numbered stage by stage and replica by replica, those that came later after all of them.
    engines: Mutex<BTreeMap<Replica, Arc<EngineInstruments>>>,
    /// `STAGE/REPLICA` and kind of every engine.
    names: Mutex<BTreeMap<u32, (String, Option<omni_engine::StageKind>)>>,
    audio: Mutex<BTreeMap<Replica, Arc<AudioInstruments>>>,
    edges: Mutex<BTreeMap<(EdgeEnd, EdgeEnd), Arc<EdgeInstruments>>>,
    devices: Mutex<BTreeMap<Device, ComputingInstruments>>,
    processes: Mutex<BTreeMap<Replica, OwnProcessInstruments>>,
    hearing: OnceLock<HearingInstruments>,
}

impl Live {
    pub(super) fn new(
        telemetry: &Telemetry,
        model: &str,
        sample_rate: u32,
        graph: &StageGraph,
        stages: Vec<Stage>,
    ) -> Self {
        let meter = telemetry.meter();
        let infos: Vec<_> = (0..)
            .zip(&stages)
            .map(|(stage, known)| known.info(Replica { stage, replica: 0 }))
            .collect();
        let mut pipeline = PipelineInstruments::new(meter, env!("CARGO_PKG_VERSION"), &infos);
        if let Some(log) = telemetry.log() {
            pipeline = pipeline.with_log(Arc::clone(log));
        }
        Self {
            pipeline,
            sessions: Arc::new(SessionInstruments::new(meter)),
            torchserve: Arc::new(TorchServeInstruments::new(meter, model, "default")),
            sample_rate,
            stages,
            roles: Roles::of(graph),
            engines: Mutex::default(),
            names: Mutex::default(),
            audio: Mutex::default(),
            edges: Mutex::default(),
            devices: Mutex::default(),
            processes: Mutex::default(),
            hearing: OnceLock::new(),
        }
    }

    /// The stages with their ids.
    pub(super) fn stages(&self) -> impl Iterator<Item = (u32, &Stage)> {
        (0..).zip(&self.stages)
    }

    /// GPUs were asked for so much until now.
    pub(super) fn computed(&self, telemetry: &Telemetry, figures: &[DeviceFigures]) {
        let mut devices = self.devices.lock();
        for own in figures {
            let new = || ComputingInstruments::new(telemetry.meter(), &own.device.to_string());
            devices
                .entry(own.device)
                .or_insert_with(new)
                .until_now(&ComputingStats {
                    launches: own.launches,
                    graph_launches: own.graph_launches,
                    graphs: own.graphs,
                    replays: own.replays,
                    fallbacks: own.fallbacks,
                });
        }
    }

    /// A replica of the stage of that name.
    pub(super) fn replica(&self, stage: &str, id: ReplicaId) -> Option<Replica> {
        let (stage, _) = self.stages().find(|(_, known)| known.name() == stage)?;
        Some(Replica { stage, replica: id.0 })
    }

    /// What kind of stage it is.
    pub(super) fn kind(&self, replica: Replica) -> StageKind {
        let stage = self.stages.get(replica.stage as usize);
        stage.map_or(StageKind::Llm, Stage::kind)
    }

    /// Whether sequences of the stage share prefixes.
    pub(super) fn shares_prefixes(&self, stage: &str) -> bool {
        let mut stages = self.stages.iter();
        stages.any(|known| known.name() == stage && known.node.shares_prefixes)
    }

    /// Instruments for a replica that joins.
    pub(super) fn engine(
        &self,
        telemetry: &Telemetry,
        replica: Replica,
    ) -> Result<Arc<EngineInstruments>, EngineMapError> {
        let mut engines = self.engines.lock();
        if let Some(engine) = engines.get(&replica) {
            return Ok(Arc::clone(engine));
        }
        let index = self.index(replica, &engines);
        let stage = self.stages.get(replica.stage as usize);
        let name = format!("{}/{}", stage.map_or("", Stage::name), replica.replica);
        tracing::debug!(replica = name, engine = index.0, "replica has metrics");
        self.names
            .lock()
            .insert(index.0, (name, stage.map(|stage| stage.node.kind)));
        let engine = Arc::new(telemetry.engine(index, replica)?);
        engines.insert(replica, Arc::clone(&engine));
        if let Some(stage) = self.stages.get(replica.stage as usize) {
            self.pipeline.replica_joined(&stage.info(replica));
            if Some(stage.name()) == self.roles.audio {
                self.audio(telemetry, replica);
            }
            if Some(stage.name()) == self.roles.encoder && replica.replica == 0 {
                let hearing = HearingInstruments::new(telemetry.meter(), index)?;
                self.hearing.get_or_init(|| hearing);
            }
        }
        Ok(engine)
    }

    /// Writes what an engine did in an interval; at level debug if that is nothing.
    pub(super) fn log(&self, done: &Throughput) {
        let names = self.names.lock();
        let Some((replica, kind)) = names.get(&done.engine) else {
            return;
        };
        use omni_engine::StageKind as K;
        let of = |wanted: K, figure: f64| (*kind == Some(wanted)).then_some(figure);
        // vLLM's figures; what is zero as a rule is left out where it is.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    replica,
                    prompt_tokens_per_s = of(K::Autoregressive, done.prompt),
                    tokens_per_s = of(K::Autoregressive, done.outputs),
                    frames_per_s = of(K::Chunk, done.outputs),
                    recordings_per_s = of(K::OneShot, done.outputs),
                    running = done.running,
                    waiting = done.waiting,
                    deferred = Some(done.deferred).filter(|count| *count > 0),
                    preemptions = Some(done.preemptions).filter(|count| *count > 0),
                    kv_cache_percent = of(K::Autoregressive, done.kv_cache),
                    prefix_hit_percent = of(K::Autoregressive, done.hit_rate.unwrap_or_default())
                        .filter(|_| done.hit_rate.is_some()),
                    "throughput"
                )
            };
        }
        if done.moved {
            line!(info);
        } else {
            line!(debug);
        }
    }

    fn index(&self, replica: Replica, engines: &BTreeMap<Replica, Arc<EngineInstruments>>) -> EngineIndex {
        let before = |stages: &[Stage]| stages.iter().map(|stage| stage.replicas).sum::<u32>();
        let (earlier, later) = self.stages.split_at(replica.stage as usize);
        if later
            .first()
            .is_some_and(|stage| replica.replica < stage.replicas)
        {
            return EngineIndex(before(earlier) + replica.replica);
        }
        let first = |known: &Replica| {
            let stage = self.stages.get(known.stage as usize);
            stage.is_some_and(|stage| known.replica < stage.replicas)
        };
        let added = engines.keys().filter(|known| !first(known)).count();
        EngineIndex(before(&self.stages) + u32::try_from(added).unwrap_or(u32::MAX))
    }

    /// A replica works in that process now, if it has one of its own.
    pub(super) fn process(&self, telemetry: &Telemetry, replica: Replica, id: Option<u32>) {
        let mut processes = self.processes.lock();
        if id.is_none() && !processes.contains_key(&replica) {
            return;
        }
        let new = || OwnProcessInstruments::new(telemetry.meter(), replica);
        let now = id.and_then(|id| Some((id, OneProcess::read(id)?)));
        processes.entry(replica).or_insert_with(new).is(now);
    }

    /// Instruments for the audio that comes from a replica.
    pub(super) fn audio(&self, telemetry: &Telemetry, replica: Replica) -> Arc<AudioInstruments> {
        let mut audio = self.audio.lock();
        let new = || Arc::new(AudioInstruments::new(telemetry.meter(), replica));
        Arc::clone(audio.entry(replica).or_insert_with(new))
    }

    fn edge(&self, telemetry: &Telemetry, from: EdgeEnd, to: EdgeEnd) -> Arc<EdgeInstruments> {
        let mut edges = self.edges.lock();
        let new = || {
            let edge = EdgeInstruments::new(telemetry.meter(), from, to);
            Arc::new(match telemetry.log() {
                Some(log) => edge.with_log(Arc::clone(log)),
                None => edge,
            })
        };
        Arc::clone(edges.entry((from, to)).or_insert_with(new))
    }

    /// A chunk passed an edge.
    pub(super) fn hop(&self, telemetry: &Telemetry, hop: &Hop, chunk: &TransferStamps) {
        let place = |place: &Place| match place.replica {
            Some(replica) => self.replica(place.stage, replica).map(EdgeEnd::Replica),
            None => Some(EdgeEnd::Session),
        };
        if let Some((from, to)) = place(&hop.from).zip(place(&hop.to)) {
            self.edge(telemetry, from, to).hop(&HopRecord {
                size: chunk.bytes,
                tx: since(chunk.tx_start.0, chunk.tx_end.0),
                in_flight: chunk.in_flight(),
                rx: since(chunk.rx_start.0, chunk.rx_end.0),
            });
        }
    }

    /// Audio was handed to the transport. Where the replica is not known, the first of its stage is meant.
    pub(super) fn packet(&self, telemetry: &Telemetry, packet: &Packet) {
        let replica = packet.replica.unwrap_or(ReplicaId(0));
        if let Some(replica) = self.roles.audio.and_then(|audio| self.replica(audio, replica)) {
            self.audio(telemetry, replica).next_chunk(packet.gap, packet.lead);
        }
    }

    /// A request is over.
    pub(super) fn request(&self, telemetry: &Telemetry, account: &Account) {
        if account.turned_away {
            return;
        }
        with_exemplar(account.trace.clone(), || self.book(telemetry, account));
    }

    fn book(&self, telemetry: &Telemetry, account: &Account) {
        self.pipeline.finished(&account.request);
        if let Some(hearing) = self.hearing.get() {
            hearing.looked_for(account.recordings.0, account.recordings.1);
        }
        if let Some(audio) = &account.audio {
            let instruments = self.audio(telemetry, audio.replica);
            if let Some(latency) = audio.first_packet {
                instruments.first_packet(latency);
            }
            instruments.finished(&audio.record);
        }
        match account.stream {
            Some(Stream::Completed) => self.sessions.stream_completed(),
            Some(Stream::Aborted(why)) => self.sessions.stream_aborted(why),
            None => {}
        }
        self.torchserve.took(&account.request.id, &account.times);
    }
}

fn since(from: Duration, until: Duration) -> Duration {
    until.saturating_sub(from)
}

#[cfg(test)]
mod tests {
    use omni_models::QWEN3_OMNI;
    use omni_telemetry::TelemetryOptions;

    use super::*;

    #[test]
    fn engines_are_numbered_stage_by_stage_and_later_ones_after_all_of_them() {
        let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
        let graph = QWEN3_OMNI.only(|stage| stage.kind != omni_engine::StageKind::OneShot);
        let sets = ["stages.talker.replicas=2".to_owned()];
        let deploy = deploy::resolve(None, &sets, 1).expect("good settings").deploy;
        let stages = graph
            .stages
            .iter()
            .map(|node| Stage::new(*node, deploy.stage(node.name)));
        let live = Live::new(&telemetry, "tiny", 24_000, &graph, stages.collect());
        // In whatever order they are built.
        let order = [(1, 1), (2, 0), (1, 0), (0, 0), (1, 2), (2, 1)];
        let mut engines = BTreeMap::new();
        let indices = order.map(|(stage, replica)| {
            let replica = Replica { stage, replica };
            let index = live.index(replica, &engines);
            let engine = telemetry.engine(index, replica).expect("an index of its own");
            engines.insert(replica, Arc::new(engine));
            index.0
        });
        assert_eq!(indices, [2, 3, 1, 0, 4, 5]);
    }
}
