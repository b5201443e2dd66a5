//! Approximate sounds of letters: spectral character and duration.
//!
//! Measured on both embedded voices (`models/embedded/align.py` makes the table): the levels and the brightness of
//! letters are similar in all voices of a language, and the follower needs no exact figures. A script without letters
//! of this table is followed by its lengths and pauses alone.

use std::time::Duration;

use omni_audio::{Expected, Timbre};
use omni_text::is_syllable;

/// From a to z: milliseconds; level in dB beside the loudest, and its spread; natural logarithm of the brightness in Hz, and its
/// spread.
const LETTERS: [(u64, f32, f32, f32, f32); 26] = [
    (52, -7.3, 5.0, 7.15, 0.40),
    (75, -18.4, 8.9, 6.25, 0.72),
    (100, -25.8, 11.6, 7.33, 1.21),
    (80, -25.4, 8.9, 6.71, 1.05),
    (50, -8.3, 6.3, 7.15, 0.40),
    (74, -25.5, 5.0, 7.26, 0.60),
    (62, -22.1, 9.9, 6.42, 0.96),
    (28, -21.2, 7.5, 7.61, 0.52),
    (53, -6.0, 5.0, 6.97, 0.40),
    (88, -15.1, 9.2, 7.18, 0.88),
    (97, -29.3, 10.7, 7.03, 1.20),
    (62, -10.9, 6.0, 6.84, 0.40),
    (75, -14.5, 5.6, 6.19, 0.40),
    (58, -12.8, 5.1, 5.99, 0.40),
    (54, -6.3, 5.5, 6.91, 0.40),
    (94, -30.9, 10.8, 6.57, 1.09),
    (154, -19.5, 11.7, 6.82, 1.12),
    (52, -10.3, 5.7, 6.60, 0.40),
    (89, -18.6, 5.9, 8.13, 0.54),
    (72, -27.3, 10.7, 7.18, 1.25),
    (54, -7.1, 5.0, 7.01, 0.40),
    (99, -19.7, 5.0, 6.29, 0.40),
    (73, -11.6, 6.8, 6.18, 0.40),
    (156, -26.7, 9.4, 7.46, 1.17),
    (50, -10.1, 6.8, 7.07, 0.40),
    (113, -14.0, 5.2, 7.34, 0.40),
];

/// Any sound.
const SOUND: Timbre = timbre((0, -11.0, 9.0, 6.95, 0.8));
const SILENCE: Timbre = timbre((0, -43.2, 8.0, 5.88, 1.31));

/// A pause that is expected; it may be of any length.
const PAUSE: Duration = Duration::from_millis(80);
/// Durations in milliseconds: of a letter of another alphabet, with the space between words; of a character that is a
/// syllable or a word; of any other sign, which is read as a word.
const OTHER_LETTER: u64 = 65;
const SYLLABLE: u64 = 220;
const SIGN: u64 = 260;
/// Corrections of durations, in milliseconds: longer for the first letter of a word, shorter for the second of two
/// letters that are one sound, for an e at the end, and for a doubled letter.
const FIRST: u64 = 40;
const MERGED: u64 = 25;
const MUTE_E: u64 = 24;
const DOUBLED: u64 = 34;
/// Shortest letter, in milliseconds.
const SHORTEST: u64 = 15;

/// Signs that are read aloud; others are silent.
const READ: &str = "$€£¥%&@#+=§°©®";

/// Letters that are one sound together.
const PAIRS: [&str; 15] = [
    "th", "sh", "ch", "ph", "ck", "gh", "wh", "ou", "ea", "ee", "oo", "ai", "ow", "ay", "qu",
];
const DIGITS: [&str; 10] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
];

const fn timbre(
    (_, level, level_spread, brightness, brightness_spread): (u64, f32, f32, f32, f32),
) -> Timbre {
    Timbre {
        level,
        level_spread,
        brightness,
        brightness_spread,
    }
}

/// Silence of any length.
pub(super) fn pause() -> Expected {
    Expected {
        timbre: SILENCE,
        length: PAUSE,
        lingers: true,
    }
}

/// Returns true if a mark makes a pause.
pub(super) fn is_pause(c: char) -> bool {
    matches!(
        c,
        ',' | ';' | ':' | '.' | '?' | '!' | '…' | '—' | '–' | '、' | '。' | '，' | '；' | '：' | '？' | '！'
    )
}

/// The sounds of a text without pauses.
pub(super) fn sounds(text: &str) -> Vec<Expected> {
    let mut sounds = Vec::new();
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let c = c.to_lowercase().next().unwrap_or(c);
        let ends = !chars.peek().is_some_and(|next| next.is_alphabetic());
        match c.to_digit(10) {
            // A number that was not written out: digit by digit it is about as long.
            Some(digit) => sounds.extend(self::sounds(DIGITS[digit as usize])),
            None => sounds.extend(sound(before, c, ends)),
        }
        before = c;
    }
    sounds
}

/// The sound of a letter after another, if it has one.
fn sound(before: char, c: char, ends: bool) -> Option<Expected> {
    if !c.is_alphanumeric() && !READ.contains(c) {
        return None;
    }
    let Some(row) = (c as u32)
        .checked_sub('a' as u32)
        .and_then(|at| LETTERS.get(at as usize))
    else {
        let ms = match c {
            c if is_syllable(c) => SYLLABLE,
            c if c.is_alphabetic() => OTHER_LETTER,
            _ => SIGN,
        };
        return Some(expected(ms, SOUND));
    };
    let merges = PAIRS.iter().any(|pair| pair.chars().eq([before, c]));
    let shorter = [
        (before == c, DOUBLED),
        (merges, MERGED),
        (ends && c == 'e', MUTE_E),
    ];
    let shorter: u64 = shorter
        .iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, ms)| ms)
        .sum();
    let first = if before.is_alphabetic() { 0 } else { FIRST };
    let ms = (row.0 + first).saturating_sub(shorter).max(SHORTEST);
    Some(expected(ms, timbre(*row)))
}

fn expected(ms: u64, timbre: Timbre) -> Expected {
    Expected {
        timbre,
        length: Duration::from_millis(ms),
        lingers: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(text: &str) -> Duration {
        sounds(text).iter().map(|sound| sound.length).sum()
    }

    #[test]
    fn a_sentence_takes_about_as_long_as_it_is_written() {
        let sentence = "the quick brown fox jumps over the lazy dog";
        let per_character = length(sentence) / sentence.len() as u32;
        assert!((55..80).contains(&per_character.as_millis()), "{per_character:?}");
    }

    #[test]
    fn letters_that_are_one_sound_are_shorter_than_two() {
        assert!(length("ship") < length("s") + length("hip"));
        assert!(length("egg") < length("eg") + length("g"));
        assert!(length("one") < length("on") + length("e"));
    }

    #[test]
    fn digits_sound_as_their_words_and_capitals_as_small_letters() {
        assert_eq!(sounds("42"), [sounds("four"), sounds("two")].concat());
        assert_eq!(sounds("ABC"), sounds("abc"));
    }

    #[test]
    fn marks_and_blanks_have_no_sound_and_what_is_read_has() {
        assert!(sounds(" ,.-'_*(\n").is_empty());
        for text in ["é", "ж", "你", "%", "𠀀"] {
            assert_eq!(sounds(text).len(), 1, "{text}");
        }
    }
}
