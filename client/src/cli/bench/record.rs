//! What is kept of every request: plain figures, as they are written to a report and read back from it. Times are in
//! seconds.

use std::time::Duration;

use omni_client::{Finish, Measured, Outcome, StageTiming};
use serde::{Deserialize, Serialize};

use super::heard::Heard;
use crate::cli::summary::finish_name;

/// Thresholds at which continuity is judged, in seconds.
pub(super) const THRESHOLDS: [f64; 3] = [0.05, 0.1, 0.2];

/// A piece of audio: when it arrived, from the moment the request was sent, and how long it plays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Chunk(pub(super) f64, pub(super) f64);

/// A request that was to be cancelled on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Cancel {
    /// How long after it was sent.
    pub(super) after_seconds: f64,
    /// From the cancel sent to the end received. Absent: the answer ended by itself first.
    pub(super) latency_seconds: Option<f64>,
}

/// What a stage of the server spent on a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Stage {
    pub(super) stage: String,
    pub(super) replica: String,
    pub(super) queue_seconds: f64,
    pub(super) busy_seconds: f64,
    pub(super) first_output_seconds: Option<f64>,
}

/// One request. What a listener notices counts from the moment it was due, which in a closed loop is when it was sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// Which of the texts.
    pub(super) text: usize,
    /// When it was sent, from the start of the level.
    pub(super) sent_at_seconds: f64,
    /// How much later that was than it was due.
    pub(super) send_lag_seconds: f64,
    /// Why it does not count as good.
    pub(super) failure: Option<String>,
    pub(super) finish: Option<String>,
    pub(super) seed: Option<u64>,
    /// Set if it was chosen for cancelling, whatever came of that.
    pub(super) cancel: Option<Cancel>,
    pub(super) output_text_tokens: u32,
    pub(super) time_to_first_text_seconds: Option<f64>,
    pub(super) time_to_last_text_seconds: Option<f64>,
    pub(super) audio_seconds: Option<f64>,
    pub(super) time_to_first_audio_seconds: Option<f64>,
    pub(super) time_to_first_audible_seconds: Option<f64>,
    /// The same from the token that completed the first sentence, where the text was streamed.
    pub(super) sentence_to_first_audio_seconds: Option<f64>,
    /// From sending to the last audio, over its playing time.
    pub(super) real_time_factor: Option<f64>,
    pub(super) worst_underrun_seconds: Option<f64>,
    pub(super) late_chunks: Option<u64>,
    pub(super) chunks: Vec<Chunk>,
    pub(super) server_queue_seconds: Option<f64>,
    pub(super) server_time_to_first_text_seconds: Option<f64>,
    pub(super) server_time_to_first_audio_seconds: Option<f64>,
    pub(super) server_real_time_factor: Option<f64>,
    pub(super) server_busy_real_time_factor: Option<f64>,
    pub(super) stages: Vec<Stage>,
}

impl Record {
    /// Of request for text number `text`, sent `lag` after it was due.
    pub(super) fn new(text: usize, lag: Duration, failure: Option<String>, heard: Heard) -> Self {
        let from_due = |time: Duration| (lag + time).as_secs_f64();
        let cancel = heard.cancel();
        let sentence = heard.sentence;
        let chunks = heard.chunks;
        let measured = heard.meter.map(omni_client::Meter::finish);
        let measured = measured.as_ref();
        let first = measured.and_then(|measured| measured.first_audio);
        let record = Self {
            text,
            send_lag_seconds: lag.as_secs_f64(),
            failure,
            cancel,
            time_to_first_text_seconds: heard.first_text.map(from_due),
            time_to_last_text_seconds: heard.last_text.map(from_due),
            time_to_first_audio_seconds: first.map(from_due),
            time_to_first_audible_seconds: measured.and_then(|m| m.audible_first_audio).map(from_due),
            sentence_to_first_audio_seconds: first
                .zip(sentence)
                .map(|(first, sentence)| first.saturating_sub(sentence).as_secs_f64()),
            chunks,
            ..Self::default()
        };
        record.with_audio(measured).with_outcome(heard.done.as_ref())
    }

    fn with_audio(self, measured: Option<&Measured>) -> Self {
        Self {
            audio_seconds: measured.map(|m| m.audio.as_secs_f64()),
            real_time_factor: measured.and_then(|m| m.real_time_factor),
            worst_underrun_seconds: measured.map(|m| m.continuity.worst().as_secs_f64()),
            late_chunks: measured.map(|m| m.continuity.late_chunks),
            ..self
        }
    }

    fn with_outcome(self, done: Option<&Outcome>) -> Self {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let timings = done.map(|done| &done.timings);
        Self {
            finish: done.map(|done| finish_name(&done.finish).to_owned()),
            seed: done.and_then(|done| done.seed),
            output_text_tokens: done.map_or(0, |done| done.usage.output_text_tokens),
            server_queue_seconds: timings.map(|timings| timings.queue.as_secs_f64()),
            server_time_to_first_text_seconds: seconds(timings.and_then(|t| t.time_to_first_text)),
            server_time_to_first_audio_seconds: seconds(timings.and_then(|t| t.time_to_first_audio)),
            server_real_time_factor: timings.map(|timings| timings.real_time_factor),
            server_busy_real_time_factor: done.and_then(Outcome::busy_real_time_factor),
            stages: timings.map_or_else(Vec::new, |t| t.stages.iter().map(Stage::of).collect()),
            ..self
        }
    }

    /// The whole answer is there and nothing is wrong.
    pub(super) fn good(&self) -> bool {
        self.failure.is_none()
    }

    /// Good, and not chosen for cancelling: those that were and ended before are the short ones, and would make the
    /// rest look better than it is.
    pub(super) fn counts(&self) -> bool {
        self.good() && self.cancel.is_none()
    }

