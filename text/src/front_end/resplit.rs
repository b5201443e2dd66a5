//! Cuts pieces that are still too long, because words are longer than digits, and gives every piece an end that a voice
//! knows.

use crate::{CharRange, EndKind, Piece, Segment, Span, is_syllable};

/// Terminal marks of a piece.
const TERMINAL: [char; 3] = ['.', '?', '!'];

/// A raw segment as pieces of at most `max_chars`, its text unchanged.
pub(super) fn raw(segment: &Segment, max_chars: usize) -> Vec<Piece> {
    let chars: Vec<char> = segment.text.chars().collect();
    let mut pieces = Vec::new();
    let mut from = 0;
    while from < chars.len() {
        let last = chars.len() - from <= max_chars;
        let to = if last {
            chars.len()
        } else {
            cut(&chars, from, max_chars, &[])
        };
        let source = CharRange::new(segment.source.start + from, segment.source.start + to);
        let spans = written_words(&chars[from..to], source.start);
        pieces.push(Piece {
            marked: false,
            pause: None,
            text: chars[from..to].iter().collect(),
            source,
            end: if last { segment.end } else { end_kind(&chars[..to]) },
            open: false,
            spans,
        });
        from = to + chars[to..].iter().take_while(|c| c.is_whitespace()).count();
    }
    pieces
}

/// The words of a text that is spoken as it is written, from `offset` on.
fn written_words(chars: &[char], offset: usize) -> Vec<Span> {
    let mut words = Vec::new();
    let mut from = 0;
    for to in 1..=chars.len() {
        let blank = chars[to - 1].is_whitespace();
        if !blank && to < chars.len() && !parts(chars[to - 1], chars[to]) {
            continue;
        }
        if !blank {
            let spoken = CharRange::new(from, to);
            words.push(Span {
                spoken,
                source: spoken.shifted(offset),
            });
        }
        from = to;
    }
    words
}

/// True if one word ends and another begins between two characters.
fn parts(before: char, c: char) -> bool {
    let letter = |c: char| c.is_alphanumeric();
    c.is_whitespace()
        || letter(before) && letter(c) && (is_syllable(before) || is_syllable(c))
        || !letter(before) && is_syllable(c)
}

/// A normalised piece as pieces of at most `max_chars`, each with a terminal mark unless it goes on `eager`ly. None if it says nothing.
pub(super) fn spoken(piece: &Piece, max_chars: usize, eager: bool) -> Vec<Piece> {
    let chars: Vec<char> = piece.text.chars().collect();
    // Room for the full stop that a piece may get.
    let limit = max_chars.saturating_sub(1).max(1);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut spans = piece.spans.as_slice();
    let mut from = 0;
    while from < chars.len() {
        let last = chars.len() - from <= limit;
        let to = if last {
            chars.len()
        } else {
            cut(&chars, from, limit, spans)
        };
        let inside = spans.iter().take_while(|span| span.spoken.start < to).count();
        let torn = inside > 0 && spans[inside - 1].spoken.end > to;
        let own: Vec<Span> = spans[..inside].iter().map(|&span| clip(span, from, to)).collect();
        let start = pieces.last().map_or(piece.source.start, |p| p.source.end);
        let end = own
            .last()
            .filter(|_| !last)
            .map_or(piece.source.end, |span| span.source.end);
        let kind = if last { piece.end } else { end_kind(&chars[..to]) };
        let open = eager && kind == EndKind::Forced;
        pieces.push(Piece {
            marked: false,
            pause: None,
            text: terminated(&chars[from..to], open),
            source: CharRange::new(start, end.max(start)),
            end: kind,
            open,
            spans: own,
        });
        spans = &spans[inside - usize::from(torn)..];
        from = to + chars[to..].iter().take_while(|&&c| c == ' ').count();
    }
    pieces
}

/// The part of a span that is spoken in `from..to`, counted from `from`.
fn clip(span: Span, from: usize, to: usize) -> Span {
    let start = span.spoken.start.max(from) - from;
    Span {
        spoken: CharRange::new(start, span.spoken.end.min(to) - from),
        ..span
    }
}

/// The text with exactly one terminal mark, or without one where it goes on.
fn terminated(chars: &[char], open: bool) -> String {
    let mut text: String = chars.iter().collect();
    if open || !text.ends_with(TERMINAL) {
        let kept = text.trim_end_matches([',', ';', ':', '-', ' ', '\'', '.']).len();
        text.truncate(kept);
    }
    if !open && !text.ends_with(TERMINAL) {
        text.push('.');
    }
    text
}

fn end_kind(before: &[char]) -> EndKind {
    match before.last() {
        Some('.' | '?' | '!') => EndKind::Sentence,
        Some(',' | ';' | ':') => EndKind::Clause,
        _ => EndKind::Forced,
    }
}

/// The place to cut a text that is longer than `max`: at the best kind of place, and of those nearest to what makes the
/// pieces equally long. Looks at most `max` characters ahead.
fn cut(chars: &[char], from: usize, max: usize, spans: &[Span]) -> usize {
    let len = chars.len() - from;
    let goal = from + len.div_ceil(len.div_ceil(max));
    let mut best: Option<(u8, usize, usize)> = None;
    let mut spans = spans.iter().peekable();
    for at in from + 1..=from + max {
        while spans.next_if(|span| span.spoken.end <= at).is_some() {}
        let torn = spans.peek().is_some_and(|span| span.spoken.start < at);
        let Some(class) = place(chars, at, torn) else {
            continue;
        };
        // Close to the start only if there is nothing better: a short piece is followed by a long wait.
        let class = if at < from + max / 4 { class + 4 } else { class };
        let candidate = (class, at.abs_diff(goal), at);
        if best.is_none_or(|b| candidate < b) {
            best = Some(candidate);
        }
    }
    best.map_or(from + max, |(_, _, at)| at)
}

/// The rank of a cut before `at`, 0 the best; `None` if it would be inside a word.
fn place(chars: &[char], at: usize, torn: bool) -> Option<u8> {
    if !chars[at].is_whitespace() {
        return None;
    }
    Some(match chars[at - 1] {
        '.' | '?' | '!' => 0,
        ',' | ';' | ':' => 1,
        _ if torn => 3,
        _ => 2,
    })
}
