//! Custom metrics: declared by a file, by code, or over the wire, and recorded by name.
//!
//! In: [`MetricSpec`]s and [`Sample`]s from people who did not write this. Out: families beside the catalogue's, or a typed error.
//! Nothing is mislabelled and nothing is dropped in silence: a sample is recorded as declared or refused with the reason.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Gauge, Histogram, Key, Label};

use crate::catalogue::{Family, FamilyKind, Sinks};
use crate::config::MetricsMode;
use crate::meter::METADATA;
use crate::recorder::SharedRecorder;
use crate::schema::Schema;
use crate::telemetry::Telemetry;

mod error;
mod labels;
mod spec;

pub use error::MetricError;
pub use spec::{CustomKind, MetricSpec};

/// Group of the custom families.
const GROUP: &str = "custom";

/// What happens to samples of metrics that nobody declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Undeclared {
    /// They are refused.
    #[default]
    Refused,
    /// They are declared by their first sample, which says its kind and unit.
    Declared,
}

/// What is allowed, and what is filled in. By default nothing undeclared, nothing, and Prometheus alone.
#[derive(Debug, Clone)]
pub struct CustomOptions {
    /// What happens to samples of metrics that nobody declared.
    pub undeclared: Undeclared,
    /// Values of labels that a sample may leave out.
    pub defaults: BTreeMap<String, String>,
    /// Where the families go.
    pub sinks: Sinks,
}

impl Default for CustomOptions {
    fn default() -> Self {
        Self {
            undeclared: Undeclared::default(),
            defaults: BTreeMap::new(),
            sinks: MetricsMode::default().sinks(""),
        }
    }
}

/// Most custom families.
const MOST_FAMILIES: usize = 256;
/// Most label sets of one.
const MOST_SERIES: usize = 256;

/// One value of a custom metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric.
    pub name: String,
    /// Its labels, in any order.
    pub labels: Vec<(String, String)>,
    /// Added to a counter, set as a gauge, observed by a histogram.
    pub value: f64,
    /// Its kind, if the sender says it. It has to be the declared one.
    pub kind: Option<CustomKind>,
    /// Its unit, if the sender says it. It has to be the declared one.
    pub unit: Option<String>,
}

/// The series of one metric by their label values.
type SeriesHandles = HashMap<Vec<String>, CustomHandle>;

/// Every custom metric of a server.
pub struct CustomMetrics {
    schema: Arc<Schema>,
    recorder: SharedRecorder,
    options: CustomOptions,
    handles: Mutex<HashMap<Arc<str>, SeriesHandles>>,
}

impl fmt::Debug for CustomMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomMetrics").finish_non_exhaustive()
    }
}

/// One series of a custom metric, to hold and to record with.
#[derive(Debug, Clone)]
pub struct CustomHandle(Handle);

#[derive(Debug, Clone)]
enum Handle {
    Counter(Gauge),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl CustomHandle {
    /// Adds to a counter, sets a gauge, observes with a histogram.
    ///
    /// # Errors
    ///
    /// A value that is no finite number, or a counter that would go down.
    pub fn record(&self, value: f64) -> Result<(), MetricError> {
        check_value(value, matches!(self.0, Handle::Counter(_)))?;
        match &self.0 {
            Handle::Counter(counter) => counter.increment(value),
            Handle::Gauge(gauge) => gauge.set(value),
            Handle::Histogram(histogram) => histogram.record(value),
        }
        Ok(())
    }
}

fn check_value(value: f64, counter: bool) -> Result<(), MetricError> {
    if !value.is_finite() {
        return Err(MetricError::NonFinite { value });
    }
    if counter && value < 0.0 {
        return Err(MetricError::NegativeCounter { value });
    }
    Ok(())
}

impl CustomMetrics {
    /// None yet, beside the families of `telemetry`.
    #[must_use]
    pub fn new(telemetry: &Telemetry, options: CustomOptions) -> Self {
        Self {
            schema: Arc::clone(telemetry.schema()),
            recorder: Arc::clone(telemetry.recorder()),
            options,
            handles: Mutex::default(),
        }
    }

    /// Declares a metric. Declaring it again in the same way changes nothing.
    ///
    /// # Errors
    ///
    /// A declaration that contradicts itself or another one.
    pub fn declare(&self, spec: &MetricSpec) -> Result<(), MetricError> {
        let family = self.family(spec)?;
        if self.schema.catalogue().find(&family.name).is_some() {
            return Err(MetricError::BuiltIn {
                name: spec.name.clone(),
            });
        }
        self.schema.insert(family, MOST_FAMILIES)
    }

