use std::sync::{Arc, Mutex};

use super::*;
use crate::traces::{TraceSampler, Tracer};
use crate::{Selection, Telemetry, TelemetryOptions};

const MS: Duration = Duration::from_millis(1);

/// What a collector answers; `None` is nothing at all.
type Answer = Option<Result<u64, SpanSendError>>;

/// A collector: what it answers in turn (for ever what comes last), and what it was sent.
#[derive(Clone, Default)]
struct Collector {
    answers: Arc<Mutex<Vec<Answer>>>,
    batches: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Collector {
    fn new(answers: Vec<Answer>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers)),
            batches: Arc::default(),
        }
    }

    fn batches(&self) -> Vec<Vec<String>> {
        self.batches.lock().expect("no panic").clone()
    }
}

impl SpanTransport for Collector {
    async fn send(&mut self, spans: &[Span]) -> Result<u64, SpanSendError> {
        let names = spans.iter().map(|span| span.name.to_string()).collect();
        self.batches.lock().expect("no panic").push(names);
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
    exporter: SpanExporter<Collector>,
}

fn set(collector: &Collector, queue: usize, batch: usize) -> Set {
    let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
    let limits = TraceLimits {
        queue,
        batch,
        delay: 50 * MS,
        timeout: 200 * MS,
    };
    let instruments = TraceInstruments::new(telemetry.meter());
    let (tracer, exporter) = Tracer::new(TraceSampler::default(), limits, instruments, collector.clone());
    Set {
        telemetry,
        tracer,
        exporter,
    }
}

impl Set {
    fn put(&self, names: &[&'static str]) {
        let context = self.tracer.begin(None, MS).expect("all are taken");
        for name in names {
            self.tracer.span(Span::part(&context, *name, MS, 2 * MS));
        }
    }
}

fn counted(telemetry: &Telemetry) -> [f64; 3] {
    let text = telemetry.exposition().render(&Selection::default());
    ["exported", "failed", "dropped"].map(|result| {
        let series = format!("vllm:omni_trace_spans_total{{result=\"{result}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.and_then(|value| value.parse().ok()).expect("a count")
    })
}

#[tokio::test(start_paused = true)]
async fn spans_go_together_after_a_while_and_at_once_when_they_are_many() {
    let collector = Collector::new(vec![Some(Ok(0))]);
    let set = set(&collector, 16, 3);
    let began = tokio::time::Instant::now();
    set.put(&["a", "b"]);
    let (tracer, telemetry) = (set.tracer.clone(), set.telemetry.clone());
    let exit = CancellationToken::new();
    let task = tokio::spawn(set.exporter.run(exit.clone()));
    while collector.batches().is_empty() {
        tokio::time::sleep(MS).await;
    }
    assert!(began.elapsed() >= 50 * MS, "two wait for a third");
    let context = tracer.begin(None, MS).expect("all are taken");
    for name in ["c", "d", "e", "f"] {
        tracer.span(Span::part(&context, name, MS, MS));
    }
    let full = tokio::time::Instant::now();
    while collector.batches().len() < 2 {
        tokio::time::sleep(MS).await;
    }
    assert!(full.elapsed() < 50 * MS, "three do not wait");
    exit.cancel();
    task.await.expect("it ends");
    assert_eq!(
        collector.batches(),
        [vec!["a", "b"], vec!["c", "d", "e"], vec!["f"]]
    );
    assert_eq!(counted(&telemetry), [6.0, 0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_never_waits() {
    let collector = Collector::new(vec![Some(Ok(0))]);
    let set = set(&collector, 2, 8);
    set.put(&["a", "b", "c", "d", "e"]);
    assert_eq!(counted(&set.telemetry), [0.0, 0.0, 3.0]);
    let exit = CancellationToken::new();
    exit.cancel();
    set.exporter.run(exit).await;
    assert_eq!(collector.batches(), [["a", "b"]]);
    set.tracer.span(Span::part(
        &set.tracer.begin(None, MS).expect("taken"),
        "late",
        MS,
        MS,
    ));
    assert_eq!(counted(&set.telemetry), [2.0, 0.0, 4.0]);
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_and_what_does_not_is_not() {
    let busy = || Some(Err(SpanSendError::Transient("busy".to_owned())));
    let refused = Some(Err(SpanSendError::Refused("no such tenant".to_owned())));
    let collector = Collector::new(vec![busy(), busy(), Some(Ok(1)), refused, Some(Ok(0))]);
    let set = set(&collector, 16, 2);
    set.put(&["a", "b", "c", "d", "e"]);
    let telemetry = set.telemetry.clone();
    let exit = CancellationToken::new();
    let task = tokio::spawn(set.exporter.run(exit.clone()));
    while collector.batches().len() < 5 {
        tokio::time::sleep(MS).await;
    }
    exit.cancel();
    task.await.expect("it ends");
    let batches = collector.batches();
    assert_eq!(batches[..3], [["a", "b"], ["a", "b"], ["a", "b"]]);
    assert_eq!(batches[3..], [vec!["c", "d"], vec!["e"]]);
    // One of the first batch was not wanted, the second was refused.
    assert_eq!(counted(&telemetry), [2.0, 3.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_costs_the_end_one_timeout_and_all_is_counted() {
    let collector = Collector::new(vec![None]);
    let set = set(&collector, 16, 2);
    set.put(&["a", "b", "c"]);
    let telemetry = set.telemetry.clone();
    let exit = CancellationToken::new();
    exit.cancel();
    let began = tokio::time::Instant::now();
    set.exporter.run(exit).await;
    assert!(began.elapsed() <= 201 * MS, "{:?}", began.elapsed());
    assert_eq!(counted(&telemetry), [0.0, 3.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_absent_does_not_hold_up_the_end() {
    let collector = Collector::new(vec![Some(Err(SpanSendError::Transient(
        "no connection".to_owned(),
    )))]);
    let set = set(&collector, 16, 2);
    set.put(&["a", "b", "c"]);
    let telemetry = set.telemetry.clone();
    let exit = CancellationToken::new();
    let task = tokio::spawn(set.exporter.run(exit.clone()));
    while collector.batches().is_empty() {
        tokio::time::sleep(MS).await;
    }
    let began = tokio::time::Instant::now();
    exit.cancel();
    task.await.expect("it ends");
    assert!(began.elapsed() < FIRST_PAUSE, "it does not wait to try again");
    assert_eq!(counted(&telemetry), [0.0, 3.0, 0.0]);
}
