//! Word times: maps a text to the audio in which it is heard.
//!
//! In: for each sequence in turn the words that it speaks, and the samples that the model generated for it. Out:
//! words with the samples of the caller's audio in which they are heard. The ends of sequences are known; within one
//! the expected sounds of the words are followed through the audio (`omni_audio::Follower`).
//!
//! Reported times never change. Times that were not reported use all audio so far, so that they are best for a
//! listener that stops long before the end of the generated audio.
//!
//! Audio is added in generated samples; times are in output samples, which may have another rate and speed.

mod letters;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use omni_audio::{Follower, SampleRate, Samples, Timeline};

use letters::{is_pause, pause, sounds};
use omni_text::is_syllable;

/// Shortest reported duration of a word that has a sound, if there is audio for it.
const SHORTEST: Duration = Duration::from_millis(30);

/// A part of the text that is spoken as one: a word, a number, an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Its characters in the utterance's text.
    pub(super) source: Range<usize>,
    /// Spoken form, up to the next word: marks at the end make a pause.
    pub(super) spoken: String,
}

/// A part of the text and the time at which it is heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedText {
    /// As it was written.
    pub text: String,
    /// Its characters in the utterance's text.
    pub characters: Range<usize>,
    /// Samples in which it is heard, in the caller's audio.
    pub samples: Range<Samples>,
}

/// Word times of one text.
#[derive(Clone, derive_more::Debug)]
// Never prints the text itself.
#[debug("Alignment {{ known: {:?}, made: {:?}, .. }}", self.known.len(), self.made)]
pub(super) struct Alignment {
    rate: SampleRate,
    timeline: Timeline,
    text: String,
    /// Place in the text up to which words have been found, and up to which they were reported.
    found: Place,
    told: Place,
    /// Sequences that have not ended; the first is the one being heard.
    sequences: VecDeque<Sequence>,
    /// Words whose times are settled, and the number of them that were reported.
    known: Vec<Known>,
    known_told: usize,
    /// Length of the generated audio so far.
    made: Samples,
    /// End of the audio that was sent after its words were reported.
    sent: Option<Samples>,
}

/// A place in the text.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    chars: usize,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Sequence {
    /// Ends of its words in the text, and `true` for those with a sound.
    ends: Vec<(usize, bool)>,
    /// Number of words that are settled.
    known: usize,
    /// Follows the beginning and the end of each word.
    follower: Follower,
    /// Start of its audio; none before the first.
    begin: Option<Samples>,
}

/// A word and its time, in output samples; for the sequence being heard, in generated samples.
#[derive(Debug, Clone)]
struct Known {
    end: usize,
    sounds: bool,
    samples: Range<Samples>,
}

impl Alignment {
    /// Creates the alignment of audio generated at `rate` and played as `timeline` says.
    pub(super) fn new(rate: SampleRate, timeline: Timeline) -> Self {
        Self {
            rate,
            timeline,
            text: String::new(),
            found: Place::default(),
            told: Place::default(),
            sequences: VecDeque::new(),
            known: Vec::new(),
            known_told: 0,
            made: Samples::ZERO,
            sent: None,
        }
    }