    /// It has audio, and a player with a buffer of `threshold` seconds would have played it without a gap.
    pub(super) fn continuous(&self, threshold: f64) -> bool {
        self.worst_underrun_seconds
            .is_some_and(|worst| worst <= threshold)
    }

    /// Time per text token behind the first.
    pub(super) fn time_per_token(&self) -> Option<f64> {
        let behind = self
            .output_text_tokens
            .checked_sub(1)
            .filter(|&behind| behind > 0)?;
        let took = self.time_to_last_text_seconds? - self.time_to_first_text_seconds?;
        Some(took / f64::from(behind))
    }

    /// Between consecutive pieces of audio: how long the later was waited for, and how long the earlier plays.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.chunks
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0, pair[0].1))
    }

    /// When a player that starts with the first piece and waits whenever it runs dry is silent: from, to.
    pub(super) fn stalls(&self) -> Vec<(f64, f64)> {
        let mut stalls = Vec::new();
        let mut dry = f64::INFINITY;
        for &Chunk(at, plays) in &self.chunks {
            if at > dry {
                stalls.push((dry, at));
            }
            dry = if dry.is_finite() { dry.max(at) } else { at } + plays;
        }
        stalls
    }
}

impl Stage {
    fn of(timing: &StageTiming) -> Self {
        Self {
            stage: timing.stage.clone(),
            replica: timing.replica.clone(),
            queue_seconds: timing.queue.as_secs_f64(),
            busy_seconds: timing.busy.as_secs_f64(),
            first_output_seconds: timing.first_output.map(|time| time.as_secs_f64()),
        }
    }
}

/// What was expected of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) audio: bool,
    /// A longest answer was asked for, so that one that is cut is all there was to be.
    pub(super) limited: bool,
}

/// Why a request that came to its end is still not good.
pub(super) fn shortcoming(heard: &Heard, expected: Expected) -> Option<String> {
    let Some(done) = &heard.done else {
        return Some("the server ended the session without an answer".to_owned());
    };
    match &done.finish {
        Finish::Interrupted if heard.was_cancelled() => None,
        Finish::Stop if expected.audio && heard.meter.is_none() => Some("no audio".to_owned()),
        Finish::Stop => None,
        Finish::Length if expected.limited => None,
        Finish::Length => Some("the answer was cut at the longest the server gives".to_owned()),
        Finish::Repetition => Some("the answer was stopped: the model repeated itself".to_owned()),
        Finish::Interrupted => Some("the server stopped the answer".to_owned()),
        Finish::Error(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_player_that_waits_is_silent_between_the_pieces_that_came_late() {
        let record = Record {
            // Plays 0.1 to 0.3; 0.1 s late; plays 0.4 to 0.5; in time; 0.05 s late.
            chunks: vec![
                Chunk(0.1, 0.2),
                Chunk(0.4, 0.1),
                Chunk(0.45, 0.1),
                Chunk(0.65, 0.1),
            ],
            ..Record::default()
        };
        let stalls = record.stalls();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert_eq!(stalls.len(), 2, "{stalls:?}");
        assert!(close(stalls[0].0, 0.3) && close(stalls[0].1, 0.4), "{stalls:?}");
        assert!(close(stalls[1].0, 0.6) && close(stalls[1].1, 0.65), "{stalls:?}");
        let gaps: Vec<(f64, f64)> = record.gaps().collect();
        assert!(
            close(gaps[0].0, 0.3) && close(gaps[0].1, 0.2) && gaps.len() == 3,
            "{gaps:?}"
        );
    }

    #[test]
    fn waiting_begins_when_the_request_was_due_and_speed_when_it_was_sent() {
        use omni_client::{Audio, SampleRate, Samples};
        const MS: Duration = Duration::from_millis(1);
        let rate = SampleRate::new(24_000).unwrap();
        let mut heard = Heard {
            sentence: Some(80 * MS),
            ..Heard::default()
        };
        // A tenth of a second each, the first half of which is silent.
        for (at, start) in [(200, 0), (350, 2_400)] {
            let samples = [[0_i16; 1_200], [9_000; 1_200]].concat();
            let pcm: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            let start = Samples(start);
            let audio = Audio {
                rate,
                start,
                pcm: pcm.into(),
                last: false,
            };
            heard.audio(at * MS, &audio);
        }
        let record = Record::new(3, 50 * MS, None, heard);
        assert_eq!((record.text, record.send_lag_seconds), (3, 0.05));
        assert_eq!(record.time_to_first_audio_seconds, Some(0.25));
        assert_eq!(record.time_to_first_audible_seconds, Some(0.3));
        assert_eq!(record.sentence_to_first_audio_seconds, Some(0.12));
        // 350 ms after sending 200 ms of audio were there; the second piece was 50 ms late.
        assert_eq!(
            (record.real_time_factor, record.worst_underrun_seconds),
            (Some(1.75), Some(0.05))
        );
        assert_eq!(record.chunks, [Chunk(0.2, 0.1), Chunk(0.35, 0.1)]);
    }

    #[test]
    fn time_per_token_is_that_behind_the_first() {
        let record = |tokens| Record {
            output_text_tokens: tokens,
            time_to_first_text_seconds: Some(1.0),
            time_to_last_text_seconds: Some(1.9),
            ..Record::default()
        };
        assert!((record(10).time_per_token().unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(
            (record(1).time_per_token(), record(0).time_per_token()),
            (None, None)
        );
    }

    #[test]
    fn without_audio_nothing_is_continuous() {
        assert!(!Record::default().continuous(1.0));
        let at_threshold = Record {
            worst_underrun_seconds: Some(0.1),
            ..Record::default()
        };
        assert!(at_threshold.continuous(0.1) && !at_threshold.continuous(0.05));
    }
}
