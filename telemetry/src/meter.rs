//! From a typed family to a held handle. The only place where a key is built.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata};

use crate::catalogue::{Catalogue, ENGINE};
use crate::family::{
    CounterFamily, FloatCounterFamily, GaugeFamily, HistogramFamily, SummaryFamily, TypedFamily,
};
use crate::recorder::SharedRecorder;

/// Metadata that the facade asks for at every registration.
pub(crate) const METADATA: Metadata<'static> = Metadata::new("omni_telemetry", Level::INFO, None);

/// Makes handles. Cheap to clone; handles are made once and held.
#[derive(Clone, derive_more::Debug)]
#[debug("Meter {{ .. }}")]
pub struct Meter {
    recorder: SharedRecorder,
    catalogue: Arc<Catalogue>,
}

/// A counter of real numbers.
#[derive(Debug, Clone)]
pub struct FloatCounter(Gauge);

impl FloatCounter {
    /// Adds `value`, which is not negative.
    pub fn add(&self, value: f64) {
        self.0.increment(value);
    }

    /// Raises the counter to `value`, if it is below.
    pub fn raise_to(&self, value: f64) {
        self.0.set(value);
    }
}

impl Meter {
    /// A meter that records to `recorder` under the names of `catalogue`.
    pub fn new(recorder: SharedRecorder, catalogue: Arc<Catalogue>) -> Self {
        Self { recorder, catalogue }
    }

    /// The names in use.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// A counter. Its label values are in the order of the declaration.
    pub fn counter<const N: usize>(&self, family: CounterFamily<N>, values: [&str; N]) -> Counter {
        self.recorder
            .register_counter(&self.key(&family, &values), &METADATA)
    }

    /// A counter of real numbers.
    pub fn float_counter<const N: usize>(
        &self,
        family: FloatCounterFamily<N>,
        values: [&str; N],
    ) -> FloatCounter {
        FloatCounter(
            self.recorder
                .register_gauge(&self.key(&family, &values), &METADATA),
        )
    }

    /// A gauge.
    pub fn gauge<const N: usize>(&self, family: GaugeFamily<N>, values: [&str; N]) -> Gauge {
        self.recorder
            .register_gauge(&self.key(&family, &values), &METADATA)
    }

    /// A sum and a count.
    pub fn summary<const N: usize>(&self, family: SummaryFamily<N>, values: [&str; N]) -> Histogram {
        self.recorder
            .register_histogram(&self.key(&family, &values), &METADATA)
    }

    /// A histogram.
    pub fn histogram<const N: usize>(&self, family: HistogramFamily<N>, values: [&str; N]) -> Histogram {
        self.recorder
            .register_histogram(&self.key(&family, &values), &METADATA)
    }

    fn key(&self, family: &impl TypedFamily, values: &[&str]) -> Key {
        let declared = family.of(&self.catalogue);
        let labels = family.labels().iter().zip(values);
        let labels: Vec<_> = labels
            .map(|(label, value)| Label::new(*label, (*value).to_owned()))
            .collect();
        debug_assert!(declared.has_label(ENGINE) == family.labels().contains(&ENGINE));
        Key::from_parts(declared.name.to_string(), labels)
    }
}
