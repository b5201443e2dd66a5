//! The processor's thread has the machine's clock: these tests wait for what happens and assert no times.

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::traces::{Span, TraceLimits, TraceSampler, Tracer};
use crate::{Selection, Telemetry, TelemetryOptions};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

/// A collector's answer; `None` is no answer at all.
type Answer = Option<Result<u64, SpanSendError>>;

/// A collector: what it answers in turn (for ever what comes last), and what it was sent.
#[derive(Clone)]
struct Collector {
    answers: Arc<Mutex<Vec<Answer>>>,
    batches: Arc<Mutex<Vec<Vec<String>>>>,
    /// Batches that it may answer.
    permits: Arc<Semaphore>,
}

impl Collector {
    fn new(answers: Vec<Answer>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers)),
            batches: Arc::default(),
            permits: Arc::new(Semaphore::new(1_000)),
        }
    }

    fn batches(&self) -> Vec<Vec<String>> {
        self.batches.lock().expect("no panic").clone()
    }

    async fn until(&self, batches: usize) {
        while self.batches().len() < batches {
            tokio::time::sleep(MS).await;
        }
    }
}

impl SpanTransport for Collector {
    async fn send(&self, spans: Vec<SpanData>) -> Result<u64, SpanSendError> {
        let names = spans.iter().map(|span| span.name.to_string()).collect();
        self.batches.lock().expect("no panic").push(names);
        self.permits.acquire().await.expect("it is open").forget();
        let answer = {
            let mut answers = self.answers.lock().expect("no panic");
            match answers.len() {
                1 => answers[0].clone(),
                _ => answers.remove(0),
            }
        };
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

struct Set {
    telemetry: Telemetry,
    tracer: Tracer,
}

fn set(collector: &Collector, limits: TraceLimits) -> Set {
    let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
    let instruments = TraceInstruments::new(telemetry.meter());
    let scope = opentelemetry::InstrumentationScope::default();
    let tracer = Tracer::new(
        TraceSampler::default(),
        limits,
        scope,
        instruments,
        collector.clone(),
    );
    Set { telemetry, tracer }
}

const fn limits(queue: usize, batch: usize) -> TraceLimits {
    TraceLimits {
        queue,
        batch,
        delay: LONG,
        timeout: LONG,
    }
}

impl Set {
    fn put(&self, names: &[&'static str]) {
        let context = self.tracer.begin(None, MS).expect("all are taken");
        for name in names {
            self.tracer.span(Span::part(&context, *name, MS, 2 * MS));
        }
    }

    async fn close(self) -> Telemetry {
        self.tracer.close(Instant::now() + LONG).await;
        self.telemetry
    }
}

/// Spans that were exported, failed and dropped.
fn counted(telemetry: &Telemetry) -> [f64; 3] {
    let text = telemetry.exposition().render(&Selection::default());
    ["exported", "failed", "dropped"].map(|result| {
        let series = format!("vllm:omni_trace_spans_total{{result=\"{result}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.and_then(|value| value.parse().ok()).expect("a count")
    })
}

#[tokio::test]
async fn a_full_batch_goes_at_once_and_the_rest_at_the_end() {
    let collector = Collector::new(vec![Some(Ok(0))]);
    let set = set(&collector, limits(16, 3));
    set.put(&["a", "b", "c"]);
    collector.until(1).await;
    set.put(&["d", "e"]);
    let telemetry = set.close().await;
    assert_eq!(collector.batches(), [vec!["a", "b", "c"], vec!["d", "e"]]);
    assert_eq!(counted(&telemetry), [5.0, 0.0, 0.0]);
}

#[tokio::test]
async fn a_batch_that_is_not_full_goes_after_the_delay() {
    let collector = Collector::new(vec![Some(Ok(0))]);
    let soon = TraceLimits {
        delay: 10 * MS,
        ..limits(16, 8)
    };
    let set = set(&collector, soon);
    set.put(&["a", "b"]);
    collector.until(1).await;
    let telemetry = set.close().await;
    assert_eq!(collector.batches().concat(), ["a", "b"]);
    assert_eq!(counted(&telemetry), [2.0, 0.0, 0.0]);
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_and_never_waits() {
    let collector = Collector::new(vec![Some(Ok(0))]);
    let permits = collector.permits.acquire_many(1_000).await.expect("it is open");
    let set = set(&collector, limits(2, 2));
    set.put(&["a", "b"]);
    // The first batch is on its way, and there is room for two more.
    collector.until(1).await;
    set.put(&["c", "d", "e", "f", "g"]);
    assert_eq!(counted(&set.telemetry), [0.0, 0.0, 3.0]);
    drop(permits);
    let tracer = set.tracer.clone();
    let telemetry = set.close().await;
    assert_eq!(collector.batches(), [["a", "b"], ["c", "d"]]);
    let late = tracer.begin(None, MS).expect("all are taken");
    tracer.span(Span::part(&late, "late", MS, MS));
    assert_eq!(counted(&telemetry), [4.0, 0.0, 4.0]);
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_what_does_not_is_not() {
    let busy = || Some(Err(SpanSendError::Transient("busy".to_owned())));
    let refused = Some(Err(SpanSendError::Refused("no such tenant".to_owned())));
    let collector = Collector::new(vec![busy(), Some(Ok(1)), refused, Some(Ok(0))]);
    let set = set(&collector, limits(16, 2));
    set.put(&["a", "b"]);
    collector.until(2).await;
    set.put(&["c", "d"]);
    collector.until(3).await;
    set.put(&["e"]);
    let telemetry = set.close().await;
    let batches = collector.batches();
    assert_eq!(
        batches,
        [vec!["a", "b"], vec!["a", "b"], vec!["c", "d"], vec!["e"]]
    );
    // One of the first batch was rejected, the second was refused.
    assert_eq!(counted(&telemetry), [2.0, 3.0, 0.0]);
}

#[tokio::test]
async fn a_collector_that_never_answers_costs_the_end_one_timeout_and_all_is_counted() {
    let collector = Collector::new(vec![None]);
    let short = TraceLimits {
        timeout: 50 * MS,
        ..limits(16, 2)
    };
    let set = set(&collector, short);
    set.put(&["a", "b", "c", "d", "e"]);
    let telemetry = set.close().await;
    assert_eq!(counted(&telemetry), [0.0, 5.0, 0.0]);
}

#[tokio::test]
async fn the_end_waits_for_a_collector_no_longer_than_it_may() {
    let collector = Collector::new(vec![None]);
    let set = set(&collector, limits(16, 2));
    set.put(&["a", "b", "c"]);
    // With an hour for a batch, only this deadline lets it come to an end.
    set.tracer.close(Instant::now() + 50 * MS).await;
    assert_eq!(counted(&set.telemetry), [0.0, 3.0, 0.0]);
}

#[tokio::test]
async fn a_collector_that_is_absent_does_not_hold_up_the_end() {
    let absent = SpanSendError::Transient("no connection".to_owned());
    let collector = Collector::new(vec![Some(Err(absent))]);
    let set = set(&collector, limits(16, 2));
    set.put(&["a", "b", "c"]);
    collector.until(1).await;
    let telemetry = set.close().await;
    // Each batch is tried once more at most; five times would take fifteen seconds.
    assert!(collector.batches().len() <= 3, "{:?}", collector.batches());
    assert_eq!(counted(&telemetry), [0.0, 3.0, 0.0]);
}
