//! Which of a text is heard in which samples.
//!
//! In: for each sequence in turn, how far into the text it goes and how its audio grows. Out: the characters that somebody has
//! heard who stopped listening at a sample. The ends of sequences are exact. Within a sequence every character is taken
//! to be as long as is usual for its script, all scaled to the sequence's length: about a word off in the middle of a
//! sentence. While a sequence still grows its length is not known; the pace of the sequences before it is assumed then, or
//! the usual one if it is the first, and the estimate is off by as much as the voice differs from that.
//!
//! Audio grows in samples that the model made; what somebody has heard is counted in those that were sent, which may be at
//! another rate and speed.

use std::time::Duration;

use omni_audio::{SampleRate, Samples, Timeline};

/// How long a character of an alphabet usually is, the space between words included, one that is a syllable or a word, and a
/// digit, which is read as a word too.
const LETTER: Duration = Duration::from_millis(65);
const DIGIT: Duration = Duration::from_millis(260);
const SYLLABLE: Duration = Duration::from_millis(220);

/// The account of one text.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    rate: SampleRate,
    timeline: Timeline,
    sequences: Vec<Sequence>,
    /// The sequence whose audio comes now.
    sounding: usize,
}

/// One sequence.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    /// Its text ends before this character.
    end: usize,
    /// Where its audio begins; none came before.
    start: Option<Samples>,
    length: Samples,
    complete: bool,
}

impl Heard {
    /// For audio made at `rate` and heard as `timeline` says.
    pub(super) fn new(rate: SampleRate, timeline: Timeline) -> Self {
        Self {
            rate,
            timeline,
            sequences: Vec::new(),
            sounding: 0,
        }
    }

    /// A sequence begins whose text ends, for now, before character `end`.
    pub(super) fn begin(&mut self, end: usize) {
        self.sequences.push(Sequence {
            end,
            start: None,
            length: Samples::ZERO,
            complete: false,
        });
    }

    /// The sequence that began last goes on to character `end`.
    pub(super) fn extend(&mut self, end: usize) {
        if let Some(last) = self.sequences.last_mut() {
            last.end = end;
        }
    }

    /// Audio up to `until` was made; before it begins the current sequence's if none had.
    pub(super) fn audio(&mut self, until: Samples) {
        if let Some(current) = self.sequences.get_mut(self.sounding) {
            let start = *current.start.get_or_insert(until);
            current.length = Samples(until.0 - start.0);
        }
    }

    /// The current sequence is over.
    pub(super) fn complete(&mut self) {
        if let Some(current) = self.sequences.get_mut(self.sounding) {
            current.complete = true;
            self.sounding += 1;
        }
    }

    /// How many characters of `text` are heard by whoever hears samples up to `played`, of those that were sent: whole words.
    pub(super) fn characters(&self, text: &str, played: Samples) -> usize {
        let played = self.timeline.made(played);
        let (mut heard, mut first, mut pace) = (0, 0, Pace::default());
        for sequence in &self.sequences {
            let spoken = || text.chars().skip(first).take(sequence.end.saturating_sub(first));
            let usual: Duration = spoken().map(usual_length).sum();
            let length = self.rate.duration(sequence.length);
            if let Some(start) = sequence.start {
                if played <= start {
                    break;
                }
                let time = self.rate.duration(Samples(played.0 - start.0));
                if time < length || !sequence.complete {
                    let whole = match sequence.complete {
                        true => length,
                        false => pace.apply(usual).max(length),
                    };
                    return words(text, first, first + within(spoken(), time, whole, usual));
                }
                pace.add(usual, length);
            } else if !sequence.complete {
                break;
            }
            first = first.max(sequence.end);
            heard = first;
        }
        heard
    }
}

/// How much longer than usual the voice takes.
#[derive(Default)]
struct Pace {
    usual: Duration,
    actual: Duration,
}

impl Pace {
    fn add(&mut self, usual: Duration, actual: Duration) {
        self.usual += usual;
        self.actual += actual;
    }

    fn apply(&self, usual: Duration) -> Duration {
        match self.usual.is_zero() {
            true => usual,
            false => usual.mul_f64(self.actual.as_secs_f64() / self.usual.as_secs_f64()),
        }
    }
}

/// Characters of `spoken` that end by `time`, if all of them take `whole` and usually `usual`.
fn within(spoken: impl Iterator<Item = char>, time: Duration, whole: Duration, usual: Duration) -> usize {
    let scale = match usual.is_zero() {
        true => return 0,
        false => whole.as_secs_f64() / usual.as_secs_f64(),
    };
    let mut at = 0.0;
    let ended = |c: &char| {
        at += usual_length(*c).as_secs_f64() * scale;
        at <= time.as_secs_f64()
    };
    spoken.take_while(ended).count()
}

