//! Choosing what one step computes.

use super::ArEngine;
use super::slots::Slot;
use crate::ids::SeqId;
use crate::model::ArModel;
use crate::step::StepReport;

/// One sequence's share of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) slot: Slot,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) prefill: bool,
}

impl<M: ArModel> ArEngine<M> {
    /// Plans decodes first, then the prompts in progress, then newcomers.
    pub(super) fn plan(&mut self, report: &mut StepReport<M::Output>) -> Vec<Entry> {
        self.secure_decodes(report);
        // After a preemption for want of blocks, an admission would only swap sequences.
        let short = report.stats.preempted > 0;
        let admitting = !short && self.may_make_room();
        let all = self.config.max_num_batched_tokens;
        let floor = if admitting || self.prompts_in_progress() {
            self.config.prefill_floor()
        } else {
            0
        };
        let mut plan = Vec::with_capacity(self.running.len() + 1);
        self.plan_decodes(all - floor, &mut plan);
        let budget = (all - plan.len() as u32).min(self.config.max_prefill_tokens);
        let budget = self.plan_prompts(budget, &mut plan);
        if admitting {
            self.admit(budget, &mut plan, report);
        }
        plan
    }

    /// Finds the runnable decodes and gives each a block for its next position, in order, so that the first of them
    /// never loses what it has to another.
    fn secure_decodes(&mut self, report: &mut StepReport<M::Output>) {
        let mut decodes = std::mem::take(&mut self.decodes);
        decodes.clear();
        decodes.extend(self.running.iter().filter(|slot| {
            let sequence = &self.slots[**slot];
            sequence.is_runnable() && !sequence.in_prefill()
        }));
        for &slot in &decodes {
            while self.slots[slot].has_place() && !self.grow(slot) {
                let victim = self.victim(slot);
                self.preempt(victim, report);
            }
        }
        decodes.retain(|slot| self.slots[*slot].has_place());
        self.decodes = decodes;
    }

    /// Sequence whose blocks `slot` takes: one that cannot run, or else the last in order, which may be itself.
    fn victim(&self, slot: Slot) -> Slot {
        let held = self.running.iter().filter(|s| !self.slots[**s].is_runnable());
        let last = || {
            self.running
                .iter()
                .rfind(|s| self.slots[**s].is_runnable())
                .copied()
        };
        self.dispensable(held).or_else(last).unwrap_or(slot)
    }

    /// The first of the sequences that cannot run to lose its place: longest held, then youngest.
    pub(super) fn dispensable<'a>(&self, held: impl Iterator<Item = &'a Slot>) -> Option<Slot> {
        held.copied().max_by_key(|slot| {
            let sequence = &self.slots[*slot];
            let since = sequence.held_since.unwrap_or(u64::MAX);
            (std::cmp::Reverse(since), sequence.arrival)
        })
    }

    fn prompts_in_progress(&self) -> bool {
        self.running.iter().any(|slot| {
            let sequence = &self.slots[*slot];
            sequence.in_prefill() && sequence.is_runnable()
        })
    }

    /// Plans one position of each decode; if there are more than `budget`, of those served longest ago.
    fn plan_decodes(&mut self, budget: u32, plan: &mut Vec<Entry>) {
        if self.decodes.len() > budget as usize {
            let slots = &self.slots;
            self.decodes.sort_unstable_by_key(|slot| slots[*slot].served);
            self.decodes.truncate(budget as usize);
        }
        for i in 0..self.decodes.len() {
            plan.push(self.decode(self.decodes[i]));
        }
    }

    /// Plans one decode and counts its turn.
    fn decode(&mut self, slot: Slot) -> Entry {
        let sequence = &mut self.slots[slot];
        self.turn += 1;
        sequence.served = self.turn;
        Entry {
            slot,
            start: sequence.computed,
            len: 1,
            prefill: false,
        }
    }

    /// Plans one more position of the sequences in flight, if no other could run. (A newcomer after that waits for
    /// the rest of the step in flight and for all of this one: a step longer than without it.) A sequence that cannot
    /// go on after the step in flight, as far as that is known, stays out, and so does one without room for two
    /// outputs.
    pub(super) fn plan_ahead(&mut self, mut has_room: impl FnMut(SeqId) -> bool) -> Option<Vec<Entry>> {
        if self.may_make_room() {
            return None;
        }
        let mut going = Vec::with_capacity(self.running.len());
        for &slot in &self.running {
            let sequence = &self.slots[slot];
            if !sequence.is_runnable() {
                continue;
            }
            if sequence.asked == 0 {
                return None;
            }
            if sequence.goes_on() && has_room(sequence.id) {
                going.push(slot);
            }
        }
        let seqs: Vec<SeqId> = going.iter().map(|slot| self.slots[*slot].id).collect();
        let fits = going.len() <= self.config.max_num_batched_tokens as usize;
        if going.is_empty() || !fits || !self.model.can_run_ahead(&seqs) {
            return None;
        }
        // A sequence that got a block before the pool was empty keeps it: it is needed one step later.
        if !going.iter().all(|slot| self.grow(*slot)) {
            return None;
        }
        Some(going.into_iter().map(|slot| self.decode(slot)).collect())
    }

    /// Next chunks of admitted prompts; their blocks were taken at admission. Returns the budget left.
    fn plan_prompts(&mut self, mut budget: u32, plan: &mut Vec<Entry>) -> u32 {
        for &slot in &self.running {
            let sequence = &self.slots[slot];
            if budget == 0 {
                break;
            }
            if sequence.in_prefill() && sequence.is_runnable() {
                budget -= self.plan_chunk(slot, budget, plan);
            }
        }
        budget
    }

    /// Plans the next chunk of a prompt, at most `budget` positions; returns its length.
    pub(super) fn plan_chunk(&self, slot: Slot, budget: u32, plan: &mut Vec<Entry>) -> u32 {
        let sequence = &self.slots[slot];
        let len = sequence.pending().min(budget);
        plan.push(Entry {
            slot,
            start: sequence.computed,
            len,
            prefill: sequence.in_prefill(),
        });
        len
    }

    /// Takes blocks for all known positions of a sequence, and for those of the outputs requested.
    pub(super) fn grow(&mut self, slot: Slot) -> bool {
        let sequence = &mut self.slots[slot];
        self.pool
            .grow(&mut sequence.blocks, sequence.known + sequence.asked)
    }
}
