//! A sequence's states, events, record and end.

use std::time::Duration;

use super::support::*;
use crate::ar::*;

#[test]
fn a_sequence_passes_through_its_states() {
    let config = ArConfig {
        max_num_seqs: 1,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    let state = |engine: &Engine| engine.state(SeqId(1));
    add_with(&mut engine, 1, request(1, 3, 2), fed());
    assert_eq!(state(&engine), Some(SeqState::WaitingForUpstream));
    engine.push(SeqId(1), vec![1], false);
    assert_eq!(state(&engine), Some(SeqState::Waiting));
    engine.set_paused(SeqId(1), true);
    assert_eq!(state(&engine), Some(SeqState::Paused));
    engine.set_paused(SeqId(1), false);
    engine.step(NOW);
    assert_eq!(state(&engine), Some(SeqState::WaitingForUpstream));
    add(&mut engine, 2, 3, 1);
    let report = engine.step(NOW);
    assert_eq!(
        preempted(&report.events),
        [1],
        "the only place goes to one that can run"
    );
    engine.push(SeqId(1), vec![], true);
    assert_eq!(state(&engine), Some(SeqState::Preempted));
    engine.step(NOW);
    engine.step(NOW);
    assert_eq!(state(&engine), Some(SeqState::Running));
    drain(&mut engine);
    assert_eq!(state(&engine), None);
}

#[test]
fn events_tell_a_life_in_order_with_the_callers_stamps() {
    let mut engine = small();
    engine
        .add(SeqId(1), (false, request(1, 3, 1)), AddOptions::default(), at(5))
        .unwrap();
    let mut clock = [at(7), at(9)].into_iter();
    let report = engine.step_with(|| clock.next().expect("two readings a step"));
    assert_eq!((report.began, report.ended), (at(7), at(9)));
    let [queued, scheduled, output] = &*report.events else {
        panic!("{:?}", report.events)
    };
    assert_eq!(
        *queued,
        SeqEvent::Queued {
            seq: SeqId(1),
            at: at(5)
        }
    );
    assert_eq!(
        *scheduled,
        SeqEvent::Scheduled {
            seq: SeqId(1),
            queued_at: at(5),
            at: at(7),
            resumed: false
        }
    );
    assert!(matches!(output, SeqEvent::Output { seq: SeqId(1), .. }));
    assert_eq!(ends(&engine.step(at(11)).events), [(1, FinishReason::Stop)]);
}

#[test]
fn the_record_has_the_intervals_and_ignores_preemptions_in_them() {
    let config = ArConfig {
        max_num_seqs: 1,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    let options = AddOptions {
        max_outputs: 3,
        ..fed()
    };
    engine
        .add(SeqId(1), (true, request(1, 5, 9)), options, at(10))
        .unwrap();
    engine.push(SeqId(1), vec![0], false);
    let step = |engine: &mut Engine, began: u64, ended: u64| {
        let mut clock = [at(began), at(ended)].into_iter();
        engine.step_with(|| clock.next().unwrap_or(at(ended))).events
    };
    step(&mut engine, 30, 35);
    add(&mut engine, 2, 1, 0);
    assert_eq!(preempted(&step(&mut engine, 40, 45)), [1]);
    engine.push(SeqId(1), vec![], true);
    step(&mut engine, 50, 55);
    let events = step(&mut engine, 60, 75);
    let record = record(&events, 1);
    let millis = Duration::from_millis;
    assert_eq!(record.queue_time(), Some(millis(20)));
    assert_eq!(record.prefill_time(), Some(millis(5)));
    assert_eq!(record.decode_time(), Some(millis(40)));
    assert_eq!(record.inference_time(), Some(millis(45)));
    assert_eq!(record.time_per_output(), millis(20));
    assert_eq!(
        (record.finished, record.outputs, record.preemptions),
        (at(75), 3, 1)
    );
    assert_eq!(record.prompt_tokens, 5);
}

#[test]
fn an_abort_ends_exactly_once_and_leaves_nothing_behind() {
    let mut engine = small();
    for seq in 1..=3 {
        add_with(
            &mut engine,
            seq,
            request(seq, 6, 9),
            if seq == 3 { fed() } else { AddOptions::default() },
        );
    }
    engine.step(NOW);
    assert!(engine.step(NOW).stats.kv_usage > 0.0);
    for seq in 1..=3 {
        assert!(engine.abort(SeqId(seq)));
        assert!(!engine.abort(SeqId(seq)), "it is gone");
    }
    assert!(engine.model.open.is_empty());
    assert!(engine.has_work(), "the ends are still to be told");
    let report = engine.step(at(8));
    let expected: Vec<_> = (1..=3).map(|seq| (seq, FinishReason::Abort)).collect();
    assert_eq!(ends(&report.events), expected);
    assert_eq!(record(&report.events, 1).finished, at(8));
    assert_eq!(
        record(&report.events, 3).queue_time(),
        None,
        "it never got a place"
    );
    let stats = report.stats;
    assert_eq!((stats.running, stats.waiting(), stats.kv_usage), (0, 0, 0.0));
    assert!(!engine.has_work() && engine.step(NOW).events.is_empty());
}

#[test]
fn a_caller_can_end_a_sequence_for_its_own_reason() {
    let mut engine = small();
    add(&mut engine, 1, 3, 9);
    engine.step(NOW);
    assert!(engine.end(SeqId(1), FinishReason::Stop));
    assert_eq!(ends(&engine.step(NOW).events), [(1, FinishReason::Stop)]);
}

#[test]
fn outputs_that_go_round_in_circles_are_ended() {
    let mut engine = small();
    let options = AddOptions {
        repetition: Some(RepetitionLimit {
            min_pattern: 2,
            max_pattern: 3,
            count: 3,
        }),
        ..AddOptions::default()
    };
    let mut circles = request(1, 3, 99);
    circles.tokens = vec![1, 2, 3];
    add_with(&mut engine, 1, circles, options);
    let events = drain(&mut engine);
    assert_eq!(names(&events).len(), 9, "three times the pattern");
    assert_eq!(ends(&events), [(1, FinishReason::Repetition)]);
}

#[test]
fn prompts_are_counted_at_their_first_output_and_tokens_as_they_come() {
    let config = ArConfig {
        max_prefill_tokens: 4,
        min_prefill_tokens: 4,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    add(&mut engine, 1, 6, 2);
    let stats = engine.step(NOW).stats;
    assert_eq!(
        (stats.prefill_tokens, stats.prompt_tokens, stats.outputs),
        (4, 0, 0)
    );
    let stats = engine.step(NOW).stats;
    assert_eq!(
        (stats.prefill_tokens, stats.prompt_tokens, stats.outputs),
        (2, 6, 1)
    );
    let stats = engine.step(NOW).stats;
    assert_eq!((stats.prompt_tokens, stats.outputs), (0, 1));
}
