//! Cuts text into segments at sentence and clause ends.
//!
//! Text comes in through [`Segmenter::push`] in any chunks. It is taken character by character and every cut is decided
//! by characters alone, never by where a chunk ended, so that any chunking gives the segments of the whole text. Owned
//! by the owner of the utterance. Text is never changed here, only cut; white space around segments is dropped.

mod boundary;
mod cuts;

use crate::CharRange;
use boundary::{Ending, Verdict};
use cuts::Cuts;

/// The points at which text is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buffering {
    /// Whole sentences.
    #[default]
    Sentence,
    /// Clauses: also at commas, semicolons, colons and dashes.
    Clause,
    /// The first few words at once, then ever longer stretches until clauses are the limit.
    Eager,
    /// Only on flush and finish, then in sentences.
    Manual,
}

/// The reason for the end of a segment; in order of the pause that belongs after it, shortest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndKind {
    /// In mid clause, because the text was too long for one piece or was wanted early: no pause.
    Forced,
    /// In mid sentence, because the caller asked for what was there.
    Flush,
    /// At a comma, semicolon, colon or dash.
    Clause,
    /// At the end of a sentence.
    Sentence,
    /// At an empty line.
    Paragraph,
}

/// A stretch of input text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The input as it was, without white space around it.
    pub text: String,
    /// Its place, in Unicode scalar values from the start of the utterance.
    pub source: CharRange,
    /// The reason for its end.
    pub end: EndKind,
}

/// Options of a [`Segmenter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmenterOptions {
    /// The points at which text is released.
    pub buffering: Buffering,
    /// Most characters of one segment, unless it is a single unbroken token.
    pub max_chars: usize,
    /// Most characters of one unbroken token, such as a long address, before it is cut anyway.
    pub max_token_chars: usize,
    /// Fewest characters of a clause that is released by itself.
    pub min_clause_chars: usize,
    /// Fewest characters of the first segment when eager; doubled for each one after it.
    pub eager_chars: usize,
}

impl Default for SegmenterOptions {
    fn default() -> Self {
        Self {
            buffering: Buffering::Sentence,
            max_chars: 200,
            max_token_chars: 800,
            min_clause_chars: 16,
            eager_chars: 10,
        }
    }
}

/// A cut that the next visible character decides.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// The place of the cut.
    at: usize,
    ending: Ending,
    /// The start of the word that decides, once it has.
    word_from: Option<usize>,
}

/// White space that has been read since the last visible character.
#[derive(Debug, Clone, Copy, Default)]
struct Gap {
    newlines: usize,
    /// Offset of the first character after the last of them.
    next_line: usize,
}

/// Cuts the text of one utterance after another.
#[derive(Debug)]
pub struct Segmenter {
    options: SegmenterOptions,
    /// The segment so far; begins with a visible character.
    buf: Vec<char>,
    /// Offset of `buf[0]` in the utterance.
    start: usize,
    /// Text that waits for a flush in manual mode.
    held: String,
    /// Offset of the first character of the line.
    line_start: usize,
    gap: Option<Gap>,
    pending: Option<Pending>,
    cuts: Cuts,
    eager_chars: usize,
}

impl Segmenter {
    /// An empty one. Limits of zero are taken as one.
    pub fn new(mut options: SegmenterOptions) -> Self {
        options.max_chars = options.max_chars.max(1);
        options.max_token_chars = options.max_token_chars.max(options.max_chars);
        let eager_chars = options.eager_chars.max(1);
        Self {
            options,
            buf: Vec::new(),
            start: 0,
            held: String::new(),
            line_start: 0,
            gap: None,
            pending: None,
            cuts: Cuts::default(),
            eager_chars,
        }
    }

    /// Takes more text and returns the segments that are certain now.
    pub fn push(&mut self, text: &str) -> Vec<Segment> {
        if self.options.buffering == Buffering::Manual {
            self.held.push_str(text);
            return Vec::new();
        }
        let mut out = Vec::new();
        self.feed(text, &mut out);
        out
    }

