//! Spans of requests: plain values, made after the fact from what was recorded, queued here and sent in batches by a task.
//!
//! In: [`Span`]s from whoever makes them of records. Out: batches to a [`SpanTransport`], and the count of what became of every
//! span. Nothing here ever holds up a request: a full queue drops, and says how many.

mod context;
mod exporter;
mod sampler;
mod span;
mod tracer;

pub use context::{SpanId, TraceContext, TraceId, TraceParent};
pub use exporter::{SpanExporter, SpanSendError, SpanTransport};
pub use sampler::{SamplerError, TraceSampler};
pub use span::{Attribute, Span, SpanEvent, SpanKind, SpanValue};
pub use tracer::{TraceLimits, Tracer};
