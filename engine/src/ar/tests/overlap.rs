//! Steps that are begun before the one in front of them ends.

use super::support::*;
use crate::ar::*;

/// An engine whose model samples on a device of its own.
fn apart() -> Engine {
    let mut engine = small();
    engine.model.apart = true;
    engine
}

fn ahead(engine: &mut Engine) -> bool {
    let begun = engine.begin_step_ahead(NOW, |_| true);
    engine.audit();
    begun
}

fn end_step(engine: &mut Engine) -> Vec<SeqEvent<Out>> {
    let events = engine.end_step(|| NOW).events;
    engine.audit();
    events
}

fn stepped(engine: &Engine) -> Vec<u64> {
    engine.model.batch.iter().map(|(seq, _, _)| seq.0).collect()
}

#[test]
fn the_next_step_is_begun_before_the_last_one_has_told_what_it_gave() {
    let mut engine = apart();
    for seq in [1, 2] {
        add(&mut engine, seq, 3, 9);
    }
    engine.begin_step(NOW);
    assert!(ahead(&mut engine));
    assert_eq!(engine.model.batch, [(SeqId(1), 3, 1), (SeqId(2), 3, 1)]);
    assert!(!ahead(&mut engine), "never two ahead");
    assert_eq!(names(&end_step(&mut engine)), [1000, 2000]);
    assert!(engine.is_under_way() && engine.has_work());
    assert!(ahead(&mut engine));
    assert_eq!(names(&end_step(&mut engine)), [1001, 2001]);
    assert_eq!(names(&end_step(&mut engine)), [1002, 2002]);
    assert!(!engine.is_under_way());
    let rest = names(&drain(&mut engine)).len();
    assert_eq!(rest, 12);
}

#[test]
fn a_step_begun_ahead_lasts_from_the_end_of_the_one_before_it() {
    let mut engine = apart();
    add(&mut engine, 1, 3, 9);
    engine.begin_step(at(10));
    assert!(engine.begin_step_ahead(at(11), |_| true));
    let first = engine.end_step(|| at(20));
    assert_eq!((first.began, first.ended), (at(10), at(20)));
    let second = engine.end_step(|| at(27));
    assert_eq!((second.began, second.ended), (at(20), at(27)));
    assert_eq!((first.stats.prefill_tokens, second.stats.decode_tokens), (3, 1));
}

#[test]
fn whoever_turns_out_to_have_ended_gives_nothing_more() {
    let mut engine = apart();
    add(&mut engine, 1, 3, 1);
    add(&mut engine, 2, 3, 5);
    engine.begin_step(NOW);
    end_step(&mut engine);
    engine.begin_step(NOW);
    assert!(ahead(&mut engine));
    let events = end_step(&mut engine);
    assert_eq!(ends(&events), [(1, FinishReason::Stop)]);
    assert_eq!(
        engine.model.open.len(),
        2,
        "the model closes it after the step that has it"
    );
    let twice = try_add(&mut engine, 1, request(1, 3, 1), AddOptions::default());
    assert!(matches!(twice, Err(AddError::Duplicate(_))), "{twice:?}");
    let events = end_step(&mut engine);
    assert_eq!((names(&events), ends(&events)), (vec![2002], vec![]));
    assert_eq!(engine.model.open.len(), 1);
}

#[test]
fn a_step_is_not_begun_ahead_of_somebody_who_could_run() {
    let mut engine = apart();
    add(&mut engine, 1, 3, 9);
    engine.begin_step(NOW);
    add(&mut engine, 2, 3, 9);
    assert!(!ahead(&mut engine), "a newcomer has room");
    end_step(&mut engine);
    engine.begin_step(NOW);
    assert_eq!(stepped(&engine), [1, 2]);
    end_step(&mut engine);
    engine.set_paused(SeqId(2), true);
    engine.begin_step(NOW);
    assert_eq!(stepped(&engine), [1]);
    engine.set_paused(SeqId(2), false);
    assert!(!ahead(&mut engine), "one that has a place goes on again");
    end_step(&mut engine);
    engine.begin_step(NOW);
    assert_eq!(stepped(&engine), [1, 2]);
    assert!(ahead(&mut engine));
}

