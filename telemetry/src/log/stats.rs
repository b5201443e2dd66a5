//! Statistics of every replica over an interval, as in vLLM's line of statistics, and tables of requests and edges.
//!
//! In: the records that the instruments take. Out: [`LogLine`]s, which the composition root's task gives to the log.
//! Throughput is what was added since the line before over the time that really passed; prompt tokens that came from a
//! cache do not count.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::table;
use crate::records::{EdgeEnd, HopRecord, Replica, RequestRecord, SchedulerRecord};

/// Requests over which the hit rate of the prefix cache is computed.
const HIT_RATE_WINDOW: u64 = 1000;
/// Most tables waiting for the log; further ones are dropped.
const MOST_TABLES: usize = 256;

/// A table for the log, or a message beside one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// True if it is logged at level debug only.
    pub debug: bool,
    /// The text; a table has several lines.
    pub text: String,
}

/// Statistics of an engine over an interval. Figures have the digits that mean something.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Replica of the engine.
    pub replica: Replica,
    /// True if anything went through it.
    pub moved: bool,
    /// Computed positions of prompts per second.
    pub prompt: f64,
    /// Outputs per second.
    pub outputs: f64,
    /// Requests with a place at the end of the interval, and without one.
    pub running: u64,
    /// Requests without one.
    pub waiting: u64,
    /// Of these, those that could not run if there were room.
    pub deferred: u64,
    /// Requests that lost their place.
    pub preemptions: u64,
    /// Share of the KV cache in use, in percent.
    pub kv_cache: f64,
    /// Hit rate of the prefix cache over the last thousand requests, in percent, once there was one.
    pub hit_rate: Option<f64>,
}

/// Statistics of one engine since the line before.
#[derive(Debug)]
pub struct EngineLog {
    replica: Replica,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    prompt_tokens: u64,
    new_tokens: u64,
    preemptions: u64,
    scheduler: SchedulerRecord,
    hits: HitRate,
    last: Duration,
}

/// Hits over queries of the last requests.
#[derive(Debug, Default)]
struct HitRate {
    /// Requests, queries, hits per record.
    window: VecDeque<(u64, u64, u64)>,
    sums: (u64, u64, u64),
}

impl HitRate {
    fn add(&mut self, requests: u64, queries: u64, hits: u64) {
        if requests == 0 {
            return;
        }
        self.window.push_back((requests, queries, hits));
        self.sums = (self.sums.0 + requests, self.sums.1 + queries, self.sums.2 + hits);
        // The newest record stays, however large.
        while self.sums.0 > HIT_RATE_WINDOW && self.window.len() > 1 {
            if let Some(old) = self.window.pop_front() {
                self.sums = (self.sums.0 - old.0, self.sums.1 - old.1, self.sums.2 - old.2);
            }
        }
    }

    /// None until a request was looked up.
    fn percent(&self) -> Option<f64> {
        let (requests, queries, hits) = self.sums;
        (requests > 0).then(|| hits as f64 / queries.max(1) as f64 * 100.0)
    }
}

