//! Messages to telemetry's own values, and its errors back.

use omni_proto::v1;
use omni_proto::v1::MetricErrorReason as Reason;
use omni_telemetry::{CustomKind, MetricError, MetricSpec, Sample};

/// Reason why a measurement is refused.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    reason: Reason,
    message: String,
}

impl Refused {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }

    /// Adds a suggested name.
    pub(super) fn meaning(mut self, name: &str) -> Self {
        self.message = format!("{}, did you mean {name:?}?", self.message);
        self
    }

    /// Error for the entry at that index of the request.
    pub(super) fn at(self, index: u32) -> v1::MetricError {
        v1::MetricError {
            index,
            reason: self.reason.into(),
            message: self.message,
        }
    }
}

impl From<MetricError> for Refused {
    fn from(error: MetricError) -> Self {
        let reason = match &error {
            MetricError::Unknown { .. } => Reason::NotDeclared,
            MetricError::BuiltIn { .. } => Reason::BuiltIn,
            MetricError::DeclaredDifferently { .. } => Reason::DeclaredDifferently,
            MetricError::Invalid { .. } => Reason::InvalidDeclaration,
            MetricError::TooManyMetrics { .. } => Reason::TooManyMetrics,
            MetricError::WrongKind { .. } => Reason::WrongKind,
            MetricError::WrongUnit { .. } => Reason::WrongUnit,
            MetricError::Undescribed { .. } => Reason::Undescribed,
            MetricError::MissingLabel { .. } => Reason::MissingLabel,
            MetricError::UnknownLabel { .. } => Reason::UnknownLabel,
            MetricError::DuplicateLabel { .. } => Reason::DuplicateLabel,
            MetricError::LabelValue { .. } => Reason::LabelValue,
            MetricError::RequestId { .. } => Reason::RequestId,
            MetricError::TooManySeries { .. } | MetricError::TooManySeriesInAll { .. } => {
                Reason::TooManySeries
            }
            MetricError::NegativeCounter { .. } => Reason::NegativeCounter,
            MetricError::NonFinite { .. } | MetricError::TooLarge { .. } => Reason::NotFinite,
        };
        Self::new(reason, error.to_string())
    }
}

/// Kind of the metric, if it is set.
fn kind(number: i32) -> Result<Option<CustomKind>, Refused> {
    match v1::MetricKind::try_from(number) {
        Ok(v1::MetricKind::Unspecified) => Ok(None),
        Ok(v1::MetricKind::Counter) => Ok(Some(CustomKind::Counter)),
        Ok(v1::MetricKind::Gauge) => Ok(Some(CustomKind::Gauge)),
        Ok(v1::MetricKind::Histogram) => Ok(Some(CustomKind::Histogram)),
        Err(_) => Err(Refused::new(
            Reason::UnknownKind,
            format!("the kind is {number}, expected counter (1), gauge (2) or histogram (3)"),
        )),
    }
}

pub(super) fn spec(declaration: &v1::MetricDeclaration) -> Result<MetricSpec, Refused> {
    let Some(kind) = kind(declaration.kind)? else {
        return Err(Refused::new(
            Reason::InvalidDeclaration,
            "the kind is not said, expected counter, gauge or histogram",
        ));
    };
    Ok(MetricSpec {
        name: declaration.name.clone(),
        kind,
        unit: declaration.unit.clone(),
        help: declaration.help.clone(),
        labels: declaration.labels.clone(),
        bounds: (!declaration.bounds.is_empty()).then(|| declaration.bounds.clone()),
        sinks: None,
    })
}

pub(super) fn sample(sample: v1::MetricSample) -> Result<Sample, Refused> {
    let kind = kind(sample.kind)?;
    let value = sample
        .value
        .ok_or_else(|| Refused::new(Reason::MissingValue, "the sample has no value"))?;
    let labels = sample.labels.into_iter();
    Ok(Sample {
        name: sample.name,
        labels: labels.map(|label| (label.name, label.value)).collect(),
        value,
        kind,
        unit: Some(sample.unit).filter(|unit| !unit.is_empty()),
        request: Some(sample.request_id).filter(|id| !id.is_empty()),
    })
}
