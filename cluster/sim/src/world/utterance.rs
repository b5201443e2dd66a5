//! The life of an utterance: asked for, bound to replicas, made, heard, and gone on with after a loss.

use std::time::Duration;

use omni_engine::{AddOptions, FinishReason, SeqId, StreamOptions};

use super::{Event, Thread, World};
use crate::cost::micros;
use crate::models::Text;
use crate::plan::Stage;

/// Frames of one sequence that may wait between the stages (`output.capacity`).
const CAPACITY: u32 = 32;

/// An utterance in the stages.
#[derive(Debug)]
pub(super) struct Utterance {
    caller: usize,
    asked: Duration,
    frames: u32,
    /// Its talker and its vocoder.
    pub(super) bound: [usize; 2],
    made: u32,
    decoded: u32,
    talker_pauses: bool,
    /// Frames that the vocoder decodes again before the first new one.
    lead: u32,
    /// Frames whose audio the front end has, and those at its head that are not heard.
    came: u32,
    silent: u32,
    first: Option<Duration>,
    plays_until: Duration,
    gap: Duration,
}

impl World {
    /// A caller has something to say.
    pub(super) fn asks(&mut self, caller: usize) {
        let beside = self.plan.costs.beside;
        let work = [
            (Thread::Callers, micros(beside.caller_begin_us)),
            (Thread::Front(Stage::Talker), micros(beside.front_begin_us)),
        ];
        self.after_work(work, Duration::ZERO, Event::Arrives(caller, self.now));
    }

    pub(super) fn arrives(&mut self, caller: usize, asked: Duration) {
        let silent = self.plan.costs.silent_frames;
        let heard = self.dice.around(self.plan.frames, self.plan.spread).round();
        self.waiting.push_back(Utterance {
            caller,
            asked,
            frames: silent + heard.max(1.0) as u32,
            silent,
            bound: [0; 2],
            made: 0,
            decoded: 0,
            talker_pauses: false,
            lead: 0,
            came: 0,
            first: None,
            plays_until: Duration::ZERO,
            gap: Duration::ZERO,
        });
        self.admit();
    }

    /// Admits waiting utterances.
    pub(super) fn admit(&mut self) {
        while self.utterances.len() < self.plan.max_active && !self.waiting.is_empty() {
            let Some(bound) = self.pools.bind() else { return };
            let Some(utterance) = self.waiting.pop_front() else {
                return;
            };
            self.submit(Utterance { bound, ..utterance });
        }
    }

    /// Submits an utterance to its replicas, from the beginning or behind the frames it has.
    fn submit(&mut self, mut utterance: Utterance) {
        (utterance.made, utterance.decoded) = (utterance.came, utterance.came);
        utterance.talker_pauses = false;
        let seq = SeqId(self.next_seq);
        self.next_seq += 1;
        self.utterances.insert(seq, utterance);
        let wait = self.plan.costs.hop() + micros(self.plan.costs.begin_us);
        self.after(wait, Event::Begins(seq));
    }

    pub(super) fn begins(&mut self, seq: SeqId) {
        let Some(utterance) = self.utterances.get(&seq) else {
            return;
        };
        let [talker, vocoder] = utterance.bound;
        let came = utterance.came;
        // The frames so far are the talker's prompt.
        let text = Text {
            prompt: self.plan.prompt + came,
            frames: utterance.frames - came,
        };
        let now = crate::pool::stamp(self.now);
        let options = StreamOptions {
            unplayed_items: utterance.silent.saturating_sub(came),
            ..StreamOptions::default()
        };
        let before = vec![(); came as usize];
        let talks = self
            .pools
            .talker(talker)
            .add(seq, text, AddOptions::default(), now)
            .is_ok();
        let decodes = self.pools.vocoder(vocoder).add_behind(before, seq, options, now);
        match (talks, decodes) {
            (true, Ok(skipped)) => {
                if let Some(utterance) = self.utterances.get_mut(&seq) {
                    utterance.lead = came - skipped.items;
                }
                self.work(Stage::Talker, talker);
                self.work(Stage::Code2Wav, vocoder);
            }
            _ => {
                self.give_up(seq);
                self.waits(seq);
            }
        }
    }

    pub(super) fn made(&mut self, seq: SeqId) {
        let Some(utterance) = self.utterances.get_mut(&seq) else {
            return;
        };
        utterance.made += 1;
        if utterance.made - utterance.decoded >= CAPACITY && !utterance.talker_pauses {
            utterance.talker_pauses = true;
            self.pools.talker(utterance.bound[0]).set_paused(seq, true);
        }
        self.pass_on(seq, 1, Event::Frame(seq));
    }

    /// Sends from a talker to a vocoder.
    pub(super) fn pass_on(&mut self, seq: SeqId, frames: u32, event: Event) {
        let Some([talker, vocoder]) = self.utterances.get(&seq).map(|utterance| utterance.bound) else {
            return;
        };
        let beside = self.plan.costs.beside;
        let hop = self.plan.costs.hop();
        let of = |us: f64| micros(us * f64::from(frames));
        let work = [
            (Thread::Passes(Stage::Talker, talker), of(beside.talker_frame_us)),
            (
                Thread::Passes(Stage::Code2Wav, vocoder),
                of(beside.code2wav_frame_us / 2.0),
            ),
        ];
        self.after_work(work, hop, event);
    }

