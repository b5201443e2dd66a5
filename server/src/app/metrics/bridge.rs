//! From the server's events to the instruments.
//!
//! Requests, chunks on edges and engine events are recorded as they happen. Admission, sessions and the state of replicas are
//! collected before every scrape. Warm-up is not recorded: recording begins when the server serves.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use omni_config::Quota;
use omni_config::deploy::Deploy;
use omni_core::error::{ErrorKind, ServeError};
use omni_core::orchestrator::Orchestrator;
use omni_engine::{StageGraph, Stamp};
use omni_family::{DeviceFigures, SpeechInfo};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{EdgeRecord, EdgeSink, Hop, TransferStamps};
use omni_pipeline::stage::{EngineSink, IgnoreEngines, Listen, OnReleased, ReplicaId, ReplicaState};
use omni_session::{EndedRequest, Packet, RecordSink, SessionChange, Track};
use omni_telemetry::{
    Collector, FailureReason, RejectionReason, Replica, Telemetry, Throughput, TraceContext, TraceParent,
};
use parking_lot::Mutex;

use super::account;
use super::engines::Engine;
use super::live::{Live, Stage};
use crate::app::records::Sinks;

type Figures = Box<dyn Fn() -> Vec<DeviceFigures> + Send + Sync>;

/// Records the server's events, and collects its state.
pub(in crate::app) struct MetricsBridge {
    telemetry: Telemetry,
    orchestrator: Orchestrator,
    max_active: usize,
    /// Set when the model is loaded: its name is a label.
    live: OnceLock<Live>,
    /// Reads the counters of the compute devices.
    figures: OnceLock<Figures>,
    serving: Arc<AtomicBool>,
    /// Rejected requests at the last collection.
    refused: AtomicUsize,
    /// Requests that were refused before the model was there, whose name is a label.
    early: Mutex<Vec<FailureReason>>,
    clock: Clock,
}

/// Most failures kept until the model is loaded.
const MOST_EARLY: usize = 100_000;

impl MetricsBridge {
    pub(super) fn new(
        telemetry: Telemetry,
        orchestrator: Orchestrator,
        max_active: usize,
        clock: Clock,
    ) -> Self {
        Self {
            telemetry,
            orchestrator,
            max_active,
            live: OnceLock::new(),
            figures: OnceLock::new(),
            serving: Arc::default(),
            refused: AtomicUsize::new(0),
            early: Mutex::default(),
            clock,
        }
    }

    /// Writes what engines did in an interval.
    pub(super) fn log(&self, done: &[Throughput]) {
        if let Some(live) = self.live.get() {
            for done in done {
                live.log(done);
            }
        }
    }

    /// The model is loaded, and the stages of `graph` are about to start as in `deploy`, with sequences of at most
    /// `longest` tokens. `figures` reports the GPUs' work.
    pub(in crate::app) fn model(
        &self,
        info: &SpeechInfo,
        graph: &StageGraph,
        deploy: &Deploy,
        longest: u32,
        figures: impl Fn() -> Vec<DeviceFigures> + Send + Sync + 'static,
    ) {
        if self.telemetry.is_off() {
            return;
        }
        self.live.get_or_init(|| {
            self.telemetry.model_is_called(&info.id);
            self.telemetry.longest_sequence(longest);
            let stages = graph
                .stages
                .iter()
                .map(|node| Stage::new(*node, deploy.stage(node.name)));
            Live::new(
                &self.telemetry,
                &info.id,
                info.sample_rate.hz(),
                graph,
                stages.collect(),
            )
        });
        let _ = self.figures.set(Box::new(figures));
        for reason in std::mem::take(&mut *self.early.lock()) {
            self.failed(reason);
        }
    }

    /// A request failed before anything of it began.
    fn failed(&self, reason: FailureReason) {
        if let Some(live) = self.live.get() {
            return live.pipeline.failed(reason);
        }
        let mut early = self.early.lock();
        if !self.telemetry.is_off() && early.len() < MOST_EARLY {
            early.push(reason);
        }
    }

    /// Warm-up is done: records from now on.
    pub(in crate::app) fn serves(&self) {
        self.serving.store(true, Ordering::Release);
    }

    /// The instruments, once the server serves.
    fn recording(&self) -> Option<&Live> {
        self.live.get().filter(|_| self.serving.load(Ordering::Acquire))
    }

    /// Sets the gauges of everything that has a state rather than events.
    pub(super) fn collect(&self) {
        let Some(live) = self.live.get() else {
            return;
        };
        let admission = self.orchestrator.admission();
        let running = self.max_active.saturating_sub(admission.free());
        live.pipeline
            .in_flight(running as u64, admission.waiting() as u64);
        let refused = admission.refused();
        for _ in self.refused.swap(refused, Ordering::AcqRel)..refused {
            live.sessions.rejected(RejectionReason::Requests);
        }
        if let Some(figures) = self.figures.get() {
            live.computed(&self.telemetry, &figures());
        }
        for (stage, known) in live.stages() {
            let Some(pool) = self.orchestrator.pool(known.name()) else {
                continue;
            };
            live.pipeline.stage_stuck(stage, pool.left_behind() as u64);
            let mut there = Vec::new();
            for view in pool.replicas() {
                let replica = Replica {
                    stage,
                    replica: view.id.0,
                };
                live.died(replica, view.stats.deaths);
                if view.state == ReplicaState::Removed {
                    continue;
                }
                there.push(view.id.0);
                live.pipeline
                    .stage_waiting(replica, u64::from(view.stats.waiting));
                let takes_work = view.state == ReplicaState::Ready && !view.cordoned && !view.leaving;
                live.pipeline.replica_takes_work(replica, takes_work);
                live.process(&self.telemetry, replica, view.process);
            }
            for replica in live.present(stage, &there, self.clock.now()) {
                self.telemetry.forget_replica(replica);
                self.telemetry
                    .forget_worker(&worker(known.name(), ReplicaId(replica.replica)));
            }
        }
    }

