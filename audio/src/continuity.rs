//! Would a listener have heard a gap? A simulated player, folded over the chunks of one utterance.
//!
//! In: when each chunk arrived (its last byte) and how many samples it held. Out: a report. The player is the one that
//! vLLM-Omni's benchmark defines (`audio_continuity.py`), so that figures can be compared:
//!
//! * it starts with the first chunk, with no start-up buffer, and plays at the sample rate from then on;
//! * just before every later chunk lands, `deficit = elapsed since the first chunk - audio received before`;
//! * `worst` is the largest deficit, `late_chunks` counts the positive ones, and a stream is continuous at a threshold
//!   when `worst <= threshold`.
//!
//! The player never pauses to let the stream catch up: one stall of half a second makes every chunk late until
//! generation has made good, so `late_chunks` counts chunks and not audible gaps. Those are `stalls`: a player that
//! does pause, and so is behind by the largest deficit so far, falls silent whenever a still larger one comes. `worst`
//! reads as the pre-buffer that would have made the playback gapless. **An empty stream and a stream of one chunk
//! count as continuous**: show the share of streams without audio and the time to first audio beside this figure.

use std::time::Duration;

use crate::units::{SampleRate, Samples};

/// State of the simulated player, a plain value: a copy gives an intermediate report.
#[derive(Debug, Clone, Copy)]
pub struct Continuity {
    rate: SampleRate,
    first: Option<Duration>,
    received: Samples,
    chunks: u64,
    late_chunks: u64,
    stalls: u64,
    /// Largest deficit in nanosecond-samples: the deficit in nanoseconds times the rate. An exact integer.
    worst: u128,
}

impl Continuity {
    /// A player at `rate` that has heard nothing yet.
    pub fn new(rate: SampleRate) -> Self {
        Self {
            rate,
            first: None,
            received: Samples::ZERO,
            chunks: 0,
            late_chunks: 0,
            stalls: 0,
            worst: 0,
        }
    }

    /// `samples` arrived at `at`, counted from any fixed origin. Arrivals must not go back in time; one that does
    /// counts as simultaneous with the first. A chunk without samples is no audio and changes nothing.
    pub fn chunk(&mut self, at: Duration, samples: Samples) {
        if samples.is_empty() {
            return;
        }
        let first = *self.first.get_or_insert(at);
        let deficit = self.deficit(at.saturating_sub(first));
        if self.chunks > 0 && deficit > 0 {
            self.late_chunks += 1;
            self.stalls += u64::from(deficit > self.worst);
            self.worst = self.worst.max(deficit);
        }
        self.chunks += 1;
        self.received += samples;
    }

    fn deficit(&self, elapsed: Duration) -> u128 {
        let played = elapsed.as_nanos() * u128::from(self.rate.hz());
        played.saturating_sub(u128::from(self.received.0) * 1_000_000_000)
    }

    /// Report of the stream so far.
    pub fn report(&self) -> ContinuityReport {
        ContinuityReport {
            rate: self.rate,
            worst: self.worst,
            late_chunks: self.late_chunks,
            stalls: self.stalls,
            chunks: self.chunks,
            audio: self.received,
        }
    }
}

/// Playback as a listener would have heard it; see the module's text for the exact meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContinuityReport {
    rate: SampleRate,
    worst: u128,
    /// Chunks that landed after the player had run dry.
    pub late_chunks: u64,
    /// Number of times that a player would have fallen silent that waits for the next chunk whenever it runs dry.
    pub stalls: u64,
    /// Chunks with audio.
    pub chunks: u64,
    /// All audio received.
    pub audio: Samples,
}

impl ContinuityReport {
    /// Returns true if the player never ran dry for longer than `threshold` (inclusive).
    pub fn ok(&self, threshold: Duration) -> bool {
        self.worst <= threshold.as_nanos() * u128::from(self.rate.hz())
    }

    /// The largest deficit, rounded down to whole nanoseconds; zero if there was none.
    pub fn worst(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.worst / u128::from(self.rate.hz())).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OK_AT: Duration = Duration::from_millis(100);

    fn play(hz: u32, chunks: &[(u64, u64)]) -> ContinuityReport {
        let mut player = Continuity::new(SampleRate::new(hz).unwrap());
        for &(ms, samples) in chunks {
            player.chunk(Duration::from_millis(ms), Samples(samples));
        }
        player.report()
    }

    #[test]
    fn empty_and_single_chunk_streams_count_as_continuous() {
        assert!(play(24_000, &[]).ok(Duration::ZERO));
        let single = play(24_000, &[(5_000, 240)]);
        assert!(single.ok(Duration::ZERO));
        assert_eq!((single.chunks, single.worst()), (1, Duration::ZERO));
    }

