//! One engine: vLLM's families. Held by the replica that drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use crate::families as f;
use crate::log::EngineLog;
use crate::meter::Meter;
use crate::records::{FinishReason, FinishedRequest, IterationRecord, Replica, SchedulerRecord};

/// The KV cache an engine was given.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheConfig {
    /// Tokens per block.
    pub block_size: u32,
    /// Number format of keys and values.
    pub dtype: String,
    /// True if prefixes are shared.
    pub prefix_caching: bool,
    /// Blocks there are.
    pub blocks: u64,
    /// Bytes they take.
    pub bytes: u64,
    /// Longest sequence, in tokens.
    pub max_model_len: u32,
}

/// Records the work of one engine.
#[derive(Debug)]
pub struct EngineInstruments {
    meter: Meter,
    engine: String,
    log: Option<Arc<EngineLog>>,
    gauges: SchedulerGauges,
    prefix_queries: Counter,
    prefix_hits: Counter,
    hits_on_device: Counter,
    tokens: TokenCounters,
    preemptions: Counter,
    latencies: Latencies,
    sizes: Sizes,
    success: [Counter; FinishReason::ALL.len()],
    starved: Counter,
    restarts: Counter,
    /// Its model was there once.
    loaded: AtomicBool,
}

#[derive(Debug)]
struct TokenCounters {
    prompt: Counter,
    computed: Counter,
    local_hits: Counter,
    cached: Counter,
    generated: Counter,
    iteration: Histogram,
}

#[derive(Debug)]
struct Latencies {
    first_token: Histogram,
    gap: Histogram,
    mean_per_token: Histogram,
    total: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
}

#[derive(Debug)]
struct Sizes {
    prompt: Histogram,
    generated: Histogram,
    longest: Histogram,
    computed: Histogram,
    preemptions: Histogram,
    sequences: Histogram,
    max_tokens: Histogram,
}

impl EngineInstruments {
    /// Instruments for the engine of that replica.
    pub fn new(meter: &Meter, replica: Replica) -> Self {
        let engine = replica.engine();
        let e = [engine.as_str()];
        let [index] = e;
        sleep_states(meter, index);
        let cached_by = |tier| meter.counter(f::PROMPT_TOKENS_CACHED_BY_SOURCE_TOTAL, [index, tier]);
        for tier in ["host", "p2p", "disk", "external_unspecified"] {
            cached_by(tier).increment(0);
        }
        for never in [
            f::EXTERNAL_PREFIX_CACHE_QUERIES_TOTAL,
            f::EXTERNAL_PREFIX_CACHE_HITS_TOTAL,
        ] {
            meter.counter(never, e).increment(0);
        }
        let (stage, replica) = replica.ids();
        Self {
            gauges: SchedulerGauges::new(meter, index),
            prefix_queries: meter.counter(f::PREFIX_CACHE_QUERIES_TOTAL, e),
            prefix_hits: meter.counter(f::PREFIX_CACHE_HITS_TOTAL, e),
            hits_on_device: cached_by("device"),
            tokens: TokenCounters::new(meter, index),
            preemptions: meter.counter(f::NUM_PREEMPTIONS_TOTAL, e),
            latencies: Latencies::new(meter, index),
            sizes: Sizes::new(meter, index),
            success: FinishReason::ALL
                .map(|reason| meter.counter(f::REQUEST_SUCCESS_TOTAL, [index, reason.label()])),
            starved: meter.counter(f::OMNI_STAGE_STARVED_TOTAL, [&stage, &replica]),
            restarts: meter.counter(f::OMNI_REPLICA_RESTARTS_TOTAL, [&stage, &replica]),
            loaded: AtomicBool::new(false),
            meter: meter.clone(),
            engine: engine.clone(),
            log: None,
        }
    }

