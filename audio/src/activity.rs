//! Voice activity detection: beginnings and ends of speech in an audio stream.
//!
//! In: mono samples at 16 kHz in any chunking. Out: changes, as positions counted from the first sample. A network
//! (earshot) rates frames of 16 ms; this module decides how many of them make a beginning or an end. The result does
//! not depend on the chunking.

use std::collections::VecDeque;
use std::time::Duration;

use earshot::Detector;

use crate::units::Samples;

/// Samples per frame of the network.
const FRAME: usize = 256;
/// Frames of speech that make a beginning, less those of silence among them: 64 ms. A click is shorter.
const BEGIN: u32 = 4;
/// Amount by which ongoing speech may score below the threshold for a beginning.
const HYSTERESIS: f32 = 0.15;
/// Lowest score of ongoing speech.
const LOWEST: f32 = 0.05;

/// Thresholds of speech.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeechThresholds {
    /// Certainty from which a frame is speech, 0 to 1.
    pub activation: f32,
    /// Silence that ends it.
    pub silence: Duration,
}

/// Beginning or end of speech, at a position counted from the first sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeechChange {
    /// Speech began there, which is some frames before it was certain.
    Started(Samples),
    /// End of speech: at the start of a silence that is long enough.
    Stopped(Samples),
}

/// The state of one stream.
#[derive(derive_more::Debug)]
#[debug("SpeechDetector {{ judged: {:?}, phase: {:?}, .. }}", self.judged, self.phase)]
pub struct SpeechDetector {
    network: Box<Detector>,
    activation: f32,
    /// Samples of silence that end speech.
    silence: u128,
    /// Samples that make no frame yet.
    rest: Vec<f32>,
    /// Samples of frames that were judged.
    judged: u64,
    phase: Phase,
    changes: VecDeque<SpeechChange>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Silence,
    /// There may be speech since then.
    Beginning {
        since: u64,
        frames: u32,
    },
    /// Speech, of which the last frame ended there.
    Speech {
        until: u64,
    },
}

impl SpeechDetector {
    /// Sample rate of the input, in Hz.
    pub const RATE: u32 = 16_000;

    /// Before the first sample.
    pub fn new(thresholds: SpeechThresholds) -> Self {
        let mut detector = Self {
            network: Box::default(),
            activation: 0.0,
            silence: 0,
            rest: Vec::with_capacity(FRAME),
            judged: 0,
            phase: Phase::Silence,
            changes: VecDeque::new(),
        };
        detector.set_thresholds(thresholds);
        detector
    }

    /// Changes the thresholds from now on; speech in progress continues.
    pub fn set_thresholds(&mut self, thresholds: SpeechThresholds) {
        self.activation = thresholds.activation;
        self.silence = thresholds.silence.as_micros() * u128::from(Self::RATE) / 1_000_000;
    }

    /// Longest time between a beginning and its report.
    pub fn latency() -> Samples {
        Samples(FRAME as u64 * u64::from(2 * BEGIN))
    }

    /// Takes more samples; what changed with them is given by [`change`](Self::change).
    pub fn push(&mut self, samples: &[f32]) {
        let mut left = samples;
        while !left.is_empty() {
            let take = (FRAME - self.rest.len()).min(left.len());
            let (head, tail) = left.split_at(take);
            self.rest.extend_from_slice(head);
            left = tail;
            if self.rest.len() == FRAME {
                let score = self.network.predict_f32(&self.rest);
                self.rest.clear();
                self.judge(score);
            }
        }
    }

    /// The oldest change that was not given out.
    pub fn change(&mut self) -> Option<SpeechChange> {
        self.changes.pop_front()
    }

    /// Begins a new turn: speech in progress does not go on.
    pub fn restart(&mut self) {
        self.phase = Phase::Silence;
        self.changes.clear();
    }

    /// Starts within speech: it continues until silence ends it, and its beginning is not reported.
    pub fn resume(&mut self) {
        self.phase = Phase::Speech { until: self.judged };
        self.changes.clear();
    }