    /// A sink for the engine of a replica that is about to start.
    fn listener(&self, stage: &'static str, id: ReplicaId) -> Arc<dyn EngineSink> {
        let replica = self
            .live
            .get()
            .and_then(|live| live.replica(stage, id).zip(Some(live)));
        let Some((replica, live)) = replica else {
            return Arc::new(IgnoreEngines);
        };
        Arc::new(Engine::new(
            live.engine(&self.telemetry, replica),
            Arc::clone(&live.sessions),
            Arc::clone(&live.torchserve),
            (worker(stage, id), live.shares_prefixes(stage)),
            Arc::clone(&self.serving),
        ))
    }
}

/// A replica's name as a worker of TorchServe.
fn worker(stage: &str, id: ReplicaId) -> String {
    format!("{stage}-{id}")
}

/// Gives every replica of the pools its sink.
pub(in crate::app) fn listen(bridge: &Arc<MetricsBridge>) -> Listen {
    let bridge = Arc::clone(bridge);
    Arc::new(move |stage, id| bridge.listener(stage, id))
}

/// Records how long the stages took to drop a cancelled sequence.
pub(in crate::app) fn let_go(bridge: &Arc<MetricsBridge>) -> OnReleased {
    let bridge = Arc::clone(bridge);
    Arc::new(move |after| {
        if let Some(live) = bridge.live.get() {
            live.pipeline.cancelled(after);
        }
    })
}

/// Collects before a scrape for as long as the bridge exists.
pub(super) struct BridgeCollector(pub(super) Weak<MetricsBridge>);

impl Collector for BridgeCollector {
    fn collect(&self) {
        if let Some(bridge) = self.0.upgrade() {
            bridge.collect();
        }
    }
}

/// Sinks that feed `bridge` first and `sinks` after it.
pub(super) fn fan_out(bridge: &Arc<MetricsBridge>, sinks: Sinks) -> Sinks {
    Sinks {
        records: Arc::new(FanoutSink(Arc::clone(bridge), sinks.records)),
        edges: Arc::new(FanoutSink(Arc::clone(bridge), sinks.edges)),
    }
}

struct FanoutSink<S>(Arc<MetricsBridge>, S);

impl RecordSink for FanoutSink<Arc<dyn RecordSink>> {
    fn begins(&self, caller: Option<&TraceParent>, now: Stamp) -> Option<Arc<TraceContext>> {
        if let Some(live) = self.0.live.get() {
            live.torchserve.arrived();
        }
        self.1.begins(caller, now)
    }

    fn ended(&self, request: &EndedRequest, track: Option<&Track>) {
        // Warm-up makes no records of requests.
        if let Some(live) = self.0.live.get() {
            live.request(&self.0.telemetry, &account::of(live, request, track));
        }
        self.1.ended(request, track);
    }

    fn packet(&self, packet: &Packet) {
        if let Some(live) = self.0.live.get() {
            live.packet(&self.0.telemetry, packet);
        }
        self.1.packet(packet);
    }

    fn session(&self, change: SessionChange<'_>) {
        let live = self.0.live.get();
        match (change, live) {
            (SessionChange::NothingBegan(why), _) => {
                if let Some(reason) = account::nothing_began(why) {
                    self.0.failed(reason);
                }
            }
            (SessionChange::Opened, Some(live)) => live.sessions.opened(),
            (SessionChange::Closed { after }, Some(live)) => live.sessions.closed(after),
            (SessionChange::Refused(why), Some(live)) => live.sessions.rejected(rejection(why)),
            (_, None) => {}
        }
        self.1.session(change);
    }
}

fn rejection(why: &ServeError) -> RejectionReason {
    match (why.kind(), why.quota()) {
        (ErrorKind::TooManySessions, _) => RejectionReason::Sessions,
        (_, Some(over)) if over.quota == Quota::Streams => RejectionReason::Concurrency,
        (_, Some(_)) => RejectionReason::Rate,
        _ => RejectionReason::Requests,
    }
}

impl EdgeSink for FanoutSink<Arc<dyn EdgeSink>> {
    fn chunk(&self, hop: &Hop, chunk: &TransferStamps) {
        if let Some(live) = self.0.recording() {
            live.hop(&self.0.telemetry, hop, chunk);
        }
        self.1.chunk(hop, chunk);
    }

    fn closed(&self, record: &EdgeRecord) {
        self.1.closed(record);
    }
}
