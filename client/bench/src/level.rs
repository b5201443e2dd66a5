//! The requests of one level of load, and the figures they have together. Everything here
//! is a function of the records.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::record::Record;
use super::slo::Slo;
use super::stats::percentile;

/// Offered load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// `n` streams, each sending its next request when the last is answered.
    Streams(u32),
    /// Requests per second, independent of answers.
    RequestsPerSecond(f64),
}

impl Offered {
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Streams(streams) => f64::from(streams),
            Self::RequestsPerSecond(rate) => rate,
        }
    }

    /// Unit of [`Self::value`].
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Streams(_) => "streams",
            Self::RequestsPerSecond(_) => "requests/s",
        }
    }
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

/// The requests of one level of load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Level {
    #[serde(flatten)]
    pub(crate) offered: Offered,
    /// From the first measured request sent to the last answered.
    pub(crate) wall_seconds: f64,
    pub(crate) requests: Vec<Record>,
}

impl Level {
    /// Includes derived figures, for readers of the file without this program.
    pub(crate) fn json(&self) -> Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        json["audio_seconds_per_second"] = json!(self.throughput());
        json["text_tokens_per_second"] = json!(self.token_throughput());
        json
    }

    /// Requests that count for quality figures: successful and not chosen for cancelling.
    pub(crate) fn counting(&self) -> impl Iterator<Item = &Record> {
        self.requests.iter().filter(|record| record.counts())
    }

    /// `value` of every request that counts and has one.
    pub(crate) fn values(&self, value: impl Fn(&Record) -> Option<f64>) -> Vec<f64> {
        self.counting().filter_map(value).collect()
    }

    pub(crate) fn percentile(&self, value: impl Fn(&Record) -> Option<f64>, share: f64) -> Option<f64> {
        percentile(&self.values(value), share)
    }

    /// Share of successful requests, including cancelled ones.
    pub(crate) fn success(&self) -> f64 {
        share(self.requests.iter(), Record::good)
    }

    /// Requests without audio. Those that were chosen for cancelling may have been cancelled before it came.
    pub(crate) fn silent(&self) -> usize {
        let silent = |record: &&Record| record.audio_seconds.is_none() && record.cancel.is_none();
        self.requests.iter().filter(silent).count()
    }

    /// Share of the requests not chosen for cancelling that a player with a buffer of `threshold` seconds would have
    /// played without a gap.
    pub(crate) fn continuous(&self, threshold: f64) -> f64 {
        let whole = self.requests.iter().filter(|record| record.cancel.is_none());
        share(whole, |record| record.good() && record.continuous(threshold))
    }

    /// Seconds of audio per second.
    pub(crate) fn throughput(&self) -> f64 {
        self.per_second(
            self.requests
                .iter()
                .filter(|record| record.good())
                .filter_map(|record| record.audio_seconds),
        )
    }

    /// Text tokens per second.
    pub(crate) fn token_throughput(&self) -> f64 {
        let good = self.requests.iter().filter(|record| record.good());
        self.per_second(good.map(|record| f64::from(record.output_text_tokens)))
    }

    /// Requests per second that kept every bound, and their audio in seconds per second.
    pub(crate) fn goodput(&self, slo: &Slo) -> (f64, f64) {
        let kept = || self.requests.iter().filter(|record| slo.met(record));
        let audio = kept().filter_map(|record| record.audio_seconds);
        (self.per_second(kept().map(|_| 1.0)), self.per_second(audio))
    }

    /// Share of the requests not chosen for cancelling that kept every bound.
    pub(crate) fn kept(&self, slo: &Slo) -> f64 {
        share(
            self.requests.iter().filter(|record| record.cancel.is_none()),
            |record| slo.met(record),
        )
    }

    /// Chosen for cancelling; cancelled; and how long each of these took to end.
    pub(crate) fn cancels(&self) -> (usize, Vec<f64>) {
        let chosen: Vec<_> = self.requests.iter().filter_map(|record| record.cancel).collect();
        let latencies = chosen
            .iter()
            .filter_map(|cancel| cancel.latency_seconds)
            .collect();
        (chosen.len(), latencies)
    }

    fn per_second(&self, amounts: impl Iterator<Item = f64>) -> f64 {
        let wall = self.wall_seconds;
        if wall > 0.0 {
            // An empty sum is -0.0.
            (amounts.sum::<f64>() + 0.0) / wall
        } else {
            0.0
        }
    }
}

