//! Folded text as tokens, and the small questions that rules ask about them.

use super::fold::Folded;
use crate::list::listed;

/// Tokens looked at in search of the end of an address.
const MAX_CHUNK: usize = 256;
/// Tokens on either side that are near.
const NEAR: usize = 8;

/// The characters that a token is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// ASCII letters, with apostrophes between letters.
    Word,
    /// ASCII digits.
    Digits,
    /// White space without a line break.
    Space,
    /// White space with a line break.
    Break,
    /// One other character.
    Symbol,
}

/// Input characters, `start..end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A dash between two things.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dash<'a> {
    pub(super) sign: &'a str,
    pub(super) at: usize,
    /// The first token behind it.
    pub(super) next: usize,
    /// True if spaces stand on both sides.
    pub(super) spaced: bool,
}

#[derive(Debug, Clone, Copy)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

/// Folded text, cut into tokens. Positions are token numbers; asking beyond the end is fine and finds nothing.
#[derive(Debug)]
pub(super) struct Text<'a> {
    folded: &'a Folded,
    tokens: Vec<Token>,
    /// True if letters are mostly capitals, so that capitals mean nothing.
    shouted: bool,
}

impl<'a> Text<'a> {
    pub(super) fn new(folded: &'a Folded) -> Self {
        let tokens = lex(&folded.text);
        let small = folded.text.bytes().filter(u8::is_ascii_lowercase).count();
        let mut text = Self {
            folded,
            tokens,
            shouted: false,
        };
        let words = text
            .tokens
            .iter()
            .filter(|t| t.kind == Kind::Word && t.end - t.start > 1)
            .count();
        text.shouted = small == 0 && words > 2;
        text
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn shouted(&self) -> bool {
        self.shouted
    }

    pub(super) fn kind(&self, at: usize) -> Option<Kind> {
        self.tokens.get(at).map(|t| t.kind)
    }

    /// The characters of a token; empty beyond the end.
    pub(super) fn str(&self, at: usize) -> &'a str {
        self.tokens
            .get(at)
            .map_or("", |t| &self.folded.text[t.start..t.end])
    }