    /// Returns everything that is buffered. The utterance goes on: offsets continue.
    pub fn flush(&mut self) -> Vec<Segment> {
        let mut out = Vec::new();
        let held = std::mem::take(&mut self.held);
        self.feed(&held, &mut out);
        while !self.buf.is_empty() {
            let whole = (self.buf.len(), boundary::end_of_text(&self.buf));
            let (at, end) = self.after_word(None).unwrap_or(whole);
            let rest: String = self.emit(at, end, &mut out).into_iter().collect();
            self.feed(&rest, &mut out);
        }
        self.line_start = self.start;
        out
    }

    /// Returns everything that is buffered and makes ready for the next utterance, which starts at offset zero.
    pub fn finish(&mut self) -> Vec<Segment> {
        let out = self.flush();
        self.clear();
        out
    }

    /// Drops everything that is buffered and makes ready for the next utterance.
    pub fn clear(&mut self) {
        *self = Self::new(self.options);
    }

    /// Bytes of text that wait.
    pub fn buffered_bytes(&self) -> usize {
        self.held.len() + self.buf.iter().map(|c| c.len_utf8()).sum::<usize>()
    }

    /// Offset of the first character that waits, in Unicode scalar values.
    pub fn buffered_from(&self) -> usize {
        self.start
    }

    /// Every character once; what lies behind a cut again, as the start of the next segment. Each cut leaves less
    /// than it looked at and looks at a bounded number of characters, so the work is linear in the text.
    fn feed(&mut self, text: &str, out: &mut Vec<Segment>) {
        let mut again: Vec<char> = Vec::new();
        for c in text.chars() {
            again.push(c);
            while let Some(c) = again.pop() {
                if let Some((at, end)) = self.accept(c) {
                    let rest = self.emit(at, end, out);
                    again.extend(rest.into_iter().rev());
                }
            }
        }
    }

    /// Takes one character; says where to cut, if it is time to.
    fn accept(&mut self, c: char) -> Option<(usize, EndKind)> {
        if let Some(cut) = self.after_word(Some(c)) {
            self.buf.push(c);
            return Some(cut);
        }
        if boundary::is_space(c) {
            return self.accept_space(c);
        }
        let cut = if self.buf.is_empty() {
            None
        } else {
            self.before_visible(c)
        };
        self.buf.push(c);
        if cut.is_some() {
            return cut;
        }
        if self.buf.len() <= self.options.max_chars {
            return None;
        }
        self.too_long()
    }

    fn accept_space(&mut self, c: char) -> Option<(usize, EndKind)> {
        let newline = boundary::is_newline(c);
        if self.buf.is_empty() {
            self.start += 1;
            if newline {
                self.line_start = self.start;
            }
            return None;
        }
        let at = self.buf.len();
        let cut = match self.gap {
            None => {
                let verdict = boundary::token_end(&self.buf);
                self.gap = Some(Gap::default());
                self.judge(at, verdict)
            }
            Some(_) => None,
        };
        let gap = self.gap.get_or_insert_default();
        if newline {
            gap.newlines += 1;
            gap.next_line = self.start + at + 1;
        }
        let paragraph = gap.newlines >= 2;
        self.buf.push(c);
        if cut.is_some() {
            return cut;
        }
        let visible = self.visible_len();
        if paragraph {
            return Some((visible, EndKind::Paragraph));
        }
        if self.buf.len() > self.options.max_chars {
            return self
                .cuts
                .best(self.options.max_chars)
                .or(Some((visible, EndKind::Forced)));
        }
        None
    }

    /// Turns what the end of a token says into a cut, a cut to come, or a place to remember.
    fn judge(&mut self, at: usize, verdict: Verdict) -> Option<(usize, EndKind)> {
        match verdict {
            Verdict::No => None,
            Verdict::Certain(EndKind::Clause) => self.clause(at),
            Verdict::Certain(end) => Some((at, end)),
            Verdict::Depends(ending) => {
                self.pending = Some(Pending {
                    at,
                    ending,
                    word_from: None,
                });
                None
            }
        }
    }

