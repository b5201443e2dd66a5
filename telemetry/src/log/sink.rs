//! The sink that writes one line per update.
//!
//! Handles put lines into a bounded queue and never wait; what does not fit is counted. A writer, which the composition
//! root runs on a thread of its own, takes them out.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::SystemTime;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use super::line::{LineFormat, Template, is_silent};
use crate::catalogue::FamilyKind;
use crate::drops::{DropReason, Drops};
use crate::schema::Schema;

/// Lines that wait for the writer.
const QUEUE: usize = 8192;

enum Message {
    Line(String),
    Stop,
}

/// Makes handles whose updates become lines.
#[derive(derive_more::Debug)]
#[debug("LogSink {{ .. }}")]
pub struct LogSink {
    schema: Arc<Schema>,
    drops: Arc<Drops>,
    lines: SyncSender<Message>,
    hostname: String,
    format: LineFormat,
}

/// Writes the lines. Runs until [`LogSink::stop`].
#[derive(derive_more::Debug)]
#[debug("LogWriter")]
pub struct LogWriter(Receiver<Message>);

impl LogSink {
    /// A sink for the families of `schema`, and its writer.
    pub fn new(schema: Arc<Schema>, drops: Arc<Drops>) -> (Self, LogWriter) {
        let (lines, queue) = sync_channel(QUEUE);
        let sink = Self {
            schema,
            drops,
            lines,
            hostname: String::new(),
            format: LineFormat::default(),
        };
        (sink, LogWriter(queue))
    }

    /// The host that lines name whose series do not, and how lines are written.
    #[must_use]
    pub fn written(mut self, hostname: &str, format: LineFormat) -> Self {
        hostname.clone_into(&mut self.hostname);
        self.format = format;
        self
    }

    /// Lets the writer end after the lines that wait now. Later updates are not written.
    pub fn stop(&self) {
        // A writer that has ended already needs no telling.
        let _ = self.lines.send(Message::Stop);
    }

    fn series(&self, key: &Key) -> Arc<Lines> {
        let family = self.schema.find(key.name());
        let unit = family.as_ref().map_or("unit", |family| family.unit.as_str());
        Arc::new(Lines {
            template: Template::new(key, unit, &self.hostname, self.format),
            queue: self.lines.clone(),
            drops: Arc::clone(&self.drops),
            value: AtomicU64::new(0),
            adds: family.is_some_and(|family| family.kind == FamilyKind::FloatCounter),
        })
    }
}

impl LogWriter {
    /// Writes to `out` until the sink stops. Flushes whenever nothing waits.
    ///
    /// # Errors
    /// An output that cannot be written to.
    pub fn run(self, mut out: impl Write) -> io::Result<()> {
        while let Ok(message) = self.0.recv() {
            let mut next = Some(message);
            while let Some(message) = next {
                match message {
                    Message::Line(line) => writeln!(out, "{line}")?,
                    Message::Stop => return out.flush(),
                }
                next = self.0.try_recv().ok();
            }
            out.flush()?;
        }
        out.flush()
    }
}

/// Log lines of one series: the increment of a counter, the value of a gauge, the observation of a histogram.
struct Lines {
    template: Template,
    queue: SyncSender<Message>,
    drops: Arc<Drops>,
    /// A gauge's value, which it is changed from.
    value: AtomicU64,
    /// True for a counter behind a gauge.
    adds: bool,
}

impl Lines {
    fn write(&self, value: f64) {
        if !value.is_finite() || is_silent() {
            return;
        }
        let line = self.template.line(value, SystemTime::now());
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.drops.count(DropReason::LogOverflow);
        }
    }

    fn change(&self, by: f64) {
        if self.adds {
            self.write(by);
            return;
        }
        let update = |bits| Some((f64::from_bits(bits) + by).to_bits());
        let before = self
            .value
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        let before = before.unwrap_or_else(|bits| bits);
        self.write(f64::from_bits(before) + by);
    }
}

impl CounterFn for Lines {
    fn increment(&self, value: u64) {
        // A series that is only made is no event.
        if value > 0 {
            self.write(value as f64);
        }
    }

    fn absolute(&self, value: u64) {
        self.write(value as f64);
    }
}

impl GaugeFn for Lines {
    fn increment(&self, value: f64) {
        self.change(value);
    }

    fn decrement(&self, value: f64) {
        self.change(-value);
    }

    fn set(&self, value: f64) {
        self.value.store(value.to_bits(), Ordering::Relaxed);
        self.write(value);
    }
}

impl HistogramFn for Lines {
    fn record(&self, value: f64) {
        self.write(value);
    }
}

impl Recorder for LogSink {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::without_lines;
    use crate::meter::METADATA;
    use crate::recorder::tests::{key, schema};

    fn values(lines: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(lines);
        let value = |line: &str| {
            line.split_once(" - ")
                .and_then(|(_, rest)| rest.split_once("|#"))
                .map(|(value, _)| value.to_owned())
        };
        text.lines().filter_map(value).collect()
    }

    #[test]
    fn every_update_is_a_line_with_what_was_added_set_or_observed() {
        let (sink, writer) = LogSink::new(schema(), Arc::default());
        let labels = [("Level", "Host"), ("Hostname", "h")];
        let requests = sink.register_counter(&key("Requests2XX", &labels), &METADATA);
        let latency = sink.register_gauge(&key("ts_inference_latency_microseconds", &labels), &METADATA);
        let queue = sink.register_gauge(&key("QueueTime", &labels), &METADATA);
        requests.increment(0);
        for _ in 0..2 {
            requests.increment(1);
            latency.increment(2.5);
        }
        queue.set(3.0);
        queue.increment(1.0);
        sink.stop();
        queue.set(9.0);
        let mut out = Vec::new();
        writer.run(&mut out).expect("a buffer takes everything");
        assert_eq!(
            values(&out),
            [
                "Requests2XX.Count:1.0",
                "ts_inference_latency_microseconds.Microseconds:2.5",
                "Requests2XX.Count:1.0",
                "ts_inference_latency_microseconds.Microseconds:2.5",
                "QueueTime.Milliseconds:3.0",
                "QueueTime.Milliseconds:4.0",
            ]
        );
    }

    #[test]
    fn what_is_recorded_for_a_reader_is_no_line() {
        let (sink, writer) = LogSink::new(schema(), Arc::default());
        let disk = sink.register_gauge(&key("DiskUsage", &[]), &METADATA);
        disk.set(1.0);
        without_lines(|| disk.set(2.0));
        disk.set(3.0);
        sink.stop();
        let mut out = Vec::new();
        writer.run(&mut out).expect("a buffer takes everything");
        assert_eq!(
            values(&out),
            ["DiskUsage.Gigabytes:1.0", "DiskUsage.Gigabytes:3.0"]
        );
    }

    #[test]
    fn a_writer_that_cannot_keep_up_costs_lines_and_not_time() {
        let drops = Arc::new(Drops::default());
        let (sink, writer) = LogSink::new(schema(), Arc::clone(&drops));
        let queue = sink.register_gauge(&key("QueueTime", &[]), &METADATA);
        for _ in 0..QUEUE + 10 {
            queue.set(1.0);
        }
        assert_eq!(drops.total(DropReason::LogOverflow), 10);
        drop((sink, queue));
        let mut out = Vec::new();
        writer.run(&mut out).expect("a buffer takes everything");
        assert_eq!(values(&out).len(), QUEUE);
    }
}