    /// Sends from a vocoder to a caller.
    fn give_out(&mut self, seq: SeqId, vocoder: usize, frames: u32) {
        let beside = self.plan.costs.beside;
        let hop = self.plan.costs.hop();
        let of = |us: f64| micros(us * f64::from(frames));
        let work = [
            (
                Thread::Passes(Stage::Code2Wav, vocoder),
                of(beside.code2wav_frame_us / 2.0),
            ),
            (Thread::Front(Stage::Code2Wav), of(beside.front_frame_us)),
            (Thread::Callers, of(beside.caller_frame_us)),
        ];
        self.after_work(work, hop, Event::Audio(seq, frames));
    }

    pub(super) fn frames(&mut self, seq: SeqId, last: bool) {
        let Some(utterance) = self.utterances.get(&seq) else {
            return;
        };
        let replica = utterance.bound[1];
        let items = if last { Vec::new() } else { vec![()] };
        self.pools.vocoder(replica).push(seq, items, last);
        self.work(Stage::Code2Wav, replica);
    }

    pub(super) fn decoded(&mut self, seq: SeqId, replica: usize, frames: u32) {
        let hop = self.plan.costs.hop();
        let frame = self.plan.costs.frame();
        let Some(utterance) = self.utterances.get_mut(&seq) else {
            return;
        };
        let led = utterance.lead.min(frames);
        utterance.lead -= led;
        let frames = frames - led;
        if frames == 0 {
            return;
        }
        utterance.decoded += frames;
        let room = utterance.made - utterance.decoded <= CAPACITY / 2;
        let resumes = room && std::mem::take(&mut utterance.talker_pauses);
        if self.plan.paced {
            let first = utterance.first.unwrap_or(self.now + hop);
            let played = utterance.decoded.saturating_sub(self.plan.costs.silent_frames);
            let ahead = (first + frame * played).saturating_sub(self.now);
            if ahead > self.plan.buffered {
                let wait = ahead - self.plan.buffered / 2;
                self.pools.vocoder(replica).set_paused(seq, true);
                self.after(wait, Event::ListenerRoom(seq));
            }
        }
        if resumes {
            self.after(hop, Event::Room(seq));
        }
        self.give_out(seq, replica, frames);
    }

    pub(super) fn audio(&mut self, seq: SeqId, frames: u32) {
        let now = self.now;
        let frame = self.plan.costs.frame();
        let Some(utterance) = self.utterances.get_mut(&seq) else {
            return;
        };
        let silent = utterance.silent.saturating_sub(utterance.came).min(frames);
        utterance.came += frames;
        let frames = frames - silent;
        if frames == 0 {
            return;
        }
        if utterance.first.is_none() {
            utterance.first = Some(now);
            utterance.plays_until = now;
            if now >= self.plan.warm_up {
                self.outcome
                    .first_audio
                    .push((now - utterance.asked).as_secs_f64());
            }
        }
        let gap = now.saturating_sub(utterance.plays_until);
        utterance.gap = utterance.gap.max(gap);
        utterance.plays_until = utterance.plays_until.max(now) + frame * frames;
    }

    pub(super) fn ends(&mut self, seq: SeqId) {
        let Some(utterance) = self.utterances.remove(&seq) else {
            return;
        };
        self.pools.release(utterance.bound);
        if self.now >= self.plan.warm_up {
            self.outcome.done += 1;
            self.outcome.gapped += usize::from(!utterance.gap.is_zero());
            self.outcome.longest_gap = self.outcome.longest_gap.max(utterance.gap.as_secs_f64());
            let heard = utterance.came.saturating_sub(utterance.silent);
            self.outcome.audio += (self.plan.costs.frame() * heard).as_secs_f64();
        }
        let over = if self.plan.paced {
            utterance.plays_until.max(self.now)
        } else {
            self.now
        };
        let pause = self.dice.exponential(self.plan.pause.as_secs_f64());
        self.at(over + micros(pause * 1e6), Event::Asks(utterance.caller));
        self.admit();
    }

    /// Takes a sequence out of both stages.
    pub(super) fn give_up(&mut self, seq: SeqId) {
        let Some(utterance) = self.utterances.get(&seq) else {
            return;
        };
        let [talker, vocoder] = utterance.bound;
        self.pools.talker(talker).end(seq, FinishReason::Abort);
        self.pools.vocoder(vocoder).abort(seq);
    }

    /// Puts an utterance that the replica with the fewest has no place for back in front of those that wait for one to end.
    fn waits(&mut self, seq: SeqId) {
        if let Some(utterance) = self.utterances.remove(&seq) {
            self.pools.release(utterance.bound);
            self.waiting.push_front(utterance);
        }
    }

    /// Resumes a sequence elsewhere, behind the frames it has.
    pub(super) fn again(&mut self, seq: SeqId) {
        let Some(utterance) = self.utterances.remove(&seq) else {
            return;
        };
        self.pools.release(utterance.bound);
        self.outcome.again += 1;
        match self.pools.bind() {
            Some(bound) => self.submit(Utterance { bound, ..utterance }),
            None => self.waiting.push_front(utterance),
        }
    }
}
