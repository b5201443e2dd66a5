//! Text front end of speech: text in any chunking goes in, pieces that a voice can speak come out.
//!
//! * [`Segmenter`] cuts text at sentence and clause ends, character by character, so that the chunking of its input
//!   never changes the result.
//! * [`Normalizer`] writes numbers, dates, symbols and addresses as words of the voice's own alphabet.
//! * [`FrontEnd`] is both together, follows marks for pauses and the SSML that says nothing else, and is what a server calls.
//! * [`explain()`] shows what a whole text becomes: segments, words, where each came from, and warnings.
//! * [`StopStrings`] ends a text that is being written at the first of some strings.
//!
//! ```
//! use omni_text::{FrontEnd, FrontEndOptions, Language, Normalizer};
//!
//! let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;")?;
//! let mut front_end = FrontEnd::new(FrontEndOptions { normalizer: Some(normalizer), ..FrontEndOptions::default() });
//! let mut pieces = front_end.push("It costs $3.")?;
//! assert!(pieces.is_empty(), "the number may go on");
//! pieces.extend(front_end.push("50. Tha")?);
//! pieces.extend(front_end.push("nks!")?);
//! pieces.extend(front_end.finish()?);
//! let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
//! assert_eq!(texts, ["it costs three dollars and fifty cents.", "thanks!"]);
//! # Ok::<(), omni_text::TextError>(())
//! ```
//!
//! Everything here is a pure value: no clock, no tasks, no input or output. Nothing is ever spoken or tokenised here.

mod abbrev;
mod error;
mod explain;
mod front_end;
mod list;
mod markup;
mod normalize;
mod piece;
mod positions;
mod range;
mod segment;
mod skipped;
mod stop;
mod warning;

pub use error::TextError;
pub use explain::{Explained, ExplainedSegment, explain};
pub use front_end::{FrontEnd, FrontEndOptions};
pub use markup::Ignored;
pub use normalize::{Language, Normalized, Normalizer};
pub use piece::{Piece, Word, is_syllable};
pub use range::{CharRange, Span};
pub use segment::{Buffering, EndKind, Segment, Segmenter, SegmenterOptions};
pub use skipped::Skipped;
pub use stop::{EmptyStop, Released, StopStrings};
pub use warning::Warning;