/// Share of `records` for which `holds`; 0 of none.
fn share<'r>(records: impl Iterator<Item = &'r Record>, holds: impl Fn(&Record) -> bool) -> f64 {
    let mut all = 0_u32;
    let mut holding = 0_u32;
    for record in records {
        all += 1;
        holding += u32::from(holds(record));
    }
    f64::from(holding) / f64::from(all.max(1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Cancel, Chunk};
    use std::time::Duration;

    /// Two seconds of audio, the first after `ttfa` seconds, at worst `late` seconds late.
    pub(crate) fn spoken(ttfa: f64, late: f64) -> Record {
        Record {
            audio_seconds: Some(2.0),
            time_to_first_audio_seconds: Some(ttfa),
            time_to_first_audible_seconds: Some(ttfa + 0.05),
            real_time_factor: Some(0.5),
            worst_underrun_seconds: Some(late),
            finish: Some("stop".into()),
            chunks: vec![Chunk(ttfa, 1.0), Chunk(ttfa + 1.0 + late, 1.0)],
            ..Record::default()
        }
    }

    pub(crate) fn failed() -> Record {
        Record {
            failure: Some("full".into()),
            ..Record::default()
        }
    }

    pub(crate) fn cancelled(latency: Option<f64>) -> Record {
        Record {
            cancel: Some(Cancel {
                after_seconds: 0.5,
                latency_seconds: latency,
            }),
            audio_seconds: Some(0.5),
            ..Record::default()
        }
    }

    pub(crate) fn level(streams: u32, wall_seconds: f64, requests: Vec<Record>) -> Level {
        Level {
            offered: Offered::Streams(streams),
            wall_seconds,
            requests,
        }
    }

    #[test]
    fn figures_follow_from_the_requests() {
        let requests = vec![
            spoken(0.1, 0.0),
            spoken(0.2, 0.08),
            spoken(0.4, 0.3),
            failed(),
            cancelled(Some(0.02)),
            cancelled(None),
        ];
        let point = level(4, 10.0, requests);
        assert_eq!(point.counting().count(), 3);
        assert_eq!(point.silent(), 1, "the one that failed");
        assert!((point.success() - 5.0 / 6.0).abs() < 1e-9);
        // Of the four that were to be heard to their end.
        assert_eq!(
            [0.05, 0.1, 0.3].map(|threshold| point.continuous(threshold)),
            [0.25, 0.5, 0.75]
        );
        // 3 x 2 s and 2 x 0.5 s in 10 s.
        assert!((point.throughput() - 0.7).abs() < 1e-9);
        assert_eq!(
            point.percentile(|record| record.time_to_first_audio_seconds, 0.5),
            Some(0.2)
        );
        assert_eq!(point.cancels(), (2, vec![0.02]));
        let slo = Slo::parse("ttfa=200ms", |_| Ok(Duration::from_millis(200))).unwrap();
        let (requests, audio) = point.goodput(&slo);
        assert!((requests - 0.2).abs() < 1e-9 && (audio - 0.4).abs() < 1e-9);
        assert_eq!(point.kept(&slo), 0.5);
    }

    #[test]
    fn a_written_level_has_its_figures_beside_its_requests() {
        let json = level(3, 2.0, vec![spoken(0.1, 0.0)]).json();
        assert_eq!(
            (&json["streams"], &json["audio_seconds_per_second"]),
            (&3.into(), &1.0.into())
        );
        assert_eq!(json["requests"][0]["chunks"][1], json!([1.1, 1.0]));
    }
}
