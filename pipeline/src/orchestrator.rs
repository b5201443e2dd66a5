//! The life of a request over the stages: admission, binding, edges, retries, cancellation.
//!
//! In: a permit and a [`SegmentSpec`]. Out: a [`Segment`], whose audio comes straight from the last stage. Samples never pass
//! through here, and of frames only a copy is kept. Which stages a sequence passes, and by which edges, follows from the graph ([`Pipeline`]). An utterance is
//! bound to one replica of every stage that it passes; a sequence of which nothing was heard yet starts again elsewhere when its
//! replica dies, and one whose replica's process is gone goes on behind what was heard. Dropping a segment cancels it in every stage within one step. An answer is started the same way, as a [`Reply`], and
//! a recording is encoded so.

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