fn usual_length(c: char) -> Duration {
    match c {
        c if is_syllable(c) => SYLLABLE,
        c if c.is_numeric() => DIGIT,
        _ => LETTER,
    }
}

/// Whether a character stands for a syllable or a word, without spaces between: Kana, Han, Hangul.
fn is_syllable(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{20000}'..='\u{3FFFF}')
}

/// The largest number of characters up to `end`, and at least `first`, that does not cut a word.
fn words(text: &str, first: usize, end: usize) -> usize {
    let mut last = first;
    let mut before = ' ';
    for (at, c) in text.chars().chain([' ']).enumerate().take(end + 1) {
        let boundary = c.is_whitespace() || before.is_whitespace() || is_syllable(c) || is_syllable(before);
        if at > first && boundary {
            last = at;
        }
        before = c;
    }
    last
}

#[cfg(test)]
mod tests {
    use omni_audio::Speed;

    use super::*;

    fn heard() -> Heard {
        heard_at(8_000, 1.0)
    }

    fn heard_at(hz: u32, speed: f32) -> Heard {
        let rate = |hz| SampleRate::new(hz).unwrap();
        let speed = Speed::new(speed).unwrap();
        Heard::new(rate(8_000), Timeline::new(rate(8_000), rate(hz), speed))
    }

    const fn ms(ms: u64) -> Samples {
        Samples(8 * ms)
    }

    const TEXT: &str = "One two three. Four five six.";

    fn two_sentences() -> Heard {
        spoken(heard())
    }

    fn spoken(mut heard: Heard) -> Heard {
        heard.begin(14);
        heard.audio(ms(0));
        heard.audio(ms(1_400));
        heard.complete();
        heard.begin(29);
        heard.audio(ms(1_500));
        heard.audio(ms(3_000));
        heard
    }

    fn said(heard: &Heard, played: Samples) -> String {
        TEXT.chars().take(heard.characters(TEXT, played)).collect()
    }

    #[test]
    fn nothing_is_heard_before_the_first_word_has_ended() {
        let heard = two_sentences();
        assert_eq!(said(&heard, ms(0)), "");
        assert_eq!(said(&heard, ms(250)), "");
        assert_eq!(said(&heard, ms(310)).trim_end(), "One");
    }

    #[test]
    fn a_whole_sequence_is_heard_when_its_last_sample_is() {
        let mut heard = two_sentences();
        assert_eq!(said(&heard, ms(1_400)), "One two three.");
        assert_eq!(said(&heard, ms(1_500)), "One two three.");
        heard.complete();
        assert_eq!(said(&heard, ms(3_000)), TEXT);
        assert_eq!(said(&heard, Samples(u64::MAX)), TEXT);
    }

    #[test]
    fn the_rest_of_a_growing_sequence_is_estimated_from_the_pace_so_far() {
        let heard = two_sentences();
        // 100 ms per character so far; "Four five" ends with the tenth of the second sentence.
        assert_eq!(
            said(&heard, ms(1_500 + 1_050)).trim_end(),
            "One two three. Four five"
        );
        assert_eq!(said(&heard, ms(1_500 + 450)).trim_end(), "One two three.");
    }

    #[test]
    fn at_another_rate_and_speed_the_same_is_heard_at_the_same_share() {
        let heard = spoken(heard_at(24_000, 2.0));
        // Three times the samples in half the time.
        let at = |ms: u64| Samples(8 * ms * 3 / 2);
        assert_eq!(said(&heard, at(310)).trim_end(), "One");
        assert_eq!(said(&heard, at(1_400)), "One two three.");
        assert_eq!(
            said(&heard, at(1_500 + 1_050)).trim_end(),
            "One two three. Four five"
        );
    }

    #[test]
    fn what_is_heard_never_shrinks_with_more_samples() {
        let heard = two_sentences();
        let counts: Vec<_> = (0..4_000).map(|at| heard.characters(TEXT, ms(at))).collect();
        assert!(counts.is_sorted());
    }

    #[test]
    fn a_sequence_without_sound_is_heard_with_what_came_before_it() {
        let mut heard = heard();
        heard.begin(3);
        heard.complete();
        heard.begin(7);
        heard.audio(ms(0));
        heard.audio(ms(700));
        heard.complete();
        assert_eq!(said(&heard, ms(700)), "One two");
    }

    #[test]
    fn digits_take_longer_than_letters() {
        let text = "12, 13, and so on and on";
        let mut heard = heard();
        heard.begin(text.len());
        heard.audio(ms(0));
        heard.audio(ms(1_000));
        assert_eq!(&text[..heard.characters(text, ms(1_000))], "12, ");
    }

    #[test]
    fn text_without_spaces_is_cut_between_characters() {
        let text = "你好世界";
        let mut heard = heard();
        heard.begin(4);
        heard.audio(ms(0));
        heard.audio(ms(800));
        heard.complete();
        assert_eq!(heard.characters(text, ms(500)), 2);
    }
}
