//! Whole requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use parking_lot::Mutex;

use crate::families as f;
use crate::log::StatsLog;
use crate::meter::Meter;
use crate::records::{FailureReason, Replica, RequestOutcome, RequestRecord, StageKind};

/// Description of a replica behind its ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInfo {
    /// The ids.
    pub replica: Replica,
    /// Name of the stage.
    pub name: String,
    /// Kind of the stage.
    pub kind: StageKind,
    /// Its device.
    pub device: String,
}

/// Records requests from end to end.
#[derive(Debug)]
pub struct PipelineInstruments {
    meter: Meter,
    log: Option<Arc<StatsLog>>,
    running: Gauge,
    waiting: Gauge,
    stop: Counter,
    length: Counter,
    repetition: Counter,
    abort: Counter,
    failed: [Counter; FailureReason::ALL.len()],
    latency: Histogram,
    queue_wait: Histogram,
    text_wait: Histogram,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    cancel_latency: Histogram,
    stages: BTreeMap<u32, StageHandles>,
    /// Waiting requests per replica as last told. A stage's gauge is their sum.
    replicas: Mutex<BTreeMap<Replica, u64>>,
}

#[derive(Debug)]
struct StageHandles {
    generation: Histogram,
    waiting: Gauge,
}

impl PipelineInstruments {
    /// Instruments for a pipeline of `stages`. `version` is the server's.
    pub fn new(meter: &Meter, version: &str, stages: &[StageInfo]) -> Self {
        meter.gauge(f::OMNI_BUILD_INFO, [version]).set(1.0);
        let success = |reason| meter.counter(f::OMNI_REQUESTS_SUCCESS_TOTAL, [reason]);
        let mut this = Self {
            meter: meter.clone(),
            log: None,
            running: meter.gauge(f::OMNI_NUM_REQUESTS_RUNNING, []),
            waiting: meter.gauge(f::OMNI_NUM_REQUESTS_WAITING, []),
            stop: success("stop"),
            length: success("length"),
            repetition: success("repetition"),
            abort: success("abort"),
            failed: FailureReason::ALL
                .map(|reason| meter.counter(f::OMNI_REQUESTS_FAILED_TOTAL, [reason.label()])),
            latency: meter.histogram(f::OMNI_E2E_REQUEST_LATENCY_S, []),
            queue_wait: meter.histogram(f::OMNI_REQUEST_QUEUE_WAIT_S, []),
            text_wait: meter.histogram(f::OMNI_TEXT_WAIT_S, []),
            prompt_tokens: meter.counter(f::OMNI_PROMPT_TOKENS_TOTAL, []),
            generation_tokens: meter.counter(f::OMNI_GENERATION_TOKENS_TOTAL, []),
            cancel_latency: meter.histogram(f::OMNI_CANCEL_LATENCY_S, []),
            stages: BTreeMap::new(),
            replicas: Mutex::default(),
        };
        for stage in stages {
            this.stages
                .entry(stage.replica.stage)
                .or_insert_with(|| StageHandles::new(meter, stage.replica.stage, stage.kind));
            this.replica_joined(stage);
        }
        this
    }

