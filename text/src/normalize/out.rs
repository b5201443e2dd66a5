//! Collects words and marks of pause, and keeps the promises about the output: single spaces, one mark at a time, none at
//! the start, hyphens and apostrophes only inside words, nothing outside the alphabet.

use super::alphabet::Alphabet;
use super::text::Source;
use crate::{CharRange, Normalized, Skipped, Span};

/// The output so far.
#[derive(Debug)]
pub(super) struct Out<'a> {
    alphabet: &'a Alphabet,
    text: String,
    chars: usize,
    /// The mark to write before the next word.
    mark: Option<char>,
    spans: Vec<Span>,
    skipped: Skipped,
}

impl<'a> Out<'a> {
    pub(super) fn new(alphabet: &'a Alphabet, skipped: Skipped) -> Self {
        Self {
            alphabet,
            text: String::new(),
            chars: 0,
            mark: None,
            spans: Vec::new(),
            skipped,
        }
    }

    /// Says `words`: lower-case words with spaces, hyphens and apostrophes, and commas for pauses.
    pub(super) fn say(&mut self, words: &str, source: Source) {
        let mut start = None;
        for word in words.split_ascii_whitespace() {
            let bare = word.trim_end_matches([',', '.', '?', '!', ';', ':']);
            let at = self.word(bare);
            start = start.or(at);
            if let Some(mark) = word[bare.len()..].chars().next() {
                self.pause(mark);
            }
        }
        if let Some(start) = start {
            self.spans.push(Span {
                spoken: CharRange::new(start, self.chars),
                source: CharRange::new(source.start, source.end),
            });
        }
    }

    /// Writes one word and returns where it starts; nothing if none of its characters is known.
    fn word(&mut self, word: &str) -> Option<usize> {
        let mut known = String::with_capacity(word.len());
        for c in word.trim_matches(['-', '\'']).chars() {
            match self.alphabet.letter(c) {
                Some(c) => known.push(c),
                None if c == '-' => known.push(' '),
                None => {}
            }
        }
        if known.is_empty() {
            return None;
        }
        if self.chars == 0 {
            self.mark = None;
        } else {
            if let Some(mark) = self.mark.take().and_then(|mark| self.alphabet.mark(mark)) {
                self.put(mark);
            }
            self.put(' ');
        }
        let start = self.chars;
        known.chars().for_each(|c| self.put(c));
        Some(start)
    }

    fn put(&mut self, c: char) {
        self.text.push(c);
        self.chars += 1;
    }

    /// Asks for a pause before the next word; of several the longest counts, of equally long ones the first.
    pub(super) fn pause(&mut self, mark: char) {
        if self.mark.is_none_or(|known| strength(mark) > strength(known)) {
            self.mark = Some(mark);
        }
    }

    /// Counts a character that has no reading.
    pub(super) fn skip(&mut self, c: char) {
        self.skipped.add(c);
    }

    pub(super) fn finish(mut self) -> Normalized {
        // A comma at the end says nothing.
        let mark = self.mark.take().filter(|&mark| mark != ',');
        if self.chars > 0
            && let Some(mark) = mark.and_then(|mark| self.alphabet.mark(mark))
        {
            self.put(mark);
        }
        Normalized {
            text: self.text,
            skipped: self.skipped,
            spans: self.spans,
        }
    }
}

fn strength(mark: char) -> u8 {
    match mark {
        ',' => 1,
        ':' | ';' => 2,
        '.' => 3,
        '!' => 4,
        '?' => 5,
        _ => 0,
    }
}
