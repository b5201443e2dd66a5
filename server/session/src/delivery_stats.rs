//! Delivery times of one utterance's audio.
//!
//! In: the audio that was sent, with its times. Out: [`Timings`]. The player of `omni_audio::Continuity` judges gaps;
//! while the server waits for the caller's text that player is paused, because a gap that the caller causes is not
//! the server's.

use std::collections::VecDeque;
use std::time::Duration;

use omni_audio::{Continuity, LeadingSilence, SampleRate, Samples};
use omni_engine::Stamp;

use super::record::{Sound, StageFigures, Timings};
use omni_pipeline::stage::{ReplicaId, StageSnapshot};

/// Delivery times of one utterance while it runs.
#[derive(Debug)]
pub(super) struct DeliveryStats {
    rate: SampleRate,
    /// `true` if the caller gets the audio in one piece, when it is complete.
    whole: bool,
    began: Stamp,
    first_audio: Option<Stamp>,
    /// Time at which the last packet was passed on, and the total pause of the player by then.
    last_audio: Option<(Stamp, Duration)>,
    sent: Samples,
    player: Continuity,
    longest_gap: Duration,
    /// Time that the player was paused.
    paused: Duration,
    silence: LeadingSilence,
    sound: Sound,
    /// Times of the stages of speech, first to last.
    stages: Vec<StageFigures>,
    first_started: Option<Stamp>,
    last_output: Option<Stamp>,
    /// Time from which it could be spoken.
    ready: Option<Stamp>,
    wait: Option<Duration>,
    /// `true` if its text is the model's: nothing waits for a caller.
    own_text: bool,
    /// Waits for the caller's text after the first submission, and the time up to which they are counted.
    text_waits: Duration,
    text_waited: Stamp,
    /// Part of them that fell into each running sequence, first to last.
    pauses: VecDeque<Duration>,
    /// Time in which the vocoder found no room for its output.
    held: Duration,
    frames: u32,
}

impl DeliveryStats {
    /// `stages` are those of speech, first to last.
    pub(super) fn new(rate: SampleRate, stages: impl Iterator<Item = &'static str>, began: Stamp) -> Self {
        let figures = |stage| StageFigures {
            stage,
            ..StageFigures::default()
        };
        Self {
            rate,
            whole: false,
            began,
            first_audio: None,
            last_audio: None,
            sent: Samples::ZERO,
            player: Continuity::new(rate),
            longest_gap: Duration::ZERO,
            paused: Duration::ZERO,
            silence: LeadingSilence::new(rate),
            sound: Sound::default(),
            stages: stages.map(figures).collect(),
            first_started: None,
            last_output: None,
            ready: None,
            wait: None,
            own_text: false,
            text_waits: Duration::ZERO,
            text_waited: began,
            pauses: VecDeque::new(),
            held: Duration::ZERO,
            frames: 0,
        }
    }

    /// Sets if the caller gets the audio in one piece, when it is complete.
    pub(super) fn whole(mut self, whole: bool) -> Self {
        self.whole = whole;
        self
    }

    /// Adds samples on their way out; they count as heard only when [`sent`](Self::sent). `sound` is the level of all
    /// of them until now.
    pub(super) fn produced(&mut self, samples: &[f32], sound: Sound) {
        self.silence.add(samples);
        self.sound = sound;
    }

    /// Records audio that was passed to the transport. Returns for all but the first packet the time since the packet
    /// before, without pauses of the caller, and the audio that a listener had left to play then. Audio that is
    /// `joined` to the packet before is no packet of its own, and neither is audio that is sent only once it is
    /// complete.
    pub(super) fn sent(
        &mut self,
        now: Stamp,
        samples: Samples,
        joined: bool,
    ) -> Option<(Duration, Duration)> {
        if self.whole {
            self.first_audio = Some(now);
            self.sent += samples;
            return None;
        }
        let first = *self.first_audio.get_or_insert(now);
        let before = self.last_audio.filter(|_| !joined);
        let next = before.map(|(at, paused)| {
            let gap = now.since(at).saturating_sub(self.paused.saturating_sub(paused));
            let dry = first + self.rate.duration(self.sent) + self.paused;
            (gap, dry.since(now))
        });
        self.longest_gap = next.map_or(self.longest_gap, |(gap, _)| gap.max(self.longest_gap));
        if !joined || self.last_audio.is_none() {
            self.last_audio = Some((now, self.paused));
        }
        self.player
            .chunk(now.since(first).saturating_sub(self.paused), samples);
        self.sent += samples;
        next
    }

    /// Marks its text as the model's own.
    pub(super) fn answers(&mut self) {
        self.own_text = true;
    }

