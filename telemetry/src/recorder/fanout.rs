//! The fan-out: every update reaches every sink that its family goes to.

use std::sync::Arc;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use super::SharedRecorder;
use crate::catalogue::Family;
use crate::schema::Schema;

/// A way out, and the families it takes.
#[derive(derive_more::Debug)]
#[debug("Sink {{ .. }}")]
pub struct Sink {
    /// Returns true if a family goes there.
    pub takes: fn(&Family) -> bool,
    /// The recorder.
    pub recorder: SharedRecorder,
}

/// The innermost layer. With one sink its handles are the sink's own.
#[derive(Debug)]
pub struct Fanout {
    schema: Arc<Schema>,
    sinks: Vec<Sink>,
}

struct Several<H>(Vec<H>);

impl CounterFn for Several<Counter> {
    fn increment(&self, value: u64) {
        self.0.iter().for_each(|counter| counter.increment(value));
    }

    fn absolute(&self, value: u64) {
        self.0.iter().for_each(|counter| counter.absolute(value));
    }
}

impl GaugeFn for Several<Gauge> {
    fn increment(&self, value: f64) {
        self.0.iter().for_each(|gauge| gauge.increment(value));
    }

    fn decrement(&self, value: f64) {
        self.0.iter().for_each(|gauge| gauge.decrement(value));
    }

    fn set(&self, value: f64) {
        self.0.iter().for_each(|gauge| gauge.set(value));
    }
}

impl HistogramFn for Several<Histogram> {
    fn record(&self, value: f64) {
        self.0.iter().for_each(|histogram| histogram.record(value));
    }
}

impl Fanout {
    /// Sends to `sinks`.
    pub fn new(schema: Arc<Schema>, sinks: Vec<Sink>) -> Self {
        Self { schema, sinks }
    }

    fn handles<H>(&self, key: &Key, register: impl Fn(&SharedRecorder) -> H) -> Vec<H> {
        let Some(family) = self.schema.find(key.name()) else {
            return Vec::new();
        };
        let takers = self.sinks.iter().filter(|sink| (sink.takes)(&family));
        takers.map(|sink| register(&sink.recorder)).collect()
    }
}

/// None, the only one, or all of them as one.
fn join<H: Clone>(handles: Vec<H>, none: fn() -> H, several: fn(Arc<Several<H>>) -> H) -> H {
    match handles.as_slice() {
        [] => none(),
        [only] => only.clone(),
        _ => several(Arc::new(Several(handles))),
    }
}

impl Recorder for Fanout {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        for sink in &self.sinks {
            sink.recorder.describe_counter(key.clone(), unit, help.clone());
        }
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        for sink in &self.sinks {
            sink.recorder.describe_gauge(key.clone(), unit, help.clone());
        }
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        for sink in &self.sinks {
            sink.recorder.describe_histogram(key.clone(), unit, help.clone());
        }
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let handles = self.handles(key, |sink| sink.register_counter(key, metadata));
        join(handles, Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let handles = self.handles(key, |sink| sink.register_gauge(key, metadata));
        join(handles, Gauge::noop, Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let handles = self.handles(key, |sink| sink.register_histogram(key, metadata));
        join(handles, Histogram::noop, Histogram::from_arc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Call;
    use crate::recorder::tests::{Probe, key, register, schema};

    #[test]
    fn a_family_reaches_the_sinks_that_take_it() {
        let all = Probe::default();
        let logged = Probe::default();
        let sink = |takes, probe: &Probe| Sink {
            takes,
            recorder: Arc::new(probe.clone()),
        };
        let fanout = Fanout::new(
            schema(),
            vec![sink(|_| true, &all), sink(|family| family.sinks.log, &logged)],
        );
        let queue = key("QueueTime", &[("Level", "Host"), ("Hostname", "h")]);
        fanout.register_gauge(&queue, &crate::meter::METADATA).set(3.0);
        register(&fanout, &key("process_open_fds", &[]), Call::Gauge);
        assert_eq!(
            all.seen(),
            ["QueueTime{Level=Host,Hostname=h}", "process_open_fds"]
        );
        assert_eq!(logged.seen(), ["QueueTime{Level=Host,Hostname=h}"]);
        assert_eq!((all.values(), logged.values()), (vec![3.0], vec![3.0]));
    }
}
