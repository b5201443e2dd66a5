//! Any traffic: the books are kept, nobody is overtaken or forgotten, and every output is what it is without company.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::support::*;
use crate::ar::*;
use crate::content::CacheSalt;
use crate::step::SeqRecord;

#[derive(Debug, Clone)]
struct Arrival {
    /// Positions that everybody's prompt begins with, in one of two versions.
    common: u32,
    version: u32,
    own: u32,
    life: u32,
    shares: bool,
    options: AddOptions,
}

#[derive(Debug, Clone)]
enum Op {
    Add(Arrival),
    Push { nth: usize, rows: Vec<u32>, last: bool },
    Pause { nth: usize, paused: bool },
    End { nth: usize, stop: bool },
    FailNext,
    Steps(u32),
    Begin,
    Ahead { room: u8 },
    EndStep { fails: bool },
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let prompt = (0..16u32, 0..2u32, 1..14u32);
    let options = (any::<bool>(), 1..14u32, any::<bool>(), 0..2u64);
    (prompt, 0..14u32, prop::bool::weighted(0.8), options).prop_map(
        |((common, version, own), life, shares, (needs_rows, max_outputs, reuse_prefix, tenant))| {
            let options = AddOptions {
                needs_rows,
                prompt_rows: 0,
                max_outputs,
                reuse_prefix,
                salt: CacheSalt(tenant),
                repetition: None,
            };
            Arrival {
                common,
                version,
                own,
                life,
                shares,
                options,
            }
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let rows = prop::collection::vec(0..9u32, 0..6);
    prop_oneof![
        6 => arrival().prop_map(Op::Add),
        6 => (0..8usize, rows, any::<bool>()).prop_map(|(nth, rows, last)| Op::Push { nth, rows, last }),
        3 => (0..8usize, any::<bool>()).prop_map(|(nth, paused)| Op::Pause { nth, paused }),
        2 => (0..8usize, any::<bool>()).prop_map(|(nth, stop)| Op::End { nth, stop }),
        1 => Just(Op::FailNext),
        16 => (1..4u32).prop_map(Op::Steps),
    ]
}

/// With steps that are begun and ended apart.
fn overlapped_op() -> impl Strategy<Value = Op> {
    let fails = prop::bool::weighted(0.05);
    prop_oneof![
        3 => op().prop_map(|op| match op {
            Op::Steps(_) => Op::Begin,
            op => op,
        }),
        2 => Just(Op::Begin),
        4 => prop_oneof![4 => Just(u8::MAX), 1 => any::<u8>()].prop_map(|room| Op::Ahead { room }),
        3 => fails.prop_map(|fails| Op::EndStep { fails }),
    ]
}

fn config() -> impl Strategy<Value = ArConfig> {
    (1..5u32, 2..12u32, 1..8u32, 1..4u32, 0..5u32, any::<bool>()).prop_map(
        |(max_num_seqs, max_num_batched_tokens, max_prefill_tokens, floor, hold_patience, prefix_cache)| {
            ArConfig {
                max_num_seqs,
                max_num_batched_tokens,
                max_prefill_tokens,
                min_prefill_tokens: floor,
                max_waiting: 6,
                max_waiting_tokens: 90,
                hold_patience,
                prefix_cache,
                ..ArConfig::default()
            }
        },
    )
}

/// What the caller knows of a live sequence.
#[derive(Debug)]
struct Caller {
    request: Request,
    options: AddOptions,
    rows: Vec<u32>,
    closed: bool,
    outputs: Vec<Out>,
    ending: Option<FinishReason>,
    /// Steps in a row in which it was a running decode and gave nothing.
    unserved: u32,
}

struct World {
    engine: Engine,
    config: ArConfig,
    live: BTreeMap<SeqId, Caller>,
    next_id: u64,
    failing: bool,
    /// Steps ended since a sequence was in one that was begun.
    passed_over: BTreeMap<SeqId, u32>,
}

impl World {
    fn new(config: ArConfig, blocks: u32) -> Self {
        Self {
            engine: engine(config, 4, blocks, 30),
            config,
            live: BTreeMap::new(),
            next_id: 1,
            failing: false,
            passed_over: BTreeMap::new(),
        }
    }

    fn nth(&self, nth: usize) -> Option<SeqId> {
        self.live
            .iter()
            .filter(|(_, c)| c.ending.is_none())
            .map(|(seq, _)| *seq)
            .nth(nth)
    }

    fn perform(&mut self, op: Op) -> TestCaseResult {
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
            Op::Begin => match self.engine.is_under_way() {
                false => self.begin(),
                true => self.end_step()?,
            },
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

    fn add(&mut self, arrival: &Arrival) {
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

    fn push(&mut self, nth: usize, rows: Vec<u32>, last: bool) {
        let Some(seq) = self.nth(nth) else { return };
        let caller = self.live.get_mut(&seq).expect("live");
        if caller.closed || !caller.options.needs_rows {
            return;
        }
        caller.rows.extend(&rows);
        caller.closed = last;
        self.engine.push(seq, rows, last);
    }

    fn end(&mut self, nth: usize, stop: bool) -> TestCaseResult {
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
    fn end_step(&mut self) -> TestCaseResult {
        let report = self.engine.end_step(|| NOW);
        for event in report.events {
            self.book(event)?;
        }
        if !self.engine.is_under_way() {
            self.failing = self.engine.model.fail_next;
        }
        Ok(())
    }

    /// Ends a step with another begun ahead, if that can be. Nobody with a place waits for longer than turns and prompts take,
    /// and nobody without one while there is room.
    fn step_ahead(&mut self) -> TestCaseResult {
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

    fn begin(&mut self) {
        self.engine.model.batch.clear();
        self.engine.begin_step(NOW);
        self.note_batch();
    }

    /// Those in the step that was begun last wait no longer.
    fn note_batch(&mut self) {
        for (seq, ..) in &self.engine.model.batch {
            self.passed_over.remove(seq);
        }
    }

    /// One step, and everything that must hold of it.
    fn step(&mut self) -> TestCaseResult {
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

    fn check_stats(&self, stats: &StepStats) -> TestCaseResult {
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

    /// Whether a newcomer could have had a part in a step in which nobody came or went.
    fn had_budget_for_more(&self, report: &StepReport<Out>) -> bool {
        let stats = &report.stats;
        let settled = scheduled(&report.events).is_empty() && ends(&report.events).is_empty();
        settled
            && stats.preempted == 0
            && stats.prefill_tokens < self.config.max_prefill_tokens
            && stats.decode_tokens + stats.prefill_tokens < self.config.max_num_batched_tokens
    }

    /// Nobody who was left waiting was overtaken, or waits behind someone who has held a place for too long.
    fn check_places(&mut self, report: &StepReport<Out>) -> TestCaseResult {
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

    fn book(&mut self, event: SeqEvent<Out>) -> TestCaseResult {
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

    fn check_end(
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

    /// Lets everybody run to the end.
    fn finish(&mut self) -> TestCaseResult {
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
            match self.engine.model.apart {
                true => self.step_ahead()?,
                false => self.step()?,
            }
            self.engine.audit();
            steps += 1;
            prop_assert!(steps < 5_000, "no progress");
        }
        prop_assert!(self.live.is_empty(), "left behind: {:?}", self.live);
        Ok(())
    }

    fn check_empty(&mut self) -> TestCaseResult {
        let stats = self.engine.step(NOW).stats;
        prop_assert_eq!((stats.running, stats.waiting(), stats.kv_usage), (0, 0, 0.0));
        prop_assert!(self.engine.is_empty() && self.engine.model.open.is_empty());
        self.engine.audit();
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_traffic_is_served_to_the_end(
        config in config(),
        blocks in 5..14u32,
        ops in prop::collection::vec(op(), 1..100),
    ) {
        let mut world = World::new(config, blocks);
        for op in ops {
            world.perform(op)?;
        }
        world.finish()?;
        world.check_empty()?;
    }

    /// Whatever comes between the beginning and the end of a step, and whichever steps are begun ahead: nobody notices.
    #[test]
    fn steps_that_overlap_give_what_steps_in_turn_give(
        config in config(),
        blocks in 5..14u32,
        ops in prop::collection::vec(overlapped_op(), 1..150),
    ) {
        let mut world = World::new(config, blocks);
        world.engine.model.apart = true;
        for op in ops {
            world.perform(op)?;
        }
        world.finish()?;
        world.check_empty()?;
    }

    #[test]
    fn aborting_everything_at_any_moment_leaves_nothing(
        config in config(),
        blocks in 5..14u32,
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut world = World::new(config, blocks);
        for op in ops {
            world.perform(op)?;
        }
        while world.nth(0).is_some() {
            world.end(0, false)?;
        }
        prop_assert_eq!(world.engine.has_work(), !world.live.is_empty());
        world.step()?;
        prop_assert!(world.live.is_empty());
        world.check_empty()?;
    }

    /// However many places are held by sequences that never run again: whoever waits has one after the patience, and
    /// then as soon as those before it are done.
    #[test]
    fn held_places_pass_to_those_who_wait_within_the_patience(
        places in 2..6u32,
        newcomers in 1..8u32,
        life in 0..5u32,
        patience in 0..6u32,
    ) {
        let config = ArConfig { max_num_seqs: places, hold_patience: patience, ..ArConfig::default() };
        let mut engine = engine(config, 4, 400, 400);
        add(&mut engine, 1, 2, 300);
        for seq in 2..=u64::from(places) {
            add(&mut engine, seq, 2, 300);
        }
        engine.step(NOW);
        for seq in 2..=u64::from(places) {
            engine.set_paused(SeqId(seq), true);
        }
        for n in 0..newcomers {
            add(&mut engine, 100 + u64::from(n), 2, life);
        }
        // One runs on all the time, so this many newcomers run at once; each is there for life + 1 steps.
        let at_once = places - 1;
        let bound = patience + 1 + (newcomers - 1) / at_once * (life + 1);
        let mut waiting = newcomers;
        for step in 1..=bound {
            prop_assert!(waiting > 0 || step > patience);
            waiting -= scheduled(&engine.step(NOW).events).len() as u32;
            engine.audit();
        }
        prop_assert_eq!(waiting, 0, "not all had a place after {} steps", bound);
    }
}
