//! Admission: which sequences, in which order, and which are refused.

use super::support::*;
use crate::ar::*;

fn places(max_num_seqs: u32) -> ArConfig {
    ArConfig {
        max_num_seqs,
        ..ArConfig::default()
    }
}

#[test]
fn what_can_never_fit_is_refused_with_the_numbers() {
    let mut engine = small();
    let error = try_add(&mut engine, 1, request(1, 49, 1), AddOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "prompt of 49 positions does not fit: the model takes 48, its KV cache 64"
    );
    assert!(engine.model.open.is_empty(), "the model was told to forget it");
}

#[test]
fn the_configured_length_holds_below_the_models() {
    let config = ArConfig {
        max_model_len: 8,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    let refused = try_add(&mut engine, 1, request(1, 9, 1), AddOptions::default());
    assert!(matches!(
        refused,
        Err(AddError::TooLong {
            prompt: 9,
            max_len: 8,
            ..
        })
    ));
    add(&mut engine, 2, 7, 99);
    assert_eq!(ends(&drain(&mut engine)), [(2, FinishReason::Length)]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut engine = small();
    let none = AddOptions {
        max_outputs: 0,
        ..AddOptions::default()
    };
    let error = try_add(&mut engine, 1, request(1, 3, 1), none).unwrap_err();
    assert!(matches!(error, AddError::NoOutputs(SeqId(1))));
    let circles = AddOptions {
        repetition: Some(RepetitionLimit {
            min_pattern: 0,
            max_pattern: 4,
            count: 2,
        }),
        ..AddOptions::default()
    };
    let error = try_add(&mut engine, 1, request(1, 3, 1), circles).unwrap_err();
    assert!(matches!(error, AddError::Repetition(_)));
    add(&mut engine, 1, 3, 1);
    let error = try_add(&mut engine, 1, request(1, 3, 1), AddOptions::default()).unwrap_err();
    assert!(matches!(error, AddError::Duplicate(SeqId(1))));
    assert_eq!((engine.len(), engine.model.open.len()), (1, 1));
}

#[test]
fn the_queue_is_bounded_by_count_and_by_positions() {
    let config = ArConfig {
        max_waiting: 2,
        max_waiting_tokens: 10,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    add(&mut engine, 1, 6, 1);
    let error = try_add(&mut engine, 2, request(2, 5, 1), AddOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "waiting queue is full (6 of 10 positions, 5 more do not fit)"
    );
    add(&mut engine, 3, 4, 1);
    let error = try_add(&mut engine, 4, request(4, 1, 1), AddOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "waiting queue is full (2 of 2)");
    engine.step(NOW);
    add(&mut engine, 5, 10, 1);
    assert_eq!(
        ends(&drain(&mut engine)).len(),
        3,
        "those with a place do not count"
    );
}

#[test]
fn a_large_request_at_the_head_is_not_overtaken_by_small_ones() {
    let mut engine = engine(ArConfig::default(), 4, 8, 32);
    add(&mut engine, 1, 15, 6);
    engine.step(NOW);
    add(&mut engine, 2, 24, 1);
    add(&mut engine, 3, 2, 1);
    let events = drain(&mut engine);
    assert_eq!(scheduled(&events), [2, 3]);
}

#[test]
fn waiting_is_told_apart_by_its_reason() {
    let mut engine = engine(places(1), 4, 16, 48);
    add(&mut engine, 1, 3, 9);
    add(&mut engine, 2, 3, 9);
    add_with(&mut engine, 3, request(3, 3, 9), fed());
    let stats = engine.step(NOW).stats;
    assert_eq!(
        (
            stats.running,
            stats.waiting(),
            stats.waiting_capacity,
            stats.waiting_deferred
        ),
        (1, 2, 1, 1)
    );
}
