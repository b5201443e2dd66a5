//! Executing a plan, and recording its results.
//!
//! A step is begun, which records its computed positions, and ended, which records its outputs. In between it is in
//! flight: a sequence may end meanwhile, and its results in the step are discarded then. Its blocks are free at once,
//! because steps are computed in the order in which they were begun; the model closes it when no step in flight has
//! it any more.

use super::ArEngine;
use super::plan::Entry;
use super::slots::{Slot, Slots};
use crate::blocks::BlockPool;
use crate::ids::{SeqId, Stamp};
use crate::model::{ArModel, ModelError, Sampled, SeqStep};
use crate::order::Arrival;
use crate::step::{FinishReason, SeqEvent, StepReport, StepStats};

/// A sequence in a step.
#[derive(Debug, Clone, Copy)]
struct Member {
    slot: Slot,
    seq: SeqId,
    /// Arrival of the sequence, which tells it from a later one in the same slot.
    arrival: Arrival,
    /// Positions computed when the step ends.
    computed: u32,
    /// `true` if it has caught up then, and is sampled.
    sampled: bool,
}

/// Result of a step, or its progress.
#[derive(Debug)]
enum Given<T> {
    /// No sequence has caught up.
    Nothing,
    /// Samples were requested, and have not come yet.
    Submitted,
    Sampled(Vec<Sampled<T>>),
    Failed(ModelError),
}

/// A step that was begun.
#[derive(Debug)]
pub(super) struct Flight<T> {
    members: Vec<Member>,
    given: Given<T>,
    report: StepReport<T>,
}

impl<T> Flight<T> {
    pub(super) fn has(&self, seq: SeqId) -> bool {
        self.members.iter().any(|member| member.seq == seq)
    }

    /// Returns true if samples of all its sequences have been requested.
    pub(super) fn is_submitted(&self) -> bool {
        matches!(self.given, Given::Submitted) && self.members.iter().all(|member| member.sampled)
    }
}

impl<M: ArModel> ArEngine<M> {
    /// Begins the planned step.
    pub(super) fn launch(&mut self, plan: &[Entry], mut report: StepReport<M::Output>) {
        let mut members = self.members(plan);
        let mut given = Given::Nothing;
        if !plan.is_empty() {
            let slots = &self.slots;
            let pool = &self.pool;
            let batch: Vec<SeqStep<'_>> = plan.iter().map(|entry| seq_step(entry, slots, pool)).collect();
            given = match self.model.execute(&batch) {
                Ok(()) => {
                    self.advance(plan, &mut members, &mut report.stats);
                    self.submit(&members)
                }
                Err(error) => Given::Failed(error),
            };
        }
        self.flights.push_back(Flight {
            members,
            given,
            report,
        });
    }

    fn members(&self, plan: &[Entry]) -> Vec<Member> {
        let member = |entry: &Entry| {
            let sequence = &self.slots[entry.slot];
            Member {
                slot: entry.slot,
                seq: sequence.id,
                arrival: sequence.arrival,
                computed: entry.start + entry.len,
                sampled: false,
            }
        };
        plan.iter().map(member).collect()
    }

    /// Records the computed positions, and the sequences that have caught up.
    fn advance(&mut self, plan: &[Entry], members: &mut [Member], stats: &mut StepStats) {
        for (entry, member) in plan.iter().zip(members) {
            let sequence = &mut self.slots[entry.slot];
            sequence.computed += entry.len;
            if entry.prefill {
                stats.prefill_tokens += entry.len;
            } else {
                stats.decode_tokens += entry.len;
            }
            member.sampled = sequence.computed == sequence.known + sequence.asked;
            sequence.asked += u32::from(member.sampled);
        }
    }

    fn submit(&mut self, members: &[Member]) -> Given<M::Output> {
        let sampled = members.iter().filter(|member| member.sampled);
        let seqs: Vec<SeqId> = sampled.map(|member| member.seq).collect();
        if seqs.is_empty() {
            return Given::Nothing;
        }
        let given = match self.model.submit_sample(&seqs) {
            Ok(true) => Ok(Given::Submitted),
            Ok(false) => self.model.sample(&seqs).map(Given::Sampled),
            Err(error) => Err(error),
        };
        given.unwrap_or_else(Given::Failed)
    }