    /// Adds text.
    pub(super) fn write(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Begins a sequence with `words`, which stand for the text up to character `to`.
    pub(super) fn begin(&mut self, words: &[Word], to: usize) {
        let mut follower = Follower::new(self.rate);
        follower.expect(pause());
        self.sequences.push_back(Sequence {
            ends: Vec::new(),
            known: 0,
            follower,
            begin: None,
        });
        self.extend(words, to);
    }

    /// Continues the sequence that began last.
    pub(super) fn extend(&mut self, words: &[Word], to: usize) {
        for (n, word) in words.iter().enumerate() {
            let limit = words.get(n + 1).map_or(to, |next| next.source.start);
            let end = self.find_blank(word.source.end, limit);
            let Some(sequence) = self.sequences.back_mut() else {
                return;
            };
            let sounds = sounds(&word.spoken);
            sequence.ends.push((end, !sounds.is_empty()));
            let follower = &mut sequence.follower;
            follower.mark();
            sounds.into_iter().for_each(|sound| follower.expect(sound));
            follower.mark();
            if word.spoken.trim_end().ends_with(is_pause) {
                follower.expect(pause());
            }
        }
    }

    /// Ends the sequence that began last at its last word.
    pub(super) fn close(&mut self) {
        if let Some(sequence) = self.sequences.back_mut() {
            sequence.follower.expect(pause());
        }
    }

    /// Adds audio of the sequence that is being heard.
    pub(super) fn audio(&mut self, samples: &[f32]) {
        if samples.is_empty() {
            return;
        }
        if let Some(sequence) = self.sequences.front_mut() {
            sequence.begin.get_or_insert(self.made);
            sequence.follower.push(samples);
        }
        self.made += Samples::of(samples);
    }

    /// Adds the last audio of a sequence that has ended.
    pub(super) fn rest(&mut self, samples: &[f32]) {
        self.made += Samples::of(samples);
    }

    /// Ends the sequence being heard; `everything` if all its words were spoken by the end of its audio.
    pub(super) fn complete(&mut self, everything: bool) {
        let Some(sequence) = self.sequences.pop_front() else {
            return;
        };
        let begin = sequence.begin.unwrap_or(self.made);
        for word in sequence.words(begin, everything) {
            self.know(&word);
        }
    }

    /// Reports words before audio up to `until` is sent: all that end in it.
    pub(super) fn tell(&mut self, until: Samples) -> Vec<TimedText> {
        self.settle(until);
        self.spread(until);
        let open = &self.known[self.known_told..];
        let count = open.iter().take_while(|known| known.samples.end <= until).count();
        self.sent = Some(until);
        self.told(count)
    }

    /// Settles the times of words of the sequence being heard that end by `until`.
    fn settle(&mut self, until: Samples) {
        for word in self.sounding() {
            if self.timeline.heard(word.samples.end) > until {
                break;
            }
            self.know(&word);
            if let Some(sequence) = self.sequences.front_mut() {
                sequence.known += 1;
            }
        }
    }

    /// Reports the remaining words before the last audio, which ends at `end`; if the text was spoken to its end, the
    /// `whole` text is reported with it.
    pub(super) fn tell_rest(&mut self, end: Samples, whole: bool) -> Vec<TimedText> {
        self.settle(end);
        for known in &mut self.known[self.known_told..] {
            known.samples = known.samples.start.min(end)..known.samples.end.min(end);
        }
        self.spread(end);
        self.sent = Some(end);
        let mut words = self.told(self.known.len() - self.known_told);
        let silent = self.text[self.told.bytes..].trim_end();
        if whole && !silent.is_empty() {
            let to = self.told.chars + silent.chars().count();
            words.push(self.span(to, end..end));
        }
        words
    }

    /// Times at which all text known so far is heard.
    pub(super) fn heard(&self) -> Heard {
        let settled = self.known.iter().map(|known| (known.end, known.samples.end));
        let open = self.sounding().into_iter();
        let open = open.map(|word| {
            let until = self.timeline.heard(word.samples.end);
            (word.end, until.max(self.untold()))
        });
        Heard(settled.chain(open).collect())
    }

    /// First sample at which words that were not reported can end: nothing that was sent contains them.
    fn untold(&self) -> Samples {
        self.sent.map_or(Samples::ZERO, |sent| sent + Samples(1))
    }

    /// Splits the text into the part that a listener has heard after output samples up to `played`, and the rest.
    pub(super) fn split(&self, played: Samples) -> (&str, &str) {
        let characters = self.heard().characters(played);
        let at = self.text.char_indices().nth(characters);
        self.text.split_at(at.map_or(self.text.len(), |(at, _)| at))
    }

    /// Words heard so far of the sequence being heard, in generated samples.
    fn sounding(&self) -> Vec<Known> {
        let sequence = self.sequences.front();
        let begun = sequence.and_then(|sequence| Some((sequence, sequence.begin?)));
        begun.map_or_else(Vec::new, |(sequence, begin)| sequence.words(begin, false))
    }

    /// Settles the times of a word: it follows those before it.
    fn know(&mut self, word: &Known) {
        let before = self.known.last();
        let earliest = before.map_or(Samples::ZERO, |before| before.samples.end);
        let from = self.timeline.heard(word.samples.start).max(earliest);
        let until = self.timeline.heard(word.samples.end);
        let until = until.max(from).max(self.untold());
        let end = before.map_or(word.end, |before| before.end.max(word.end));
        self.known.push(Known {
            end,
            sounds: word.sounds,
            samples: from..until,
        });
    }

    /// Distributes time among words that were found too late, when the audio in which they ended had already been
    /// sent: they share the time of the words behind them, the audio until `limit`, and the time of unreported words
    /// before them.
    fn spread(&mut self, limit: Samples) {
        let shortest = self.timeline.heard(self.rate.samples(SHORTEST)).0;
        let sent = self.sent.unwrap_or_default();
        let told = self.known_told;
        let mut at = told;
        while let Some(word) = self.known.get(at) {
            let lacks = |words: &[Known]| time_of(words) < shortest * words.len() as u64;
            let sounds = |at: usize| self.known.get(at).is_some_and(|word| word.sounds);
            if !word.sounds || !lacks(&self.known[at..=at]) {
                at += 1;
                continue;
            }
            let mut first = at;
            let mut last = at;
            while lacks(&self.known[first..=last]) && sounds(last + 1) {
                last += 1;
            }
            let wanted = self.known[first].samples.start + Samples(shortest * (last - first + 1) as u64);
            let end = self.known[last].samples.end.max(wanted.min(limit));
            self.known[last].samples.end = end;
            while first > told && lacks(&self.known[first..=last]) && self.known[first - 1].sounds {
                first -= 1;
            }
            let begin = self.known[first].samples.start;
            // None ends in audio that was sent.
            let from = begin.max(sent);
            if end > from {
                let before = first.checked_sub(1).map_or(0, |last| self.known[last].end);
                share(&mut self.known[first..=last], before, shortest, from..end);
                self.known[first].samples.start = begin;
            }
            // Words without a sound may follow it.
            let mut earliest = self.known[last].samples.end;
            for word in &mut self.known[last + 1..] {
                if word.samples.start >= earliest {
                    break;
                }
                word.samples = earliest..word.samples.end.max(earliest);
                earliest = word.samples.end;
            }
            at = last + 1;
        }
    }

    fn told(&mut self, count: usize) -> Vec<TimedText> {
        let first = self.known_told;
        self.known_told += count;
        let told: Vec<_> = self.known[first..self.known_told]
            .iter()
            .map(|known| (known.end, known.samples.clone()))
            .collect();
        let told = told.into_iter().map(|(end, samples)| self.span(end, samples));
        // A word within which a sequence was cut has no text left for its second half.
        told.filter(|span| !span.characters.is_empty()).collect()
    }

    /// Text between the last report and a character.
    fn span(&mut self, to: usize, samples: Range<Samples>) -> TimedText {
        let from = self.told;
        self.told = self.place(from, to);
        TimedText {
            text: self.text[from.bytes..self.told.bytes].to_owned(),
            characters: from.chars..self.told.chars,
            samples,
        }
    }

    /// The first white space from character `from` on, or `limit` if that comes before it.
    fn find_blank(&mut self, from: usize, limit: usize) -> usize {
        let mut place = self.place(self.found, from);
        for c in self.text[place.bytes..].chars() {
            if place.chars >= limit || c.is_whitespace() {
                break;
            }
            place = place.behind(c);
        }
        self.found = place;
        place.chars
    }

    /// Place of character `to`, searched from a place on.
    fn place(&self, from: Place, to: usize) -> Place {
        let ahead = to.saturating_sub(from.chars);
        self.text[from.bytes..]
            .chars()
            .take(ahead)
            .fold(from, Place::behind)
    }
}

/// Ends of words in the text, and their times in output samples.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Vec<(usize, Samples)>);

impl Heard {
    /// Number of characters that a listener has heard after samples up to `played`.
    fn characters(&self, played: Samples) -> usize {
        let heard = self.0.iter().take_while(|(_, until)| *until <= played);
        heard.last().map_or(0, |(end, _)| *end)
    }

