//! TorchServe's families, for servers configured to look like one.

use std::time::Duration;

use metrics::{Counter, Gauge};

use crate::families as f;
use crate::log::with_request;
use crate::meter::{FloatCounter, Meter};

/// The class of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseClass {
    /// It succeeded.
    Success,
    /// The caller was to blame.
    ClientError,
    /// The server was.
    ServerError,
}

/// Counts the answers of the API.
#[derive(Debug)]
pub(super) struct Responses([Counter; 3]);

impl Responses {
    pub(super) fn new(meter: &Meter) -> Self {
        let families = [f::TS_REQUESTS_2XX, f::TS_REQUESTS_4XX, f::TS_REQUESTS_5XX];
        Self(families.map(|family| meter.counter(family, ["Host"])))
    }

    /// A call was answered.
    pub(super) fn answered(&self, class: ResponseClass) {
        self.0[class as usize].increment(1);
    }
}

/// Times of the parts of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TorchServeRequest {
    /// Arrival to answer, without waits for its caller's text.
    pub total: Duration,
    /// In queues.
    pub queue: Duration,
    /// First step of the model to its last output.
    pub prediction: Duration,
    /// Steps of the model, at most [`prediction`](Self::prediction): those of different stages overlap.
    pub handler: Duration,
}

/// Records requests the way TorchServe does. Does nothing unless the group is served.
#[derive(Debug)]
pub struct TorchServeInstruments {
    meter: Meter,
    requests: Counter,
    latency: FloatCounter,
    queue_latency: FloatCounter,
    queue: Gauge,
    thread: Gauge,
    handler: Gauge,
    prediction: Gauge,
}

impl TorchServeInstruments {
    /// Instruments for one model.
    pub fn new(meter: &Meter, model: &str, version: &str) -> Self {
        Self {
            meter: meter.clone(),
            requests: meter.counter(f::TS_INFERENCE_REQUESTS_TOTAL, [version]),
            latency: meter.float_counter(f::TS_INFERENCE_LATENCY_MICROSECONDS, [version]),
            queue_latency: meter.float_counter(f::TS_QUEUE_LATENCY_MICROSECONDS, [version]),
            queue: meter.gauge(f::TS_QUEUE_TIME, ["Host"]),
            thread: meter.gauge(f::TS_WORKER_THREAD_TIME, ["Host"]),
            handler: meter.gauge(f::TS_HANDLER_TIME, [model, "Model"]),
            prediction: meter.gauge(f::TS_PREDICTION_TIME, [model, "Model"]),
        }
    }

    /// A worker loaded its model.
    pub fn worker_loaded(&self, worker: &str, after: Duration) {
        let gauge = self.meter.gauge(f::TS_WORKER_LOAD_TIME, [worker, "Host"]);
        gauge.set(millis(after));
    }

    /// A request arrived.
    pub fn arrived(&self) {
        self.requests.increment(1);
    }

    /// Records the times of the request `id`.
    pub fn took(&self, id: &str, times: &TorchServeRequest) {
        with_request(id, || self.record(times));
    }

    fn record(&self, times: &TorchServeRequest) {
        self.latency.add(times.total.as_secs_f64() * 1e6);
        self.queue_latency.add(times.queue.as_secs_f64() * 1e6);
        self.queue.set(millis(times.queue));
        let inside = times.queue + times.prediction;
        self.thread.set(millis(times.total.saturating_sub(inside)));
        // A request without anything to speak reaches no model, and says nothing of how long one takes.
        if !times.prediction.is_zero() {
            self.handler.set(millis(times.handler));
            self.prediction.set(millis(times.prediction));
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
