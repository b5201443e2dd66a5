//! Explanation of a text as messages.

use omni_proto::v1;
use omni_text::{EndKind, Explained, ExplainedSegment, Word};

/// The answer about a text that `model` would speak.
pub(super) fn response(model: &str, explained: Explained) -> v1::ExplainResponse {
    let warnings = explained.warnings.iter().map(|warning| v1::Warning {
        reason: warning.reason().to_owned(),
        message: warning.to_string(),
    });
    v1::ExplainResponse {
        model: model.to_owned(),
        warnings: warnings.collect(),
        segments: explained.segments.into_iter().map(segment).collect(),
    }
}

fn segment(segment: ExplainedSegment) -> v1::ExplainedSegment {
    let end = match segment.end {
        EndKind::Forced => v1::SegmentEnd::Forced,
        EndKind::Flush => v1::SegmentEnd::Flush,
        EndKind::Clause => v1::SegmentEnd::Clause,
        EndKind::Sentence => v1::SegmentEnd::Sentence,
        EndKind::Paragraph => v1::SegmentEnd::Paragraph,
    };
    v1::ExplainedSegment {
        text: segment.text,
        char_start: count(segment.source.start),
        char_end: count(segment.source.end),
        words: segment.words.into_iter().map(word).collect(),
        end: end.into(),
        continues: segment.open,
        pause_before: segment.pause.and_then(|pause| pause.try_into().ok()),
    }
}

fn word(word: Word) -> v1::ExplainedWord {
    v1::ExplainedWord {
        spoken: word.spoken,
        char_start: count(word.source.start),
        char_end: count(word.source.end),
    }
}

fn count(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