    fn clause(&mut self, at: usize) -> Option<(usize, EndKind)> {
        let wanted = matches!(self.options.buffering, Buffering::Clause | Buffering::Eager);
        if wanted && at >= self.options.min_clause_chars {
            return Some((at, EndKind::Clause));
        }
        self.cuts.clause(at);
        None
    }

    /// Decides what had to wait for the word that `next`, or the end of the text, may end.
    fn after_word(&mut self, next: Option<char>) -> Option<(usize, EndKind)> {
        let pending = self.pending?;
        let decided = boundary::word_decides(pending.ending, &self.buf[pending.word_from?..], next)?;
        self.pending = None;
        decided.map(|end| (pending.at, end))
    }

    /// Decides what had to wait for the character `c`, which is not in the buffer yet.
    fn before_visible(&mut self, c: char) -> Option<(usize, EndKind)> {
        let at = self.visible_len();
        let Some(gap) = self.gap.take() else {
            return match boundary::inside(&self.buf, c) {
                Verdict::Certain(EndKind::Clause) => self.clause(at),
                Verdict::Certain(end) => Some((at, end)),
                _ => {
                    if boundary::breakable(self.buf[at - 1], c) {
                        self.cuts.space(at, true);
                    }
                    None
                }
            };
        };
        if let Some(pending) = self.pending.take() {
            if pending.ending.wants_word(c) {
                self.pending = Some(Pending {
                    word_from: Some(self.buf.len()),
                    ..pending
                });
            }
            match pending.ending.resolve(c) {
                Some(EndKind::Clause) => {
                    if let Some(cut) = self.clause(pending.at) {
                        return Some(cut);
                    }
                }
                Some(end) => return Some((pending.at, end)),
                None => {}
            }
        }
        if gap.newlines > 0 {
            let line_len = (self.start + at).saturating_sub(self.line_start);
            self.line_start = gap.next_line;
            if boundary::line_ends(&self.buf[..at], line_len, c) {
                return Some((at, EndKind::Sentence));
            }
        }
        let strong = boundary::strong_space(&self.buf[..at], c);
        self.cuts.space(at, strong);
        if self.options.buffering != Buffering::Eager || at < self.eager_chars {
            return None;
        }
        if strong {
            return Some((at, EndKind::Forced));
        }
        match boundary::early_space(&self.buf[..at], c) {
            Verdict::Certain(end) => Some((at, end)),
            Verdict::Depends(ending) if self.pending.is_none() => {
                self.pending = Some(Pending {
                    at,
                    ending,
                    word_from: Some(self.buf.len()),
                });
                None
            }
            _ => None,
        }
    }

    /// The buffer is over its limit: the best place seen so far, or none while a single token may still grow.
    fn too_long(&self) -> Option<(usize, EndKind)> {
        if let Some(cut) = self.cuts.best(self.options.max_chars) {
            return Some(cut);
        }
        if self.buf.len() <= self.options.max_token_chars {
            return None;
        }
        let limit = self.buf.len() - 1;
        Some((boundary::hard_cut(&self.buf, limit), EndKind::Forced))
    }

    /// Length without the white space at its end.
    fn visible_len(&self) -> usize {
        let trailing = self
            .buf
            .iter()
            .rev()
            .take_while(|&&c| boundary::is_space(c))
            .count();
        self.buf.len() - trailing
    }

    /// Hands out the first `at` characters and returns the rest.
    fn emit(&mut self, at: usize, end: EndKind, out: &mut Vec<Segment>) -> Vec<char> {
        let rest = self.buf.split_off(at);
        let mut visible = self.buf.len();
        while visible > 0 && boundary::is_space(self.buf[visible - 1]) {
            visible -= 1;
        }
        if visible > 0 {
            out.push(Segment {
                text: self.buf[..visible].iter().collect(),
                source: CharRange::new(self.start, self.start + visible),
                end,
            });
        }
        self.start += self.buf.len();
        self.buf.clear();
        self.gap = None;
        self.pending = None;
        self.cuts = Cuts::default();
        self.line_start = self.line_start.min(self.start);
        self.eager_chars = (self.eager_chars * 2).min(self.options.max_chars);
        rest
    }
}

#[cfg(test)]
mod tests;
