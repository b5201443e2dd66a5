//! The life of a sequence over the stages: admission, binding, cancellation.
//!
//! In: a permit and a [`SegmentSpec`]. Out: a [`Segment`], whose audio comes straight from the last stage. Frames and samples
//! never pass through here. Dropping a segment cancels it in every stage within one step.

mod admission;
mod pipeline;
mod segment;

pub use admission::{Admission, AdmissionLimits, UtterancePermit};
pub use pipeline::{EdgeLimits, Orchestrator, Pipeline, TextEncoder};
pub use segment::{Segment, SegmentEvent, SegmentSpec};
