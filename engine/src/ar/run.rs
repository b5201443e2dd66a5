//! Doing what was planned, and booking what came of it.

use super::plan::Entry;
use super::slots::{Slot, Slots};
use super::{ArEngine, ArEvent, ArReport, ArStats, FinishReason};
use crate::blocks::BlockPool;
use crate::ids::{SeqId, Stamp};
use crate::model::{ArModel, ModelError, Sampled, SeqStep};

impl<M: ArModel> ArEngine<M> {
    pub(super) fn run(
        &mut self,
        plan: &[Entry],
        clock: &mut impl FnMut() -> Stamp,
        report: &mut ArReport<M::Output>,
    ) {
        let (slots, pool) = (&self.slots, &self.pool);
        let batch: Vec<SeqStep<'_>> = plan.iter().map(|entry| seq_step(entry, slots, pool)).collect();
        if let Err(error) = self.model.execute(&batch) {
            report.ended = clock();
            self.fail(plan.iter().map(|entry| entry.slot), &error, report);
            return;
        }
        let complete = self.advance(plan, &mut report.stats);
        if complete.is_empty() {
            report.ended = clock();
            return;
        }
        let seqs: Vec<SeqId> = complete.iter().map(|slot| self.slots[*slot].id).collect();
        let sampled = self.model.sample(&seqs);
        report.ended = clock();
        match sampled {
            Ok(sampled) => {
                let (found, expected) = (sampled.len(), seqs.len());
                assert_eq!(found, expected, "the model must answer for every sequence");
                for (slot, result) in complete.into_iter().zip(sampled) {
                    self.apply(slot, result, report);
                }
            }
            Err(error) => self.fail(complete.into_iter(), &error, report),
        }
    }

    /// Books the computed positions; returns the sequences that have caught up and can be sampled.
    fn advance(&mut self, plan: &[Entry], stats: &mut ArStats) -> Vec<Slot> {
        let mut complete = Vec::with_capacity(plan.len());
        for entry in plan {
            let sequence = &mut self.slots[entry.slot];
            sequence.computed += entry.len;
            let again = sequence.reached.min(sequence.computed);
            sequence.reached = sequence.reached.max(sequence.computed);
            match entry.prefill {
                true => {
                    stats.prefill_tokens += entry.len;
                    stats.recomputed_tokens += again.saturating_sub(entry.start);
                }
                false => stats.decode_tokens += entry.len,
            }
            if sequence.computed == sequence.known {
                complete.push(entry.slot);
            }
            self.publish(entry.slot);
        }
        complete
    }

    fn apply(&mut self, slot: Slot, result: Sampled<M::Output>, report: &mut ArReport<M::Output>) {
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

    /// Books and reports one output; says so if it was the last.
    fn emit(
        &mut self,
        slot: Slot,
        item: M::Output,
        report: &mut ArReport<M::Output>,
    ) -> Option<FinishReason> {
        let sequence = &mut self.slots[slot];
        if sequence.record.outputs == 0 {
            report.stats.prompt_tokens += sequence.record.prompt_tokens;
            report.stats.prompt_tokens_cached += sequence.record.cached_tokens;
        }
        report.stats.generation_tokens += 1;
        sequence.emitted(report.ended);
        let repeats = match &mut sequence.tail {
            Some(tail) => self.model.token(&item).is_some_and(|token| tail.push(token)),
            None => false,
        };
        let seq = sequence.id;
        report.events.push(ArEvent::Output { seq, item });
        if sequence.record.outputs >= sequence.options.max_outputs {
            return Some(FinishReason::Length);
        }
        if repeats {
            return Some(FinishReason::Repetition);
        }
        if sequence.lacks_row() {
            report.stats.starved += 1;
            self.settle(slot);
        }
        None
    }

    fn fail(
        &mut self,
        slots: impl Iterator<Item = Slot>,
        error: &ModelError,
        report: &mut ArReport<M::Output>,
    ) {
        for slot in slots {
            let reason = FinishReason::Error(error.to_string());
            let event = self.remove(slot, reason, report.ended);
            report.events.push(event);
        }
    }
}

fn seq_step<'a>(entry: &Entry, slots: &'a Slots, pool: &BlockPool) -> SeqStep<'a> {
    let (sequence, size) = (&slots[entry.slot], pool.block_size());
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