    /// Also reports to `log`.
    #[must_use]
    pub fn with_log(mut self, log: Arc<EngineLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Its model is built: for the first time, or again after the replica died.
    pub fn loaded(&self) {
        if self.loaded.swap(true, Ordering::AcqRel) {
            self.restarts.increment(1);
        }
    }

    /// The engine has its KV cache.
    pub fn initialised(&self, cache: &CacheConfig) {
        let tokens = cache.blocks * u64::from(cache.block_size);
        let concurrency = tokens as f64 / f64::from(cache.max_model_len.max(1));
        // The words are Python's, which is what vLLM's dashboards show.
        let prefix_caching = if cache.prefix_caching { "True" } else { "False" };
        let values = [
            cache.block_size.to_string(),
            cache.dtype.clone(),
            "False".to_owned(),
            "0".to_owned(),
            prefix_caching.to_owned(),
            "None".to_owned(),
            "False".to_owned(),
            format!("{concurrency:.2}"),
            cache.bytes.to_string(),
            tokens.to_string(),
            "None".to_owned(),
            cache.blocks.to_string(),
            "None".to_owned(),
            "0".to_owned(),
            self.engine.clone(),
        ];
        let info = self
            .meter
            .gauge(f::CACHE_CONFIG_INFO, values.each_ref().map(String::as_str));
        info.set(1.0);
    }

    /// A step ended.
    pub fn stepped(&self, record: &SchedulerRecord) {
        self.prefix_queries.increment(record.prefix_queries);
        self.prefix_hits.increment(record.prefix_hits);
        self.hits_on_device.increment(record.prefix_hits);
        self.gauges.set(record);
        if let Some(log) = &self.log {
            log.stepped(record);
        }
    }

    /// Records the tokens of a step's outputs.
    pub fn iteration(&self, record: &IterationRecord) {
        // At least one token is computed, also of a prompt that is cached to its end.
        let cached = record.cached_tokens.min(record.prompt_tokens.saturating_sub(1));
        let computed = record.prompt_tokens - cached;
        let tokens = &self.tokens;
        tokens.prompt.increment(record.prompt_tokens);
        tokens.cached.increment(cached);
        tokens.local_hits.increment(cached);
        tokens.computed.increment(computed);
        tokens.generated.increment(record.new_tokens);
        tokens.iteration.record((computed + record.new_tokens) as f64);
        if let Some(log) = &self.log {
            log.iteration(computed, record.new_tokens);
        }
    }

    /// A request gave its first output, `since_arrival` after it arrived.
    pub fn first_output(&self, since_arrival: Duration) {
        self.latencies.first_token.record(since_arrival);
    }

    /// A request gave a further output, `gap` after the previous one.
    pub fn next_output(&self, gap: Duration) {
        self.latencies.gap.record(gap);
    }

    /// A running request had to go back to waiting.
    pub fn preempted(&self) {
        self.preemptions.increment(1);
        if let Some(log) = &self.log {
            log.preempted();
        }
    }

    /// A request ran out of input although the stage before should have delivered.
    pub fn starved(&self) {
        self.starved.increment(1);
    }

    /// Sets all gauges of work to zero.
    pub fn idle(&self) {
        self.gauges.set(&SchedulerRecord::default());
        if let Some(log) = &self.log {
            log.stepped(&SchedulerRecord::default());
        }
    }

    /// The engine is gone, and with it a request that arrived `latency` ago and about whose course nothing is known.
    pub fn lost(&self, reason: FinishReason, latency: Duration) {
        self.success[reason as usize].increment(1);
        self.latencies.total.record(latency);
    }

    /// The engine has finished a request, for any reason. Called once for each.
    pub fn finished(&self, request: &FinishedRequest) {
        self.success[request.reason as usize].increment(1);
        self.latencies.record(request);
        self.sizes.record(request);
    }
}

/// Engines never sleep here; the gauges are constant.
fn sleep_states(meter: &Meter, engine: &str) {
    for (state, value) in [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)] {
        meter.gauge(f::ENGINE_SLEEP_STATE, [engine, state]).set(value);
    }
}

impl TokenCounters {
    fn new(meter: &Meter, engine: &str) -> Self {
        let source = |source| meter.counter(f::PROMPT_TOKENS_BY_SOURCE_TOTAL, [engine, source]);
        source("external_kv_transfer").increment(0);
        Self {
            prompt: meter.counter(f::PROMPT_TOKENS_TOTAL, [engine]),
            computed: source("local_compute"),
            local_hits: source("local_cache_hit"),
            cached: meter.counter(f::PROMPT_TOKENS_CACHED_TOTAL, [engine]),
            generated: meter.counter(f::GENERATION_TOKENS_TOTAL, [engine]),
            iteration: meter.histogram(f::ITERATION_TOKENS_TOTAL, [engine]),
        }
    }
}