    #[test]
    fn a_second_of_audio_covers_exactly_one_second() {
        let report = play(24_000, &[(0, 24_000), (1_000, 24_000)]);
        assert_eq!((report.worst(), report.late_chunks), (Duration::ZERO, 0));
    }

    #[test]
    fn a_late_chunk_is_late_by_what_was_missing() {
        let report = play(24_000, &[(0, 24_000), (1_500, 24_000)]);
        assert_eq!(
            (report.worst(), report.late_chunks),
            (Duration::from_millis(500), 1)
        );
        assert!(!report.ok(OK_AT));
    }

    #[test]
    fn the_threshold_is_inclusive() {
        let report = play(24_000, &[(0, 24_000), (1_100, 24_000)]);
        assert!(report.ok(OK_AT));
        assert!(!report.ok(OK_AT - Duration::from_nanos(1)));
    }

    #[test]
    fn the_clock_starts_with_the_first_chunk_not_with_the_request() {
        assert!(play(24_000, &[(9_000, 24_000), (9_900, 24_000)]).ok(Duration::ZERO));
    }

    #[test]
    fn the_player_never_rebases_after_a_stall() {
        // One stall of 500 ms, then chunks exactly in real time: each of them is still late.
        let report = play(24_000, &[(0, 2_400), (600, 2_400), (700, 2_400), (800, 2_400)]);
        assert_eq!(
            (report.worst(), report.late_chunks),
            (Duration::from_millis(500), 3)
        );
    }

    #[test]
    fn a_stall_is_counted_once_and_a_deeper_one_again() {
        let report = play(
            24_000,
            &[(0, 2_400), (600, 2_400), (700, 2_400), (801, 2_400), (900, 2_400)],
        );
        assert_eq!((report.stalls, report.late_chunks), (2, 4));
    }

    #[test]
    fn a_chunk_without_samples_changes_nothing() {
        let report = play(24_000, &[(0, 0), (500, 2_400), (900, 0), (600, 2_400)]);
        assert_eq!((report.chunks, report.late_chunks), (2, 0));
    }

    #[test]
    fn rates_that_do_not_divide_a_second_stay_exact() {
        // 1 sample at 44.1 kHz lasts 22 675.7... ns.
        let mut player = Continuity::new(SampleRate::new(44_100).unwrap());
        player.chunk(Duration::ZERO, Samples(1));
        player.chunk(Duration::from_nanos(22_675), Samples(1));
        assert_eq!(player.report().late_chunks, 0);
        let mut player = Continuity::new(SampleRate::new(44_100).unwrap());
        player.chunk(Duration::ZERO, Samples(1));
        player.chunk(Duration::from_nanos(22_676), Samples(1));
        assert!(!player.report().ok(Duration::ZERO));
    }

    /// Number of stops of a player that waits for the next chunk whenever it has run dry.
    fn pauses(chunks: &[(u64, u64)]) -> u64 {
        let nanos = |samples: u64| u128::from(samples) * 1_000_000_000;
        let mut dry_at: Option<u128> = None;
        let mut pauses = 0;
        for &(ms, samples) in chunks {
            // Nanosecond-samples, as exact as the figure under test.
            let at = u128::from(ms) * 1_000_000 * 24_000;
            pauses += u64::from(dry_at.is_some_and(|dry_at| dry_at < at));
            dry_at = Some(dry_at.map_or(at, |dry_at| dry_at.max(at)) + nanos(samples));
        }
        pauses
    }

    proptest! {
        /// The definition, as written, in floating point over whole lists.
        #[test]
        fn the_fold_equals_the_definition(chunks in prop::collection::vec((0u64..400, 1u64..20_000), 1..40)) {
            let mut now = 0;
            let timed: Vec<(u64, u64)> = chunks.iter().map(|&(wait, samples)| { now += wait; (now, samples) }).collect();
            let report = play(24_000, &timed);
            let mut worst = 0.0f64;
            let mut late = 0;
            let mut received = 0.0;
            for (i, &(at, samples)) in timed.iter().enumerate() {
                let deficit = (at - timed[0].0) as f64 / 1e3 - received / 24_000.0;
                if i > 0 && deficit > 1e-12 {
                    late += 1;
                    worst = worst.max(deficit);
                }
                received += samples as f64;
            }
            prop_assert_eq!(report.late_chunks, late);
            prop_assert_eq!(report.stalls, pauses(&timed));
            prop_assert!((report.worst().as_secs_f64() - worst).abs() < 1e-8);
        }

        #[test]
        fn a_prebuffer_of_worst_makes_it_gapless(chunks in prop::collection::vec((0u64..400, 1u64..20_000), 1..40)) {
            let mut now = 0;
            let timed: Vec<(u64, u64)> = chunks.iter().map(|&(wait, samples)| { now += wait; (now, samples) }).collect();
            let report = play(24_000, &timed);
            prop_assert!(report.ok(report.worst() + Duration::from_nanos(1)));
        }
    }
}
