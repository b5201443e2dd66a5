//! Custom metrics: declared by a file, by code, or over the wire, and recorded by name.
//!
//! In: [`MetricSpec`]s and [`Sample`]s from outside this project. Out: families beside the catalogue's, or a typed
//! error. Nothing is mislabelled and nothing is dropped in silence: a sample is recorded as declared or refused with
//! the reason.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use metrics::{Gauge, Histogram, Key, Label};
use parking_lot::Mutex;

use crate::catalogue::{Family, FamilyKind, MetricsMode, Sinks};
use crate::log::with_request;
use crate::meter::METADATA;
use crate::recorder::SharedRecorder;
use crate::schema::Schema;
use crate::telemetry::Telemetry;

mod error;
mod labels;
mod series;
mod spec;

pub use error::MetricError;
use labels::Supplied;
use series::SeriesStore;
pub use spec::{CustomKind, MetricSpec};

/// Group of the custom families.
const GROUP: &str = "custom";

/// Treatment of samples of undeclared metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Undeclared {
    /// They are refused.
    #[default]
    Refused,
    /// They are declared by their first sample, which says its kind and unit.
    Declared,
}

/// Options of custom metrics. By default undeclared ones are refused, no label is filled in, and Prometheus alone gets
/// them.
#[derive(Debug, Clone)]
pub struct CustomOptions {
    /// Treatment of samples of undeclared metrics.
    pub undeclared: Undeclared,
    /// Values of labels that a sample may leave out.
    pub defaults: BTreeMap<String, String>,
    /// Outputs of the families.
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
/// Longest id of a request, in bytes.
const LONGEST_REQUEST: usize = 128;
/// Most series of all of them: each is kept for as long as the server runs. A label set of a histogram has one for each
/// bound and three more.
const MOST_SERIES_IN_ALL: usize = 32_768;

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
    /// The request that it was measured for. Lines of the log name it; no label does.
    pub request: Option<String>,
}

/// Every custom metric of a server.
#[derive(derive_more::Debug)]
#[debug("CustomMetrics {{ .. }}")]
pub struct CustomMetrics {
    schema: Arc<Schema>,
    recorder: SharedRecorder,
    options: CustomOptions,
    /// Value that the recorder supplies for that label, when it is known.
    model_name: Arc<OnceLock<String>>,
    series: Mutex<SeriesStore>,
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
    if value.abs() > MOST_VALUE {
        return Err(MetricError::TooLarge {
            value,
            most: MOST_VALUE,
        });
    }
    if counter && value < 0.0 {
        return Err(MetricError::NegativeCounter { value });
    }
    Ok(())
}

/// Largest value of a sample. Sums of any number of these stay finite.
const MOST_VALUE: f64 = 1e100;

/// The family that a sample is of.
enum Known {
    Declared(Arc<Family>),
    /// It was not declared, and the sample may declare it.
    Prospective(Box<Family>),
}

impl CustomMetrics {
    /// None yet, beside the families of `telemetry`.
    pub fn new(telemetry: &Telemetry, options: CustomOptions) -> Self {
        Self {
            schema: Arc::clone(telemetry.schema()),
            recorder: Arc::clone(telemetry.recorder()),
            options,
            model_name: Arc::clone(telemetry.model_name()),
            series: Mutex::default(),
        }
    }

    /// Declares a metric. Declaring it again in the same way changes nothing.
    ///
    /// # Errors
    /// A declaration that contradicts itself or another one.
    pub fn declare(&self, spec: &MetricSpec) -> Result<(), MetricError> {
        if self.schema.catalogue().find(&spec.name).is_some() {
            return Err(MetricError::BuiltIn {
                name: spec.name.clone(),
            });
        }
        self.schema.insert(self.family(spec)?, MOST_FAMILIES)
    }

    /// Records a sample. One that is refused leaves no series behind.
    ///
    /// # Errors
    /// A sample that does not fit its declaration, or that has none.
    pub fn record(&self, sample: &Sample) -> Result<(), MetricError> {
        let Some(request) = &sample.request else {
            return self.record_value(sample);
        };
        if request.len() > LONGEST_REQUEST || request.chars().any(char::is_control) {
            return Err(MetricError::RequestId {
                most: LONGEST_REQUEST,
            });
        }
        with_request(request, || self.record_value(sample))
    }

    fn record_value(&self, sample: &Sample) -> Result<(), MetricError> {
        let family = match self.known(sample)? {
            Known::Declared(family) => family,
            Known::Prospective(family) => {
                self.check(&family, sample)?;
                match self.schema.insert(*family, MOST_FAMILIES) {
                    // Another sample was first, and may have declared it in another way.
                    Ok(()) | Err(MetricError::DeclaredDifferently { .. }) => {}
                    Err(error) => return Err(error),
                }
                self.custom_family(&sample.name)?
            }
        };
        let labels = self.check(&family, sample)?;
        self.series_of(&family, labels)?.record(sample.value)
    }

