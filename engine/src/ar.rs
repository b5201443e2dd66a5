//! The autoregressive engine: continuous batching over paged KV blocks.
//!
//! In: [`ArEngine::add`], [`ArEngine::push`], [`ArEngine::set_paused`], [`ArEngine::end`]. Out: the events and the
//! statistics of each [`ArEngine::step`]. Sequences join and leave between steps.
//!
//! *What runs.* A step takes one position of every running decode, then prompt chunks under what is left of the token
//! budget: never more than a cap (a newcomer must not hold up the streams in flight), never less than a floor (the
//! streams must not keep newcomers out). If decodes alone exceed the budget they take turns. Places are given in the
//! order of arrival; no sequence overtakes a ready one, however large that is.
//!
//! *What gives way.* A decode without a block takes those of a sequence that cannot run anyway, or else of the last in
//! that order; the victim is recomputed later. A sequence that cannot run (no row from upstream, consumer full) keeps
//! its place while no other needs it, and for [`ArConfig::hold_patience`] steps if another does.
//!
//! *What overlaps.* A step can be begun and ended apart ([`ArEngine::begin_step`], [`ArEngine::end_step`]), and where
//! the model's work is done elsewhere, another can be begun before the first has ended
//! ([`ArEngine::begin_step_ahead`]): then the machine has its next step while the caller deals with what the last one
//! gave. Only sequences of the first are in the second, and only if no other could run.
//!
//! *What is shared.* Full blocks of equal content, where the model says what stands in them
//! ([`KvCache::content_keys`](crate::KvCache::content_keys)). At least the last known position is always computed, in
//! a block of its own, so a shared block is never written and nothing is ever copied. (Sharing half-filled blocks, as
//! for several continuations of one sequence, would need copy-on-write here.)

mod admit;
mod config;
mod plan;
mod repetition;
mod run;
mod sequence;
mod slots;

use std::collections::{BTreeSet, VecDeque};

pub use config::{AddError, AddOptions, ArConfig, RepetitionLimit};
pub use sequence::SeqState;

use crate::blocks::BlockPool;
use crate::ids::{SeqId, Stamp};
use crate::model::{ArModel, ModelError};
use crate::order::Arrival;
use crate::step::{FinishReason, SeqEvent, StepReport, StepStats};
use run::Flight;
use sequence::Sequence;
use slots::{Slot, Slots};

/// Continuous batching over one [`ArModel`].
#[derive(Debug)]
pub struct ArEngine<M: ArModel> {
    model: M,
    config: ArConfig,
    /// Longest sequence.
    max_len: u32,
    pool: BlockPool,
    slots: Slots,
    /// Sequences with a place, in order.
    running: Vec<Slot>,
    /// Sequences without a place that could run, in order.
    ready: BTreeSet<(Arrival, Slot)>,
    /// Known positions of all sequences without a place.
    waiting_tokens: u64,
    next_arrival: u64,
    /// Steps begun.
    step: u64,
    /// Number of decode turns given.
    turn: u64,
    /// Events since the last step.
    pending: Vec<SeqEvent<M::Output>>,
    /// `true` if one of them is the last of its sequence.
    unreported_end: bool,
    /// Decodes of the step being planned; kept to spare the allocation.
    decodes: Vec<Slot>,
    /// Steps under way, at most two.
    flights: VecDeque<Flight<M::Output>>,
    /// End of the last step.
    landed: Stamp,
    /// Ended sequences that a step in flight still has.
    gone: Vec<SeqId>,
    /// Reason why the model can do no further step.
    lost: Option<String>,
}