    /// The characters of a range of tokens.
    pub(super) fn slice(&self, from: usize, to: usize) -> &'a str {
        let to = to.min(self.tokens.len());
        if from >= to {
            ""
        } else {
            &self.folded.text[self.tokens[from].start..self.tokens[to - 1].end]
        }
    }

    pub(super) fn is(&self, at: usize, s: &str) -> bool {
        self.tokens.get(at).is_some() && self.str(at) == s
    }

    pub(super) fn is_any(&self, at: usize, any: &[&str]) -> bool {
        any.iter().any(|s| self.is(at, s))
    }

    pub(super) fn is_word(&self, at: usize) -> bool {
        self.kind(at) == Some(Kind::Word)
    }

    pub(super) fn is_digits(&self, at: usize) -> bool {
        self.kind(at) == Some(Kind::Digits)
    }

    /// True if white space, a line break or the end of the text is here.
    pub(super) fn is_gap(&self, at: usize) -> bool {
        matches!(self.kind(at), None | Some(Kind::Space | Kind::Break))
    }

    /// True if a gap or the start of the text is before the token.
    pub(super) fn after_gap(&self, at: usize) -> bool {
        at == 0 || self.is_gap(at - 1)
    }

    pub(super) fn is_space(&self, at: usize) -> bool {
        self.kind(at) == Some(Kind::Space)
    }

    /// The first token that is not a space, from `at` on.
    pub(super) fn past_space(&self, at: usize) -> usize {
        at + usize::from(self.is_space(at))
    }

    /// The last token before `at` that is not white space.
    pub(super) fn before(&self, at: usize) -> Option<usize> {
        let before = at.checked_sub(1)?;
        if self.is_gap(before) {
            before.checked_sub(1)
        } else {
            Some(before)
        }
    }

    /// The dash behind a thing that ends at `at`, if something follows it.
    pub(super) fn dash(&self, at: usize) -> Option<Dash<'a>> {
        let sign = self.past_space(at);
        let next = self.past_space(sign + 1);
        let before = sign > at;
        let after = next > sign + 1;
        let even = before == after || self.is_any(sign, &["\u{2013}", "\u{2014}"]);
        let known = self.is_any(sign, &["-", "\u{2013}", "\u{2014}", "~"]);
        (known && even && self.kind(next).is_some() && !self.is(sign + 1, "-")).then(|| Dash {
            sign: self.str(sign),
            at: sign,
            next,
            spaced: before && after,
        })
    }

    /// The word before the token, in small letters; full stops, colons and signs of numbers may stand between.
    pub(super) fn word_before(&self, at: usize) -> Option<String> {
        let mut before = self.before(at)?;
        for _ in 0..2 {
            if self.is_any(before, &[".", ":", "#", "(", "\""]) {
                before = self.before(before)?;
            }
        }
        self.lower(before)
    }

    /// True if the token is one of the words of `list`, in whatever letters.
    pub(super) fn is_one_of(&self, at: usize, list: &str) -> bool {
        self.lower(at).is_some_and(|word| listed(list, &word))
    }

    /// True if the word before the token is one of those of `list`.
    pub(super) fn follows(&self, at: usize, list: &str) -> bool {
        self.word_before(at).is_some_and(|word| listed(list, &word))
    }

    /// True if one of the words of `list` stands within a few words of `at..end`, in the same sentence.
    pub(super) fn near(&self, at: usize, end: usize, list: &str) -> bool {
        let same = |&i: &usize| !self.is_any(i, &[".", "!", "?"]);
        let before = (at.saturating_sub(NEAR)..at).rev().take_while(same);
        let behind = (end..self.len().min(end + NEAR)).take_while(same);
        before.chain(behind).any(|i| self.is_one_of(i, list))
    }

    /// True if a quotation that a `sign` opened before the token may end here.
    pub(super) fn is_quoted(&self, at: usize, sign: &str) -> bool {
        let marks = (at.saturating_sub(MAX_CHUNK)..at)
            .rev()
            .filter(|&i| self.is(i, sign) && (i == 0 || !self.is_digits(i - 1)));
        marks.map(|i| !self.is_gap(i + 1)).next().unwrap_or(false)
    }

    /// The token in small letters if it is a word.
    pub(super) fn lower(&self, at: usize) -> Option<String> {
        self.is_word(at).then(|| self.str(at).to_ascii_lowercase())
    }

    /// True if the token is a word that starts with a capital.
    pub(super) fn is_capitalised(&self, at: usize) -> bool {
        self.is_word(at) && self.str(at).starts_with(|c: char| c.is_ascii_uppercase())
    }

    /// The end of the run of tokens without white space that starts at `at`; `None` if it is longer than any address.
    pub(super) fn chunk_end(&self, at: usize) -> Option<usize> {
        (at..=at + MAX_CHUNK).find(|&i| self.is_gap(i))
    }

    /// The input that a range of tokens came from.
    pub(super) fn source(&self, from: usize, to: usize) -> Source {
        let to = to.min(self.tokens.len());
        let first = self.folded.source[self.tokens[from].start] as usize;
        let last = self.folded.source[self.tokens[to - 1].end - 1] as usize;
        Source {
            start: first,
            end: (last + 1).min(self.folded.input_chars),
        }
    }
}

fn lex(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let (kind, end) = if c.is_ascii_alphabetic() {
            (Kind::Word, word_end(bytes, at))
        } else if c.is_ascii_digit() {
            (Kind::Digits, run(bytes, at, |b| b.is_ascii_digit()))
        } else if c == ' ' || c == '\n' {
            let end = run(bytes, at, |b| b == b' ' || b == b'\n');
            (
                if text[at..end].contains('\n') {
                    Kind::Break
                } else {
                    Kind::Space
                },
                end,
            )
        } else {
            (Kind::Symbol, at + c.len_utf8())
        };
        tokens.push(Token { kind, start: at, end });
        at = end;
    }
    tokens
}

fn run(bytes: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> usize {
    bytes[from..]
        .iter()
        .position(|&b| !wanted(b))
        .map_or(bytes.len(), |n| from + n)
}

fn word_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = run(bytes, at, |b| b.is_ascii_alphabetic());
        let more = bytes.get(at) == Some(&b'\'') && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic);
        if !more {
            return at;
        }
        at += 1;
    }
}
