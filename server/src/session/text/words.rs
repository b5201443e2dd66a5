//! The words of a piece, for callers that ask when each is heard.

use std::ops::Range;

use crate::session::alignment::{Word, is_syllable};

/// The words of a piece: as its normaliser tells them, or as they are written.
pub(super) fn words(piece: &omni_text::Piece, normalized: bool) -> Vec<Word> {
    let chars: Vec<char> = piece.text.chars().collect();
    let text = |from: usize, to: usize| chars[from.min(chars.len())..to.min(chars.len())].iter().collect();
    if normalized {
        let ends = piece.spans.iter().skip(1).map(|span| span.spoken.start);
        let ends = ends.chain([chars.len()]);
        let words = piece.spans.iter().zip(ends).map(|(span, end)| Word {
            source: span.source.start..span.source.end,
            spoken: text(span.spoken.start, end),
        });
        return words.collect();
    }
    let mut words = Vec::new();
    let mut from = 0;
    for to in 1..=chars.len() {
        if to < chars.len() && !parts(chars[to - 1], chars[to]) {
            continue;
        }
        let blank = chars[from..to].iter().all(|c| c.is_whitespace());
        if !blank {
            words.push(Word {
                source: written_at(piece, from).start..written_at(piece, to - 1).end,
                spoken: text(from, to),
            });
        }
        from = to;
    }
    words
}

/// Where character `at` of a piece that is spoken as it is written stands in the text.
fn written_at(piece: &omni_text::Piece, at: usize) -> Range<usize> {
    let span = piece
        .spans
        .iter()
        .find(|span| (span.spoken.start..span.spoken.end).contains(&at));
    let Some(span) = span else {
        return piece.source.start + at..piece.source.start + at + 1;
    };
    let start = span.source.start + (at - span.spoken.start);
    // An entity is one character, and takes several.
    let end = if at + 1 == span.spoken.end {
        span.source.end
    } else {
        start + 1
    };
    start..end
}

/// Whether one word ends and another begins between two characters; white space belongs to the word behind it.
fn parts(before: char, c: char) -> bool {
    let letter = |c: char| c.is_alphanumeric();
    !before.is_whitespace() && c.is_whitespace()
        || letter(before) && letter(c) && (is_syllable(before) || is_syllable(c))
        || !letter(before) && !before.is_whitespace() && is_syllable(c)
}
