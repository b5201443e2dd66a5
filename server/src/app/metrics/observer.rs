//! From what the server tells of itself to the instruments.
//!
//! Records of utterances and chunks on edges come as they happen; replicas, admission and sessions are looked at before every
//! reading. Only what was measured is recorded: what nobody measures yet is pending in the catalogue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use omni_telemetry::{
    AudioInstruments, AudioRecord, Collector, EdgeInstruments, EngineIndex, EngineInstruments, EngineTotals,
    FailureReason, HopRecord, PipelineInstruments, RejectionReason, Replica, RequestOutcome, RequestRecord,
    ResponseClass, SchedulerRecord, SessionInstruments, StageInfo, StageKind, StageRecord, Telemetry,
    TorchServeInstruments, TorchServeRequest,
};

use crate::app::Sinks;
use crate::clock::Clock;
use crate::connector::{ChunkStamps, EdgeRecord, EdgeSink, Hop, Place};
use crate::error::ServeError;
use crate::orchestrator::Orchestrator;
use crate::session::{Outcome, RecordSink, StageFigures, UtteranceRecord};
use crate::stage::{ReplicaState, ReplicaView};
use crate::tasks::Tasks;

/// The stages in the order of their ids.
const STAGES: [(&str, StageKind); 2] = [("talker", StageKind::Llm), ("code2wav", StageKind::Generation)];
/// Ids of the two.
const TALKER: u32 = 0;
const CODE2WAV: u32 = 1;
/// Engines are numbered by stage and replica; ids of replicas are never reused and never come near this.
const REPLICAS: u32 = 1 << 20;

/// Looks and listens.
pub(super) struct Observer {
    telemetry: Telemetry,
    orchestrator: Orchestrator,
    tasks: Arc<Tasks>,
    clock: Clock,
    max_active: usize,
    /// There once the model is: its name is a label.
    live: OnceLock<Live>,
}

/// Instruments of a server with a model.
struct Live {
    pipeline: PipelineInstruments,
    sessions: SessionInstruments,
    torchserve: TorchServeInstruments,
    sample_rate: u32,
    engines: Mutex<BTreeMap<Replica, Arc<EngineInstruments>>>,
    audio: Mutex<BTreeMap<Replica, Arc<AudioInstruments>>>,
    edges: Mutex<BTreeMap<(Replica, Replica), Arc<EdgeInstruments>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer {
    pub(super) fn new(
        telemetry: Telemetry,
        orchestrator: Orchestrator,
        tasks: Arc<Tasks>,
        clock: Clock,
        max_active: usize,
    ) -> Self {
        Self {
            telemetry,
            orchestrator,
            tasks,
            clock,
            max_active,
            live: OnceLock::new(),
        }
    }

    fn live(&self) -> Option<&Live> {
        if let Some(live) = self.live.get() {
            return Some(live);
        }
        let pipeline = self.orchestrator.model().ok()?;
        Some(self.live.get_or_init(|| {
            let info = &pipeline.info;
            self.telemetry.model_is_called(&info.id);
            Live::new(&self.telemetry, &info.id, info.sample_rate.hz())
        }))
    }

    /// Brings up to date what is only known by looking.
    pub(super) fn look(&self) {
        let Some(live) = self.live() else {
            return;
        };
        live.sessions.active(self.tasks.running() as u64);
        let admission = self.orchestrator.admission();
        let running = self.max_active.saturating_sub(admission.free());
        live.pipeline
            .in_flight(running as u64, admission.waiting() as u64);
        for (stage, (name, kind)) in (0..).zip(STAGES) {
            let views = self.orchestrator.pool(name).map(|pool| pool.replicas());
            for view in views.into_iter().flatten() {
                let replica = Replica {
                    stage,
                    replica: view.id.0,
                };
                if view.state == ReplicaState::Removed {
                    live.pipeline.replica_left(replica);
                } else {
                    self.replica(live, replica, (name, kind), &view);
                }
            }
        }
    }

    fn replica(&self, live: &Live, replica: Replica, (name, kind): (&str, StageKind), view: &ReplicaView) {
        let Some(engine) = self.engine(live, replica, name, kind) else {
            return;
        };
        let stats = &view.stats;
        let waiting = u64::from(stats.waiting);
        let record = SchedulerRecord {
            running: u64::from(stats.running),
            waiting_for_capacity: waiting,
            kv_usage: stats.kv_usage,
            ..SchedulerRecord::default()
        };
        engine.stepped(self.clock.now().0, &record);
        engine.totals(&EngineTotals {
            computed: stats.prefill_tokens,
            generated: stats.decode_tokens,
            preemptions: stats.preempted,
            starved: stats.starved,
        });
        live.pipeline.stage_waiting(replica, waiting);
    }

    fn engine(
        &self,
        live: &Live,
        replica: Replica,
        name: &str,
        kind: StageKind,
    ) -> Option<Arc<EngineInstruments>> {
        let mut engines = lock(&live.engines);
        if let Some(engine) = engines.get(&replica) {
            return Some(Arc::clone(engine));
        }
        let index = EngineIndex(replica.stage * REPLICAS + replica.replica);
        let engine = Arc::new(self.telemetry.engine(index, replica).ok()?);
        live.pipeline.replica_joined(&info(replica, name, kind));
        if replica.stage == CODE2WAV {
            live.audio(&self.telemetry, replica);
        }
        engines.insert(replica, Arc::clone(&engine));
        Some(engine)
    }
}

/// Looks before a reading, for as long as there is somebody to look.
pub(super) struct Looking(pub(super) Weak<Observer>);

impl Collector for Looking {
    fn collect(&self) {
        if let Some(observer) = self.0.upgrade() {
            observer.look();
        }
    }
}

fn info(replica: Replica, name: &str, kind: StageKind) -> StageInfo {
    StageInfo {
        replica,
        name: name.to_owned(),
        kind,
        device: "cpu".to_owned(),
    }
}

impl Live {
    fn new(telemetry: &Telemetry, model: &str, sample_rate: u32) -> Self {
        let meter = telemetry.meter();
        let stages = (0..)
            .zip(STAGES)
            .map(|(stage, (name, kind))| info(Replica { stage, replica: 0 }, name, kind));
        let stages: Vec<_> = stages.collect();
        let mut pipeline = PipelineInstruments::new(meter, env!("CARGO_PKG_VERSION"), &stages);
        if let Some(log) = telemetry.log() {
            pipeline = pipeline.with_log(Arc::clone(log));
        }
        Self {
            pipeline,
            sessions: SessionInstruments::new(meter),
            torchserve: TorchServeInstruments::new(meter, model, "default"),
            sample_rate,
            engines: Mutex::default(),
            audio: Mutex::default(),
            edges: Mutex::default(),
        }
    }

