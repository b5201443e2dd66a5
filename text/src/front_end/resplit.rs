//! Cuts pieces that are still too long, because words are longer than digits, and gives every piece an end that a voice
//! knows.

use crate::{CharRange, EndKind, Piece, Segment, Span};

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
        pieces.push(Piece {
            marked: false,
            pause: None,
            text: chars[from..to].iter().collect(),
            source,
            end: if last { segment.end } else { end_kind(&chars[..to]) },
            spans: vec![Span {
                spoken: CharRange::new(0, to - from),
                source,
            }],
        });
        from = to + chars[to..].iter().take_while(|c| c.is_whitespace()).count();
    }
    pieces
}

/// A normalised piece as pieces of at most `max_chars`, each with a terminal mark. None if it says nothing.
pub(super) fn spoken(piece: &Piece, max_chars: usize) -> Vec<Piece> {
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
        pieces.push(Piece {
            marked: false,
            pause: None,
            text: terminated(&chars[from..to]),
            source: CharRange::new(start, end.max(start)),
            end: if last { piece.end } else { end_kind(&chars[..to]) },
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

/// The text with exactly one terminal mark.
fn terminated(chars: &[char]) -> String {
    let mut text: String = chars.iter().collect();
    if !text.ends_with(TERMINAL) {
        let kept = text.trim_end_matches([',', ';', ':', '-', ' ', '\'']).len();
        text.truncate(kept);
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

/// Where to cut a text that is longer than `max`: at the best kind of place, and of those nearest to what makes the
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

/// How good a cut before `at` is, 0 the best; `None` if it would be inside a word.
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
