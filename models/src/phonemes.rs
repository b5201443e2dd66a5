//! Phonemes of voices that read them, character by character, and the times at which words of them were spoken.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::checkpoint::{LoadError, Problem};

/// Slowest and fastest speech, relative to the voice's own pace.
const SPEEDS: std::ops::RangeInclusive<f32> = 0.5..=2.0;

/// Reason why a voice cannot say something.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PhonemeError {
    /// A character that the voice was not trained with.
    #[error("phoneme {symbol:?} at character {at} is not one of the voice's {known}")]
    Unknown {
        /// The character.
        symbol: char,
        /// Characters before it.
        at: usize,
        /// Number of those that there are.
        known: usize,
    },
    /// Too few or too many at once.
    #[error("{found} phonemes at once; 1 to {most} are possible")]
    Count {
        /// Number of phonemes.
        found: usize,
        /// Most that are possible.
        most: usize,
    },
    /// A speed out of range.
    #[error("speed {0}; 0.5 to 2 is possible")]
    Speed(f32),
    /// Speech that would be too long.
    #[error("{found} frames of speech at once; {most} are possible")]
    Long {
        /// Frames that it would have.
        found: u64,
        /// Most that are possible.
        most: usize,
    },
    /// There is no such voice, or the mixture is not one.
    #[error("{0}")]
    Voice(String),
    /// The computation failed.
    #[error("{0}")]
    Compute(String),
}

impl From<omni_backend::ComputeError> for PhonemeError {
    fn from(error: omni_backend::ComputeError) -> Self {
        Self::Compute(error.to_string())
    }
}

/// Checks a speed.
pub(crate) fn speed(speed: f32) -> Result<f32, PhonemeError> {
    if SPEEDS.contains(&speed) {
        Ok(speed)
    } else {
        Err(PhonemeError::Speed(speed))
    }
}

/// The characters that a voice reads.
#[derive(Debug, Clone)]
pub(crate) struct Vocabulary {
    ids: BTreeMap<char, u32>,
    /// Most at once.
    most: usize,
}

impl Vocabulary {
    /// From the names of a configuration, each of which must be one character.
    pub(crate) fn new(file: &str, ids: Vec<(String, u32)>, most: usize) -> Result<Self, LoadError> {
        let one = |(name, id): (String, u32)| {
            let mut chars = name.chars();
            match (chars.next(), chars.next()) {
                (Some(symbol), None) => Ok((symbol, id)),
                _ => Err(LoadError::one(Problem::Config {
                    file: file.to_owned(),
                    field: "vocab".into(),
                    reason: format!("{name:?} is not one character"),
                })),
            }
        };
        let ids = ids.into_iter().map(one).collect::<Result<_, _>>()?;
        Ok(Self { ids, most })
    }

    /// The ids of phonemes, with that of the pause at both ends.
    pub(crate) fn ids(&self, phonemes: &str) -> Result<Vec<u32>, PhonemeError> {
        let found = phonemes.chars().count();
        let most = self.most;
        if found == 0 || found > most {
            return Err(PhonemeError::Count { found, most });
        }
        let mut ids = vec![0];
        for (at, symbol) in phonemes.chars().enumerate() {
            let known = self.ids.len();
            let id = self.ids.get(&symbol);
            ids.push(*id.ok_or(PhonemeError::Unknown { symbol, at, known })?);
        }
        ids.push(0);
        Ok(ids)
    }
}

/// The frames of every id, and their number, which must not be above `most`.
///
/// `durations` are those before rounding, which is to the nearest number and of two to the even one.
pub(crate) fn frames(durations: &[f32], most: usize) -> Result<(Vec<u32>, usize), PhonemeError> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1"
    )]
    let frames: Vec<u32> = durations
        .iter()
        .map(|d| d.round_ties_even().max(1.0) as u32)
        .collect();
    let found = frames.iter().map(|&n| u64::from(n)).sum();
    match usize::try_from(found).ok().filter(|n| *n <= most) {
        Some(count) => Ok((frames, count)),
        None => Err(PhonemeError::Long { found, most }),
    }
}

/// For every frame the row of its id, `first` being that of the first one.
pub(crate) fn rows_of_frames(frames: &[u32], first: usize) -> impl Iterator<Item = u32> {
    let rows = (u32::try_from(first).unwrap_or(u32::MAX)..).zip(frames);
    rows.flat_map(|(row, &count)| std::iter::repeat_n(row, count as usize))
}

/// The time of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenWord {
    /// Its phonemes, by the number of characters before.
    pub phonemes: Range<usize>,
    /// The samples in which they are spoken.
    pub samples: Range<u64>,
}

/// The times of the words of `phonemes`, which spaces divide. `frames` are those of the pause before, of every phoneme
/// and of the pause after, `samples` each.
#[must_use]
pub fn spoken_words(phonemes: &str, frames: &[u32], samples: u32) -> Vec<SpokenWord> {
    let mut words = Vec::new();
    let mut at = u64::from(frames.first().copied().unwrap_or(0) * samples);
    let mut open: Option<(usize, u64)> = None;
    let mut count = 0;
    for (i, (symbol, &frames)) in phonemes.chars().zip(frames.iter().skip(1)).enumerate() {
        match (open, symbol == ' ') {
            (None, false) => open = Some((i, at)),
            (Some((first, from)), true) => {
                words.push(SpokenWord {
                    phonemes: first..i,
                    samples: from..at,
                });
                open = None;
            }
            _ => {}
        }
        at += u64::from(frames) * u64::from(samples);
        count = i + 1;
    }
    if let Some((first, from)) = open {
        words.push(SpokenWord {
            phonemes: first..count,
            samples: from..at,
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_spoken_where_their_phonemes_are() {
        let words = spoken_words("ab  c,", &[2, 1, 3, 1, 1, 4, 2, 9], 10);
        assert_eq!(
            words,
            [
                SpokenWord {
                    phonemes: 0..2,
                    samples: 20..60
                },
                SpokenWord {
                    phonemes: 4..6,
                    samples: 80..140
                }
            ]
        );
        assert!(spoken_words(" ", &[1, 1, 1], 10).is_empty());
    }

    #[test]
    fn what_a_voice_does_not_read_is_named() {
        let vocabulary = Vocabulary::new("config.json", vec![("a".into(), 3)], 2).expect("one character");
        assert_eq!(vocabulary.ids("aa"), Ok(vec![0, 3, 3, 0]));
        let error = |text: &str| vocabulary.ids(text).expect_err("refused").to_string();
        assert_eq!(
            error("aé"),
            "phoneme 'é' at character 1 is not one of the voice's 1"
        );
        assert_eq!(error("aaa"), "3 phonemes at once; 1 to 2 are possible");
        assert_eq!(error(""), "0 phonemes at once; 1 to 2 are possible");
        assert!(Vocabulary::new("config.json", vec![("ab".into(), 3)], 2).is_err());
    }

    #[test]
    fn frames_are_whole_and_bounded() {
        assert_eq!(frames(&[0.2, 1.5, 2.5, -3.0], 6), Ok((vec![1, 2, 2, 1], 6)));
        assert!(frames(&[0.2, 1.5, 2.5], 4).is_err());
        assert!(frames(&[f32::INFINITY, 1.0], 4).is_err());
        assert_eq!(frames(&[f32::NAN], 4), Ok((vec![1], 1)));
        assert_eq!(rows_of_frames(&[2, 1], 5).collect::<Vec<_>>(), [5, 5, 6]);
        assert_eq!(
            speed(f32::NAN).map_err(|e| e.to_string()[..9].to_owned()),
            Err("speed NaN".into())
        );
    }
}
