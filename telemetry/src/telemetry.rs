//! A server's telemetry as one value: what to record with, and what to read from.
//!
//! In: [`TelemetryOptions`]. Out: a [`Meter`] for the instruments and an [`Exposition`] for the ways out. Nothing is
//! global: two of them live in one process and know nothing of each other.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use metrics::Counter;

use crate::catalogue::{Catalogue, CatalogueOptions, OptionsError, REPLICA, STAGE};
use crate::drops::{DropReason, Drops};
use crate::exposition::{Collector, Exposition};
use crate::families as f;
use crate::instruments::EngineInstruments;
use crate::log::{LineFormat, LogSink, LogWriter, StatsLog};
use crate::meter::Meter;
use crate::recorder::{KnownSeries, RecorderContext, SharedRecorder, Sink, stack};
use crate::records::Replica;
use crate::schema::Schema;

/// Options of a server's telemetry.
#[derive(Debug, Clone, Default)]
pub struct TelemetryOptions {
    /// Records nothing at all.
    pub off: bool,
    /// Groups, prefix and buckets.
    pub catalogue: CatalogueOptions,
    /// The name the model is served by, if it is known already.
    pub model_name: Option<String>,
    /// The machine's name.
    pub hostname: String,
    /// Form of lines of updates.
    pub lines: LineFormat,
    /// Statistics for the log, which get what the instruments get.
    pub log: Option<Arc<StatsLog>>,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Telemetry {
    off: bool,
    meter: Meter,
    recorder: SharedRecorderDebug,
    exposition: Arc<Exposition>,
    schema: Arc<Schema>,
    known: Arc<KnownSeries>,
    drops: Arc<Drops>,
    model_name: Arc<OnceLock<String>>,
    log: Option<Arc<StatsLog>>,
}

/// The parts that sinks are made with.
struct Foundation {
    schema: Arc<Schema>,
    drops: Arc<Drops>,
}

impl Foundation {
    fn new(options: &TelemetryOptions) -> Result<Self, Vec<OptionsError>> {
        let mut catalogue = Catalogue::built_in().with(&options.catalogue)?;
        if options.off {
            catalogue = catalogue.closed();
        }
        Ok(Self {
            schema: Arc::new(Schema::new(Arc::new(catalogue))),
            drops: Arc::default(),
        })
    }
}

/// A recorder has nothing to show.
#[derive(Clone, derive_more::Debug)]
#[debug("SharedRecorder")]
struct SharedRecorderDebug(SharedRecorder);

impl Telemetry {
    /// Telemetry for one server.
    ///
    /// # Errors
    /// Every option that does not fit the catalogue.
    pub fn new(options: &TelemetryOptions) -> Result<Self, Vec<OptionsError>> {
        Ok(Self::around(&Foundation::new(options)?, options, Vec::new()))
    }

    /// The same, with a line per update for families that go to the log. The writer runs on a thread of its own until
    /// [`LogSink::stop`].
    ///
    /// # Errors
    /// Every option that does not fit the catalogue.
    pub fn with_line_log(
        options: &TelemetryOptions,
    ) -> Result<(Self, Arc<LogSink>, LogWriter), Vec<OptionsError>> {
        let foundation = Foundation::new(options)?;
        let (log, writer) = LogSink::new(Arc::clone(&foundation.schema), Arc::clone(&foundation.drops));
        let log = Arc::new(log.written(&options.hostname, options.lines));
        let sink = Sink {
            takes: |family| family.sinks.log,
            recorder: Arc::clone(&log) as SharedRecorder,
        };
        Ok((Self::around(&foundation, options, vec![sink]), log, writer))
    }

    fn around(foundation: &Foundation, options: &TelemetryOptions, mut sinks: Vec<Sink>) -> Self {
        let schema = Arc::clone(&foundation.schema);
        let drops = Arc::clone(&foundation.drops);
        let catalogue = Arc::clone(schema.catalogue());
        let known = Arc::new(KnownSeries::default());
        let exposition = Arc::new(Exposition::new(Arc::clone(&schema), Arc::clone(&drops)));
        sinks.push(Sink {
            takes: |family| family.sinks.prometheus,
            recorder: Arc::clone(&exposition) as SharedRecorder,
        });
        let model_name = Arc::new(OnceLock::new());
        if let Some(name) = &options.model_name {
            model_name.get_or_init(|| name.clone());
        }
        let context = RecorderContext {
            schema: Arc::clone(&schema),
            known: Arc::clone(&known),
            supplied: BTreeMap::from([
                (Arc::from("hostname"), options.hostname.clone()),
                (Arc::from("Hostname"), options.hostname.clone()),
            ]),
            model_name: Arc::clone(&model_name),
            drops: Arc::clone(&drops),
            enabled: true,
        };
        let recorder = stack(&context, sinks);
        let meter = Meter::new(Arc::clone(&recorder), Arc::clone(&catalogue));
        catalogue.describe(recorder.as_ref());
        exposition.collect_from(Arc::new(DropCollector::new(&meter, Arc::clone(&drops))));
        Self {
            off: options.off,
            meter,
            recorder: SharedRecorderDebug(recorder),
            exposition,
            schema,
            known,
            drops,
            model_name,
            log: options.log.clone(),
        }
    }