    /// Records a sample.
    ///
    /// # Errors
    ///
    /// A sample that does not fit its declaration, or that has none.
    pub fn record(&self, sample: &Sample) -> Result<(), MetricError> {
        // A value that is refused must not leave a series behind.
        let kind = self.known(sample)?.kind;
        check_value(sample.value, kind == CustomKind::Counter.family())?;
        let handle = self.handle(&sample.name, &sample.labels)?;
        handle.record(sample.value)
    }

    /// A series to hold. Labels may come in any order; those with a default may be left out.
    ///
    /// # Errors
    ///
    /// A metric that nobody declared, or labels that are not its own.
    pub fn handle(&self, name: &str, labels: &[(String, String)]) -> Result<CustomHandle, MetricError> {
        let family = self.custom_family(name)?;
        let values = labels::values(
            &family,
            labels,
            &self.options.defaults,
            self.schema.catalogue().supplied(),
        )?;
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let series = handles.entry(Arc::clone(&family.name)).or_default();
        let id: Vec<_> = values.iter().map(|(_, value)| value.clone()).collect();
        if let Some(known) = series.get(&id) {
            return Ok(known.clone());
        }
        if series.len() >= family.series {
            return Err(MetricError::TooManySeries {
                name: name.to_owned(),
                most: family.series,
            });
        }
        let handle = self.register(&family, values);
        series.insert(id, handle.clone());
        Ok(handle)
    }

    /// The custom families by name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Family>> {
        self.schema.custom()
    }

    fn register(&self, family: &Family, values: Vec<(String, String)>) -> CustomHandle {
        let labels: Vec<_> = values
            .into_iter()
            .map(|(label, value)| Label::new(label, value))
            .collect();
        let key = Key::from_parts(family.name.to_string(), labels);
        CustomHandle(match family.kind {
            FamilyKind::Counter | FamilyKind::FloatCounter => {
                Handle::Counter(self.recorder.register_gauge(&key, &METADATA))
            }
            FamilyKind::Gauge => Handle::Gauge(self.recorder.register_gauge(&key, &METADATA)),
            FamilyKind::Histogram => Handle::Histogram(self.recorder.register_histogram(&key, &METADATA)),
        })
    }

    /// Makes sure that the sample's metric is declared, and as the sample says.
    fn known(&self, sample: &Sample) -> Result<Arc<Family>, MetricError> {
        let family = match (self.custom_family(&sample.name), self.options.undeclared) {
            (Ok(family), _) => family,
            (Err(MetricError::Unknown { .. }), Undeclared::Declared) => {
                self.declare(&spec::of_sample(sample)?)?;
                self.custom_family(&sample.name)?
            }
            (Err(error), _) => return Err(error),
        };
        if let Some(kind) = sample.kind.filter(|kind| kind.family() != family.kind) {
            return Err(MetricError::WrongKind {
                name: sample.name.clone(),
                declared: family.kind.exposed(),
                got: kind.name(),
            });
        }
        match &sample.unit {
            Some(unit) if spec::unit_word(unit) != spec::unit_word(&family.unit) => {
                Err(MetricError::WrongUnit {
                    name: sample.name.clone(),
                    declared: family.unit.clone(),
                    got: unit.clone(),
                })
            }
            _ => Ok(family),
        }
    }

    fn custom_family(&self, name: &str) -> Result<Arc<Family>, MetricError> {
        if self.schema.catalogue().find(name).is_some() {
            return Err(MetricError::BuiltIn {
                name: name.to_owned(),
            });
        }
        self.schema.find(name).ok_or_else(|| MetricError::Unknown {
            name: name.to_owned(),
            similar: error::similar(name, &self.schema.custom()),
        })
    }

    fn family(&self, spec: &MetricSpec) -> Result<Family, MetricError> {
        spec.check()?;
        Ok(Family {
            name: Arc::from(spec.name.as_str()),
            kind: spec.kind.family(),
            unit: spec.unit.clone(),
            help: spec.help_text(),
            labels: spec
                .labels
                .iter()
                .map(|label| Arc::from(label.as_str()))
                .collect(),
            values: BTreeMap::new(),
            buckets: spec.buckets(),
            group: Arc::from(GROUP),
            sinks: spec.sinks.unwrap_or(self.options.sinks),
            pending: None,
            series: MOST_SERIES,
        })
    }
}

#[cfg(test)]
mod tests;
