//! `MetricsService`: metrics of callers, beside the server's own.
//!
//! In: declarations and samples. Out: the result of each. The rules are `omni-telemetry`'s ([`CustomMetrics`]); here
//! are only the conversion and its bounds: messages, samples per message, calls at once. Off by default: every caller
//! of this can write what operators look at.

mod convert;
mod list;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use omni_core::drain::ShutdownError;
use omni_core::error::{ErrorKind, ServeError};
use omni_proto::v1;
use omni_proto::v1::metrics_service_server::MetricsService;
use omni_session::SessionTimeout;
use omni_telemetry::{CustomMetrics, MetricError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::commands::broken;
use super::status::status;
use convert::Refused;

/// Largest request message in bytes.
pub(super) const MAX_MESSAGE: usize = 256 << 10;
/// Most samples of one message: they are recorded in one go, and every one of them may have to be answered.
const MOST_SAMPLES: usize = 1000;
/// Most declarations of one message.
const MOST_DECLARATIONS: usize = 256;
/// `Record` calls at once.
const MOST_CALLS: usize = 64;
/// Time without a message after which a call loses its place.
const IDLE: Duration = Duration::from_secs(300);
/// Most names of one call for which similar metrics are searched.
const HINTS: usize = 8;
/// Retry delay of a call that finds no place.
const RETRY: Duration = Duration::from_secs(1);

type Answers = Pin<Box<dyn Stream<Item = Result<v1::RecordMetricsResponse, Status>> + Send>>;

/// Records the metrics of a caller; for tests.
pub(super) fn take(
    declared: &v1::DeclareMetricsRequest,
    recorded: v1::RecordMetricsRequest,
    metrics: &Arc<CustomMetrics>,
) {
    let sink = CustomSink {
        metrics: Arc::clone(metrics),
        calls: Arc::new(Semaphore::new(0)),
        stop: CancellationToken::new(),
    };
    let _ = sink.declare(declared);
    let _ = sink.record(recorded, &mut { HINTS });
}

/// Reason why measurements are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum RecordError {
    #[error("callers' metrics are disabled: the server needs --metrics-service on")]
    Off,
    #[error("{limit} calls record metrics, no more are accepted now")]
    TooManyCalls { limit: usize },
    #[error("{field} has {got} entries, the limit is {limit}")]
    TooManyItems {
        field: &'static str,
        got: usize,
        limit: usize,
    },
}

impl From<RecordError> for ServeError {
    fn from(error: RecordError) -> Self {
        let new = |kind, reason| Self::new(kind, reason, error.to_string());
        match error {
            RecordError::Off => new(ErrorKind::NotSupported, "METRICS_SERVICE_OFF"),
            RecordError::TooManyCalls { limit } => new(ErrorKind::LimitReached, "CONCURRENCY_LIMIT")
                .with_limit(limit)
                .retry_in(RETRY),
            RecordError::TooManyItems { field, got, limit } => {
                new(ErrorKind::InvalidArgument, "TOO_MANY_ITEMS")
                    .about(field)
                    .with_got(got)
                    .with_limit(limit)
            }
        }
    }
}

/// The service.
#[derive(Debug)]
pub struct Measurements(Option<CustomSink>);

/// Receiver of measurements. Clones share it.
#[derive(Debug, Clone)]
struct CustomSink {
    metrics: Arc<CustomMetrics>,
    calls: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Measurements {
    /// Returns true if it takes measurements.
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses all measurements.
    pub fn off() -> Self {
        Self(None)
    }

    /// Records measurements in `metrics`. Calls that record samples end when `stop` is cancelled.
    pub fn on(metrics: Arc<CustomMetrics>, stop: CancellationToken) -> Self {
        Self(Some(CustomSink {
            metrics,
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
            stop,
        }))
    }

    fn sink(&self) -> Result<&CustomSink, ServeError> {
        self.0.as_ref().ok_or_else(|| RecordError::Off.into())
    }
}

impl CustomSink {
    fn declare(&self, request: &v1::DeclareMetricsRequest) -> Result<v1::DeclareMetricsResponse, ServeError> {
        at_most("metrics", request.metrics.len(), MOST_DECLARATIONS)?;
        let declared = request.metrics.iter().map(|declaration| {
            let spec = convert::spec(declaration)?;
            self.metrics.declare(&spec).map_err(Refused::from)
        });
        Ok(v1::DeclareMetricsResponse {
            errors: refusals(declared),
        })
    }

