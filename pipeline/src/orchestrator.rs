//! Requests over the stages: admission, binding, edges, retries, cancellation.
//!
//! In: a permit and a [`SegmentSpec`]. Out: a [`Segment`], whose audio comes straight from the last stage. Samples
//! never pass through this module, and of frames only a copy is kept. The graph determines the stages and edges of a
//! sequence ([`Pipeline`]). An utterance is bound to one replica of each of its stages. A sequence without audio sent
//! restarts elsewhere when its replica dies; one whose replica's process is gone continues after the audio already
//! sent. Dropping a segment cancels it in every stage within one step. An answer ([`Reply`]) and the encoding of a
//! recording start the same way.

mod admission;
mod answer;
mod attempt;
mod encoding;
mod pipeline;
mod segment;
mod speech;
mod wiring;

pub use admission::{Admission, AdmissionError, AdmissionLimits, UtterancePermit};
pub use answer::{Reply, ReplyOutput, ReplySpec};
pub use pipeline::{Binding, Pipeline, PipelineParts, PipelineStage, StageError};
pub use segment::{Segment, SegmentSpec};
pub use speech::SpeechOutput;