#[test]
fn a_newcomer_without_room_does_not_end_the_overlap() {
    let config = ArConfig {
        max_num_seqs: 1,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    engine.model.apart = true;
    add(&mut engine, 1, 3, 2);
    add(&mut engine, 2, 3, 2);
    engine.begin_step(NOW);
    assert!(ahead(&mut engine));
    end_step(&mut engine);
    assert!(ahead(&mut engine));
    end_step(&mut engine);
    assert_eq!(ends(&end_step(&mut engine)), [(1, FinishReason::Stop)]);
    engine.begin_step(NOW);
    assert_eq!(stepped(&engine), [2]);
}

#[test]
fn a_long_prompt_is_not_left_behind() {
    let config = ArConfig {
        max_num_batched_tokens: 4,
        ..ArConfig::default()
    };
    let mut engine = engine(config, 4, 16, 48);
    engine.model.apart = true;
    add(&mut engine, 1, 2, 9);
    engine.step(NOW);
    add(&mut engine, 2, 9, 9);
    engine.begin_step(NOW);
    assert_eq!(stepped(&engine), [1, 2]);
    assert!(!ahead(&mut engine));
}

#[test]
fn who_cannot_go_on_after_the_step_under_way_stays_out_of_the_next() {
    let mut engine = apart();
    let bounded = AddOptions {
        max_outputs: 1,
        ..AddOptions::default()
    };
    add_with(&mut engine, 1, request(1, 3, 9), bounded);
    add_with(&mut engine, 2, request(2, 3, 9), fed());
    engine.push(SeqId(2), vec![7], false);
    add_with(&mut engine, 3, request(3, 3, 9), fed());
    engine.push(SeqId(3), vec![7, 8], false);
    add(&mut engine, 4, 3, 9);
    engine.begin_step(NOW);
    assert_eq!(stepped(&engine), [1, 2, 3, 4]);
    assert!(engine.begin_step_ahead(NOW, |seq| seq != SeqId(4)));
    assert_eq!(
        stepped(&engine),
        [3],
        "the others: at the limit, without a row, without room"
    );
    let events = end_step(&mut engine);
    assert_eq!(ends(&events), [(1, FinishReason::Length)]);
    assert_eq!(engine.state(SeqId(2)), Some(SeqState::WaitingForUpstream));
    assert_eq!(names(&end_step(&mut engine)), [3001]);
}

#[test]
fn a_sequence_given_up_in_a_step_is_over_at_once_and_closed_after_it() {
    let mut engine = apart();
    add(&mut engine, 1, 3, 9);
    add(&mut engine, 2, 3, 9);
    engine.begin_step(NOW);
    assert!(ahead(&mut engine));
    assert!(engine.abort(SeqId(1)) && !engine.abort(SeqId(1)));
    assert_eq!((engine.len(), engine.state(SeqId(1))), (1, None));
    let events = end_step(&mut engine);
    assert_eq!(
        (names(&events), ends(&events)),
        (vec![2000], vec![(1, FinishReason::Abort)])
    );
    assert_eq!(engine.model.open.len(), 2);
    assert_eq!(names(&end_step(&mut engine)), [2001]);
    assert_eq!(engine.model.open.len(), 1);
}

#[test]
fn an_answer_that_fails_ends_all_of_its_step_and_of_the_next() {
    let mut engine = apart();
    add(&mut engine, 1, 3, 9);
    add(&mut engine, 2, 3, 9);
    engine.begin_step(NOW);
    assert!(ahead(&mut engine));
    engine.model.fail_answer = true;
    let reasons = ends(&end_step(&mut engine));
    assert_eq!(reasons.len(), 2);
    assert!(matches!(&reasons[0].1, FinishReason::Error(message) if message.contains("late")));
    assert!(end_step(&mut engine).is_empty());
    assert!(engine.is_empty() && !engine.has_work() && engine.model.open.is_empty());
}

#[test]
fn a_step_begun_ahead_that_fails_takes_nothing_from_the_one_before_it() {
    let mut engine = apart();
    add(&mut engine, 1, 3, 9);
    engine.begin_step(NOW);
    engine.model.fail_next = true;
    assert!(ahead(&mut engine));
    assert_eq!(names(&end_step(&mut engine)), [1000]);
    let reasons = ends(&end_step(&mut engine));
    assert!(matches!(&reasons[0], (1, FinishReason::Error(_))), "{reasons:?}");
}

#[test]
fn a_model_that_does_not_answer_apart_is_never_asked_ahead() {
    let mut engine = small();
    add(&mut engine, 1, 3, 9);
    engine.begin_step(NOW);
    assert!(!ahead(&mut engine));
    assert_eq!(names(&end_step(&mut engine)), [1000]);
}