impl<M: ArModel> ArEngine<M> {
    /// Creates an engine over `model`, whose [`KvSpec`](crate::KvSpec) sizes the block pool.
    ///
    /// # Panics
    /// If `config` has a zero limit, or a budget of one token for several sequences, or if the model's pool has fewer
    /// than 2 blocks.
    pub fn new(model: M, config: ArConfig) -> Self {
        config.check();
        let spec = model.kv_spec();
        Self {
            model,
            config,
            max_len: spec.max_len.min(config.max_model_len),
            pool: BlockPool::new(spec.num_blocks, spec.block_size),
            slots: Slots::default(),
            running: Vec::new(),
            ready: BTreeSet::new(),
            waiting_tokens: 0,
            next_arrival: 0,
            step: 0,
            turn: 0,
            pending: Vec::new(),
            unreported_end: false,
            decodes: Vec::new(),
            flights: VecDeque::new(),
            landed: Stamp::default(),
            gone: Vec::new(),
            lost: None,
        }
    }

    /// Queues a sequence. A request that brings all its permitted outputs, or outputs that repeat, ends with the next
    /// step.
    ///
    /// # Errors
    /// [`AddError`]; nothing is kept then.
    ///
    /// # Panics
    /// If the model opens the sequence with an empty prompt.
    pub fn add(
        &mut self,
        seq: SeqId,
        request: M::Request,
        options: AddOptions,
        now: Stamp,
    ) -> Result<(), AddError> {
        self.check_options(seq, &options)?;
        let opened = self.model.open(seq, request);
        if let Err(ModelError::Lost(reason)) = &opened {
            self.lost = Some(reason.clone());
        }
        let prompt = opened?;
        assert!(prompt > 0, "{seq:?} was opened with an empty prompt");
        let prior = self.model.prior_outputs(seq);
        let count = u32::try_from(prior.len()).unwrap_or(u32::MAX);
        // The last output needs no position of its own.
        let least = prompt.saturating_add(count.saturating_sub(1));
        if let Err(error) = self.check_room(least) {
            self.model.close(seq);
            return Err(error);
        }
        let max_outputs = options.max_outputs.min(self.longest() - prompt + 1);
        let options = AddOptions {
            max_outputs,
            ..options
        };
        let mut sequence = Sequence::new(seq, (prompt, count), options, Arrival(self.next_arrival), now);
        let repeats = self.remember(&mut sequence, &prior);
        let over = if sequence.is_full() {
            Some(FinishReason::Length)
        } else {
            repeats.then_some(FinishReason::Repetition)
        };
        self.next_arrival += 1;
        self.waiting_tokens += u64::from(sequence.known);
        let slot = self.slots.insert(sequence);
        self.settle(slot);
        self.pending.push(SeqEvent::Queued { seq, at: now });
        if let Some(reason) = over {
            self.end(seq, reason);
        }
        Ok(())
    }

    /// Records the tokens of outputs that a request brought; returns true if they repeat.
    fn remember(&self, sequence: &mut Sequence, outputs: &[M::Output]) -> bool {
        let Some(tail) = &mut sequence.tail else {
            return false;
        };
        let tokens = outputs.iter().filter_map(|output| self.model.token(output));
        tokens.fold(false, |_, token| tail.push(token))
    }

    fn check_options(&self, seq: SeqId, options: &AddOptions) -> Result<(), AddError> {
        if self.slots.find(seq).is_some() || self.gone.contains(&seq) {
            return Err(AddError::Duplicate(seq));
        }
        let waiting = self.waiting();
        let limit = self.config.max_waiting;
        if waiting >= limit {
            return Err(AddError::QueueFull { waiting, limit });
        }
        if options.max_outputs == 0 {
            return Err(AddError::NoOutputs(seq));
        }
        match options.repetition {
            Some(limit) if !limit.is_valid() => Err(AddError::Repetition(limit)),
            _ => Ok(()),
        }
    }

    fn check_room(&self, prompt: u32) -> Result<(), AddError> {
        if prompt > self.longest() {
            return Err(AddError::TooLong {
                prompt,
                max_len: self.max_len,
                capacity: self.pool.capacity(),
            });
        }
        let limit = self.config.max_waiting_tokens;
        if self.waiting_tokens + u64::from(prompt) > u64::from(limit) {
            return Err(AddError::QueueTokens {
                waiting: u32::try_from(self.waiting_tokens).unwrap_or(u32::MAX),
                prompt,
                limit,
            });
        }
        Ok(())
    }