    /// Records text that came after the server had none since `since`: if the player ran dry meanwhile, it waited for
    /// the caller. The last sequence is `open` if it waited, too.
    pub(super) fn resumed(&mut self, since: Stamp, now: Stamp, open: bool) {
        if self.wait.is_some() {
            let waited = now.since(since.max(self.text_waited));
            self.text_waits += waited;
            self.text_waited = now;
            if let Some(open) = self.pauses.back_mut().filter(|_| open) {
                *open += waited;
            }
        }
        if let Some(first) = self.first_audio {
            let dry = first + self.rate.duration(self.sent) + self.paused;
            self.paused += now.since(dry);
        }
    }

    /// Time of its first text.
    pub(super) fn began(&self) -> Stamp {
        self.began
    }

    /// Time at which it could first be spoken, and time at which the first sequence was submitted.
    pub(super) fn waited(&self) -> (Option<Stamp>, Option<Stamp>) {
        (
            self.ready,
            self.ready.zip(self.wait).map(|(ready, wait)| ready + wait),
        )
    }

    /// Records that text could be spoken now, given a permit.
    pub(super) fn ready(&mut self, now: Stamp) {
        self.ready.get_or_insert(now);
    }

    /// Records the submission of a sequence.
    pub(super) fn handed_over(&mut self, now: Stamp) {
        let ready = *self.ready.get_or_insert(now);
        self.wait.get_or_insert(now.since(ready));
        self.pauses.push_back(Duration::ZERO);
    }

