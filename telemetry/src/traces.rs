//! Spans of requests, made after the fact from what was recorded, and sent in batches.
//!
//! In: [`Span`]s. Out: batches to a [`SpanTransport`], and the count of what became of every span. The samplers, the
//! queue and the thread that makes batches are those of `opentelemetry_sdk`. Nothing here ever holds up a request: a
//! full queue drops, and the drops are counted.

mod context;
mod exporter;
mod sampler;
mod span;
mod tracer;

pub use context::{TraceContext, TraceParent};
pub use exporter::{SpanSendError, SpanTransport};
pub use sampler::{SamplerError, TraceSampler};
pub use span::Span;
pub use tracer::{TraceLimits, Tracer};