    /// Number of bytes of `text` that a listener has heard: whole words, independent of its pieces.
    pub(super) fn words(&self, text: &str, played: Samples) -> usize {
        let characters = self.characters(played);
        let mut last = 0;
        let mut before = ' ';
        let ends = text.char_indices().chain([(text.len(), ' ')]);
        for (at, c) in ends.take(characters + 1) {
            if c.is_whitespace() || before.is_whitespace() || is_syllable(c) || is_syllable(before) {
                last = at;
            }
            before = c;
        }
        last
    }
}

/// Samples from the beginning of the first of these words to the end of the last.
fn time_of(words: &[Known]) -> u64 {
    match words {
        [] => 0,
        [first, ..] => {
            words[words.len() - 1]
                .samples
                .end
                .saturating_sub(first.samples.start)
                .0
        }
    }
}

/// Divides time among words, the first of which begins behind character `before`: the shortest time for each, and the
/// rest in proportion to their lengths.
fn share(words: &mut [Known], before: usize, shortest: u64, time: Range<Samples>) {
    let all = words.last().map_or(0, |last| last.end - before).max(1) as u64;
    let length = time.end.saturating_sub(time.start).0;
    let least = shortest.min(length / words.len() as u64);
    let rest = length - least * words.len() as u64;
    let mut from = time.start;
    for (nth, word) in (1..).zip(words) {
        let until = time.start + Samples(least * nth + (rest * (word.end - before) as u64).div_ceil(all));
        word.samples = from..until.min(time.end);
        from = word.samples.end;
    }
}

impl Place {
    fn behind(self, c: char) -> Self {
        Self {
            chars: self.chars + 1,
            bytes: self.bytes + c.len_utf8(),
        }
    }
}

impl Sequence {
    /// Words heard so far that are not settled, in generated samples.
    fn words(&self, begin: Samples, over: bool) -> Vec<Known> {
        let passed = self.follower.passed(2 * self.known, over);
        let ends = self.ends[self.known..].iter();
        let times = passed.chunks_exact(2).map(|marks| Some((marks[0]?, marks[1]?)));
        let words = ends.zip(times).map_while(|(&(end, sounds), times)| {
            let (from, until) = times?;
            Some(Known {
                end,
                sounds,
                samples: begin + from..begin + until,
            })
        });
        words.collect()
    }
}

#[cfg(test)]
mod tests;
