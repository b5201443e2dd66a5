//! The instruments of a server whose model is known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use omni_config::Device;
use omni_config::deploy;
use omni_engine::{StageGraph, StageNode, Stamp};
use omni_family::DeviceFigures;
use omni_pipeline::connector::{Hop, Place, TransferStamps};
use omni_pipeline::settings::of_replica;
use omni_pipeline::stage::ReplicaId;
use omni_session::Packet;
use omni_telemetry::{
    AudioInstruments, ComputingInstruments, ComputingStats, EdgeEnd, EdgeInstruments, EngineInstruments,
    HearingInstruments, HopRecord, OneProcess, OwnProcessInstruments, PipelineInstruments, Replica,
    SessionInstruments, StageInfo, StageKind, Telemetry, Throughput, TorchServeInstruments, with_exemplar,
};
use parking_lot::Mutex;

use super::account::{Account, Stream};

/// A stage of the pipeline.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    node: StageNode,
    /// Its devices: one for all replicas, or one for each.
    devices: Vec<Device>,
}

impl Stage {
    pub(super) fn new(node: StageNode, deploy: &deploy::Stage) -> Self {
        Self {
            node,
            devices: deploy.devices.clone(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.node.name
    }

    /// As in vLLM-Omni: every stage that is no language model is of kind generation.
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

/// The stages with a role of their own in metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct Roles {
    /// Encodes the recordings of conversations.
    pub(super) encoder: Option<&'static str>,
    /// Gives audio.
    pub(super) audio: Option<&'static str>,
}

impl Roles {
    fn of(graph: &StageGraph) -> Self {
        let answers = graph.answers();
        let speech = graph.speech();
        Self {
            encoder: answers
                .and_then(|stage| graph.encoder(stage.name))
                .map(|stage| stage.name),
            audio: speech.last().map(|stage| stage.name),
        }
    }
}

/// Time for which the series of a removed replica stay readable, so that its last figures are scraped.
const GONE_KEPT: Duration = Duration::from_secs(120);
/// Most removed replicas of a stage whose series stay; as many as a pool lists.
const MOST_GONE: usize = 8;

/// Instruments of a replica besides those of its engine.
#[derive(Default)]
struct Recorded {
    audio: Option<Arc<AudioInstruments>>,
    process: Option<OwnProcessInstruments>,
    /// Deaths that are counted already.
    deaths: u64,
    /// Since when it is gone.
    gone: Option<Stamp>,
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
    /// The replicas whose series are read: those that there are, and the last few that are gone.
    replicas: Mutex<BTreeMap<Replica, Recorded>>,
    edges: Mutex<BTreeMap<(EdgeEnd, EdgeEnd), Arc<EdgeInstruments>>>,
    devices: Mutex<BTreeMap<Device, ComputingInstruments>>,
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
            replicas: Mutex::default(),
            edges: Mutex::default(),
            devices: Mutex::default(),
        }
    }

    /// The stages with their ids.
    pub(super) fn stages(&self) -> impl Iterator<Item = (u32, &Stage)> {
        (0..).zip(&self.stages)
    }

    /// Work requested of GPUs so far.
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

    /// Its kind of stage.
    pub(super) fn kind(&self, replica: Replica) -> StageKind {
        let stage = self.stages.get(replica.stage as usize);
        stage.map_or(StageKind::Llm, Stage::kind)
    }

    /// True if sequences of the stage share prefixes.
    pub(super) fn shares_prefixes(&self, stage: &str) -> bool {
        let mut stages = self.stages.iter();
        stages.any(|known| known.name() == stage && known.node.shares_prefixes)
    }

    /// Instruments for the engine of a replica that joins, created anew if it joins again.
    pub(super) fn engine(&self, telemetry: &Telemetry, replica: Replica) -> EngineInstruments {
        let mut recorded = Recorded::default();
        if let Some(stage) = self.stages.get(replica.stage as usize) {
            self.pipeline.replica_joined(&stage.info(replica));
            if Some(stage.name()) == self.roles.audio {
                recorded.audio = Some(Arc::new(AudioInstruments::new(telemetry.meter(), replica)));
            }
            if Some(stage.name()) == self.roles.encoder {
                // Its series are there from the start.
                let _ = HearingInstruments::new(telemetry.meter(), replica);
            }
        }
        self.replicas.lock().insert(replica, recorded);
        telemetry.engine(replica)
    }

