//! One span, in plain values.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::context::{SpanId, TraceContext};

/// What a span is to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A request that came from elsewhere.
    Server,
    /// A part of it.
    Internal,
}

/// What an attribute says.
#[derive(Debug, Clone, PartialEq)]
pub enum SpanValue {
    /// A name. Never what somebody wrote or said.
    Text(Cow<'static, str>),
    /// A count.
    Count(u64),
    /// A measure; seconds if it is a time.
    Measure(f64),
}

/// A name and what it says.
pub type Attribute = (&'static str, SpanValue);

/// Something that happened within a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// What.
    pub name: &'static str,
    /// When, as a stamp.
    pub at: Duration,
}

/// A part of a request, once, when it is over. Times are stamps of the clock that the context is anchored to.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The request.
    pub context: Arc<TraceContext>,
    /// Its own name.
    pub id: SpanId,
    /// What it is a part of; none at the root of a trace.
    pub parent: Option<SpanId>,
    /// Whether that is another program's.
    pub remote_parent: bool,
    /// What it shows.
    pub name: Cow<'static, str>,
    /// What it is to its parent.
    pub kind: SpanKind,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
    /// What happened within it, in order.
    pub events: Vec<SpanEvent>,
    /// Why it failed, as one of the server's reasons.
    pub failed: Option<&'static str>,
}

impl Span {
    /// The request itself.
    #[must_use]
    pub fn request(context: &Arc<TraceContext>, name: &'static str, start: Duration, end: Duration) -> Self {
        Self {
            id: context.span,
            parent: context.parent,
            remote_parent: context.parent.is_some(),
            kind: SpanKind::Server,
            ..Self::part(context, name, start, end)
        }
    }

    /// A part of it. One that would end before it begins ends when it begins.
    #[must_use]
    pub fn part(
        context: &Arc<TraceContext>,
        name: impl Into<Cow<'static, str>>,
        start: Duration,
        end: Duration,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            id: SpanId::random(),
            parent: Some(context.span),
            remote_parent: false,
            name: name.into(),
            kind: SpanKind::Internal,
            start,
            end: end.max(start),
            attributes: Vec::new(),
            events: Vec::new(),
            failed: None,
        }
    }

    /// Says a count.
    #[must_use]
    pub fn count(self, name: &'static str, count: impl Into<u64>) -> Self {
        self.with(name, SpanValue::Count(count.into()))
    }

    /// Says a measure.
    #[must_use]
    pub fn measure(self, name: &'static str, measure: impl Into<f64>) -> Self {
        self.with(name, SpanValue::Measure(measure.into()))
    }

    /// Says a time in seconds, if there is one.
    #[must_use]
    pub fn seconds(self, name: &'static str, time: impl Into<Option<Duration>>) -> Self {
        match time.into() {
            Some(time) => self.measure(name, time.as_secs_f64()),
            None => self,
        }
    }

    /// Says a name.
    #[must_use]
    pub fn text(self, name: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        self.with(name, SpanValue::Text(text.into()))
    }

    /// Says when something happened within it, if it did.
    #[must_use]
    pub fn event(mut self, name: &'static str, at: Option<Duration>) -> Self {
        self.events.extend(at.map(|at| SpanEvent { name, at }));
        self
    }

    fn with(mut self, name: &'static str, value: SpanValue) -> Self {
        self.attributes.push((name, value));
        self
    }
}
