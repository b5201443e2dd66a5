//! Explanation of a text: its form before it is spoken.

use std::ops::Range;
use std::time::Duration;

use omni_proto::v1;

use crate::speech::Warning;

/// Input of the server's model for a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The model.
    pub model: String,
    /// In the order in which they are spoken; none if the text has nothing to speak.
    pub segments: Vec<ExplainedSegment>,
    /// Parts of the text that are not spoken.
    pub warnings: Vec<Warning>,
}

/// Text that the model is given in one go.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedSegment {
    /// Exactly what the model is given.
    pub text: String,
    /// The text it stands for, in characters (Unicode code points).
    pub source: Range<usize>,
    /// Its words in order.
    pub words: Vec<ExplainedWord>,
    /// Reason of its end: `sentence`, `clause`, `paragraph`, `flush` or `forced`; empty for a value that this library
    /// does not know.
    pub end: &'static str,
    /// It goes on in the next segment without a pause.
    pub continues: bool,
    /// The pause before it that marks of the text ask for.
    pub pause_before: Option<Duration>,
}

/// A word, a number or an address that is spoken as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedWord {
    /// As it is spoken.
    pub spoken: String,
    /// The text it stands for, in characters (Unicode code points).
    pub source: Range<usize>,
}

impl Explained {
    pub(crate) fn from_proto(explained: v1::ExplainResponse) -> Self {
        Self {
            model: explained.model,
            segments: explained.segments.into_iter().map(segment).collect(),
            warnings: explained
                .warnings
                .into_iter()
                .map(|warning| Warning {
                    utterance: None,
                    reason: warning.reason,
                    message: warning.message,
                })
                .collect(),
        }
    }
}

fn segment(segment: v1::ExplainedSegment) -> ExplainedSegment {
    let end = match segment.end() {
        v1::SegmentEnd::Unspecified => "",
        v1::SegmentEnd::Forced => "forced",
        v1::SegmentEnd::Flush => "flush",
        v1::SegmentEnd::Clause => "clause",
        v1::SegmentEnd::Sentence => "sentence",
        v1::SegmentEnd::Paragraph => "paragraph",
    };
    ExplainedSegment {
        source: segment.char_start as usize..segment.char_end as usize,
        words: segment.words.into_iter().map(word).collect(),
        end,
        continues: segment.continues,
        pause_before: segment.pause_before.and_then(|pause| pause.try_into().ok()),
        text: segment.text,
    }
}

fn word(word: v1::ExplainedWord) -> ExplainedWord {
    ExplainedWord {
        source: word.char_start as usize..word.char_end as usize,
        spoken: word.spoken,
    }
}