    /// Writes what an engine did in an interval; at level debug if that is nothing.
    pub(super) fn log(&self, done: &Throughput) {
        use omni_engine::StageKind as K;
        let Some(stage) = self.stages.get(done.replica.stage as usize) else {
            return;
        };
        let replica = format!("{}/{}", stage.name(), done.replica.replica);
        let of = |wanted: K, figure: f64| (stage.node.kind == wanted).then_some(figure);
        // vLLM's figures; those that are usually zero are left out when they are.
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

    /// Updates the present replicas of a stage. Returns those now forgotten: removed long ago, or the oldest of many.
    pub(super) fn present(&self, stage: u32, there: &[u32], now: Stamp) -> Vec<Replica> {
        let mut replicas = self.replicas.lock();
        let mut gone = Vec::new();
        for (replica, recorded) in replicas.iter_mut().filter(|(known, _)| known.stage == stage) {
            if there.contains(&replica.replica) || *replica == Replica::none(stage) {
                recorded.gone = None;
            } else {
                gone.push((*recorded.gone.get_or_insert(now), *replica));
            }
        }
        gone.sort_unstable();
        let too_many = gone.len().saturating_sub(MOST_GONE);
        let forgotten = gone.iter().enumerate().filter_map(|(nth, (since, replica))| {
            (nth < too_many || now.since(*since) >= GONE_KEPT).then_some(*replica)
        });
        let forgotten: Vec<_> = forgotten.collect();
        for (_, replica) in gone {
            self.pipeline.replica_left(replica);
            self.pipeline.replica_takes_work(replica, false);
        }
        for replica in &forgotten {
            replicas.remove(replica);
        }
        drop(replicas);
        let of = |end: &EdgeEnd| matches!(end, EdgeEnd::Replica(replica) if forgotten.contains(replica));
        self.edges.lock().retain(|(from, to), _| !of(from) && !of(to));
        forgotten
    }

    /// A replica has died so often since it joined.
    pub(super) fn died(&self, replica: Replica, times: u64) {
        if let Some(recorded) = self.replicas.lock().get_mut(&replica) {
            let before = std::mem::replace(&mut recorded.deaths, times);
            self.pipeline.replica_died(replica, times.saturating_sub(before));
        }
    }

    /// A replica works in that process now, if it has one of its own.
    pub(super) fn process(&self, telemetry: &Telemetry, replica: Replica, id: Option<u32>) {
        let mut replicas = self.replicas.lock();
        let Some(recorded) = replicas.get_mut(&replica) else {
            return;
        };
        if id.is_none() && recorded.process.is_none() {
            return;
        }
        let new = || OwnProcessInstruments::new(telemetry.meter(), replica);
        let now = id.and_then(|id| Some((id, OneProcess::read(id)?)));
        recorded.process.get_or_insert_with(new).is(now);
    }

    /// The replica at which something of a stage is counted: the one that did it. What none did, or one that is forgotten, is counted at the
    /// first that there is, and at none if there is none.
    fn place(&self, stage: &str, id: Option<ReplicaId>) -> Option<Replica> {
        let (stage, _) = self.stages().find(|(_, known)| known.name() == stage)?;
        let replicas = self.replicas.lock();
        let own = id.map(|id| Replica { stage, replica: id.0 });
        if let Some(own) = own.filter(|own| replicas.contains_key(own)) {
            return Some(own);
        }
        let mut there = replicas
            .iter()
            .filter(|(known, recorded)| known.stage == stage && recorded.gone.is_none());
        Some(there.next().map_or(Replica::none(stage), |(replica, _)| *replica))
    }

    /// Instruments for audio of that replica, or for audio that none made.
    fn audio(&self, telemetry: &Telemetry, id: Option<ReplicaId>) -> Option<Arc<AudioInstruments>> {
        let replica = self.place(self.roles.audio?, id)?;
        let mut replicas = self.replicas.lock();
        let recorded = replicas.entry(replica).or_default();
        let new = || Arc::new(AudioInstruments::new(telemetry.meter(), replica));
        Some(Arc::clone(recorded.audio.get_or_insert_with(new)))
    }

    /// Instruments for an edge, unless a replica at its end is forgotten.
    fn edge(&self, telemetry: &Telemetry, from: EdgeEnd, to: EdgeEnd) -> Option<Arc<EdgeInstruments>> {
        let replicas = self.replicas.lock();
        let is_read = |end| match end {
            EdgeEnd::Session => true,
            EdgeEnd::Replica(replica) => replicas.contains_key(&replica),
        };
        if !is_read(from) || !is_read(to) {
            return None;
        }
        let new = || {
            let edge = EdgeInstruments::new(telemetry.meter(), from, to);
            Arc::new(match telemetry.log() {
                Some(log) => edge.with_log(Arc::clone(log)),
                None => edge,
            })
        };
        Some(Arc::clone(
            self.edges.lock().entry((from, to)).or_insert_with(new),
        ))
    }

    /// A chunk passed an edge.
    pub(super) fn hop(&self, telemetry: &Telemetry, hop: &Hop, chunk: &TransferStamps) {
        let place = |place: &Place| match place.replica {
            Some(replica) => self.replica(place.stage, replica).map(EdgeEnd::Replica),
            None => Some(EdgeEnd::Session),
        };
        let ends = place(&hop.from).zip(place(&hop.to));
        if let Some(edge) = ends.and_then(|(from, to)| self.edge(telemetry, from, to)) {
            edge.hop(&HopRecord {
                size: chunk.bytes,
                tx: since(chunk.tx_start.0, chunk.tx_end.0),
                in_flight: chunk.in_flight(),
                rx: since(chunk.rx_start.0, chunk.rx_end.0),
            });
        }
    }

    /// Audio was handed to the transport.
    pub(super) fn packet(&self, telemetry: &Telemetry, packet: &Packet) {
        if let Some(audio) = self.audio(telemetry, packet.replica) {
            audio.next_chunk(packet.gap, packet.lead);
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
        let (looked_for, kept) = account.recordings;
        let encoder = self.roles.encoder.filter(|_| looked_for > 0);
        if let Some(replica) = encoder.and_then(|encoder| self.place(encoder, None)) {
            HearingInstruments::new(telemetry.meter(), replica).looked_for(looked_for, kept);
        }
        if let Some(heard) = &account.audio {
            if let Some(audio) = self.audio(telemetry, heard.replica) {
                if let Some(latency) = heard.first_packet {
                    audio.first_packet(latency);
                }
                audio.finished(&heard.record);
            }
            if let Some(why) = heard.silence {
                self.sessions.silent(why);
            }
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
    use omni_telemetry::{Selection, TelemetryOptions};

    use super::*;

    fn live(telemetry: &Telemetry) -> Live {
        let graph = QWEN3_OMNI.only(|stage| stage.kind != omni_engine::StageKind::OneShot);
        let deploy = deploy::resolve(None, &[], 1).expect("good settings").deploy;
        let stages = graph
            .stages
            .iter()
            .map(|node| Stage::new(*node, deploy.stage(node.name)));
        Live::new(telemetry, "tiny", 24_000, &graph, stages.collect())
    }

    fn at(seconds: u64) -> Stamp {
        Stamp(Duration::from_secs(seconds))
    }

    fn forget(telemetry: &Telemetry, live: &Live, there: &[u32], now: Stamp) {
        for replica in live.present(2, there, now) {
            telemetry.forget_replica(replica);
        }
    }

    const VOCODER: fn(u32) -> Replica = |replica| Replica { stage: 2, replica };

    fn chunk_gaps(telemetry: &Telemetry) -> Vec<String> {
        let name = "vllm:omni_audio_chunk_gap_s_count".to_owned();
        let text = telemetry.exposition().render(&Selection::of([name]));
        let lines = text.lines().filter(|line| line.contains("_count{"));
        lines
            .map(|line| line.replace(",model_name=\"tiny\"", ""))
            .collect()
    }

    fn packet(replica: Option<u32>) -> Packet {
        Packet {
            replica: replica.map(ReplicaId),
            gap: Duration::ZERO,
            lead: Duration::ZERO,
        }
    }

    #[test]
    fn what_no_replica_did_is_counted_where_it_is_read_whichever_replicas_are_gone() {
        let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
        telemetry.model_is_called("tiny");
        let live = live(&telemetry);
        let sum = |telemetry: &Telemetry| {
            let counts = chunk_gaps(telemetry).into_iter();
            let counts = counts.map(|line| line.rsplit_once(' ').map(|(_, count)| count.to_owned()));
            let counts = counts.map(|count| count.and_then(|count| count.parse::<f64>().ok()));
            counts.map(Option::unwrap_or_default).sum::<f64>()
        };
        for replica in 0..3 {
            let _ = live.engine(&telemetry, VOCODER(replica));
        }
        live.packet(&telemetry, &packet(None));
        // The first is removed; its last figures are still readable.
        forget(&telemetry, &live, &[1, 2], at(0));
        live.packet(&telemetry, &packet(Some(0)));
        assert_eq!(sum(&telemetry), 2.0, "{:?}", chunk_gaps(&telemetry));
        forget(&telemetry, &live, &[1, 2], at(119));
        assert_eq!(chunk_gaps(&telemetry).len(), 3);
        forget(&telemetry, &live, &[1, 2], at(120));
        assert_eq!(chunk_gaps(&telemetry).len(), 2);
        live.packet(&telemetry, &packet(None));
        live.packet(&telemetry, &packet(Some(0)));
        assert_eq!(sum(&telemetry), 2.0, "{:?}", chunk_gaps(&telemetry));
        // None is there.
        forget(&telemetry, &live, &[], at(200));
        forget(&telemetry, &live, &[], at(400));
        live.packet(&telemetry, &packet(None));
        assert!(chunk_gaps(&telemetry)[0].contains("replica=\"none\""));
        assert_eq!(sum(&telemetry), 1.0, "{:?}", chunk_gaps(&telemetry));
    }

    #[test]
    fn two_hundred_replicas_that_came_and_went_leave_nothing_behind() {
        let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
        telemetry.model_is_called("tiny");
        let live = live(&telemetry);
        for replica in 0..200 {
            let _ = live.engine(&telemetry, VOCODER(replica));
            forget(&telemetry, &live, &[replica], at(u64::from(replica)));
        }
        assert!(live.replicas.lock().len() <= 1 + MOST_GONE);
        assert!(chunk_gaps(&telemetry).len() <= 1 + MOST_GONE);
        live.packet(&telemetry, &packet(Some(199)));
        let counted = chunk_gaps(&telemetry)
            .iter()
            .any(|line| line.contains("replica=\"199\"") && line.ends_with(" 1.0"));
        assert!(counted, "{:?}", chunk_gaps(&telemetry));
        assert_eq!(
            telemetry.drops().total(omni_telemetry::DropReason::Cardinality),
            0
        );
    }

    #[test]
    fn a_replica_that_joins_again_is_counted_again() {
        let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
        telemetry.model_is_called("tiny");
        let live = live(&telemetry);
        // Within the time in which its series are read, and long after.
        for away in [1, 1_000] {
            let engine = live.engine(&telemetry, VOCODER(0));
            engine.preempted();
            live.died(VOCODER(0), 2);
            forget(&telemetry, &live, &[0], at(10_000 - away));
            forget(&telemetry, &live, &[], at(10_000 - away));
            forget(&telemetry, &live, &[], at(10_000));
            let engine = live.engine(&telemetry, VOCODER(0));
            forget(&telemetry, &live, &[0], at(10_000));
            engine.preempted();
            live.died(VOCODER(0), 1);
            live.packet(&telemetry, &packet(Some(0)));
            let (preempted, died) = if away == 1 { ("2.0", "3.0") } else { ("1.0", "1.0") };
            let text = telemetry.exposition().render(&Selection::default());
            for (name, expected) in [
                ("vllm:num_preemptions_total", preempted),
                ("vllm:omni_replica_deaths_total", died),
                ("vllm:omni_audio_chunk_gap_s_count", "1.0"),
            ] {
                let line = format!("{name}{{model_name=\"tiny\",replica=\"0\",stage=\"2\"}} {expected}\n");
                assert!(text.contains(&line), "{line} in {text}");
            }
            assert!(text.contains("vllm:omni_stage_info{"));
            forget(&telemetry, &live, &[], at(20_000));
            forget(&telemetry, &live, &[], at(30_000));
        }
    }
}
