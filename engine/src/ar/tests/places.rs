//! Preemption: which sequences lose blocks and places, and when.

use super::support::*;
use crate::ar::*;

fn config(max_num_seqs: u32, hold_patience: u32) -> ArConfig {
    ArConfig {
        max_num_seqs,
        hold_patience,
        ..ArConfig::default()
    }
}

#[test]
fn the_youngest_is_preempted_and_later_gives_the_same_outputs() {
    let mut engine = engine(ArConfig::default(), 2, 6, 12);
    for seq in [1, 2] {
        add(&mut engine, seq, 4, 6);
    }
    let events = drain(&mut engine);
    let victims = preempted(&events);
    assert!(
        !victims.is_empty() && victims.iter().all(|seq| *seq == 2),
        "{victims:?}"
    );
    for seq in [1, 2] {
        let of = |event: &SeqEvent<Out>| match event {
            SeqEvent::Output { seq: s, item } if s.0 == seq => Some(*item),
            _ => None,
        };
        let outputs: Vec<_> = events.iter().filter_map(of).collect();
        assert_eq!(outputs, alone(SeqId(seq), &request(seq, 4, 6), &[], 6));
    }
}

#[test]
fn one_that_cannot_run_gives_way_before_one_that_can() {
    let mut engine = engine(ArConfig::default(), 2, 8, 12);
    add_with(&mut engine, 1, request(1, 4, 9), fed());
    engine.push(SeqId(1), vec![0], false);
    add(&mut engine, 2, 4, 6);
    add(&mut engine, 3, 4, 6);
    let mut events = Vec::new();
    while preempted(&events).is_empty() {
        events = engine.step(NOW).events;
    }
    assert_eq!(preempted(&events), [1], "although it is the oldest");
    assert_eq!(engine.state(SeqId(1)), Some(SeqState::WaitingForUpstream));
}

#[test]
fn a_held_place_is_given_up_after_the_patience_of_those_who_wait() {
    let mut engine = engine(config(2, 3), 4, 64, 48);
    add(&mut engine, 1, 3, 40);
    add(&mut engine, 2, 3, 40);
    engine.step(NOW);
    engine.set_paused(SeqId(2), true);
    for _ in 0..9 {
        assert!(
            preempted(&engine.step(NOW).events).is_empty(),
            "no other sequence needs the place"
        );
    }
    engine.set_paused(SeqId(2), false);
    engine.step(NOW);
    engine.set_paused(SeqId(2), true);
    add(&mut engine, 3, 3, 40);
    for _ in 0..3 {
        assert!(preempted(&engine.step(NOW).events).is_empty());
    }
    let report = engine.step(NOW);
    assert_eq!(
        (preempted(&report.events), scheduled(&report.events)),
        (vec![2], vec![3])
    );
}

#[test]
fn a_held_place_is_not_given_up_for_one_that_cannot_have_it_yet() {
    let budget = ArConfig {
        max_num_batched_tokens: 4,
        max_prefill_tokens: 4,
        ..config(2, 0)
    };
    let mut engine = engine(budget, 4, 64, 48);
    add(&mut engine, 1, 3, 40);
    engine.step(NOW);
    engine.set_paused(SeqId(1), true);
    // A long prompt takes all of every step; a sequence behind it gains nothing from the held place.
    add(&mut engine, 2, 24, 1);
    add(&mut engine, 3, 3, 1);
    for _ in 0..6 {
        assert_eq!(preempted(&engine.step(NOW).events), [0; 0]);
    }
    let events = drain(&mut engine);
    assert_eq!((preempted(&events), scheduled(&events)), (vec![1], vec![3]));
}

#[test]
fn a_held_place_is_given_up_at_once_if_the_step_would_be_empty() {
    let mut engine = engine(config(1, 1000), 4, 64, 48);
    add(&mut engine, 1, 3, 4);
    engine.step(NOW);
    engine.set_paused(SeqId(1), true);
    add(&mut engine, 2, 3, 4);
    assert!(engine.has_work());
    assert_eq!(names(&engine.step(NOW).events), [2000]);
    engine.set_paused(SeqId(1), false);
    let rest = drain(&mut engine);
    assert_eq!(names(&rest), [2001, 2002, 2003, 1001, 1002, 1003]);
}

#[test]
fn a_newcomer_is_not_let_in_to_be_thrown_out_by_the_next_block() {
    let mut engine = engine(ArConfig::default(), 2, 6, 12);
    add(&mut engine, 1, 4, 8);
    engine.step(NOW);
    // Four blocks are free: enough for the prompt, but the first sequence is about to need one of them.
    add(&mut engine, 2, 8, 1);
    engine.step(NOW);
    assert_eq!(engine.state(SeqId(2)), Some(SeqState::Waiting));
    assert_eq!(preempted(&drain(&mut engine)), [0; 0]);
}
