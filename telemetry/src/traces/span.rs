//! One span, made when it ends. Times are stamps of the clock that its context is anchored to.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::context::{TraceContext, new_span_id};

/// A request, or a part of one. Attributes never hold what a caller wrote or said.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    context: Arc<TraceContext>,
    data: SpanData,
}

impl Span {
    /// The request itself.
    pub fn request(context: &Arc<TraceContext>, name: &'static str, start: Duration, end: Duration) -> Self {
        let mut span = Self::new(context, context.span, name.into(), (start, end));
        span.data.span_kind = SpanKind::Server;
        span.data.parent_span_id = context.parent.unwrap_or(SpanId::INVALID);
        span.data.parent_span_is_remote = context.parent.is_some();
        span
    }

    /// A part of it. One that would end before it begins ends when it begins.
    pub fn part(
        context: &Arc<TraceContext>,
        name: impl Into<Cow<'static, str>>,
        start: Duration,
        end: Duration,
    ) -> Self {
        Self::new(context, new_span_id(), name.into(), (start, end))
    }

    fn new(
        context: &Arc<TraceContext>,
        id: SpanId,
        name: Cow<'static, str>,
        (start, end): (Duration, Duration),
    ) -> Self {
        let state = context.state.clone();
        let data = SpanData {
            span_context: SpanContext::new(context.trace, id, TraceFlags::SAMPLED, false, state),
            parent_span_id: context.span,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name,
            start_time: context.time(start),
            end_time: context.time(end.max(start)),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        };
        Self {
            context: Arc::clone(context),
            data,
        }
    }

    /// Adds a count.
    #[must_use]
    pub fn count(self, name: &'static str, count: impl Into<u64>) -> Self {
        self.with(name, i64::try_from(count.into()).unwrap_or(i64::MAX))
    }

    /// Adds a measure.
    #[must_use]
    pub fn measure(self, name: &'static str, measure: impl Into<f64>) -> Self {
        self.with(name, measure.into())
    }

    /// Adds a time in seconds, if there is one.
    #[must_use]
    pub fn seconds(self, name: &'static str, time: impl Into<Option<Duration>>) -> Self {
        match time.into() {
            Some(time) => self.measure(name, time.as_secs_f64()),
            None => self,
        }
    }

    /// Adds a name.
    #[must_use]
    pub fn text(self, name: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        self.with(name, text.into())
    }

    /// Adds names.
    #[must_use]
    pub fn texts(self, name: &'static str, texts: &[&'static str]) -> Self {
        let texts = texts.iter().copied().map(StringValue::from).collect();
        self.with(name, Value::Array(Array::String(texts)))
    }

    /// Adds when something happened within it, if it did.
    #[must_use]
    pub fn event(mut self, name: &'static str, at: Option<Duration>) -> Self {
        let event = at.map(|at| Event::new(name, self.context.time(at), Vec::new(), 0));
        self.data.events.events.extend(event);
        self
    }

    /// It failed, for one of the server's reasons.
    #[must_use]
    pub fn failed(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.data.status = Status::error(reason);
        self
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.data.attributes.push(KeyValue::new(name, value));
        self
    }

    pub(super) fn into_data(mut self, scope: &InstrumentationScope) -> SpanData {
        self.data.instrumentation_scope = scope.clone();
        self.data
    }
}
