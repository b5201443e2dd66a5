//! An engine and its callers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::super::support::*;
use super::operations::{Arrival, Op};
use crate::ar::*;

/// State of a live sequence as its caller knows it.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) request: Request,
    pub(super) options: AddOptions,
    pub(super) rows: Vec<u32>,
    pub(super) closed: bool,
    pub(super) outputs: Vec<Out>,
    pub(super) ending: Option<FinishReason>,
    /// Steps in a row in which it was a running decode and gave nothing.
    pub(super) unserved: u32,
}

pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) config: ArConfig,
    pub(super) live: BTreeMap<SeqId, Caller>,
    pub(super) next_id: u64,
    pub(super) failing: bool,
    /// Steps ended since a sequence was in one that was begun.
    pub(super) passed_over: BTreeMap<SeqId, u32>,
}

impl World {
    pub(super) fn new(config: ArConfig, blocks: u32) -> Self {
        Self {
            engine: engine(config, 4, blocks, 30),
            config,
            live: BTreeMap::new(),
            next_id: 1,
            failing: false,
            passed_over: BTreeMap::new(),
        }
    }

    pub(super) fn nth(&self, nth: usize) -> Option<SeqId> {
        self.live
            .iter()
            .filter(|(_, c)| c.ending.is_none())
            .map(|(seq, _)| *seq)
            .nth(nth)
    }

    pub(super) fn perform(&mut self, op: Op) -> TestCaseResult {
        match op {
            Op::Add(arrival) => self.add(&arrival),
            Op::Push { nth, rows, last } => self.push(nth, rows, last),
            Op::Pause { nth, paused } => {
                if let Some(seq) = self.nth(nth) {
                    self.engine.set_paused(seq, paused);
                }
            }
            Op::End { nth, stop } => self.end(nth, stop)?,
            Op::FailNext => {
                self.engine.model.fail_next = true;
                self.failing = true;
            }
            Op::Steps(count) => {
                for _ in 0..count {
                    self.step()?;
                }
            }
            Op::Begin => {
                if self.engine.is_under_way() {
                    self.end_step()?;
                } else {
                    self.begin();
                }
            }
            Op::Ahead { room } => {
                let before = self.engine.model.batch.clone();
                let ahead = self
                    .engine
                    .begin_step_ahead(NOW, |seq| room >> (seq.0 % 8) & 1 != 0);
                let batch = &self.engine.model.batch;
                prop_assert!(ahead || *batch == before);
                prop_assert!(
                    !ahead
                        || batch
                            .iter()
                            .all(|new| before.iter().any(|old| old.0 == new.0 && new.2 == 1))
                );
            }
            Op::EndStep { fails } => {
                if self.engine.is_under_way() {
                    self.engine.model.fail_answer = fails;
                    self.failing |= fails;
                    self.end_step()?;
                    self.engine.model.fail_answer = false;
                }
            }
        }
        self.engine.audit();
        Ok(())
    }

    pub(super) fn add(&mut self, arrival: &Arrival) {
        let seq = self.next_id;
        self.next_id += 1;
        let mut request = request(seq, arrival.own, arrival.life);
        let common = (0..arrival.common).map(|p| p + 100 * arrival.version);
        request.prompt.splice(0..0, common);
        request.shares = arrival.shares;
        if try_add(&mut self.engine, seq, request.clone(), arrival.options).is_ok() {
            let caller = Caller {
                request,
                options: arrival.options,
                rows: Vec::new(),
                closed: false,
                outputs: Vec::new(),
                ending: None,
                unserved: 0,
            };
            self.live.insert(SeqId(seq), caller);
        }
    }

    pub(super) fn push(&mut self, nth: usize, rows: Vec<u32>, last: bool) {
        let Some(seq) = self.nth(nth) else { return };
        let caller = self.live.get_mut(&seq).expect("live");
        if caller.closed || !caller.options.needs_rows {
            return;
        }
        caller.rows.extend(&rows);
        caller.closed = last;
        self.engine.push(seq, rows, last);
    }

    pub(super) fn end(&mut self, nth: usize, stop: bool) -> TestCaseResult {
        let Some(seq) = self.nth(nth) else { return Ok(()) };
        let reason = if stop {
            FinishReason::Stop
        } else {
            FinishReason::Abort
        };
        prop_assert!(self.engine.end(seq, reason.clone()));
        prop_assert!(!self.engine.end(seq, FinishReason::Abort), "it is over");
        self.live.get_mut(&seq).expect("live").ending = Some(reason);
        Ok(())
    }

    /// Ends the step that was begun first.
    pub(super) fn end_step(&mut self) -> TestCaseResult {
        let report = self.engine.end_step(|| NOW);
        for event in report.events {
            self.book(event)?;
        }
        if !self.engine.is_under_way() {
            self.failing = self.engine.model.fail_next;
        }
        Ok(())
    }

    /// Ends a step with another begun ahead, if that can be. No sequence with a place waits for longer than turns and
    /// prompts take, and none without one waits while there is room.
    pub(super) fn step_ahead(&mut self) -> TestCaseResult {
        if !self.engine.is_under_way() {
            self.begin();
        }
        if self.engine.begin_step_ahead(NOW, |_| true) {
            self.note_batch();
            if let Some((_, head)) = self.engine.ready.first().copied() {
                let full = self.engine.running.len() as u32 == self.config.max_num_seqs;
                prop_assert!(full || !self.engine.fits(head), "a newcomer with room waits");
            }
        }
        self.end_step()?;
        let turns = self
            .config
            .max_num_seqs
            .div_ceil(self.config.max_num_batched_tokens - self.config.prefill_floor());
        let engine = &self.engine;
        for slot in &engine.running {
            let sequence = &engine.slots[*slot];
            let passed = self.passed_over.entry(sequence.id).or_default();
            *passed = if sequence.is_runnable() { *passed + 1 } else { 0 };
            let bound = 3 * turns + 3 + 60 * u32::from(sequence.record.outputs == 0);
            prop_assert!(
                *passed <= bound,
                "{:?} waits for the {}th step",
                sequence.id,
                passed
            );
        }
        Ok(())
    }

    pub(super) fn begin(&mut self) {
        self.engine.model.batch.clear();
        self.engine.begin_step(NOW);
        self.note_batch();
    }

    /// Those in the step that was begun last wait no longer.
    pub(super) fn note_batch(&mut self) {
        for (seq, ..) in &self.engine.model.batch {
            self.passed_over.remove(seq);
        }
    }

    /// Lets every sequence run to the end.
    pub(super) fn finish(&mut self) -> TestCaseResult {
        for (seq, caller) in &mut self.live {
            if caller.ending.is_none() {
                self.engine.set_paused(*seq, false);
                if caller.options.needs_rows && !caller.closed {
                    self.engine.push(*seq, vec![], true);
                }
            }
        }
        let mut steps = 0;
        while self.engine.has_work() {
            if self.engine.model.apart {
                self.step_ahead()?;
            } else {
                self.step()?;
            }
            self.engine.audit();
            steps += 1;
            prop_assert!(steps < 5_000, "no progress");
        }
        prop_assert!(self.live.is_empty(), "left behind: {:?}", self.live);
        Ok(())
    }
}