impl Latencies {
    fn new(meter: &Meter, engine: &str) -> Self {
        let of = |family| meter.histogram(family, [engine]);
        Self {
            first_token: of(f::TIME_TO_FIRST_TOKEN_SECONDS),
            gap: of(f::INTER_TOKEN_LATENCY_SECONDS),
            mean_per_token: of(f::REQUEST_TIME_PER_OUTPUT_TOKEN_SECONDS),
            total: of(f::E2E_REQUEST_LATENCY_SECONDS),
            queue: of(f::REQUEST_QUEUE_TIME_SECONDS),
            inference: of(f::REQUEST_INFERENCE_TIME_SECONDS),
            prefill: of(f::REQUEST_PREFILL_TIME_SECONDS),
            decode: of(f::REQUEST_DECODE_TIME_SECONDS),
        }
    }

    fn record(&self, request: &FinishedRequest) {
        self.total.record(request.latency);
        let intervals = &request.intervals;
        for (histogram, interval) in [
            (&self.queue, intervals.queue),
            (&self.prefill, intervals.prefill),
            (&self.decode, intervals.decode),
            (&self.inference, intervals.inference),
            (&self.mean_per_token, intervals.mean_per_token),
        ] {
            if let Some(interval) = interval {
                histogram.record(interval);
            }
        }
    }
}

impl Sizes {
    fn new(meter: &Meter, engine: &str) -> Self {
        let of = |family| meter.histogram(family, [engine]);
        Self {
            prompt: of(f::REQUEST_PROMPT_TOKENS),
            generated: of(f::REQUEST_GENERATION_TOKENS),
            longest: of(f::REQUEST_MAX_NUM_GENERATION_TOKENS),
            computed: of(f::REQUEST_PREFILL_KV_COMPUTED_TOKENS),
            preemptions: of(f::REQUEST_NUM_PREEMPTIONS),
            sequences: of(f::REQUEST_PARAMS_N),
            max_tokens: of(f::REQUEST_PARAMS_MAX_TOKENS),
        }
    }

    fn record(&self, request: &FinishedRequest) {
        let intervals = &request.intervals;
        let computed = request.prompt_tokens.saturating_sub(request.cached_tokens);
        self.prompt.record(request.prompt_tokens as f64);
        self.generated.record(intervals.tokens as f64);
        self.longest.record(intervals.tokens as f64);
        self.computed.record(computed as f64);
        self.preemptions.record(intervals.preemptions as f64);
        self.sequences.record(1.0);
        if let Some(limit) = request.max_tokens.filter(|limit| *limit > 0) {
            self.max_tokens.record(limit as f64);
        }
    }
}

/// The gauges of a scheduler.
#[derive(Debug)]
struct SchedulerGauges {
    running: Gauge,
    waiting: Gauge,
    capacity: Gauge,
    deferred: Gauge,
    kv_usage: Gauge,
}

impl SchedulerGauges {
    fn new(meter: &Meter, engine: &str) -> Self {
        let reason = |reason| meter.gauge(f::NUM_REQUESTS_WAITING_BY_REASON, [engine, reason]);
        Self {
            running: meter.gauge(f::NUM_REQUESTS_RUNNING, [engine]),
            waiting: meter.gauge(f::NUM_REQUESTS_WAITING, [engine]),
            capacity: reason("capacity"),
            deferred: reason("deferred"),
            kv_usage: meter.gauge(f::KV_CACHE_USAGE_PERC, [engine]),
        }
    }

    fn set(&self, record: &SchedulerRecord) {
        self.running.set(record.running as f64);
        self.capacity.set(record.waiting_for_capacity as f64);
        self.deferred.set(record.deferred as f64);
        self.waiting
            .set((record.waiting_for_capacity + record.deferred) as f64);
        self.kv_usage.set(record.kv_usage);
    }
}