    /// Also reports to `log`.
    #[must_use]
    pub fn with_log(mut self, log: Arc<StatsLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// A replica is there, from the start or later. Its stage is one that was there from the start.
    pub fn replica_joined(&self, info: &StageInfo) {
        let ids = info.replica.ids();
        let labels = [
            &ids.0,
            &ids.1,
            info.name.as_str(),
            info.kind.label(),
            info.device.as_str(),
        ];
        self.meter.gauge(f::OMNI_STAGE_INFO, labels).set(1.0);
        self.replica_died(info.replica, 0);
        self.stage_waiting(info.replica, 0);
    }

    /// Records if a replica takes work.
    pub fn replica_takes_work(&self, replica: Replica, takes_work: bool) {
        let (stage, replica) = replica.ids();
        let gauge = self.meter.gauge(f::OMNI_REPLICA_UP, [&stage, &replica]);
        gauge.set(f64::from(u8::from(takes_work)));
    }

    /// A replica has died so often since this was called last.
    pub fn replica_died(&self, replica: Replica, times: u64) {
        let (stage, replica) = replica.ids();
        let deaths = self
            .meter
            .counter(f::OMNI_REPLICA_DEATHS_TOTAL, [&stage, &replica]);
        deaths.increment(times);
    }

    /// Sets the number of abandoned threads of a stage that hang in a step.
    pub fn stage_stuck(&self, stage: u32, threads: u64) {
        let gauge = self
            .meter
            .gauge(f::OMNI_STAGE_STUCK_THREADS, [&stage.to_string()]);
        gauge.set(threads as f64);
    }

    /// Sets the numbers of requests in progress and waiting.
    pub fn in_flight(&self, running: u64, waiting: u64) {
        self.running.set(running as f64);
        self.waiting.set(waiting as f64);
    }

    /// Sets the number of requests waiting in a replica.
    pub fn stage_waiting(&self, replica: Replica, requests: u64) {
        self.waiting_changed(replica, Some(requests));
    }

    /// A replica has left; nothing waits there.
    pub fn replica_left(&self, replica: Replica) {
        self.waiting_changed(replica, None);
    }

    fn waiting_changed(&self, replica: Replica, requests: Option<u64>) {
        let mut replicas = self.replicas.lock();
        match requests {
            Some(requests) => replicas.insert(replica, requests),
            None => replicas.remove(&replica),
        };
        let same_stage = replicas.iter().filter(|(known, _)| known.stage == replica.stage);
        let sum: u64 = same_stage.map(|(_, requests)| requests).sum();
        if let Some(stage) = self.stages.get(&replica.stage) {
            stage.waiting.set(sum as f64);
        }
    }

    /// A request ended. Called once for each.
    pub fn finished(&self, record: &RequestRecord) {
        if let Some(log) = &self.log {
            log.finished(record);
        }
        match record.outcome {
            RequestOutcome::Stop => self.stop.increment(1),
            RequestOutcome::Length => self.length.increment(1),
            RequestOutcome::Repetition => self.repetition.increment(1),
            RequestOutcome::Failed(reason) => self.failed(reason),
        }
        // A request without a stage took no stage time.
        if !matches!(record.outcome, RequestOutcome::Failed(_)) && record.queue_wait.is_some() {
            self.latency.record(record.latency);
        }
        if let Some(wait) = record.queue_wait {
            self.queue_wait.record(wait);
        }
        if let Some(wait) = record.text_wait {
            self.text_wait.record(wait);
        }
        self.prompt_tokens
            .increment(record.stages.first().map_or(0, |stage| stage.tokens_in));
        self.generation_tokens
            .increment(record.stages.iter().map(|stage| stage.tokens_out).sum());
        for share in &record.stages {
            let stage = self.stages.get(&share.replica.stage);
            if let Some((stage, generation)) = stage.zip(share.generation) {
                stage.generation.record(generation);
            }
        }
    }

    /// A request failed. Called for those of which there is nothing more to tell.
    pub fn failed(&self, reason: FailureReason) {
        self.abort.increment(1);
        self.failed[reason as usize].increment(1);
    }

    /// No stage works on a request cancelled `after` ago any longer.
    pub fn cancelled(&self, after: Duration) {
        self.cancel_latency.record(after);
    }
}

impl StageHandles {
    fn new(meter: &Meter, stage: u32, kind: StageKind) -> Self {
        let id = stage.to_string();
        Self {
            generation: meter.histogram(f::OMNI_STAGE_GEN_TIME_S, [&id, kind.label()]),
            waiting: meter.gauge(f::OMNI_STAGE_WAITING_REQUESTS, [&id]),
        }
    }
}