    /// Positions of the longest sequence that can run alone.
    fn longest(&self) -> u32 {
        self.max_len.min(self.pool.capacity())
    }

    /// Adds upstream rows; `last` if no more will come. Unknown sequences are ignored: they may have ended while the
    /// rows were in flight.
    pub fn push(&mut self, seq: SeqId, rows: Vec<M::Row>, last: bool) {
        if let Some(slot) = self.slots.find(seq) {
            self.slots[slot].receive(rows.len() as u32, last);
            self.model.push(seq, rows, last);
            self.settle(slot);
        }
    }

    /// Pauses a sequence between steps (its consumer is full), or resumes it. It keeps its place unless another needs
    /// it.
    pub fn set_paused(&mut self, seq: SeqId, paused: bool) {
        if let Some(slot) = self.slots.find(seq) {
            self.slots[slot].set_paused(paused);
            self.settle(slot);
        }
    }

    /// Aborts a sequence: [`end`](Self::end) with [`FinishReason::Abort`].
    pub fn abort(&mut self, seq: SeqId) -> bool {
        self.end(seq, FinishReason::Abort)
    }

    /// Ends a sequence now (a stop string was found, upstream failed). Returns true if it was alive; its blocks are
    /// then free, the model has closed it or will after the steps in flight, and the next report has its
    /// [`SeqEvent::Finished`].
    pub fn end(&mut self, seq: SeqId, reason: FinishReason) -> bool {
        let Some(slot) = self.slots.find(seq) else {
            return false;
        };
        let event = self.remove(slot, reason, Stamp::default());
        self.pending.push(event);
        self.unreported_end = true;
        true
    }

    /// Returns true while a step is in flight, or if [`step`](Self::step) would do anything. Otherwise only a call of
    /// `add`, `push`, `set_paused` or `end` can change that, so a worker may sleep until its next command.
    pub fn has_work(&self) -> bool {
        // A ready sequence can always be served: if none with a place can run, they lose their places.
        self.is_under_way() || self.unreported_end || !self.ready.is_empty() || self.any_runs()
    }

    /// Reason why the model can do no further step, once it is lost. No end is reported for the sequences in the
    /// engine at that time.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Returns true if a step was begun that has not ended.
    pub fn is_under_way(&self) -> bool {
        !self.flights.is_empty()
    }

    /// State of a sequence; `None` once it has ended.
    pub fn state(&self, seq: SeqId) -> Option<SeqState> {
        Some(self.slots[self.slots.find(seq)?].state())
    }

    /// Steps begun.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Sequences known: waiting and running.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if the engine has no sequences.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Runs the `nth` piece of [`Warmup::prepare`](crate::Warmup::prepare), for steps of as many sequences as may
    /// run. It is not counted.
    ///
    /// # Errors
    /// The model's.
    pub fn prepare(&mut self, nth: u32) -> Result<bool, ModelError> {
        self.model.prepare(nth, self.config.max_num_seqs)
    }

    /// [`step_with`](Self::step_with) for callers whose clock does not move during a step.
    pub fn step(&mut self, now: Stamp) -> StepReport<M::Output> {
        self.step_with(|| now)
    }

    /// Runs one step: plan, execute, sample. `clock` is read when it begins and when its results are there.
    pub fn step_with(&mut self, mut clock: impl FnMut() -> Stamp) -> StepReport<M::Output> {
        self.begin_step(clock());
        self.end_step(clock)
    }

    /// Begins a step: plans, executes, and requests samples. A model that computes on the caller's thread has them
    /// then.
    ///
    /// # Panics
    /// If a step is in flight.
    pub fn begin_step(&mut self, now: Stamp) {
        assert!(!self.is_under_way(), "a step is under way");
        let mut report = StepReport::new(now);
        report.events = self.take_pending(now);
        self.step += 1;
        let plan = self.plan(&mut report);
        self.launch(&plan, report);
    }