    /// The name the model is served by is known. Instruments whose families carry it are made after this. The first
    /// name stays.
    pub fn model_is_called(&self, name: &str) {
        self.model_name.get_or_init(|| name.to_owned());
    }

    /// The longest sequence of the model has so many tokens. The bounds of token histograms follow it, as vLLM's do:
    /// instruments are made after this. The first length stays, and so do bounds that the options name.
    pub fn longest_sequence(&self, tokens: u32) {
        self.schema.longest_sequence(tokens);
    }

    /// That name, as soon as it is known.
    pub(crate) fn model_name(&self) -> &Arc<OnceLock<String>> {
        &self.model_name
    }

    /// Returns true if nothing is recorded, so that callers need not make records.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// For instruments.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// For the ways out.
    pub fn exposition(&self) -> &Arc<Exposition> {
        &self.exposition
    }

    /// The families, custom ones included.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The recorder itself, for what cannot be known when the server is built.
    pub fn recorder(&self) -> &SharedRecorder {
        &self.recorder.0
    }

    /// Statistics for the log, if there are any.
    pub fn log(&self) -> Option<&Arc<StatsLog>> {
        self.log.as_ref()
    }

    /// Counts of refused series and updates.
    pub fn drops(&self) -> &Arc<Drops> {
        &self.drops
    }

    /// Instruments for a replica that joins. One that comes back takes up its series, unless they were forgotten.
    pub fn engine(&self, replica: Replica) -> EngineInstruments {
        let instruments = EngineInstruments::new(&self.meter, replica);
        match &self.log {
            Some(log) => instruments.with_log(log.engine(replica)),
            None => instruments,
        }
    }

    /// Forgets every series of a replica that is gone, and makes room for those of another one. Handles to them stay
    /// valid, and what they record is not read: instruments for a replica that joins after this are made anew.
    pub fn forget_replica(&self, replica: Replica) {
        let (stage, id) = replica.ids();
        self.forget(&[(STAGE, &stage), (REPLICA, &id)]);
        self.forget(&[("from_stage", &stage), ("from_replica", &id)]);
        self.forget(&[("to_stage", &stage), ("to_replica", &id)]);
        if let Some(log) = &self.log {
            log.forget(replica);
        }
    }

    /// Forgets every series of one of TorchServe's workers, which is gone.
    pub fn forget_worker(&self, worker: &str) {
        self.forget(&[("WorkerName", worker)]);
    }

    fn forget(&self, labels: &[(&str, &str)]) {
        self.exposition.forget(labels);
        self.known.forget(labels);
    }
}

/// Tells what was refused.
struct DropCollector {
    drops: Arc<Drops>,
    counters: [(DropReason, Counter); DropReason::ALL.len()],
}

impl DropCollector {
    fn new(meter: &Meter, drops: Arc<Drops>) -> Self {
        let counter = |reason: DropReason| {
            let counter = meter.counter(f::OMNI_METRICS_DROPPED_TOTAL, [reason.label()]);
            (reason, counter)
        };
        Self {
            drops,
            counters: DropReason::ALL.map(counter),
        }
    }
}

impl Collector for DropCollector {
    fn collect(&self) {
        for (reason, counter) in &self.counters {
            counter.absolute(self.drops.total(*reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Selection;

    fn bounds(options: &TelemetryOptions) -> Vec<String> {
        let telemetry = Telemetry::new(options).expect("good options");
        telemetry.longest_sequence(60);
        telemetry.longest_sequence(6000);
        let replica = Replica { stage: 0, replica: 0 };
        let _ = telemetry.engine(replica);
        let name = "vllm:request_prompt_tokens_bucket".to_owned();
        let text = telemetry.exposition().render(&Selection::of([name]));
        let bounds = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once("le=\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        });
        bounds.collect()
    }

    #[test]
    fn token_bounds_follow_a_model_that_is_loaded_later_and_only_the_first() {
        let expected = ["1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "+Inf"];
        assert_eq!(bounds(&TelemetryOptions::default()), expected);
    }

    #[test]
    fn bounds_that_the_operator_names_are_not_those_of_the_model() {
        let buckets = [("request_tokens".to_owned(), vec![7.0, 70.0])];
        let options = TelemetryOptions {
            catalogue: CatalogueOptions {
                buckets: buckets.into(),
                ..CatalogueOptions::default()
            },
            ..TelemetryOptions::default()
        };
        assert_eq!(bounds(&options), ["7.0", "70.0", "+Inf"]);
    }

    #[test]
    fn the_catalogue_that_is_handed_out_has_the_bounds_in_use() {
        let telemetry = Telemetry::new(&TelemetryOptions::default()).expect("good options");
        telemetry.longest_sequence(60);
        let json = telemetry.schema().to_json();
        let families = json["families"].as_array().expect("families");
        let family = families
            .iter()
            .find(|family| family["name"] == "vllm:request_prompt_tokens");
        let expected = serde_json::json!([1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(family.expect("it is served")["buckets"], expected);
    }
}