    /// Records the end of the first running sequence, which was submitted at `submitted`, or its progress; its audio
    /// found no room for `held`. Returns the time that it waited for its caller's text.
    pub(super) fn sequence(
        &mut self,
        (submitted, held): (Stamp, Duration),
        stages: &[(&'static str, StageSnapshot)],
    ) -> Duration {
        let waited = self.pauses.pop_front().unwrap_or_default();
        let end = |stage: Option<&(&'static str, StageSnapshot)>| stage.map(|(_, stage)| *stage);
        let first = end(stages.first()).unwrap_or_default();
        let last = end(stages.last());
        self.frames += first.outputs;
        self.held += held;
        self.last_output = self.last_output.max(last.and_then(|last| last.last_output));
        self.first_started = self.first_started.or(first.started);
        for (figures, (_, stage)) in self.stages.iter_mut().zip(stages) {
            figures.busy += stage.busy;
            figures.starved += stage.starved;
            figures.replica = stage.replica.or(figures.replica);
            figures.queue = figures.queue.or(stage.started.map(|at| at.since(submitted)));
            let since = |at: Option<Stamp>| at.map(|at| at.since(self.began));
            figures.started = figures.started.or(since(stage.started));
            figures.first_output = figures.first_output.or(since(stage.first_output));
            figures.last_output = figures.last_output.max(since(stage.last_output));
            let span = stage
                .last_output
                .map(|at| at.since(submitted).saturating_sub(waited));
            let span = span.map(|span| span.max(stage.busy));
            figures.span = figures
                .span
                .map_or(span, |sum| Some(sum + span.unwrap_or_default()));
        }
        waited
    }

    /// The replica that gave the last audio.
    pub(super) fn last_replica(&self) -> Option<ReplicaId> {
        self.stages.last()?.replica
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    pub(super) fn sent_samples(&self) -> Samples {
        self.sent
    }

    /// Time from which the request is complete enough to be worked on.
    pub(super) fn speakable(&self) -> Option<Stamp> {
        if self.own_text {
            Some(self.began)
        } else {
            self.ready
        }
    }

    fn text_wait(&self, now: Stamp) -> Duration {
        if self.own_text {
            Duration::ZERO
        } else {
            self.ready.unwrap_or(now).since(self.began) + self.text_waits
        }
    }

    fn generation(&self) -> Duration {
        let handed_over = self.ready.zip(self.wait).map(|(ready, wait)| ready + wait);
        let span = self
            .last_output
            .zip(handed_over)
            .map(|(last, first)| last.since(first));
        let working = span
            .unwrap_or_default()
            .saturating_sub(self.text_waits + self.held);
        // Waits may overlap each other, but not the steps.
        let busy = self.stages.iter().map(|stage| stage.busy);
        busy.fold(working, Duration::max)
    }

    pub(super) fn timings(&self, now: Stamp) -> Timings {
        let audio = self.rate.duration(self.sent);
        let busy: Duration = self.stages.iter().map(|stage| stage.busy).sum();
        Timings {
            ready: self.ready.map(|at| at.since(self.began)),
            wait: self.wait,
            queue: self.first_started.map(|at| at.since(self.began)),
            first_audio: self.first_audio.map(|at| at.since(self.began)),
            first_packet: self
                .first_audio
                .zip(self.speakable())
                .map(|(at, ready)| at.since(ready)),
            text_wait: self.text_wait(now),
            text_pauses: if self.own_text {
                Duration::ZERO
            } else {
                self.text_waits
            },
            last_output: self.last_output.map(|at| at.since(self.began)),
            generation: self.generation(),
            leading_silence: if self.sent.is_empty() {
                Duration::ZERO
            } else {
                self.rate.duration(self.silence.leading())
            },
            total: now.since(self.began),
            real_time_factor: if audio.is_zero() {
                0.0
            } else {
                busy.as_secs_f64() / audio.as_secs_f64()
            },
            worst_underrun: self.player.report().worst(),
            longest_gap: self.longest_gap,
            whole: self.whole,
            sound: self.sound,
            stages: self.stages.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(ms: u64) -> Stamp {
        Stamp(MS(ms))
    }

    fn ledger() -> DeliveryStats {
        DeliveryStats::new(
            SampleRate::new(16_000).unwrap(),
            ["first", "last"].into_iter(),
            at(1_000),
        )
    }

    #[test]
    fn intervals_begin_at_the_first_text() {
        let mut ledger = ledger();
        ledger.sent(at(1_030), Samples(16_000), false);
        let timings = ledger.timings(at(1_500));
        assert_eq!(timings.first_audio, Some(MS(30)));
        assert_eq!(timings.total, MS(500));
    }

    #[test]
    fn a_late_chunk_is_an_underrun() {
        let mut ledger = ledger();
        ledger.sent(at(1_000), Samples(1_600), false);
        ledger.sent(at(1_250), Samples(1_600), false);
        assert_eq!(ledger.timings(at(2_000)).worst_underrun, MS(150));
    }

    #[test]
    fn packets_after_the_first_tell_their_gap_and_what_was_left_to_play() {
        let mut ledger = ledger();
        assert_eq!(ledger.sent(at(1_000), Samples(1_600), false), None);
        assert_eq!(
            ledger.sent(at(1_040), Samples(1_600), false),
            Some((MS(40), MS(60)))
        );
        assert_eq!(
            ledger.sent(at(1_300), Samples(1_600), false),
            Some((MS(260), MS(0)))
        );
        // The caller was silent for five seconds, one of them while the listener still had something.
        ledger.sent(at(1_300), Samples(16_000), false);
        ledger.resumed(at(1_300), at(6_400), true);
        let (gap, _) = ledger.sent(at(6_410), Samples(1_600), false).unwrap();
        assert!(gap < MS(1_400), "{gap:?}");
    }

    #[test]
    fn waiting_for_text_is_not_an_underrun() {
        let mut ledger = ledger();
        ledger.sent(at(1_000), Samples(1_600), false);
        ledger.resumed(at(1_000), at(5_000), true);
        ledger.sent(at(5_000), Samples(1_600), false);
        assert_eq!(ledger.timings(at(6_000)).worst_underrun, Duration::ZERO);
        // The rest of the gap is the server's.
        ledger.sent(at(5_130), Samples(1_600), false);
        assert_eq!(ledger.timings(at(6_000)).worst_underrun, MS(30));
    }

    #[test]
    fn text_that_comes_before_the_player_is_dry_pauses_nothing() {
        let mut ledger = ledger();
        ledger.sent(at(1_000), Samples(16_000), false);
        ledger.resumed(at(1_400), at(1_500), true);
        ledger.sent(at(2_100), Samples(1_600), false);
        assert_eq!(ledger.timings(at(2_100)).worst_underrun, MS(100));
    }

    /// Snapshot of the last stage for a sequence that was submitted at 5 s, whose last step ended at `last`.
    fn vocoded(last: u64, busy: u64) -> StageSnapshot {
        StageSnapshot {
            last_output: Some(at(last)),
            busy: MS(busy),
            ..StageSnapshot::default()
        }
    }

    #[test]
    fn what_the_caller_took_to_write_is_told_apart_from_what_the_server_took() {
        let mut ledger = ledger();
        // Four seconds until there was something to speak, one more in the midst of it, reported twice.
        ledger.ready(at(5_000));
        ledger.handed_over(at(5_010));
        ledger.sent(at(5_050), Samples(1_600), false);
        ledger.resumed(at(5_400), at(6_000), true);
        ledger.resumed(at(5_400), at(6_400), true);
        ledger.sent(at(6_450), Samples(14_400), false);
        ledger.sequence(
            (at(5_010), Duration::ZERO),
            &[("first", StageSnapshot::default()), ("last", vocoded(6_440, 20))],
        );
        let timings = ledger.timings(at(6_500));
        assert_eq!(timings.first_audio, Some(MS(4_050)));
        assert_eq!(timings.first_packet, Some(MS(50)));
        assert_eq!(timings.text_wait, MS(4_000 + 1_000));
        assert_eq!(timings.generation, MS(1_430 - 1_000));
    }

    #[test]
    fn generation_is_the_time_that_passed_and_not_that_of_steps_or_of_a_listener_with_no_room() {
        let mut ledger = ledger();
        ledger.ready(at(1_000));
        ledger.handed_over(at(1_000));
        ledger.sent(at(1_100), Samples(16_000), false);
        // It waited for 600 ms among others and was worked on for 50.
        ledger.sequence(
            (at(1_000), Duration::ZERO),
            &[("first", StageSnapshot::default()), ("last", vocoded(1_650, 50))],
        );
        assert_eq!(ledger.timings(at(3_000)).generation, MS(650));
        let mut held = DeliveryStats::new(
            SampleRate::new(16_000).unwrap(),
            ["first", "last"].into_iter(),
            at(1_000),
        );
        held.ready(at(1_000));
        held.handed_over(at(1_000));
        held.sequence(
            (at(1_000), MS(9_000)),
            &[("first", StageSnapshot::default()), ("last", vocoded(10_500, 50))],
        );
        assert_eq!(held.timings(at(11_000)).generation, MS(500));
    }

    #[test]
    fn an_answer_is_counted_from_the_request_for_it() {
        let mut ledger = ledger();
        ledger.answers();
        ledger.ready(at(1_400));
        ledger.handed_over(at(1_400));
        ledger.sent(at(1_500), Samples(1_600), false);
        let timings = ledger.timings(at(1_600));
        assert_eq!(
            (timings.first_packet, timings.text_wait),
            (Some(MS(500)), Duration::ZERO)
        );
    }

    #[test]
    fn an_utterance_without_audio_has_finite_figures() {
        let timings = ledger().timings(at(1_100));
        assert_eq!(timings.first_audio, None);
        assert!(timings.real_time_factor.abs() < f64::EPSILON);
        assert_eq!(timings.leading_silence, Duration::ZERO);
    }

    #[test]
    fn audio_that_is_handed_over_in_one_piece_is_late_by_all_of_it_and_has_no_gaps() {
        let mut ledger = ledger().whole(true);
        ledger.ready(at(1_000));
        ledger.handed_over(at(1_000));
        assert_eq!(ledger.sent(at(1_030), Samples(1_600), false), None);
        assert_eq!(ledger.sent(at(3_500), Samples(1_600), false), None);
        let timings = ledger.timings(at(3_510));
        assert_eq!(timings.first_packet, Some(MS(2_500)));
        assert_eq!((timings.worst_underrun, timings.longest_gap), (MS(0), MS(0)));
    }

    #[test]
    fn frames_that_were_encoded_at_once_are_one_packet() {
        let mut ledger = ledger();
        ledger.sent(at(1_000), Samples(400), false);
        assert_eq!(ledger.sent(at(1_001), Samples(400), true), None);
        assert_eq!(
            ledger.sent(at(1_040), Samples(400), false),
            Some((MS(40), MS(10)))
        );
        assert_eq!(ledger.sent(at(1_040), Samples(400), true), None);
    }

    #[test]
    fn what_a_stage_took_is_told_without_waits_for_text() {
        let mut ledger = ledger();
        ledger.ready(at(1_000));
        ledger.handed_over(at(1_000));
        // Five seconds in the midst of a sentence, one between two.
        ledger.resumed(at(1_100), at(6_100), true);
        let own = [("first", vocoded(6_300, 20)), ("last", vocoded(6_400, 20))];
        assert_eq!(ledger.sequence((at(1_000), MS(0)), &own), MS(5_000));
        ledger.resumed(at(6_400), at(7_400), false);
        ledger.handed_over(at(7_400));
        let own = [("first", vocoded(7_500, 20)), ("last", vocoded(7_600, 20))];
        assert_eq!(ledger.sequence((at(7_400), MS(0)), &own), MS(0));
        let timings = ledger.timings(at(7_700));
        let spans = timings.stages.iter().map(|stage| stage.span);
        assert_eq!(spans.collect::<Vec<_>>(), [Some(MS(400)), Some(MS(600))]);
        assert_eq!(timings.text_pauses, MS(6_000));
    }
}