    fn judge(&mut self, score: f32) {
        let begin = self.judged;
        self.judged += FRAME as u64;
        let voiced = score >= self.activation;
        self.phase = match self.phase {
            Phase::Silence if voiced => Phase::Beginning {
                since: begin,
                frames: 1,
            },
            Phase::Silence => Phase::Silence,
            Phase::Beginning { since, frames } if voiced && frames + 1 >= BEGIN => {
                self.changes.push_back(SpeechChange::Started(Samples(since)));
                Phase::Speech { until: self.judged }
            }
            Phase::Beginning { since, frames } if voiced => Phase::Beginning {
                since,
                frames: frames + 1,
            },
            Phase::Beginning { frames: 0 | 1, .. } => Phase::Silence,
            Phase::Beginning { since, frames } => Phase::Beginning {
                since,
                frames: frames - 1,
            },
            Phase::Speech { until } => self.ongoing(score, until),
        };
    }

    fn ongoing(&mut self, score: f32, until: u64) -> Phase {
        let goes_on = (self.activation - HYSTERESIS).max(LOWEST.min(self.activation));
        if score >= goes_on {
            return Phase::Speech { until: self.judged };
        }
        if u128::from(self.judged - until) < self.silence {
            return Phase::Speech { until };
        }
        self.changes
            .push_back(SpeechChange::Stopped(Samples(self.judged)));
        Phase::Silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: SpeechThresholds = SpeechThresholds {
        activation: 0.5,
        silence: Duration::from_millis(200),
    };

    fn changes(scores: &[f32]) -> Vec<SpeechChange> {
        let mut detector = SpeechDetector::new(USUAL);
        scores.iter().for_each(|score| detector.judge(*score));
        std::iter::from_fn(|| detector.change()).collect()
    }

    fn frames(count: u64) -> Samples {
        Samples(count * FRAME as u64)
    }

    #[test]
    fn speech_begins_where_it_was_first_heard_and_ends_behind_its_silence() {
        let scores = [vec![0.1; 10], vec![0.9; 20], vec![0.1; 30]].concat();
        let stopped = 10 + 20 + 13;
        let expected = [
            SpeechChange::Started(frames(10)),
            SpeechChange::Stopped(frames(stopped)),
        ];
        assert_eq!(changes(&scores), expected);
    }

    #[test]
    fn a_click_is_no_speech_and_a_pause_within_a_sentence_no_end() {
        assert_eq!(changes(&[0.1, 0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1]), []);
        let scores = [
            vec![0.9; 10],
            vec![0.1; 8],
            vec![0.4; 1],
            vec![0.1; 8],
            vec![0.9; 5],
        ]
        .concat();
        assert_eq!(changes(&scores), [SpeechChange::Started(Samples::ZERO)]);
    }

    #[test]
    fn speech_goes_on_when_thresholds_change_and_when_it_is_resumed() {
        let mut detector = SpeechDetector::new(USUAL);
        let hear = |detector: &mut SpeechDetector, score: f32, frames: u32| {
            (0..frames).for_each(|_| detector.judge(score));
            detector.change()
        };
        assert_eq!(
            hear(&mut detector, 0.9, 10),
            Some(SpeechChange::Started(Samples::ZERO))
        );
        detector.set_thresholds(SpeechThresholds {
            silence: Duration::from_millis(400),
            ..USUAL
        });
        assert_eq!(hear(&mut detector, 0.1, 20), None, "the pause may be longer now");
        assert_eq!(
            hear(&mut detector, 0.1, 10),
            Some(SpeechChange::Stopped(frames(10 + 25)))
        );

        let mut detector = SpeechDetector::new(USUAL);
        detector.resume();
        assert_eq!(
            hear(&mut detector, 0.1, 20),
            Some(SpeechChange::Stopped(frames(13)))
        );
    }

    #[test]
    fn silence_and_hiss_are_no_speech_however_they_are_cut() {
        let mut state = 1_u32;
        let mut noise = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let silence = vec![0.0; 48_000];
        let hiss: Vec<f32> = (0..48_000).map(|_| noise() * 0.01).collect();
        for (name, sound) in [("silence", silence), ("hiss", hiss)] {
            for cut in [1_000, 160] {
                let mut detector = SpeechDetector::new(USUAL);
                sound.chunks(cut).for_each(|chunk| detector.push(chunk));
                assert_eq!(detector.change(), None, "{name}");
            }
        }
    }
}