    /// A series to hold. Labels may come in any order; those with a default may be left out.
    ///
    /// # Errors
    /// An undeclared metric, or labels that are not its own.
    pub fn handle(&self, name: &str, labels: &[(String, String)]) -> Result<CustomHandle, MetricError> {
        let family = self.custom_family(name)?;
        let labels = self.labels(&family, labels)?;
        self.series_of(&family, labels)
    }

    /// The custom families by name.
    pub fn list(&self) -> Vec<Arc<Family>> {
        self.schema.custom()
    }

    /// Every family that is served: the catalogue's and the custom ones.
    pub fn served(&self) -> Vec<Arc<Family>> {
        self.schema.served()
    }

    /// Returns true for a custom family.
    pub fn is_custom(&self, family: &Family) -> bool {
        self.schema.catalogue().find(&family.name).is_none()
    }

    /// The name of the declared metric that is the nearest to `name`, if one is near. Takes far longer than a sample.
    pub fn similar(&self, name: &str) -> Option<String> {
        error::similar(name, &self.schema.custom())
    }

    fn series_of(
        &self,
        family: &Arc<Family>,
        labels: Vec<(String, String)>,
    ) -> Result<CustomHandle, MetricError> {
        let mut series = self.series.lock();
        series.find_or_insert(family, labels, |labels| self.register(family, labels))
    }

    fn register(&self, family: &Family, labels: &[(String, String)]) -> CustomHandle {
        let labels: Vec<_> = labels
            .iter()
            .map(|(label, value)| Label::new(label.clone(), value.clone()))
            .collect();
        let key = Key::from_parts(family.name.to_string(), labels);
        CustomHandle(match family.kind {
            FamilyKind::Counter | FamilyKind::FloatCounter => {
                Handle::Counter(self.recorder.register_gauge(&key, &METADATA))
            }
            FamilyKind::Gauge => Handle::Gauge(self.recorder.register_gauge(&key, &METADATA)),
            FamilyKind::Histogram | FamilyKind::Summary => {
                Handle::Histogram(self.recorder.register_histogram(&key, &METADATA))
            }
        })
    }

    /// The sample's metric, or what its declaration would be.
    fn known(&self, sample: &Sample) -> Result<Known, MetricError> {
        match (self.custom_family(&sample.name), self.options.undeclared) {
            (Ok(family), _) => Ok(Known::Declared(family)),
            (Err(MetricError::Unknown { .. }), Undeclared::Declared) => {
                let family = self.family(&spec::of_sample(sample)?)?;
                Ok(Known::Prospective(Box::new(family)))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Checks a sample against the declaration of its metric, and returns its labels as they are to be registered.
    fn check(&self, family: &Family, sample: &Sample) -> Result<Vec<(String, String)>, MetricError> {
        if let Some(kind) = sample.kind.filter(|kind| kind.family() != family.kind) {
            return Err(MetricError::WrongKind {
                name: sample.name.clone(),
                declared: family.kind.exposed(),
                got: kind.name(),
            });
        }
        if let Some(unit) = &sample.unit
            && spec::unit_word(unit) != spec::unit_word(&family.unit)
        {
            return Err(MetricError::WrongUnit {
                name: sample.name.clone(),
                declared: family.unit.clone(),
                got: error::excerpt(unit),
            });
        }
        check_value(sample.value, family.kind == CustomKind::Counter.family())?;
        self.labels(family, &sample.labels)
    }

    fn labels(
        &self,
        family: &Family,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, MetricError> {
        let supplied = Supplied {
            labels: self.schema.catalogue().supplied(),
            knows_model: self.model_name.get().is_some(),
        };
        labels::values(family, given, &self.options.defaults, supplied)
    }

    fn custom_family(&self, name: &str) -> Result<Arc<Family>, MetricError> {
        spec::check_length(name)?;
        if self.schema.catalogue().find(name).is_some() {
            return Err(MetricError::BuiltIn {
                name: name.to_owned(),
            });
        }
        self.schema.find(name).ok_or_else(|| MetricError::Unknown {
            name: name.to_owned(),
        })
    }

    fn family(&self, spec: &MetricSpec) -> Result<Family, MetricError> {
        spec.check()?;
        if let Some(label) = spec.labels.iter().find(|label| self.schema.is_grouped_by(label)) {
            return Err(MetricError::Invalid {
                name: spec.name.clone(),
                problem: format!("label {label:?} is in the grouping key that metrics are pushed with"),
            });
        }
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
