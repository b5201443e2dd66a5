//! Outcomes of the requests of the last minute.
//!
//! In: records of utterances and answers, as they end. Out: [`RecentFigures`] for operators. Bounded: beyond the
//! capacity the oldest are dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use omni_engine::Stamp;
use parking_lot::Mutex;

use super::record::{EndedRequest, Timings};

/// Length of the window.
const WINDOW: Duration = Duration::from_secs(60);
/// Capacity.
const MOST: usize = 1 << 15;

/// Buffer of the requests that ended.
#[derive(Debug)]
pub struct Recent {
    began: Stamp,
    ended: Mutex<VecDeque<Ended>>,
    refused: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    at: Stamp,
    /// If audio was streamed.
    heard: Option<Heard>,
    audio: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    first_packet: Duration,
    gapless: bool,
}

/// Figures of the requests that ended within the last minute.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecentFigures {
    /// Requests, per second.
    pub requests: f64,
    /// Playing time of their audio, per second.
    pub audio: f64,
    /// From the request to the first audio, ascending; of those whose audio was streamed.
    pub first_packets: Vec<Duration>,
    /// Share of those without a gap for a listener without a buffer.
    pub continuity: Option<f64>,
}

impl RecentFigures {
    /// Percentile of the time to first audio (nearest rank).
    pub fn first_packet(&self, percent: u32) -> Option<Duration> {
        let count = self.first_packets.len();
        let rank = (count * percent as usize).div_ceil(100).max(1);
        self.first_packets.get(rank - 1).copied()
    }
}

impl Recent {
    /// Creates the buffer of a server that begins at `now`.
    pub fn new(now: Stamp) -> Self {
        Self {
            began: now,
            ended: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Adds a request that ended.
    pub fn add(&self, request: &EndedRequest, now: Stamp) {
        match request {
            EndedRequest::Utterance(record) => self.ended(record.usage.audio, Some(&record.timings), now),
            EndedRequest::Turn(record) => self.ended(record.usage.audio, record.timings.speech.as_ref(), now),
        }
    }

    /// Counts a request that was refused before it began.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of requests refused before they began, since the start.
    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn ended(&self, audio: Duration, speech: Option<&Timings>, now: Stamp) {
        let heard = speech.filter(|timings| !timings.whole).and_then(|timings| {
            Some(Heard {
                first_packet: timings.first_packet?,
                gapless: timings.worst_underrun.is_zero(),
            })
        });
        let mut ended = self.ended.lock();
        forget(&mut ended, now);
        if ended.len() >= MOST {
            ended.pop_front();
        }
        ended.push_back(Ended {
            at: now,
            heard,
            audio,
        });
    }

    /// The figures at `now`.
    pub fn figures(&self, now: Stamp) -> RecentFigures {
        // Sorted without the lock: a request that ends meanwhile must not wait for an operator's query.
        let ended: Vec<_> = {
            let mut ended = self.ended.lock();
            forget(&mut ended, now);
            ended.iter().copied().collect()
        };
        let time = now.since(self.began).min(WINDOW).as_secs_f64().max(1.0);
        let heard: Vec<_> = ended.iter().filter_map(|ended| ended.heard).collect();
        let mut first_packets: Vec<_> = heard.iter().map(|heard| heard.first_packet).collect();
        first_packets.sort_unstable();
        let gapless = heard.iter().filter(|heard| heard.gapless).count();
        let audio: Duration = ended.iter().map(|ended| ended.audio).sum();
        RecentFigures {
            requests: ended.len() as f64 / time,
            audio: audio.as_secs_f64() / time,
            continuity: (!heard.is_empty()).then(|| gapless as f64 / heard.len() as f64),
            first_packets,
        }
    }
}

fn forget(ended: &mut VecDeque<Ended>, now: Stamp) {
    while ended.front().is_some_and(|first| now.since(first.at) > WINDOW) {
        ended.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(ms: u64) -> Stamp {
        Stamp(MS(1_000_000 + ms))
    }

    fn speech(first: u64, underrun: u64) -> Timings {
        Timings {
            first_packet: Some(MS(first)),
            worst_underrun: MS(underrun),
            ..Timings::default()
        }
    }

    #[test]
    fn figures_are_of_the_last_minute_and_of_what_was_heard() {
        let recent = Recent::new(at(0));
        recent.ended(MS(9_000), Some(&speech(9_000, 9)), at(10));
        for n in 1..=100 {
            recent.ended(MS(600), Some(&speech(n, u64::from(n == 1))), at(60_000));
        }
        // A text answer, one that was cancelled before it was heard, and a file.
        recent.ended(Duration::ZERO, None, at(60_000));
        recent.ended(Duration::ZERO, Some(&Timings::default()), at(60_000));
        let file = Timings {
            whole: true,
            ..speech(5_000, 0)
        };
        recent.ended(Duration::ZERO, Some(&file), at(60_000));
        let figures = recent.figures(at(60_020));
        assert_eq!(figures.first_packet(50), Some(MS(50)));
        assert_eq!(figures.first_packet(95), Some(MS(95)));
        assert_eq!(figures.first_packet(99), Some(MS(99)));
        assert_eq!(figures.continuity, Some(0.99));
        assert!((figures.requests - 103.0 / 60.0).abs() < 1e-9);
        assert!((figures.audio - 1.0).abs() < 1e-9);
        assert_eq!(recent.figures(at(300_000)), RecentFigures::default());
    }

    #[test]
    fn a_server_that_is_new_is_not_measured_by_a_minute_it_has_not_seen() {
        let recent = Recent::new(at(0));
        recent.ended(MS(500), None, at(9_000));
        let figures = recent.figures(at(10_000));
        assert!((figures.requests - 0.1).abs() < 1e-9);
        assert_eq!(figures.first_packet(50), None);
    }
}
