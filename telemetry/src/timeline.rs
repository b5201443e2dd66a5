//! From an engine's events to a request's intervals, as vLLM defines them.
//!
//! In: stamps of one monotonic clock. Out: [`Intervals`]. Only the first scheduling counts, so a preemption is part of
//! the interval that it interrupts: of prefill before the first token, of decode after it. Queue time is never
//! negative. Source: vLLM, `v1/metrics/stats.py`; its design text speaks of the most recent scheduling, its code and
//! this of the first.

use std::time::Duration;

/// The life of a request in one engine. Stamps count from any fixed origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeline {
    queued: Option<Duration>,
    scheduled: Option<Duration>,
    first_output: Option<Duration>,
    last_output: Option<Duration>,
    tokens: u64,
    preemptions: u64,
}

/// The meaning of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The first one: the prefill has ended.
    First,
    /// A later one, so long after the one before.
    Next(Duration),
}

/// The intervals of a request. One that it did not reach is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Intervals {
    /// Queued to first scheduled.
    pub queue: Option<Duration>,
    /// First scheduled to first token.
    pub prefill: Option<Duration>,
    /// First token to last token.
    pub decode: Option<Duration>,
    /// First scheduled to last token: prefill and decode.
    pub inference: Option<Duration>,
    /// Decode per token after the first; 0 for one token.
    pub mean_per_token: Option<Duration>,
    /// New tokens.
    pub tokens: u64,
    /// Times it was preempted.
    pub preemptions: u64,
}

impl Timeline {
    /// It entered the engine's queue. Doing so again (a session that goes on) begins the wait anew until it is
    /// scheduled.
    pub fn queued(&mut self, at: Duration) {
        if self.scheduled.is_none() {
            self.queued = Some(at);
        }
    }

    /// It entered the running batch, for the first time or again.
    pub fn scheduled(&mut self, at: Duration) {
        self.scheduled.get_or_insert(at);
    }

    /// It was pushed back to waiting.
    pub fn preempted(&mut self) {
        self.preemptions += 1;
    }

    /// It gave `tokens` new tokens.
    pub fn output(&mut self, at: Duration, tokens: u64) -> Output {
        self.tokens += tokens;
        let before = self.last_output.replace(at);
        self.first_output.get_or_insert(at);
        match before {
            None => Output::First,
            Some(before) => Output::Next(at.saturating_sub(before)),
        }
    }

    /// The intervals so far.
    pub fn intervals(&self) -> Intervals {
        let between = |from: Option<Duration>, until: Option<Duration>| Some(until?.saturating_sub(from?));
        let decode = between(self.first_output, self.last_output);
        let steps = u32::try_from(self.tokens.saturating_sub(1)).unwrap_or(u32::MAX);
        Intervals {
            queue: between(self.queued, self.scheduled),
            prefill: between(self.scheduled, self.first_output),
            decode,
            inference: between(self.scheduled, self.last_output),
            mean_per_token: decode.map(|decode| decode.checked_div(steps).unwrap_or_default()),
            tokens: self.tokens,
            preemptions: self.preemptions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn intervals_of_the_common_case() {
        let mut timeline = Timeline::default();
        timeline.queued(ms(10));
        timeline.scheduled(ms(30));
        assert_eq!(timeline.output(ms(80), 1), Output::First);
        assert_eq!(timeline.output(ms(100), 1), Output::Next(ms(20)));
        assert_eq!(timeline.output(ms(140), 1), Output::Next(ms(40)));
        let expected = Intervals {
            queue: Some(ms(20)),
            prefill: Some(ms(50)),
            decode: Some(ms(60)),
            inference: Some(ms(110)),
            mean_per_token: Some(ms(30)),
            tokens: 3,
            preemptions: 0,
        };
        assert_eq!(timeline.intervals(), expected);
    }

    #[test]
    fn a_preemption_in_prefill_is_part_of_prefill_and_not_of_the_queue() {
        let mut timeline = Timeline::default();
        timeline.queued(ms(0));
        timeline.scheduled(ms(10));
        timeline.preempted();
        timeline.scheduled(ms(500));
        timeline.output(ms(600), 1);
        let intervals = timeline.intervals();
        assert_eq!(
            (intervals.queue, intervals.prefill, intervals.preemptions),
            (Some(ms(10)), Some(ms(590)), 1)
        );
    }

    #[test]
    fn a_preemption_in_decode_is_part_of_decode_and_of_the_gap() {
        let mut timeline = Timeline::default();
        timeline.queued(ms(0));
        timeline.scheduled(ms(10));
        timeline.output(ms(20), 1);
        timeline.preempted();
        timeline.scheduled(ms(300));
        assert_eq!(timeline.output(ms(320), 1), Output::Next(ms(300)));
        let intervals = timeline.intervals();
        assert_eq!(
            (intervals.prefill, intervals.decode),
            (Some(ms(10)), Some(ms(300)))
        );
        assert_eq!(intervals.inference, Some(ms(310)));
    }

    #[test]
    fn one_token_has_a_mean_of_zero_and_no_token_has_none() {
        let mut timeline = Timeline::default();
        timeline.scheduled(ms(0));
        assert_eq!(timeline.intervals().mean_per_token, None);
        timeline.output(ms(5), 1);
        assert_eq!(timeline.intervals().mean_per_token, Some(Duration::ZERO));
    }

    #[test]
    fn queue_time_is_never_negative() {
        let mut timeline = Timeline::default();
        timeline.queued(ms(10));
        timeline.scheduled(ms(20));
        timeline.queued(ms(90));
        assert_eq!(timeline.intervals().queue, Some(ms(10)));
        let mut skewed = Timeline::default();
        skewed.queued(ms(10));
        skewed.scheduled(ms(5));
        assert_eq!(skewed.intervals().queue, Some(Duration::ZERO));
    }

    #[test]
    fn prefill_and_decode_add_up_to_inference() {
        let mut timeline = Timeline::default();
        timeline.scheduled(ms(3));
        for at in [10, 11, 50] {
            timeline.output(ms(at), 2);
        }
        let intervals = timeline.intervals();
        let parts = intervals.prefill.zip(intervals.decode).map(|(a, b)| a + b);
        assert_eq!(parts, intervals.inference);
    }
}
