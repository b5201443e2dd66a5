//! Choosing what one step computes.

use super::{ArEngine, ArEvent, ArReport};
use crate::ids::{SeqId, Stamp};
use crate::model::ArModel;

/// One sequence's share of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: SeqId,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) prefill: bool,
}

impl<M: ArModel> ArEngine<M> {
    /// Decodes first, oldest first; then the prompts in progress; then newcomers, first come first served.
    pub(super) fn plan(&mut self, now: Stamp, report: &mut ArReport<M::Output>) -> Vec<Entry> {
        let mut plan = Vec::with_capacity(self.running.len() + 1);
        self.plan_decodes(now, &mut plan, report);
        let budget =
            (self.config.max_num_batched_tokens - plan.len() as u32).min(self.config.max_prefill_tokens);
        let budget = self.plan_prompts(budget, &mut plan);
        // After a preemption the pool is known to be short: admitting now would only trade places.
        if report.stats.preempted == 0 {
            self.admit(budget, now, &mut plan, report);
        }
        plan
    }

    fn plan_decodes(&mut self, now: Stamp, plan: &mut Vec<Entry>, report: &mut ArReport<M::Output>) {
        let mut index = 0;
        while index < self.running.len() {
            let seq = self.running[index];
            let sequence = &self.sequences[&seq];
            if sequence.in_prefill() || !sequence.is_runnable() {
                index += 1;
                continue;
            }
            // Oldest first and victims from the young end: a victim is never already in the plan.
            while !self.grow(seq) {
                let youngest = *self.running.last().expect("the sequence itself is running");
                self.preempt(youngest, now, report);
                if youngest == seq {
                    return;
                }
            }
            plan.push(self.entry(seq, 1, false));
            index += 1;
        }
    }

    /// Next chunks of admitted prompts; their blocks were taken at admission. Returns the budget left.
    fn plan_prompts(&mut self, mut budget: u32, plan: &mut Vec<Entry>) -> u32 {
        for &seq in &self.running {
            let sequence = &self.sequences[&seq];
            if budget == 0 {
                break;
            }
            if sequence.in_prefill() && sequence.is_runnable() {
                let len = sequence.pending().min(budget);
                budget -= len;
                plan.push(self.entry(seq, len, true));
            }
        }
        budget
    }

    fn admit(
        &mut self,
        mut budget: u32,
        now: Stamp,
        plan: &mut Vec<Entry>,
        report: &mut ArReport<M::Output>,
    ) {
        while budget > 0 {
            let Some(index) = self.next_admissible() else {
                break;
            };
            let seq = self.waiting.remove(index).expect("index from the queue");
            assert!(self.grow(seq), "admissible sequences fit");
            let sequence = self.sequences.get_mut(&seq).expect("waiting sequences are alive");
            report.events.push(ArEvent::Scheduled {
                seq,
                queued_at: sequence.queued_at,
                at: now,
            });
            sequence.start();
            let len = sequence.pending().min(budget);
            budget -= len;
            self.insert_running(seq);
            plan.push(self.entry(seq, len, true));
        }
    }

    /// Index in the waiting queue of the first sequence that could start now.
    ///
    /// Those that wait for upstream rows (or are paused) are passed over; one that lacks KV blocks is not, so that a
    /// large request is not overtaken for ever by small ones.
    pub(super) fn next_admissible(&self) -> Option<usize> {
        if self.running.len() as u32 >= self.config.max_num_seqs {
            return None;
        }
        let index = self
            .waiting
            .iter()
            .position(|seq| self.sequences[seq].is_runnable())?;
        let known = self.sequences[&self.waiting[index]].known;
        (self.pool.blocks_for(known) <= self.pool.available()).then_some(index)
    }

    fn entry(&self, seq: SeqId, len: u32, prefill: bool) -> Entry {
        Entry {
            seq,
            start: self.sequences[&seq].computed,
            len,
            prefill,
        }
    }

    /// Makes `seq` hold blocks for all its known positions.
    fn grow(&mut self, seq: SeqId) -> bool {
        let sequence = self.sequences.get_mut(&seq).expect("live sequence");
        self.pool.grow(&mut sequence.blocks, sequence.known)
    }

    fn preempt(&mut self, seq: SeqId, now: Stamp, report: &mut ArReport<M::Output>) {
        let sequence = self.sequences.get_mut(&seq).expect("running sequences are alive");
        self.pool.release(&mut sequence.blocks);
        sequence.preempt(now);
        self.running.retain(|s| *s != seq);
        self.waiting.push_front(seq);
        report.stats.preempted += 1;
        report.events.push(ArEvent::Preempted { seq });
    }

    fn insert_running(&mut self, seq: SeqId) {
        let arrival = self.sequences[&seq].arrival;
        let at = self
            .running
            .partition_point(|s| self.sequences[s].arrival < arrival);
        self.running.insert(at, seq);
    }
}
