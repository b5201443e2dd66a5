//! Lead of written audio over a peer.
//!
//! What is written may lie in buffers for long: of this machine, of proxies, of the peer. A full link then holds seconds of audio that
//! cannot be taken back, and an interruption comes behind all of it. So a ping follows the audio from time to time, and every peer
//! answers it (RFC 6455, section 5.5.2) when it has read all that was before. No more is written than is allowed to be unanswered:
//! half a second of audio at first and on a slow link, twice as much after each answer that came as fast as the link allows.
//! A peer that has answered none within some seconds does not do that at all, and is not waited for.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A ping follows this much audio.
const EACH: Duration = Duration::from_millis(250);
/// Most audio that may be unanswered.
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(8);
/// An answer slower than the fastest by this much has waited behind audio.
const LATE: Duration = Duration::from_millis(500);
/// Time for which the first answer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Payload of a ping.
pub(super) type Number = [u8; 8];

/// Pings in flight of a connection, and the allowed lead.
#[derive(Debug)]
pub(super) struct Lead {
    /// Playing time that was written since the last ping.
    open: Duration,
    unanswered: VecDeque<Ping>,
    number: u64,
    allowed: Duration,
    /// Last ping written before the allowance grew: the effect is unknown until a later one is answered.
    grown: u64,
    /// Fastest round trip so far.
    fastest: Option<Duration>,
    /// No answer is waited for until one comes.
    is_deaf: bool,
}

#[derive(Debug)]
struct Ping {
    number: u64,
    at: Instant,
    /// Playing time of the audio between the ping before and this one.
    plays: Duration,
}

impl Default for Lead {
    fn default() -> Self {
        Self {
            // The first audio is followed by a ping.
            open: EACH,
            unanswered: VecDeque::new(),
            number: 0,
            allowed: LEAST,
            grown: 0,
            fastest: None,
            is_deaf: false,
        }
    }
}

impl Lead {
    /// Records written audio of playing time `time`; returns the payload of the ping to send after it, if one is due.
    pub(super) fn wrote(&mut self, time: Duration, now: Instant) -> Option<Number> {
        self.open += time;
        if self.is_deaf || self.open < EACH {
            return None;
        }
        self.number += 1;
        self.unanswered.push_back(Ping {
            number: self.number,
            at: now,
            plays: std::mem::take(&mut self.open),
        });
        Some(self.number.to_be_bytes())
    }

    /// The peer has answered a ping that said this.
    pub(super) fn answered(&mut self, said: &[u8], now: Instant) {
        let Ok(number) = said.try_into().map(u64::from_be_bytes) else {
            return;
        };
        while let Some(ping) = self.unanswered.pop_front_if(|ping| ping.number <= number) {
            self.is_deaf = false;
            // One answer may stand for all before it.
            if ping.number < number {
                continue;
            }
            let took = now.saturating_duration_since(ping.at);
            let fastest = self.fastest.map_or(took, |fastest| fastest.min(took));
            self.fastest = Some(fastest);
            if took > fastest + LATE {
                self.allowed = (self.allowed / 2).max(LEAST);
            } else if ping.number > self.grown {
                self.allowed = (2 * self.allowed).min(MOST);
                self.grown = self.number;
            }
        }
    }

    /// True if the peer is to read before more is written.
    pub(super) fn is_far(&self, now: Instant) -> bool {
        let given_up = self.is_deaf || self.given_up_at().is_some_and(|at| at <= now);
        let ahead: Duration = self.unanswered.iter().map(|ping| ping.plays).sum();
        !given_up && ahead + self.open >= self.allowed
    }

    /// The time at which the first answer is not waited for any longer.
    pub(super) fn given_up_at(&self) -> Option<Instant> {
        let waits = self.fastest.is_none() && !self.is_deaf;
        let first = self.unanswered.front().filter(|_| waits);
        first.map(|ping| ping.at + PATIENCE)
    }

    /// The first answer is not waited for if that is due.
    pub(super) fn give_up(&mut self, now: Instant) {
        if self.given_up_at().is_some_and(|at| at <= now) {
            self.is_deaf = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Simulates a link with `rate` times the audio's bit rate and a delay of `way`, until `until`: returns the
    /// greatest amount written beyond the peer's reads.
    fn most_ahead(rate: f64, way: Duration, until: Duration) -> Duration {
        let begin = Instant::now();
        let mut lead = Lead::default();
        let mut now = begin;
        let mut idle = begin;
        let mut on_the_way: VecDeque<(Instant, Duration, Option<Number>)> = VecDeque::new();
        let mut most = Duration::ZERO;
        while now < begin + until {
            while let Some((_, _, said)) = on_the_way.pop_front_if(|(read, ..)| *read <= now) {
                if let Some(said) = said {
                    lead.answered(&said, now);
                }
            }
            while !lead.is_far(now) && on_the_way.len() < 1_000 {
                idle = idle.max(now) + ms(80).div_f64(rate);
                on_the_way.push_back((idle + way, ms(80), lead.wrote(ms(80), now)));
            }
            most = most.max(on_the_way.iter().map(|(_, plays, _)| *plays).sum());
            now += ms(5);
        }
        most
    }

    #[test]
    fn a_slow_link_is_never_far_behind_and_a_fast_one_may_be() {
        for (rate, way) in [(0.3, ms(200)), (0.9, ms(200)), (0.12, ms(20))] {
            let most = most_ahead(rate, way, Duration::from_secs(60));
            assert!(most < ms(2_100), "{most:?} of a link of {rate}");
        }
        let most = most_ahead(200.0, ms(200), Duration::from_secs(10));
        assert!(most >= MOST, "{most:?}");
    }

    #[test]
    fn a_peer_that_answers_no_ping_is_not_waited_for() {
        let begin = Instant::now();
        let mut lead = Lead::default();
        assert!(lead.wrote(ms(500), begin).is_some());
        assert!(lead.is_far(begin) && !lead.is_far(begin + PATIENCE));
        lead.give_up(begin + PATIENCE);
        assert!(lead.wrote(Duration::from_secs(60), begin).is_none());
        assert!(!lead.is_far(begin) && lead.given_up_at().is_none());
        lead.answered(&1_u64.to_be_bytes(), begin + Duration::from_secs(9));
        assert!(lead.is_far(begin), "it only was slow");
    }

    #[test]
    fn pongs_that_nobody_asked_for_change_nothing() {
        let begin = Instant::now();
        let mut lead = Lead::default();
        for said in [&b""[..], b"hello", &7_u64.to_be_bytes()] {
            lead.answered(said, begin);
        }
        lead.wrote(ms(600), begin);
        assert!(lead.is_far(begin));
    }
}
