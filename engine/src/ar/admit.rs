//! Admission and preemption; the prefix cache on admission.

use super::ArEngine;
use super::plan::Entry;
use super::sequence::Content;
use super::slots::Slot;
use crate::blocks::Hit;
use crate::content::Chain;
use crate::model::ArModel;
use crate::step::{SeqEvent, StepReport};

impl<M: ArModel> ArEngine<M> {
    /// Gives places to ready sequences while there is budget to compute something of each.
    pub(super) fn admit(
        &mut self,
        mut budget: u32,
        plan: &mut Vec<Entry>,
        report: &mut StepReport<M::Output>,
    ) {
        while budget > 0 && self.make_room(report) {
            let (_, slot) = self.ready.first().copied().expect("room was made for it");
            self.place(slot, report);
            budget -= self.plan_chunk(slot, budget, plan);
        }
    }

    /// Returns true if the first ready sequence has room, or if another can be evicted for it. Evicts none yet: the
    /// budget left for a newcomer is known only after the others have been served.
    pub(super) fn may_make_room(&mut self) -> bool {
        self.ready.first().copied().is_some_and(|(_, head)| {
            let places = (self.running.len() as u32) < self.config.max_num_seqs;
            (places && self.fits(head)) || self.outstayed().is_some()
        })
    }

    /// Evicts sequences that have held their place beyond
    /// [`ArConfig::hold_patience`](super::ArConfig::hold_patience) until the first ready sequence has room; returns
    /// false if it has none even then.
    pub(super) fn make_room(&mut self, report: &mut StepReport<M::Output>) -> bool {
        loop {
            let Some(&(_, head)) = self.ready.first() else {
                return false;
            };
            if (self.running.len() as u32) < self.config.max_num_seqs && self.fits(head) {
                return true;
            }
            let Some(victim) = self.outstayed() else {
                return false;
            };
            self.preempt(victim, report);
        }
    }

    /// A sequence that cannot run and has held its place beyond the patience, which is zero if no sequence with a
    /// place can run.
    fn outstayed(&self) -> Option<Slot> {
        let patience = if self.any_runs() {
            u64::from(self.config.hold_patience)
        } else {
            0
        };
        let held = self.running.iter().filter(|slot| {
            let since = self.slots[**slot].held_since;
            since.is_some_and(|since| self.step - since > patience)
        });
        self.dispensable(held)
    }

    /// Returns true if the pool can hold all known positions of a sequence plus one block for each running sequence:
    /// otherwise the next block that any of them needs would preempt the newcomer again.
    pub(super) fn fits(&mut self, slot: Slot) -> bool {
        let hit = self.look_up(slot);
        let fresh = self.pool.blocks_for(self.slots[slot].known) - hit.blocks;
        let headroom = self.running.len() as u32;
        fresh + hit.free + headroom <= self.pool.available()
    }

    /// Looks up a sequence in the prefix cache. The last known position is never taken from the cache.
    fn look_up(&mut self, slot: Slot) -> Hit {
        if matches!(self.slots[slot].content, Content::Unknown) {
            self.slots[slot].content = self.identify(slot);
        }
        let sequence = &self.slots[slot];
        match &sequence.content {
            Content::Shared(chain) if sequence.options.reuse_prefix => {
                let most = ((sequence.known - 1) / self.pool.block_size()).min(chain.len());
                self.pool.find(&chain.hashes()[..most as usize])
            }
            _ => Hit::default(),
        }
    }

    fn identify(&self, slot: Slot) -> Content {
        if !self.config.prefix_cache {
            return Content::Private;
        }
        let sequence = &self.slots[slot];
        let size = self.pool.block_size();
        let positions = 0..sequence.known / size * size;
        let count = positions.len();
        match self.model.content_keys(sequence.id, positions) {
            Some(keys) => {
                assert_eq!(keys.len(), count, "{:?}: one key per position", sequence.id);
                let mut chain = Chain::new(sequence.options.salt);
                chain.extend(&keys, size);
                Content::Shared(chain)
            }
            None => Content::Private,
        }
    }

    /// Gives the place and the blocks that [`make_room`](Self::make_room) found.
    fn place(&mut self, slot: Slot, report: &mut StepReport<M::Output>) {
        let hit = self.look_up(slot);
        self.leave_queue(slot);
        let sequence = &mut self.slots[slot];
        if let Content::Shared(chain) = &sequence.content {
            let hashes = &chain.hashes()[..hit.blocks as usize];
            self.pool.share(&mut sequence.blocks, hashes);
        }
        let cached = hit.blocks * self.pool.block_size();
        sequence.published = hit.blocks;
        let resumed = sequence.has_run();
        if !resumed {
            report.stats.admitted += 1;
            sequence.record.cached_tokens = cached;
            if sequence.options.reuse_prefix && matches!(sequence.content, Content::Shared(_)) {
                report.stats.prefix_queries += sequence.known;
                report.stats.prefix_hits += cached;
            }
        }
        sequence.start(cached, report.began);
        report.events.push(SeqEvent::Scheduled {
            seq: sequence.id,
            queued_at: sequence.waiting_since,
            at: report.began,
            resumed,
        });
        let arrival = sequence.arrival;
        assert!(self.grow(slot), "room was made for it");
        let at = self.running.partition_point(|s| self.slots[*s].arrival < arrival);
        self.running.insert(at, slot);
    }

    pub(super) fn preempt(&mut self, slot: Slot, report: &mut StepReport<M::Output>) {
        self.running.retain(|other| *other != slot);
        let sequence = &mut self.slots[slot];
        self.pool.release(&mut sequence.blocks);
        sequence.preempt(report.began);
        self.waiting_tokens += u64::from(sequence.known);
        report.stats.preempted += 1;
        report.events.push(SeqEvent::Preempted {
            seq: sequence.id,
            at: report.began,
        });
        self.settle(slot);
    }

    /// Offers the full blocks among the first `computed` positions of a sequence to others.
    pub(super) fn publish(&mut self, slot: Slot, computed: u32) {
        let size = self.pool.block_size();
        let sequence = &mut self.slots[slot];
        let full = computed / size;
        let Content::Shared(chain) = &mut sequence.content else {
            return;
        };
        if full <= sequence.published {
            return;
        }
        if chain.len() < full {
            let positions = chain.len() * size..full * size;
            let count = positions.len();
            let Some(keys) = self.model.content_keys(sequence.id, positions) else {
                sequence.content = Content::Private;
                return;
            };
            assert_eq!(keys.len(), count, "{:?}: one key per position", sequence.id);
            chain.extend(&keys, size);
        }
        let new = sequence.published as usize..full as usize;
        for (block, hash) in sequence.blocks[new.clone()].iter().zip(&chain.hashes()[new]) {
            self.pool.publish(*block, *hash);
        }
        sequence.published = full;
    }
}
