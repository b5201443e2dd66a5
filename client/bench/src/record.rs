//! Records of requests: plain figures, as they are written to a report. Times are in
//! seconds.

use omni_client::{ChatReady, Ready, StageTiming};
use serde::Serialize;

/// Thresholds at which continuity is judged, in seconds.
pub(crate) const THRESHOLDS: [f64; 3] = [0.05, 0.1, 0.2];

/// Model and voice, as the server named them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Served {
    pub(crate) model: String,
    pub(crate) voice: String,
}

impl Served {
    pub(crate) fn of(ready: &Ready) -> Self {
        Self {
            model: ready.model.clone(),
            voice: ready.voice.clone(),
        }
    }

    pub(crate) fn of_chat(ready: &ChatReady) -> Self {
        Self {
            model: ready.model.clone(),
            voice: ready.voice.clone(),
        }
    }
}

/// A piece of audio: when it arrived, from the moment the request was sent, and how long it plays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Chunk(pub(crate) f64, pub(crate) f64);

/// A request that was to be cancelled on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Cancel {
    /// Time after sending.
    pub(crate) after_seconds: f64,
    /// From the cancel sent to the end received. Absent if the answer had ended before.
    pub(crate) latency_seconds: Option<f64>,
}

/// Time of a server stage for a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Stage {
    pub(crate) stage: String,
    pub(crate) replica: String,
    pub(crate) queue_seconds: f64,
    pub(crate) busy_seconds: f64,
    pub(crate) first_output_seconds: Option<f64>,
}

/// One request. Listener-side times count from its due time, which in a closed loop is its sending.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Record {
    /// Index of the text.
    pub(crate) text: usize,
    /// Time at which it was sent, from the start of the level.
    pub(crate) sent_at_seconds: f64,
    /// Delay of sending relative to the schedule.
    pub(crate) send_lag_seconds: f64,
    /// Reason why it failed.
    pub(crate) failure: Option<String>,
    pub(crate) finish: Option<String>,
    pub(crate) seed: Option<u64>,
    /// Set if the request was chosen for cancelling, even if it ended before.
    pub(crate) cancel: Option<Cancel>,
    pub(crate) output_text_tokens: u32,
    pub(crate) time_to_first_text_seconds: Option<f64>,
    pub(crate) time_to_last_text_seconds: Option<f64>,
    pub(crate) audio_seconds: Option<f64>,
    pub(crate) time_to_first_audio_seconds: Option<f64>,
    pub(crate) time_to_first_audible_seconds: Option<f64>,
    /// As above, from the token that completed the first sentence, where the text was streamed.
    pub(crate) sentence_to_first_audio_seconds: Option<f64>,
    /// From sending to the last audio, over its playing time.
    pub(crate) real_time_factor: Option<f64>,
    pub(crate) worst_underrun_seconds: Option<f64>,
    pub(crate) late_chunks: Option<u64>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) server_queue_seconds: Option<f64>,
    pub(crate) server_time_to_first_text_seconds: Option<f64>,
    pub(crate) server_time_to_first_audio_seconds: Option<f64>,
    pub(crate) server_real_time_factor: Option<f64>,
    pub(crate) server_busy_real_time_factor: Option<f64>,
    pub(crate) stages: Vec<Stage>,
}

impl Record {
    /// The whole answer is there and nothing is wrong.
    pub(crate) fn good(&self) -> bool {
        self.failure.is_none()
    }

    /// Good, and not chosen for cancelling: those that were and ended before are the short ones, and would make the
    /// rest look better than it is.
    pub(crate) fn counts(&self) -> bool {
        self.good() && self.cancel.is_none()
    }

    /// It has audio, and a player with a buffer of `threshold` seconds would have played it without a gap.
    pub(crate) fn continuous(&self, threshold: f64) -> bool {
        self.worst_underrun_seconds
            .is_some_and(|worst| worst <= threshold)
    }

    /// Time per text token after the first.
    pub(crate) fn time_per_token(&self) -> Option<f64> {
        let behind = self
            .output_text_tokens
            .checked_sub(1)
            .filter(|&behind| behind > 0)?;
        let took = self.time_to_last_text_seconds? - self.time_to_first_text_seconds?;
        Some(took / f64::from(behind))
    }

    /// Between consecutive pieces of audio: how long the later was waited for, and how long the earlier plays.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.chunks
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0, pair[0].1))
    }

    /// Silences of a player that starts with the first piece and waits whenever it runs dry: from, to.
    pub(crate) fn stalls(&self) -> Vec<(f64, f64)> {
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
    pub(crate) fn of(timing: &StageTiming) -> Self {
        Self {
            stage: timing.stage.clone(),
            replica: timing.replica.clone(),
            queue_seconds: timing.queue.as_secs_f64(),
            busy_seconds: timing.busy.as_secs_f64(),
            first_output_seconds: timing.first_output.map(|time| time.as_secs_f64()),
        }
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
