//! Any traffic: the accounts are right, no sequence is overtaken or forgotten, and every output is the one of a
//! sequence that runs alone.

mod checks;
mod operations;
mod world;

use proptest::prelude::*;

use super::support::*;
use crate::ar::*;
use operations::{config, op, overlapped_op};
use world::World;

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

    /// Whatever comes between the beginning and the end of a step, and whichever steps are begun ahead: no output
    /// changes.
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

    /// However many places are held by sequences that never run again: every waiting sequence has one after the
    /// patience, and then as soon as those before it are done.
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
