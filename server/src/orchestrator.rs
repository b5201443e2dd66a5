//! The life of a sequence over the stages: admission, binding, cancellation.
//!
//! In: a permit and a [`SegmentSpec`]. Out: a [`Segment`], whose audio comes straight from the last stage. Frames and samples
//! never pass through here. An utterance is bound to one replica of every stage; a sequence of which nothing was heard yet
//! starts again elsewhere when its replica dies. Dropping a segment cancels it in every stage within one step. An answer
//! of the thinker is started the same way, as a [`Reply`], and a recording is heard so.

mod admission;
mod attempt;
mod front;
mod hearing;
mod pipeline;
mod reply;
mod segment;
mod speech;

pub use admission::{Admission, AdmissionError, AdmissionLimits, UtterancePermit};
pub use attempt::SeqOutput;
pub use front::Orchestrator;
pub use pipeline::{Binding, EdgeLimits, Pipeline, TextEncoder};
pub use reply::{ChatNotSupported, ChatPath, Reply, ReplySpec};
pub use segment::{Segment, SegmentSpec};
pub use speech::SpeechOutput;
