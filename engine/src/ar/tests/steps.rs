//! Contents of a step, and its effect.

use super::support::*;
use crate::ar::*;

#[test]
fn one_sequence_runs_to_its_natural_end() {
    let mut engine = small();
    add(&mut engine, 1, 5, 3);
    let events = drain(&mut engine);
    assert_eq!(names(&events), [1000, 1001, 1002]);
    assert_eq!(ends(&events), [(1, FinishReason::Stop)]);
    assert!(engine.is_empty());
    assert_eq!(engine.step(NOW).stats.kv_usage, 0.0);
}

#[test]
fn a_newcomer_joins_the_very_next_step_and_shares_it_with_decodes() {
    let mut engine = small();
    add(&mut engine, 1, 5, 9);
    engine.step(NOW);
    add(&mut engine, 2, 7, 9);
    let report = engine.step(NOW);
    assert_eq!(names(&report.events), [1001, 2000]);
    assert_eq!((report.stats.decode_tokens, report.stats.prefill_tokens), (1, 7));
    assert_eq!(engine.model.batch, [(SeqId(1), 5, 1), (SeqId(2), 0, 7)]);
}

#[test]
fn a_long_prompt_is_computed_in_chunks_beside_running_decodes() {
    let config = ArConfig {
        max_prefill_tokens: 8,
        min_prefill_tokens: 8,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 64, 128);
    add(&mut engine, 1, 2, 99);
    engine.step(NOW);
    add(&mut engine, 2, 20, 99);
    let per_step: Vec<_> = (0..3).map(|_| names(&engine.step(NOW).events)).collect();
    assert_eq!(per_step, [vec![1001], vec![1002], vec![1003, 2000]]);
}

#[test]
fn decodes_that_fill_the_step_leave_the_floor_to_prompts() {
    let config = ArConfig {
        max_num_batched_tokens: 4,
        max_prefill_tokens: 4,
        min_prefill_tokens: 1,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 64, 128);
    for seq in 1..=4 {
        add(&mut engine, seq, 1, 99);
    }
    while engine.step(NOW).stats.decode_tokens < 4 {}
    add(&mut engine, 5, 2, 99);
    for _ in 0..2 {
        let stats = engine.step(NOW).stats;
        assert_eq!((stats.decode_tokens, stats.prefill_tokens), (3, 1));
    }
    let stats = engine.step(NOW).stats;
    assert_eq!(
        (stats.decode_tokens, stats.prefill_tokens),
        (4, 0),
        "no prompt is waiting"
    );
}

#[test]
fn decodes_beyond_the_budget_take_turns() {
    let config = ArConfig {
        max_num_batched_tokens: 2,
        max_prefill_tokens: 1,
        min_prefill_tokens: 1,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 64, 128);
    for seq in 1..=5 {
        add(&mut engine, seq, 1, 40);
    }
    while engine.step(NOW).stats.running < 5 {}
    let mut served = [0u32; 5];
    for _ in 0..10 {
        for name in names(&engine.step(NOW).events) {
            served[name as usize / 1000 - 1] += 1;
        }
    }
    assert_eq!(served, [4; 5]);
}

#[test]
fn a_prompt_that_is_made_of_rows_waits_for_all_of_them_and_outputs_need_those_behind() {
    let mut engine = small();
    let options = AddOptions {
        prompt_rows: 2,
        ..fed()
    };
    add_with(&mut engine, 1, request(1, 3, 9), options);
    engine.push(SeqId(1), vec![7, 7], false);
    assert!(!engine.has_work(), "one row of the prompt is missing");
    engine.push(SeqId(1), vec![7], false);
    assert_eq!(names(&drain(&mut engine)), [1000]);
    engine.push(SeqId(1), vec![7, 7], false);
    assert_eq!(names(&drain(&mut engine)), [1001, 1002]);
}

#[test]
fn a_sequence_without_its_row_waits_and_holds_nobody_up() {
    let mut engine = small();
    add_with(&mut engine, 1, request(1, 3, 9), fed());
    assert!(!engine.has_work(), "no row yet");
    add(&mut engine, 2, 3, 2);
    assert_eq!(names(&engine.step(NOW).events), [2000]);
    engine.push(SeqId(1), vec![7], false);
    let report = engine.step(NOW);
    assert_eq!(names(&report.events), [2001, 1000]);
    assert_eq!(engine.state(SeqId(1)), Some(SeqState::WaitingForUpstream));
    drain(&mut engine);
    assert_eq!(engine.len(), 1);
    engine.push(SeqId(1), vec![], true);
    assert_eq!(
        names(&drain(&mut engine)).len(),
        8,
        "a closed input needs no more rows"
    );
}

#[test]
fn a_paused_sequence_keeps_its_place_while_nobody_needs_it() {
    let mut engine = small();
    add(&mut engine, 1, 3, 4);
    engine.step(NOW);
    engine.set_paused(SeqId(1), true);
    assert!(!engine.has_work());
    let stats = engine.step(NOW).stats;
    assert_eq!((stats.running, stats.waiting()), (1, 0));
    assert_eq!(engine.state(SeqId(1)), Some(SeqState::Paused));
    engine.set_paused(SeqId(1), false);
    let events = drain(&mut engine);
    assert_eq!(names(&events), [1001, 1002, 1003]);
    assert_eq!(preempted(&events), [0; 0]);
}

#[test]
fn max_outputs_ends_with_length() {
    let mut engine = small();
    let options = AddOptions {
        max_outputs: 2,
        ..AddOptions::default()
    };
    add_with(&mut engine, 1, request(1, 3, 99), options);
    let events = drain(&mut engine);
    assert_eq!(names(&events), [1000, 1001]);
    assert_eq!(ends(&events), [(1, FinishReason::Length)]);
}

#[test]
fn the_longest_sequence_of_the_model_bounds_the_outputs() {
    let mut engine = engine(ArConfig::default(), 4, 16, 10);
    add(&mut engine, 1, 8, 99);
    assert_eq!(
        names(&drain(&mut engine)).len(),
        3,
        "positions 8 and 9, and one output that needs none"
    );
}

#[test]
fn a_model_that_is_lost_ends_no_sequence_and_says_why() {
    let mut engine = small();
    add(&mut engine, 1, 3, 9);
    engine.step(NOW);
    assert_eq!(engine.lost(), None);
    engine.model.lost = true;
    let report = engine.step(NOW);
    assert!(ends(&report.events).is_empty());
    assert_eq!((engine.lost(), engine.len()), (Some("scripted"), 1));
}

#[test]
fn a_failed_computation_ends_its_batch_and_nothing_else() {
    let mut engine = small();
    add(&mut engine, 1, 3, 9);
    engine.step(NOW);
    add_with(&mut engine, 3, request(3, 3, 9), fed());
    engine.model.fail_next = true;
    let report = engine.step(NOW);
    let expected = FinishReason::Error("computation failed: scripted".into());
    assert_eq!(ends(&report.events), [(1, expected)]);
    add(&mut engine, 2, 3, 2);
    assert_eq!(names(&drain(&mut engine)), [2000, 2001]);
    assert_eq!((engine.len(), engine.step(NOW).stats.kv_usage), (1, 0.0));
}