    /// Begins another step while one is in flight: with sequences of that one, if no other could run. Sequences
    /// without room for two outputs, by `has_room`, stay out. Returns true if there was anything to begin.
    pub fn begin_step_ahead(&mut self, now: Stamp, has_room: impl FnMut(SeqId) -> bool) -> bool {
        if self.flights.len() != 1 || !self.flights[0].is_submitted() {
            return false;
        }
        let Some(plan) = self.plan_ahead(has_room) else {
            return false;
        };
        self.step += 1;
        self.launch(&plan, StepReport::new(now));
        true
    }

    /// Waits for the oldest step in flight. `clock` is read when its results are there.
    ///
    /// # Panics
    /// If none is in flight.
    pub fn end_step(&mut self, mut clock: impl FnMut() -> Stamp) -> StepReport<M::Output> {
        let mut report = self.land(&mut clock);
        let since = self.take_pending(report.ended);
        report.events.extend(since);
        self.fill_stats(&mut report.stats);
        report
    }

    fn take_pending(&mut self, now: Stamp) -> Vec<SeqEvent<M::Output>> {
        self.unreported_end = false;
        let mut events = std::mem::take(&mut self.pending);
        for event in &mut events {
            if let SeqEvent::Finished { record, .. } = event {
                record.finished = now;
            }
        }
        events
    }

    /// Updates queue and hold after a change of a sequence's rows, consumer or place.
    fn settle(&mut self, slot: Slot) {
        let sequence = &mut self.slots[slot];
        let runnable = sequence.is_runnable();
        if sequence.has_place() {
            sequence.held_since = if runnable {
                None
            } else {
                Some(sequence.held_since.unwrap_or(self.step))
            };
            return;
        }
        if runnable == sequence.queued {
            return;
        }
        sequence.queued = runnable;
        let key = (sequence.arrival, slot);
        let changed = if runnable {
            self.ready.insert(key)
        } else {
            self.ready.remove(&key)
        };
        assert!(changed, "the queue had lost track of {:?}", sequence.id);
    }

    /// Removes a sequence; returns its last event.
    fn remove(&mut self, slot: Slot, reason: FinishReason, now: Stamp) -> SeqEvent<M::Output> {
        if self.slots[slot].has_place() {
            self.running.retain(|other| *other != slot);
        } else {
            self.leave_queue(slot);
        }
        let mut sequence = self.slots.remove(slot);
        self.pool.release(&mut sequence.blocks);
        sequence.finish(now);
        self.gone.push(sequence.id);
        self.close_gone();
        SeqEvent::Finished {
            seq: sequence.id,
            reason,
            record: sequence.record,
        }
    }

    /// Closes ended sequences that are in no step in flight.
    fn close_gone(&mut self) {
        let model = &mut self.model;
        let flights = &self.flights;
        self.gone.retain(|seq| {
            let flies = flights.iter().any(|flight| flight.has(*seq));
            if !flies {
                model.close(*seq);
            }
            flies
        });
    }

    fn leave_queue(&mut self, slot: Slot) {
        let sequence = &mut self.slots[slot];
        self.waiting_tokens -= u64::from(sequence.known);
        if std::mem::take(&mut sequence.queued) {
            assert!(
                self.ready.remove(&(sequence.arrival, slot)),
                "queued but not there"
            );
        }
    }

    /// Sequences without a place.
    fn waiting(&self) -> u32 {
        (self.slots.len() - self.running.len()) as u32
    }

    fn any_runs(&self) -> bool {
        self.running.iter().any(|slot| self.slots[*slot].is_runnable())
    }

    fn fill_stats(&self, stats: &mut StepStats) {
        stats.running = self.running.len() as u32;
        stats.waiting_capacity = self.ready.len() as u32;
        stats.waiting_deferred = self.waiting() - stats.waiting_capacity;
        stats.kv_usage = self.pool.usage();
    }
}

#[cfg(test)]
mod tests;