    fn audio(&self, telemetry: &Telemetry, replica: Replica) -> Arc<AudioInstruments> {
        let mut audio = lock(&self.audio);
        let new = || Arc::new(AudioInstruments::new(telemetry.meter(), replica));
        Arc::clone(audio.entry(replica).or_insert_with(new))
    }

    fn edge(&self, telemetry: &Telemetry, from: Replica, to: Replica) -> Arc<EdgeInstruments> {
        let mut edges = lock(&self.edges);
        let new = || {
            let edge = EdgeInstruments::new(telemetry.meter(), from, to);
            Arc::new(match telemetry.log() {
                Some(log) => edge.with_log(Arc::clone(log)),
                None => edge,
            })
        };
        Arc::clone(edges.entry((from, to)).or_insert_with(new))
    }

    fn utterance(&self, telemetry: &Telemetry, record: &UtteranceRecord) {
        self.pipeline.finished(&request(record));
        if matches!(record.error, Some(ServeError::Overloaded(_))) {
            self.sessions.rejected(RejectionReason::Requests);
        }
        let (timings, usage) = (&record.timings, &record.usage);
        let replica = at(CODE2WAV, &timings.code2wav).unwrap_or(Replica {
            stage: CODE2WAV,
            replica: 0,
        });
        let audio = self.audio(telemetry, replica);
        if let Some(latency) = timings.first_audio {
            audio.first_packet(latency);
        }
        let busy = timings.talker.busy + timings.code2wav.busy;
        audio.finished(&AudioRecord {
            frames: usage.samples.0,
            sample_rate: self.sample_rate,
            generation: busy,
            worst_underrun: (!usage.samples.is_empty()).then_some(timings.worst_underrun),
            complete: matches!(record.outcome, Outcome::Stop | Outcome::Length),
        });
        let queue = timings.talker.queue.unwrap_or_default();
        self.torchserve.arrived();
        self.torchserve.answered(
            class(record),
            &TorchServeRequest {
                total: timings.total,
                queue,
                prediction: timings.total.saturating_sub(queue),
                handler: busy,
            },
        );
    }
}

fn at(stage: u32, figures: &StageFigures) -> Option<Replica> {
    figures.replica.map(|id| Replica { stage, replica: id.0 })
}

fn request(record: &UtteranceRecord) -> RequestRecord {
    let (timings, usage) = (&record.timings, &record.usage);
    let share = |stage, figures, tokens_in, tokens_out| {
        at(stage, figures).map(|replica| StageRecord {
            replica,
            kind: STAGES[stage as usize].1,
            generation: None,
            tokens_in,
            tokens_out,
        })
    };
    let frames = u64::from(usage.frames);
    let talker = share(TALKER, &timings.talker, u64::from(usage.text_tokens), frames);
    let code2wav = share(CODE2WAV, &timings.code2wav, frames, 0);
    RequestRecord {
        id: format!("{}/{}", record.session, record.utterance),
        outcome: outcome(record),
        latency: timings.total,
        queue_wait: None,
        stages: talker.into_iter().chain(code2wav).collect(),
    }
}

fn outcome(record: &UtteranceRecord) -> RequestOutcome {
    match (record.outcome, &record.error) {
        (Outcome::Stop, _) => RequestOutcome::Stop,
        (Outcome::Length, _) => RequestOutcome::Length,
        (_, Some(ServeError::StageFailed { .. } | ServeError::StageUnavailable { .. })) => {
            RequestOutcome::Failed(FailureReason::StageError)
        }
        (_, Some(ServeError::CallerGone | ServeError::SlowReader(_))) => {
            RequestOutcome::Failed(FailureReason::ClientDisconnect)
        }
        (Outcome::Interrupted, _) | (_, Some(ServeError::DeadlineExceeded)) => {
            RequestOutcome::Failed(FailureReason::ClientAbort)
        }
        (Outcome::Aborted, None) => RequestOutcome::Failed(FailureReason::ClientDisconnect),
        (Outcome::Error | Outcome::Aborted, _) => RequestOutcome::Failed(FailureReason::Unknown),
    }
}

fn class(record: &UtteranceRecord) -> ResponseClass {
    match (record.outcome, outcome(record)) {
        (Outcome::Stop | Outcome::Length | Outcome::Interrupted, _) => ResponseClass::Success,
        (_, RequestOutcome::Failed(FailureReason::StageError)) => ResponseClass::ServerError,
        _ => ResponseClass::ClientError,
    }
}

/// Sinks that tell `observer`, and `sinks` after it.
pub(super) fn beside(observer: &Arc<Observer>, sinks: Sinks) -> Sinks {
    Sinks {
        records: Arc::new(Beside(Arc::clone(observer), sinks.records)),
        edges: Arc::new(Beside(Arc::clone(observer), sinks.edges)),
    }
}

struct Beside<S>(Arc<Observer>, S);

impl RecordSink for Beside<Arc<dyn RecordSink>> {
    fn utterance(&self, record: &UtteranceRecord) {
        if let Some(live) = self.0.live() {
            live.utterance(&self.0.telemetry, record);
        }
        self.1.utterance(record);
    }
}

impl EdgeSink for Beside<Arc<dyn EdgeSink>> {
    fn chunk(&self, hop: &Hop, chunk: &ChunkStamps) {
        // An edge to or from a session is no hop between stages.
        if let Some((live, (from, to))) = self.0.live().zip(place(&hop.from).zip(place(&hop.to))) {
            let record = HopRecord {
                size: chunk.bytes,
                tx: since(chunk.tx_start.0, chunk.tx_end.0),
                in_flight: chunk.in_flight(),
                rx: since(chunk.rx_start.0, chunk.rx_end.0),
            };
            live.edge(&self.0.telemetry, from, to).hop(&record);
        }
        self.1.chunk(hop, chunk);
    }

    fn closed(&self, record: &EdgeRecord) {
        self.1.closed(record);
    }
}

fn since(from: Duration, until: Duration) -> Duration {
    until.saturating_sub(from)
}

fn place(place: &Place) -> Option<Replica> {
    let stage = STAGES.iter().position(|(name, _)| *name == place.stage)?;
    Some(Replica {
        stage: u32::try_from(stage).ok()?,
        replica: place.replica?.0,
    })
}