    /// Waits for the oldest step in flight, and records its results.
    pub(super) fn land(&mut self, clock: &mut impl FnMut() -> Stamp) -> StepReport<M::Output> {
        let flight = self.flights.pop_front().expect("a step was begun");
        let Flight {
            members,
            given,
            mut report,
        } = flight;
        let given = match given {
            Given::Submitted => self
                .model
                .wait_sample()
                .map_or_else(Given::Failed, Given::Sampled),
            given => given,
        };
        if !members.is_empty() {
            report.ended = clock();
            // A step begun ahead is not worked on before the one in front of it has ended.
            report.began = report.began.max(self.landed).min(report.ended);
            self.landed = report.ended;
        }
        match given {
            Given::Failed(ModelError::Lost(reason)) => self.lost = Some(reason),
            Given::Failed(error) => self.fail(&members, &error, &mut report),
            Given::Nothing => self.publish_all(&members),
            Given::Submitted => unreachable!("the result was waited for"),
            Given::Sampled(sampled) => {
                self.publish_all(&members);
                self.book(&members, sampled, &mut report);
            }
        }
        self.close_gone();
        report
    }

    /// Returns true if the sequence has not ended since.
    fn lives(&self, member: &Member) -> bool {
        let there = self.slots.get(member.slot);
        there.is_some_and(|sequence| sequence.arrival == member.arrival)
    }

    fn publish_all(&mut self, members: &[Member]) {
        for member in members {
            if self.lives(member) {
                self.publish(member.slot, member.computed);
            }
        }
    }

    fn book(
        &mut self,
        members: &[Member],
        results: Vec<Sampled<M::Output>>,
        report: &mut StepReport<M::Output>,
    ) {
        let sampled: Vec<&Member> = members.iter().filter(|member| member.sampled).collect();
        let found = results.len();
        let expected = sampled.len();
        assert_eq!(found, expected, "the model must answer for every sequence");
        for (member, result) in sampled.into_iter().zip(results) {
            if self.lives(member) {
                self.slots[member.slot].asked -= 1;
                self.apply(member.slot, result, report);
            }
        }
    }

    fn apply(&mut self, slot: Slot, result: Sampled<M::Output>, report: &mut StepReport<M::Output>) {
        let reason = match result {
            Sampled::Item(item) => match self.emit(slot, item, report) {
                Some(reason) => reason,
                None => return,
            },
            Sampled::End => FinishReason::Stop,
            Sampled::Failed(message) => FinishReason::Error(message),
        };
        let event = self.remove(slot, reason, report.ended);
        report.events.push(event);
    }

    /// Records and reports one output; returns true if it was the last.
    fn emit(
        &mut self,
        slot: Slot,
        item: M::Output,
        report: &mut StepReport<M::Output>,
    ) -> Option<FinishReason> {
        let sequence = &mut self.slots[slot];
        if sequence.record.outputs == 0 {
            report.stats.prompt_tokens += sequence.record.prompt_tokens;
            report.stats.cached_tokens += sequence.record.cached_tokens;
        }
        report.stats.outputs += 1;
        sequence.emitted(report.ended);
        let repeats = match &mut sequence.tail {
            Some(tail) => self.model.token(&item).is_some_and(|token| tail.push(token)),
            None => false,
        };
        let seq = sequence.id;
        report.events.push(SeqEvent::Output { seq, item });
        if sequence.is_full() {
            return Some(FinishReason::Length);
        }
        if repeats {
            return Some(FinishReason::Repetition);
        }
        if sequence.lacks_row() {
            self.settle(slot);
        }
        None
    }

    fn fail(&mut self, members: &[Member], error: &ModelError, report: &mut StepReport<M::Output>) {
        for member in members {
            if self.lives(member) {
                let reason = FinishReason::Error(error.to_string());
                let event = self.remove(member.slot, reason, report.ended);
                report.events.push(event);
            }
        }
    }
}

fn seq_step<'a>(entry: &Entry, slots: &'a Slots, pool: &BlockPool) -> SeqStep<'a> {
    let sequence = &slots[entry.slot];
    let size = pool.block_size();
    let blocks = &sequence.blocks;
    let written = entry.start / size..(entry.start + entry.len).div_ceil(size);
    for at in written {
        let block = blocks[at as usize];
        assert!(
            pool.is_writable(block),
            "{:?} would write into shared {block:?}",
            sequence.id
        );
    }
    SeqStep {
        seq: sequence.id,
        start: entry.start,
        len: entry.len,
        blocks,
    }
}
