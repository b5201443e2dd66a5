//! A recorder that remembers, and the order of the layers.

use std::sync::Mutex;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Label, Metadata, SharedString,
    Unit,
};

use super::*;
use crate::catalogue::Catalogue;
use crate::meter::METADATA;

/// Remembers what was registered and what was recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probe {
    seen: Arc<Mutex<Vec<String>>>,
    values: Arc<Mutex<Vec<f64>>>,
}

impl Probe {
    /// Keys in the order of registration, as `name{label=value,...}`.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Values in the order of recording.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.values.lock().expect("no panic").clone()
    }

    fn see(&self, key: &Key) -> Arc<Values> {
        let labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        self.seen
            .lock()
            .expect("no panic")
            .push(format!("{}{labels}", key.name()));
        Arc::new(Values(Arc::clone(&self.values)))
    }
}

struct Values(Arc<Mutex<Vec<f64>>>);

impl Values {
    fn push(&self, value: f64) {
        self.0.lock().expect("no panic").push(value);
    }
}

impl CounterFn for Values {
    fn increment(&self, value: u64) {
        self.push(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.push(value as f64);
    }
}

impl GaugeFn for Values {
    fn increment(&self, value: f64) {
        self.push(value);
    }

    fn decrement(&self, value: f64) {
        self.push(-value);
    }

    fn set(&self, value: f64) {
        self.push(value);
    }
}

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.push(value);
    }
}

impl Recorder for Probe {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.see(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.see(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.see(key))
    }
}

pub(crate) fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(Arc::new(Catalogue::built_in())))
}

pub(crate) fn key(name: &str, labels: &[(&'static str, &'static str)]) -> Key {
    let labels: Vec<_> = labels
        .iter()
        .map(|(key, value)| Label::new(*key, *value))
        .collect();
    Key::from_parts(name.to_owned(), labels)
}

pub(crate) fn register(recorder: &dyn Recorder, key: &Key, call: Call) {
    match call {
        Call::Counter => drop(recorder.register_counter(key, &METADATA)),
        Call::Gauge => drop(recorder.register_gauge(key, &METADATA)),
        Call::Histogram => drop(recorder.register_histogram(key, &METADATA)),
    }
}

fn around(enabled: bool) -> RecorderContext {
    RecorderContext {
        schema: schema(),
        known: Arc::default(),
        supplied: BTreeMap::new(),
        model_name: Arc::new(OnceLock::from("tiny".to_owned())),
        drops: Arc::default(),
        enabled,
    }
}

fn into(probe: &Probe) -> Vec<Sink> {
    vec![Sink {
        takes: |_| true,
        recorder: Arc::new(probe.clone()),
    }]
}

#[test]
fn the_whole_stack_hands_a_sink_the_exposed_labels_in_order() {
    let probe = Probe::default();
    let stack = stack(&around(true), into(&probe));
    register(
        stack.as_ref(),
        &key("vllm:num_requests_running", &[("engine", "1/2")]),
        Call::Gauge,
    );
    assert_eq!(
        probe.seen(),
        ["vllm:num_requests_running{model_name=tiny,stage=1,replica=2}"]
    );
}

#[test]
fn the_gate_is_outermost_so_that_what_is_off_is_not_even_checked() {
    let probe = Probe::default();
    let around = around(false);
    let stack = stack(&around, into(&probe));
    register(stack.as_ref(), &key("no such metric", &[]), Call::Gauge);
    assert!(probe.seen().is_empty());
    assert_eq!(around.drops.total(crate::drops::DropReason::UnknownMetric), 0);
}

#[test]
fn two_recorders_in_one_process_know_nothing_of_each_other() {
    let one = Probe::default();
    let two = Probe::default();
    let stacks = [stack(&around(true), into(&one)), stack(&around(true), into(&two))];
    register(stacks[0].as_ref(), &key("process_open_fds", &[]), Call::Gauge);
    assert_eq!((one.seen().len(), two.seen().len()), (1, 0));
}
