//! What is kept of every request and every level of load.

use std::time::Duration;

use omni_client::{Audio, Finish, Measured, Meter, Outcome};
use serde_json::{Value, json};

use crate::cli::summary::finish_name;

/// Thresholds at which continuity is judged.
pub(super) const THRESHOLDS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// An answer on its way; times count from the moment it was asked for.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) first_text: Option<Duration>,
    pub(super) last_text: Option<Duration>,
    pub(super) meter: Option<Meter>,
    pub(super) done: Option<Outcome>,
}

impl Heard {
    pub(super) fn text(&mut self, at: Duration) {
        self.first_text.get_or_insert(at);
        self.last_text = Some(at);
    }

    pub(super) fn audio(&mut self, at: Duration, audio: &Audio) {
        self.meter
            .get_or_insert_with(|| Meter::new(audio.rate))
            .audio(at, audio);
    }
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Which of the texts.
    pub(super) text: usize,
    /// When its first text was sent, from the start of the level.
    pub(super) sent_at: Duration,
    /// When the first text of the answer came, if it has any.
    pub(super) first_text: Option<Duration>,
    /// When the last one came.
    pub(super) last_text: Option<Duration>,
    /// What was heard, as far as it went.
    pub(super) measured: Option<Measured>,
    /// How it ended, if the server said so.
    pub(super) done: Option<Outcome>,
    /// Why it does not count as good.
    pub(super) failure: Option<String>,
}

impl Request {
    /// The whole answer is there and nothing is wrong.
    pub(super) fn good(&self) -> bool {
        self.failure.is_none()
    }

    pub(super) fn continuous(&self, threshold: Duration) -> bool {
        self.measured
            .as_ref()
            .is_some_and(|measured| measured.continuity.ok(threshold))
    }

    /// Text tokens of the answer.
    pub(super) fn tokens(&self) -> u32 {
        self.done.as_ref().map_or(0, |done| done.usage.output_text_tokens)
    }

    /// Time per text token behind the first, in seconds.
    pub(super) fn time_per_token(&self) -> Option<f64> {
        let behind = self.tokens().checked_sub(1).filter(|&behind| behind > 0)?;
        let took = self.last_text?.checked_sub(self.first_text?)?;
        Some(took.as_secs_f64() / f64::from(behind))
    }

    fn json(&self) -> Value {
        let measured = self.measured.as_ref();
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        json!({
            "text": self.text,
            "sent_at_seconds": self.sent_at.as_secs_f64(),
            "failure": self.failure,
            "finish": self.done.as_ref().map(|done| finish_name(&done.finish)),
            "seed": self.done.as_ref().and_then(|done| done.seed),
            "output_text_tokens": self.tokens(),
            "time_to_first_text_seconds": seconds(self.first_text),
            "time_to_last_text_seconds": seconds(self.last_text),
            "audio_seconds": measured.map(|m| m.audio.as_secs_f64()),
            "time_to_first_audio_seconds": seconds(measured.and_then(|m| m.first_audio)),
            "time_to_first_audible_seconds": seconds(measured.and_then(|m| m.audible_first_audio)),
            "real_time_factor": measured.and_then(|m| m.real_time_factor),
            "server_time_to_first_text_seconds":
                seconds(self.done.as_ref().and_then(|done| done.timings.time_to_first_text)),
            "server_time_to_first_audio_seconds":
                seconds(self.done.as_ref().and_then(|done| done.timings.time_to_first_audio)),
            "server_real_time_factor": self.done.as_ref().map(|done| done.timings.real_time_factor),
            "server_busy_real_time_factor": self.done.as_ref().and_then(Outcome::busy_real_time_factor),
            "worst_underrun_seconds": measured.map(|m| m.continuity.worst().as_secs_f64()),
            "late_chunks": measured.map(|m| m.continuity.late_chunks),
            "chunk_gaps_seconds": measured.map(|m| {
                m.gaps.iter().map(|gap| [gap.waited.as_secs_f64(), gap.covered.as_secs_f64()]).collect::<Vec<_>>()
            }),
        })
    }
}

/// All requests at one number of streams.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) streams: u32,
    /// From the first request sent to the last answered.
    pub(super) wall: Duration,
    pub(super) requests: Vec<Request>,
}

impl Level {
    /// Requests with their whole answer.
    pub(super) fn good(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.good())
    }

    /// `value` of every good request that has one.
    pub(super) fn values(&self, value: impl Fn(&Request) -> Option<f64>) -> Vec<f64> {
        self.good().filter_map(value).collect()
    }

    /// Share of all requests that a player with a buffer of `threshold` would have played without a gap.
    pub(super) fn continuous(&self, threshold: Duration) -> f64 {
        let ok = self
            .good()
            .filter(|request| request.continuous(threshold))
            .count();
        ok as f64 / self.requests.len().max(1) as f64
    }

    /// Seconds of audio produced per second of wall time.
    pub(super) fn throughput(&self) -> f64 {
        let audio = self.values(|request| Some(request.measured.as_ref()?.audio.as_secs_f64()));
        audio.iter().sum::<f64>() / self.wall.as_secs_f64()
    }

    /// Text tokens produced per second of wall time.
    pub(super) fn token_throughput(&self) -> f64 {
        let tokens: u64 = self.good().map(|request| u64::from(request.tokens())).sum();
        tokens as f64 / self.wall.as_secs_f64()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "streams": self.streams,
            "wall_seconds": self.wall.as_secs_f64(),
            "audio_seconds_per_second": self.throughput(),
            "text_tokens_per_second": self.token_throughput(),
            "requests": self.requests.iter().map(Request::json).collect::<Vec<_>>(),
        })
    }
}

/// Why a request that came to its end is still not good. `limited`: a longest answer was asked for.
pub(super) fn shortcoming(
    done: Option<&Outcome>,
    measured: Option<&Measured>,
    spoken: bool,
    limited: bool,
) -> Option<String> {
    let Some(done) = done else {
        return Some("the server ended the session without an answer".to_owned());
    };
    match &done.finish {
        Finish::Stop if spoken && measured.is_none() => Some("no audio".to_owned()),
        Finish::Stop => None,
        Finish::Length if limited => None,
        Finish::Length => Some("the answer was cut at the longest the server gives".to_owned()),
        Finish::Repetition => Some("the answer was stopped: the model repeated itself".to_owned()),
        Finish::Interrupted => Some("the server stopped the answer".to_owned()),
        Finish::Error(error) => Some(error.to_string()),
    }
}

/// The smallest value that at least this share of all values does not exceed (nearest rank); `None` of nothing.
pub(super) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (share, expected) in [(0.0, 1.0), (0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(percentile(&values, share), Some(expected), "{share}");
        }
        assert_eq!(percentile(&[7.0], 0.5), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0], 0.5), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
