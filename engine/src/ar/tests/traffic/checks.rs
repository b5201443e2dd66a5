//! Invariants of every step and of every sequence's end.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::super::support::*;
use super::world::{Caller, World};
use crate::ar::*;
use crate::step::SeqRecord;

impl World {
    /// One step, and everything that must hold of it.
    pub(super) fn step(&mut self) -> TestCaseResult {
        let engine = &self.engine;
        let runnable = |slot: &&Slot| engine.slots[**slot].is_runnable();
        let first = engine
            .running
            .iter()
            .find(runnable)
            .map(|slot| engine.slots[*slot].id);
        let prompt = engine
            .running
            .iter()
            .find(|slot| runnable(slot) && engine.slots[**slot].in_prefill());
        let prompt = prompt.map(|slot| engine.slots[*slot].id);
        let decodes: Vec<SeqId> = engine
            .running
            .iter()
            .filter(|slot| runnable(slot) && !engine.slots[**slot].in_prefill())
            .map(|slot| engine.slots[*slot].id)
            .collect();
        let could_work = !engine.ready.is_empty() || engine.any_runs();

        self.engine.model.batch.clear();
        let report = self.engine.step(NOW);
        let computed = |seq| self.engine.model.batch.iter().any(|entry| entry.0 == seq);
        let victims: Vec<SeqId> = preempted(&report.events).into_iter().map(SeqId).collect();
        prop_assert_eq!(
            could_work,
            !self.engine.model.batch.is_empty(),
            "no step is wasted"
        );
        if let Some(first) = first {
            prop_assert!(!victims.contains(&first), "the first in order lost its blocks");
        }
        if let Some(prompt) = prompt.filter(|prompt| !victims.contains(prompt)) {
            prop_assert!(computed(prompt), "decodes starved the first prompt");
        }
        let turns = self
            .config
            .max_num_seqs
            .div_ceil(self.config.max_num_batched_tokens - self.config.prefill_floor());
        for seq in decodes {
            let passed_over = !computed(seq) && !victims.contains(&seq);
            let caller = self.live.get_mut(&seq).expect("live");
            caller.unserved = if passed_over { caller.unserved + 1 } else { 0 };
            prop_assert!(caller.unserved < turns, "passed over {} times", caller.unserved);
        }
        self.check_stats(&report.stats)?;
        self.check_places(&report)?;
        for event in report.events {
            self.book(event)?;
        }
        self.failing &= self.engine.model.fail_next;
        Ok(())
    }

    pub(super) fn check_stats(&self, stats: &StepStats) -> TestCaseResult {
        let config = &self.config;
        prop_assert!(stats.running <= config.max_num_seqs);
        prop_assert!(stats.decode_tokens + stats.prefill_tokens <= config.max_num_batched_tokens);
        prop_assert!(stats.prefill_tokens <= config.max_prefill_tokens);
        prop_assert_eq!(stats.waiting(), stats.waiting_capacity + stats.waiting_deferred);
        prop_assert_eq!((stats.running + stats.waiting()) as usize, self.engine.len());
        prop_assert!((0.0..=1.0).contains(&stats.kv_usage));
        prop_assert_eq!(stats.kv_usage == 0.0, stats.running == 0);
        prop_assert!(stats.prefix_hits <= stats.prefix_queries);
        Ok(())
    }

    /// Returns true if a step in which no sequence came or went had budget for a newcomer.
    pub(super) fn had_budget_for_more(&self, report: &StepReport<Out>) -> bool {
        let stats = &report.stats;
        let settled = scheduled(&report.events).is_empty() && ends(&report.events).is_empty();
        settled
            && stats.preempted == 0
            && stats.prefill_tokens < self.config.max_prefill_tokens
            && stats.decode_tokens + stats.prefill_tokens < self.config.max_num_batched_tokens
    }

    /// No waiting sequence was overtaken, or waits behind one that has held a place for too long.
    pub(super) fn check_places(&mut self, report: &StepReport<Out>) -> TestCaseResult {
        let Some((arrival, head)) = self.engine.ready.first().copied() else {
            return Ok(());
        };
        for seq in scheduled(&report.events) {
            if let Some(slot) = self.engine.slots.find(SeqId(seq)) {
                prop_assert!(
                    self.engine.slots[slot].arrival < arrival,
                    "{} overtook another",
                    seq
                );
            }
        }
        let full = self.engine.running.len() as u32 == self.config.max_num_seqs;
        if self.had_budget_for_more(report) && (full || !self.engine.fits(head)) {
            for slot in &self.engine.running {
                let sequence = &self.engine.slots[*slot];
                let held = sequence.held_since.map_or(0, |since| self.engine.step - since);
                prop_assert!(
                    held <= u64::from(self.config.hold_patience),
                    "{:?} kept its place for {} steps",
                    sequence.id,
                    held
                );
            }
        }
        Ok(())
    }

    pub(super) fn book(&mut self, event: SeqEvent<Out>) -> TestCaseResult {
        match event {
            SeqEvent::Output { seq, item } => {
                let caller = self.live.get_mut(&seq);
                prop_assert!(caller.is_some(), "an output after the end of {:?}", seq);
                caller.unwrap().outputs.push(item);
            }
            SeqEvent::Finished { seq, reason, record } => {
                let caller = self.live.remove(&seq);
                prop_assert!(caller.is_some(), "{:?} ended twice", seq);
                self.check_end(seq, &caller.unwrap(), &reason, &record)?;
            }
            SeqEvent::Queued { seq, .. }
            | SeqEvent::Scheduled { seq, .. }
            | SeqEvent::Preempted { seq, .. } => {
                prop_assert!(self.live.contains_key(&seq), "news of {:?} after its end", seq);
            }
        }
        Ok(())
    }

    pub(super) fn check_end(
        &self,
        seq: SeqId,
        caller: &Caller,
        reason: &FinishReason,
        record: &SeqRecord,
    ) -> TestCaseResult {
        let count = caller.outputs.len();
        prop_assert_eq!(&caller.outputs, &alone(seq, &caller.request, &caller.rows, count));
        prop_assert_eq!(record.outputs as usize, count);
        let prompt = caller.request.prompt.len() as u32;
        prop_assert_eq!(record.prompt_tokens, prompt);
        prop_assert!(record.cached_tokens < prompt);
        match (&caller.ending, reason) {
            (Some(expected), reason) => prop_assert_eq!(expected, reason),
            (None, FinishReason::Stop) => prop_assert_eq!(count as u32, caller.request.life),
            (None, FinishReason::Length) => {
                let longest = 30.min(self.engine.pool.capacity());
                prop_assert_eq!(count as u32, caller.options.max_outputs.min(longest - prompt + 1));
            }
            (None, reason) => prop_assert!(
                self.failing && matches!(reason, FinishReason::Error(_)),
                "{:?}",
                reason
            ),
        }
        Ok(())
    }

    pub(super) fn check_empty(&mut self) -> TestCaseResult {
        let stats = self.engine.step(NOW).stats;
        prop_assert_eq!((stats.running, stats.waiting(), stats.kv_usage), (0, 0, 0.0));
        prop_assert!(self.engine.is_empty() && self.engine.model.open.is_empty());
        self.engine.audit();
        Ok(())
    }
}
