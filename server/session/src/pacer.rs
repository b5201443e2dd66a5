//! Pacing of audio by its listener's playback.
//!
//! Model of a listener: audio plays as it arrives, and playback pauses when none is left. Audio is due when the
//! listener has no more left to play than requested. Nothing here reads a clock: the session sleeps until audio is
//! due, and everything behind that audio waits, too.

use std::time::Duration;

use omni_engine::Stamp;

/// Playback of one listener; utterances are heard one behind the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlayoutPacer {
    /// Time at which nothing will be left to play.
    dry: Option<Stamp>,
}

impl PlayoutPacer {
    /// Time at which audio of the duration `time` may be sent, if that is after `now` and no more than `max_lead` may
    /// be left to play.
    pub(super) fn due(&self, max_lead: Option<Duration>, time: Duration, now: Stamp) -> Option<Stamp> {
        let max_lead = max_lead?;
        let dry = self.dry?;
        // With this much left to play there is room for it.
        let room = max_lead.saturating_sub(time);
        let left = dry.since(now);
        (left > room).then(|| now + (left - room))
    }

    /// Records that audio was sent.
    pub(super) fn sent(&mut self, time: Duration, now: Stamp) {
        self.dry = Some(self.dry.map_or(now, |dry| dry.max(now)) + time);
    }
}

#[cfg(test)]
mod tests {
    use omni_audio::{Continuity, SampleRate, Samples};
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn at(ms: u64) -> Stamp {
        Stamp(Duration::from_millis(ms))
    }

    #[test]
    fn the_first_audio_is_never_held_back_nor_is_any_without_a_limit() {
        let mut pacer = PlayoutPacer::default();
        assert_eq!(pacer.due(Some(ms(100)), ms(500), at(7)), None);
        pacer.sent(ms(500), at(7));
        assert_eq!(pacer.due(Some(ms(100)), ms(50), at(7)), Some(at(457)));
        assert_eq!(pacer.due(None, ms(500), at(7)), None);
    }

    #[test]
    fn a_listener_that_ran_dry_gets_no_burst_of_what_it_missed() {
        let mut pacer = PlayoutPacer::default();
        let due = |pacer: &PlayoutPacer, now| pacer.due(Some(ms(200)), ms(100), now);
        pacer.sent(ms(100), at(0));
        // The listener waited from 100 to 5000.
        assert_eq!(due(&pacer, at(5_000)), None);
        pacer.sent(ms(100), at(5_000));
        assert_eq!(due(&pacer, at(5_000)), None);
        pacer.sent(ms(100), at(5_000));
        assert_eq!(due(&pacer, at(5_000)), Some(at(5_100)));
    }

    proptest! {
        /// Audio that is made early enough is always there in time, and never earlier than was asked for.
        #[test]
        fn pacing_alone_lets_no_player_run_dry(
            lead in 100u64..2_000,
            chunks in prop::collection::vec((1u64..50, 0u64..3), 1..200),
        ) {
            let rate = SampleRate::new(16_000).unwrap();
            let mut pacer = PlayoutPacer::default();
            let mut player = Continuity::new(rate);
            let mut now = at(0);
            let mut sent = Duration::ZERO;
            for (percent, late) in chunks {
                // At most half of what may be ahead.
                let samples = Samples((16 * lead * percent / 100).max(1));
                let time = rate.duration(samples);
                if let Some(due) = pacer.due(Some(ms(lead)), time, now) {
                    // The timer rings a little late.
                    now = due + ms(late);
                }
                player.chunk(now.0, samples);
                pacer.sent(time, now);
                sent += time;
                prop_assert!(sent <= now.0 + ms(lead) + Duration::from_nanos(200), "{sent:?} sent by {now:?}");
            }
            prop_assert!(player.report().ok(Duration::ZERO));
        }
    }
}
