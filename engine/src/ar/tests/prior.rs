//! Sequences whose requests bring outputs that were made before, elsewhere.

use proptest::prelude::*;

use super::support::*;
use crate::ar::*;

/// One that goes on behind the first `made` outputs of `whole`.
fn resumed(whole: &Request, seq: u64, rows: &[u32], made: usize) -> Request {
    Request {
        prior: alone(SeqId(seq), whole, rows, made),
        ..whole.clone()
    }
}

fn given(events: &[SeqEvent<Out>], of: u64) -> Vec<Out> {
    let of_seq = events.iter().filter_map(|event| match event {
        SeqEvent::Output { seq, item } if seq.0 == of => Some(*item),
        _ => None,
    });
    of_seq.collect()
}

/// Runs the only sequence of `engine` to its end; returns its outputs by name, and the reason of its end.
fn course(engine: &mut Engine, request: Request, options: AddOptions) -> (Vec<u64>, FinishReason) {
    add_with(engine, 1, request, options);
    let events = drain(engine);
    let (_, reason) = ends(&events).remove(0);
    (names(&events), reason)
}

proptest! {
    #[test]
    fn outputs_behind_those_that_a_request_brings_are_those_of_the_whole(
        sequences in prop::collection::vec((1..12u32, 1..20u32, 0..20usize, any::<bool>()), 1..5),
        max_prefill_tokens in 1..9u32,
        blocks in 9..24u32,
        shares: bool,
    ) {
        let config = ArConfig { max_prefill_tokens, min_prefill_tokens: 1, max_num_seqs: 3, ..ArConfig::default() };
        let mut engine = engine(config, 4, blocks, 34);
        let rows: Vec<u32> = (100..120).collect();
        let mut expected = Vec::new();
        for (seq, (prompt, life, made, fed_by_rows)) in (1..).zip(sequences) {
            let whole = Request { shares, ..request(seq, prompt, life) };
            let made = made.min(life as usize);
            let rows = if fed_by_rows { &rows[..] } else { &[] };
            let options = if fed_by_rows { fed() } else { AddOptions::default() };
            add_with(&mut engine, seq, resumed(&whole, seq, rows, made), options);
            if fed_by_rows {
                engine.push(SeqId(seq), rows.to_vec(), true);
            }
            let all = alone(SeqId(seq), &whole, rows, life as usize);
            expected.push((seq, made, all[made..].to_vec()));
        }
        let events = drain(&mut engine);
        for (seq, made, rest) in expected {
            prop_assert_eq!(given(&events, seq), rest.clone(), "{} behind {}", seq, made);
            prop_assert_eq!(record(&events, seq).outputs as usize, rest.len());
            prop_assert!(ends(&events).contains(&(seq, FinishReason::Stop)));
        }
        prop_assert!(engine.is_empty());
    }
}

#[test]
fn a_sequence_that_loses_its_place_is_computed_again_with_the_outputs_that_it_brought() {
    // Room for one of the two.
    let mut engine = engine(ArConfig::default(), 4, 8, 30);
    let whole = request(1, 5, 20);
    add(&mut engine, 2, 5, 20);
    add_with(&mut engine, 1, resumed(&whole, 1, &[], 6), AddOptions::default());
    let events = drain(&mut engine);
    assert_eq!(preempted(&events), [1]);
    assert_eq!(given(&events, 1), alone(SeqId(1), &whole, &[], 20)[6..]);
    assert_eq!(given(&events, 2), alone(SeqId(2), &request(2, 5, 20), &[], 20));
}

#[test]
fn outputs_that_a_request_brings_count_for_its_limit_and_are_computed_in_pieces() {
    let config = ArConfig {
        max_prefill_tokens: 4,
        ..ArConfig::default()
    };
    let options = AddOptions {
        max_outputs: 8,
        ..AddOptions::default()
    };
    let whole = request(1, 3, 99);
    for made in 0..=8 {
        let mut engine = engine(config, 4, 16, 48);
        let expected: Vec<u64> = (1000 + made..1008).collect();
        let resumed = resumed(&whole, 1, &[], made as usize);
        assert_eq!(
            course(&mut engine, resumed, options),
            (expected, FinishReason::Length),
            "behind {made}"
        );
        assert_eq!(engine.len(), 0);
    }
}

#[test]
fn a_repetition_is_found_at_the_same_output_behind_outputs_of_another() {
    let limit = RepetitionLimit {
        min_pattern: 2,
        max_pattern: 4,
        count: 3,
    };
    let options = AddOptions {
        repetition: Some(limit),
        ..AddOptions::default()
    };
    let whole = Request {
        tokens: vec![5, 6],
        ..request(1, 3, 40)
    };
    for made in 0..=6 {
        let expected: Vec<u64> = (1000 + made..1006).collect();
        let resumed = resumed(&whole, 1, &[], made as usize);
        assert_eq!(
            course(&mut small(), resumed, options),
            (expected, FinishReason::Repetition),
            "behind {made}"
        );
    }
}

#[test]
fn the_longest_sequence_is_as_long_behind_outputs_of_another() {
    let whole = request(1, 3, 99);
    let (all, end) = course(
        &mut engine(ArConfig::default(), 4, 16, 10),
        whole.clone(),
        AddOptions::default(),
    );
    assert_eq!(
        (all.len(), end),
        (8, FinishReason::Length),
        "the last needs no position"
    );
    for made in 0..=8 {
        let mut engine = engine(ArConfig::default(), 4, 16, 10);
        let (rest, end) = course(&mut engine, resumed(&whole, 1, &[], made), AddOptions::default());
        assert_eq!(
            (rest, end),
            (all[made..].to_vec(), FinishReason::Length),
            "behind {made}"
        );
    }
    let refused = try_add(
        &mut engine(ArConfig::default(), 4, 16, 10),
        1,
        resumed(&whole, 1, &[], 9),
        AddOptions::default(),
    );
    assert!(matches!(refused, Err(AddError::TooLong { .. })), "{refused:?}");
}

#[test]
fn a_sequence_waits_for_the_rows_of_the_outputs_that_it_brought() {
    let rows: Vec<u32> = (100..110).collect();
    let whole = request(1, 3, 9);
    let mut engine = small();
    add_with(&mut engine, 1, resumed(&whole, 1, &rows, 4), fed());
    engine.push(SeqId(1), rows[..4].to_vec(), false);
    assert!(!engine.has_work(), "the row of the next output is missing");
    engine.push(SeqId(1), rows[4..5].to_vec(), false);
    assert_eq!(
        given(&drain(&mut engine), 1),
        alone(SeqId(1), &whole, &rows, 5)[4..]
    );
    engine.push(SeqId(1), rows[5..].to_vec(), true);
    assert_eq!(
        given(&drain(&mut engine), 1),
        alone(SeqId(1), &whole, &rows, 9)[5..]
    );
}