impl EngineLog {
    fn new(replica: Replica) -> Self {
        Self {
            replica,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A step ended.
    pub fn stepped(&self, record: &SchedulerRecord) {
        let mut state = self.state();
        state.scheduler = *record;
        state
            .hits
            .add(record.prefix_requests, record.prefix_queries, record.prefix_hits);
    }

    /// An output carried so many computed prompt tokens and new ones.
    pub fn iteration(&self, computed: u64, new: u64) {
        let mut state = self.state();
        state.prompt_tokens += computed;
        state.new_tokens += new;
    }

    /// A running request had to go back to waiting.
    pub fn preempted(&self) {
        self.state().preemptions += 1;
    }

    /// Statistics until `now`, of any monotonic clock that began with the engine.
    pub fn throughput(&self, now: Duration) -> Throughput {
        let mut state = self.state();
        let seconds = now.saturating_sub(state.last).as_secs_f64().max(1e-9);
        let prompt = std::mem::take(&mut state.prompt_tokens);
        let outputs = std::mem::take(&mut state.new_tokens);
        let preemptions = std::mem::take(&mut state.preemptions);
        state.last = now;
        let scheduler = &state.scheduler;
        Throughput {
            replica: self.replica,
            moved: prompt + outputs + preemptions > 0,
            prompt: tenths(prompt as f64 / seconds),
            outputs: tenths(outputs as f64 / seconds),
            running: scheduler.running,
            waiting: scheduler.waiting_for_capacity + scheduler.deferred,
            deferred: scheduler.deferred,
            preemptions,
            kv_cache: tenths(scheduler.kv_usage * 100.0),
            hit_rate: state.hits.percent().map(tenths),
        }
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Transfers over one edge since the tables before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EdgeSums {
    pub(super) hops: u64,
    pub(super) bytes: u64,
    pub(super) tx: Duration,
    pub(super) in_flight: Duration,
    pub(super) rx: Duration,
}

#[derive(Debug, Default)]
struct Tables {
    requests: Vec<String>,
    left_out: u64,
    edges: BTreeMap<(EdgeEnd, EdgeEnd), EdgeSums>,
}

/// The statistics of a whole server, on their way to the log.
#[derive(Debug, Default)]
pub struct StatsLog {
    engines: Mutex<BTreeMap<Replica, Arc<EngineLog>>>,
    tables: Mutex<Tables>,
}

impl StatsLog {
    /// The statistics of a replica's engine.
    pub fn engine(&self, replica: Replica) -> Arc<EngineLog> {
        let mut engines = self.engines.lock();
        let new = || Arc::new(EngineLog::new(replica));
        Arc::clone(engines.entry(replica).or_insert_with(new))
    }

    /// That replica is gone.
    pub(crate) fn forget(&self, replica: Replica) {
        self.engines.lock().remove(&replica);
    }

    /// A request ended.
    pub fn finished(&self, record: &RequestRecord) {
        let mut tables = self.tables.lock();
        if tables.requests.len() < MOST_TABLES {
            tables.requests.push(table::request(record));
        } else {
            tables.left_out += 1;
        }
    }

    /// A message went over an edge.
    pub fn hop(&self, from: EdgeEnd, to: EdgeEnd, record: &HopRecord) {
        let mut tables = self.tables.lock();
        let sums = tables.edges.entry((from, to)).or_default();
        sums.hops += 1;
        sums.bytes += record.size;
        sums.tx += record.tx;
        sums.in_flight += record.in_flight;
        sums.rx += record.rx;
    }

    /// Statistics of every engine over the interval that ends at `now`.
    pub fn throughput(&self, now: Duration) -> Vec<Throughput> {
        let engines = self.engines.lock().clone();
        engines.values().map(|engine| engine.throughput(now)).collect()
    }

    /// Tables of what ended since they were taken last: at level debug, or with `tables` at level info.
    pub fn lines(&self, tables: bool) -> Vec<LogLine> {
        let mut lines = Vec::new();
        let taken = std::mem::take(&mut *self.tables.lock());
        let detail = |text| LogLine { debug: !tables, text };
        lines.extend(taken.requests.into_iter().map(detail));
        if taken.left_out > 0 {
            lines.push(detail(format!("{} more requests finished", taken.left_out)));
        }
        if !taken.edges.is_empty() {
            lines.push(detail(table::edges(&taken.edges)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{FailureReason, Replica, RequestOutcome, StageKind, StageRecord};

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn scheduler(requests: u64, queries: u64, hits: u64) -> SchedulerRecord {
        SchedulerRecord {
            running: 2,
            waiting_for_capacity: 3,
            deferred: 1,
            kv_usage: 0.256,
            prefix_requests: requests,
            prefix_queries: queries,
            prefix_hits: hits,
        }
    }

    #[test]
    fn rates_are_over_the_time_that_passed() {
        let log = StatsLog::default();
        let engine = log.engine(Replica { stage: 1, replica: 3 });
        engine.iteration(100, 5);
        engine.iteration(0, 45);
        engine.preempted();
        engine.stepped(&scheduler(1, 40, 10));
        let expected = Throughput {
            replica: Replica { stage: 1, replica: 3 },
            moved: true,
            prompt: 20.0,
            outputs: 10.0,
            running: 2,
            waiting: 4,
            deferred: 1,
            preemptions: 1,
            kv_cache: 25.6,
            hit_rate: Some(25.0),
        };
        assert_eq!(log.throughput(secs(5)), [expected]);
    }

    #[test]
    fn an_engine_through_which_nothing_went_has_not_moved() {
        let log = StatsLog::default();
        log.engine(Replica { stage: 0, replica: 0 }).iteration(1, 1);
        let moved: Vec<_> = (1..4)
            .map(|interval| log.throughput(secs(interval * 10))[0].moved)
            .collect();
        assert_eq!(moved, [true, false, false]);
        log.engine(Replica { stage: 0, replica: 0 }).iteration(0, 1);
        assert!(log.throughput(secs(60))[0].moved);
    }

    #[test]
    fn the_hit_rate_is_that_of_the_last_thousand_requests() {
        let mut rate = HitRate::default();
        assert_eq!(rate.percent(), None);
        rate.add(0, 100, 100);
        assert_eq!(rate.percent(), None);
        rate.add(600, 100, 0);
        rate.add(600, 100, 100);
        assert_eq!(rate.percent(), Some(100.0));
        rate.add(5000, 100, 50);
        assert_eq!(rate.percent(), Some(50.0));
        rate.add(1, 0, 0);
        assert_eq!(rate.percent(), Some(0.0));
    }

    #[test]
    fn requests_and_edges_have_tables_for_those_who_look() {
        let log = StatsLog::default();
        let at = |stage| Replica { stage, replica: 0 };
        log.finished(&RequestRecord {
            id: "req-7".to_owned(),
            outcome: RequestOutcome::Failed(FailureReason::StageError),
            latency: Duration::from_millis(1500),
            queue_wait: None,
            text_wait: None,
            stages: vec![StageRecord {
                replica: at(1),
                kind: StageKind::Generation,
                generation: Some(Duration::from_millis(250)),
                tokens_in: 10,
                tokens_out: 20,
            }],
        });
        for size in [100, 300] {
            let hop = HopRecord {
                size,
                tx: Duration::from_millis(1),
                in_flight: Duration::from_millis(2),
                rx: Duration::from_millis(3),
            };
            log.hop(at(0).into(), at(1).into(), &hop);
        }
        let lines = log.lines(false);
        assert!(lines.iter().all(|line| line.debug));
        assert_eq!(
            lines[0].text,
            "request req-7: stage_error after 1500.0 ms\n\
             stage replica        type    gen ms   in  out\n\
             \x20   1       0  generation     250.0   10   20"
        );
        assert_eq!(
            lines[1].text,
            "edges\n\
             \x20from    to  hops      bytes  mean tx ms  mean in flight ms  mean rx ms\n\
             \x20 0/0   1/0     2        400       1.000              2.000       3.000"
        );
        assert!(log.lines(false).is_empty());
    }

    #[test]
    fn tables_that_nobody_takes_are_bounded() {
        let log = StatsLog::default();
        let record = RequestRecord {
            id: String::new(),
            outcome: RequestOutcome::Stop,
            latency: secs(1),
            queue_wait: None,
            text_wait: None,
            stages: Vec::new(),
        };
        for _ in 0..MOST_TABLES + 3 {
            log.finished(&record);
        }
        let lines = log.lines(false);
        assert_eq!(
            lines.last().map(|line| line.text.as_str()),
            Some("3 more requests finished")
        );
    }
}