    /// Records samples. `hints` is the number of suggestions that the call may still get.
    fn record(
        &self,
        request: v1::RecordMetricsRequest,
        hints: &mut usize,
    ) -> Result<v1::RecordMetricsResponse, ServeError> {
        let samples = request.samples.len();
        at_most("samples", samples, MOST_SAMPLES)?;
        let recorded = request.samples.into_iter().map(|sample| {
            let sample = convert::sample(sample)?;
            self.metrics
                .record(&sample)
                .map_err(|error| self.refused(error, hints))
        });
        let errors = refusals(recorded);
        let recorded = samples - errors.len();
        if !errors.is_empty() {
            tracing::debug!(recorded, refused = errors.len(), "metric samples refused");
        }
        Ok(v1::RecordMetricsResponse {
            recorded: recorded as u32,
            errors,
        })
    }

    /// Refusal of a sample, with a similar name.
    fn refused(&self, error: MetricError, hints: &mut usize) -> Refused {
        let similar = match &error {
            MetricError::Unknown { name } if *hints > 0 => {
                *hints -= 1;
                self.metrics.similar(name)
            }
            _ => None,
        };
        let refused = Refused::from(error);
        match similar {
            Some(name) => refused.meaning(&name),
            None => refused,
        }
    }

    fn enter(&self) -> Result<OwnedSemaphorePermit, ServeError> {
        Arc::clone(&self.calls)
            .try_acquire_owned()
            .map_err(|_| RecordError::TooManyCalls { limit: MOST_CALLS }.into())
    }

    /// Answers every request, in order, until there are no more or the server stops.
    fn answers(self, requests: Streaming<v1::RecordMetricsRequest>, place: OwnedSemaphorePermit) -> Answers {
        let stop = self.stop.clone();
        let stopped = self.stop.clone();
        let mut hints = HINTS;
        let answers = tokio_stream::StreamExt::timeout(requests, IDLE).map(move |request| {
            let _held = &place;
            let request = request.map_err(|_| SessionTimeout::Idle(IDLE))?;
            let request = request.map_err(|error| broken(&error, MAX_MESSAGE))?;
            self.record(request, &mut hints)
        });
        let last = stream::iter([()]).filter_map(move |()| {
            let end = stopped.is_cancelled().then(|| Err(ShutdownError::Stopped.into()));
            std::future::ready(end)
        });
        let answers = answers.take_until(stop.cancelled_owned()).chain(last);
        Box::pin(answers.map(|answer| answer.map_err(|error| status(&error))))
    }
}

fn at_most(field: &'static str, got: usize, limit: usize) -> Result<(), ServeError> {
    if got <= limit {
        Ok(())
    } else {
        Err(RecordError::TooManyItems { field, got, limit }.into())
    }
}

/// Refused measurements, with their positions.
fn refusals(outcomes: impl Iterator<Item = Result<(), Refused>>) -> Vec<v1::MetricError> {
    let indexed = (0..).zip(outcomes);
    let errors = indexed.filter_map(|(index, outcome)| Some(outcome.err()?.at(index)));
    errors.collect()
}

#[tonic::async_trait]
impl MetricsService for Measurements {
    type RecordStream = Answers;

    async fn declare(
        &self,
        request: Request<v1::DeclareMetricsRequest>,
    ) -> Result<Response<v1::DeclareMetricsResponse>, Status> {
        let declared = self.sink().and_then(|sink| sink.declare(request.get_ref()));
        declared.map(Response::new).map_err(|error| status(&error))
    }

    async fn record(
        &self,
        request: Request<Streaming<v1::RecordMetricsRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let sink = self.sink().map_err(|error| status(&error))?.clone();
        let place = sink.enter().map_err(|error| status(&error))?;
        Ok(Response::new(sink.answers(request.into_inner(), place)))
    }

    async fn list(
        &self,
        request: Request<v1::ListMetricsRequest>,
    ) -> Result<Response<v1::ListMetricsResponse>, Status> {
        let listed = self
            .sink()
            .and_then(|sink| list::page(&sink.metrics, request.get_ref()));
        listed.map(Response::new).map_err(|error| status(&error))
    }
}
