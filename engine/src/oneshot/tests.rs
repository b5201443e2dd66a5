//! The generation engine over a model that squares numbers.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const NOW: Stamp = Stamp(Duration::ZERO);

fn at(millis: u64) -> Stamp {
    Stamp(Duration::from_millis(millis))
}

/// A number costs itself; 13 fails; `broken` fails the whole batch. Gives the square, and the numbers behind it.
#[derive(Debug, Default)]
struct Squares {
    broken: bool,
    lost: bool,
    /// Outputs of a request besides the first.
    more: u32,
    batches: Vec<Vec<u32>>,
}

impl OneShotModel for Squares {
    type Input = u32;
    type Output = u32;

    fn cost(&self, input: &u32) -> Result<u32, ModelError> {
        match input {
            666 => Err(ModelError::Rejected("not this one".into())),
            _ => Ok(*input),
        }
    }

    fn run(&mut self, batch: &[(SeqId, &u32)]) -> Result<Vec<Answer<u32>>, ModelError> {
        self.batches
            .push(batch.iter().map(|(_, input)| **input).collect());
        if self.lost {
            return Err(ModelError::Lost("scripted".into()));
        }
        if self.broken {
            return Err(ModelError::Compute("scripted".into()));
        }
        let square = |input: u32| match input {
            13 => Err("thirteen".to_owned()),
            _ => Ok((input * input..=input * input + self.more).collect()),
        };
        Ok(batch.iter().map(|(_, input)| square(**input)).collect())
    }
}

fn engine(config: OneShotConfig) -> OneShotEngine<Squares> {
    OneShotEngine::new(Squares::default(), config)
}

fn add(engine: &mut OneShotEngine<Squares>, seq: u64, input: u32) {
    try_add(engine, seq, input).expect("admitted");
}

fn try_add(engine: &mut OneShotEngine<Squares>, seq: u64, input: u32) -> Result<(), OneShotError> {
    engine.add(SeqId(seq), input, u32::MAX, NOW)
}

type End = (u64, Option<u32>, FinishReason);

fn ends(events: &[SeqEvent<u32>]) -> Vec<End> {
    let mut output = None;
    let mut ends = Vec::new();
    for event in events {
        match event {
            SeqEvent::Output { seq, item } => output = Some((*seq, *item)),
            SeqEvent::Finished { seq, reason, .. } => {
                let output = output.take().map(|(of, item)| {
                    assert_eq!(of, *seq, "an output and its end belong together");
                    item
                });
                ends.push((seq.0, output, reason.clone()));
            }
            _ => {}
        }
    }
    ends
}

fn drain(engine: &mut OneShotEngine<Squares>) -> Vec<End> {
    let mut all = Vec::new();
    while engine.has_work() {
        all.extend(ends(&engine.step(NOW).events));
    }
    all
}

#[test]
fn requests_that_fit_share_a_step_and_are_finished_after_it() {
    let mut engine = engine(OneShotConfig {
        max_batch_cost: 10,
        ..OneShotConfig::default()
    });
    for (seq, input) in [(1, 4), (2, 6), (3, 1)] {
        add(&mut engine, seq, input);
    }
    let report = engine.step(NOW);
    let expected = [
        (1, Some(16), FinishReason::Stop),
        (2, Some(36), FinishReason::Stop),
    ];
    assert_eq!(ends(&report.events), expected);
    let stats = report.stats;
    assert_eq!((stats.outputs, stats.prefill_tokens, stats.waiting()), (2, 10, 1));
    assert_eq!(drain(&mut engine), [(3, Some(1), FinishReason::Stop)]);
}

#[test]
fn one_larger_than_the_budget_has_a_step_to_itself_and_is_not_overtaken() {
    let mut engine = engine(OneShotConfig {
        max_batch_cost: 10,
        ..OneShotConfig::default()
    });
    for (seq, input) in [(1, 4), (2, 50), (3, 1), (4, 2)] {
        add(&mut engine, seq, input);
    }
    drain(&mut engine);
    assert_eq!(engine.model.batches, [vec![4], vec![50], vec![1, 2]]);
}

#[test]
fn a_step_takes_a_bounded_number_in_the_order_of_arrival() {
    let mut engine = engine(OneShotConfig {
        max_batch: 2,
        ..OneShotConfig::default()
    });
    for input in [9, 1, 2, 3] {
        add(&mut engine, u64::from(input), input);
    }
    drain(&mut engine);
    assert_eq!(engine.model.batches, [[9, 1], [2, 3]]);
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers() {
    let mut engine = engine(OneShotConfig {
        max_cost: 20,
        max_waiting: 2,
        max_waiting_cost: 25,
        ..OneShotConfig::default()
    });
    let message = |result: Result<(), OneShotError>| result.unwrap_err().to_string();
    assert_eq!(
        message(try_add(&mut engine, 1, 21)),
        "input of cost 21 is too large, at most 20 is served"
    );
    assert_eq!(
        message(try_add(&mut engine, 1, 666)),
        "request rejected by the model: not this one"
    );
    add(&mut engine, 1, 20);
    assert_eq!(
        message(try_add(&mut engine, 2, 6)),
        "waiting queue is full (cost 20 of 25, 6 more does not fit)"
    );
    assert!(matches!(
        try_add(&mut engine, 1, 2),
        Err(OneShotError::Duplicate(SeqId(1)))
    ));
    add(&mut engine, 2, 5);
    assert_eq!(
        message(try_add(&mut engine, 3, 1)),
        "waiting queue is full (2 of 2)"
    );
    assert_eq!(drain(&mut engine).len(), 2);
}

#[test]
fn a_failure_ends_its_request_and_a_lost_batch_all_of_its_own() {
    let mut engine = engine(OneShotConfig::default());
    add(&mut engine, 1, 13);
    add(&mut engine, 2, 3);
    let expected = [
        (1, None, FinishReason::Error("thirteen".into())),
        (2, Some(9), FinishReason::Stop),
    ];
    assert_eq!(drain(&mut engine), expected);
    engine.model.broken = true;
    add(&mut engine, 3, 3);
    let lost = FinishReason::Error("computation failed: scripted".into());
    assert_eq!(drain(&mut engine), [(3, None, lost)]);
}

#[test]
fn a_model_that_is_lost_ends_no_request_and_says_why() {
    let mut engine = engine(OneShotConfig::default());
    add(&mut engine, 1, 3);
    assert_eq!(engine.lost(), None);
    engine.model.lost = true;
    assert!(drain(&mut engine).is_empty());
    assert_eq!(engine.lost(), Some("scripted"));
}

#[test]
fn the_record_has_the_callers_stamps() {
    let mut engine = engine(OneShotConfig::default());
    engine.add(SeqId(1), 7, 1, at(2)).unwrap();
    let mut clock = [at(5), at(9)].into_iter();
    let report = engine.step_with(|| clock.next().expect("two readings a step"), &mut |_| 1);
    let [
        queued,
        scheduled,
        SeqEvent::Output { .. },
        SeqEvent::Finished { record, .. },
    ] = &*report.events
    else {
        panic!("{:?}", report.events)
    };
    assert_eq!(
        *queued,
        SeqEvent::Queued {
            seq: SeqId(1),
            at: at(2)
        }
    );
    let expected = SeqEvent::Scheduled {
        seq: SeqId(1),
        queued_at: at(2),
        at: at(5),
        resumed: false,
    };
    assert_eq!(*scheduled, expected);
    assert_eq!(record.queue_time(), Some(Duration::from_millis(3)));
    assert_eq!(record.inference_time(), Some(Duration::from_millis(4)));
    assert_eq!((record.finished, record.prompt_tokens), (at(9), 7));
}

/// Outputs and ends of a step, output by output.
fn given(report: StepReport<u32>) -> Vec<(u64, Result<u32, FinishReason>)> {
    let event = |event| match event {
        SeqEvent::Output { seq, item } => Some((seq.0, Ok(item))),
        SeqEvent::Finished { seq, reason, .. } => Some((seq.0, Err(reason))),
        _ => None,
    };
    report.events.into_iter().filter_map(event).collect()
}

#[test]
fn outputs_without_room_wait_and_delay_neither_others_nor_the_batch() {
    let mut engine = engine(OneShotConfig::default());
    engine.model.more = 3;
    add(&mut engine, 1, 2);
    add(&mut engine, 2, 3);
    let step = |engine: &mut OneShotEngine<Squares>, first: u32| {
        let report = engine.step_with(|| NOW, &mut |seq| if seq == SeqId(1) { first } else { 9 });
        (report.stats.outputs, given(report))
    };
    let end = Err(FinishReason::Stop);
    let expected = [
        (1, Ok(4)),
        (1, Ok(5)),
        (2, Ok(9)),
        (2, Ok(10)),
        (2, Ok(11)),
        (2, Ok(12)),
        (2, end.clone()),
    ];
    assert_eq!(step(&mut engine, 2), (6, expected.to_vec()));
    // Its consumer is full: there is nothing to do, and a new request is computed meanwhile.
    engine.set_paused(SeqId(1), true);
    assert!(!engine.has_work());
    assert!(matches!(
        try_add(&mut engine, 1, 2),
        Err(OneShotError::Duplicate(_))
    ));
    engine.model.more = 0;
    add(&mut engine, 3, 4);
    assert_eq!(step(&mut engine, 0), (1, vec![(3, Ok(16)), (3, end.clone())]));
    engine.set_paused(SeqId(1), false);
    assert!(engine.has_work());
    assert_eq!(step(&mut engine, 1), (1, vec![(1, Ok(6))]));
    assert_eq!(step(&mut engine, 1), (1, vec![(1, Ok(7)), (1, end)]));
    assert!(engine.is_empty() && !engine.has_work());
    assert_eq!(engine.model.batches, [vec![2, 3], vec![4]]);
}

#[test]
fn a_request_ends_at_its_most_outputs_and_one_that_is_aborted_gives_no_more() {
    let mut engine = engine(OneShotConfig::default());
    engine.model.more = 9;
    engine.add(SeqId(1), 2, 2, NOW).unwrap();
    let expected = [(1, Ok(4)), (1, Ok(5)), (1, Err(FinishReason::Length))];
    assert_eq!(given(engine.step(NOW)), expected);
    add(&mut engine, 2, 2);
    engine.step_with(|| NOW, &mut |_| 1);
    engine.set_paused(SeqId(2), true);
    assert!(engine.abort(SeqId(2)) && !engine.abort(SeqId(2)));
    assert!(engine.has_work());
    assert_eq!(given(engine.step(NOW)), [(2, Err(FinishReason::Abort))]);
}

proptest! {
    /// However much room there is from step to step, every output comes once and in order, the end comes behind the
    /// last, and no step gives more than there is room for.
    #[test]
    fn outputs_come_once_and_in_order_with_any_room(
        room in prop::collection::vec(0..4_u32, 1..20),
        more in 0..12_u32,
        requests in 1..5_u64,
    ) {
        let mut engine = engine(OneShotConfig::default());
        engine.model.more = more;
        (1..=requests).for_each(|seq| add(&mut engine, seq, seq as u32));
        let mut came = vec![Vec::new(); requests as usize + 1];
        let mut rooms = room.iter().chain([&1]).cycle();
        while engine.has_work() {
            let here = *rooms.next().expect("endless");
            for (seq, event) in given(engine.step_with(|| NOW, &mut |_| here)) {
                came[seq as usize].push(event);
            }
        }
        for (seq, came) in came.into_iter().enumerate().skip(1) {
            let square = (seq * seq) as u32;
            let mut expected: Vec<_> = (square..=square + more).map(Ok).collect();
            expected.push(Err(FinishReason::Stop));
            prop_assert_eq!(came, expected);
        }
    }

    #[test]
    fn any_traffic_ends_every_request_once_in_order_and_within_the_budget(
        ops in prop::collection::vec((0..4u8, 0..30u32), 1..80),
        max_batch in 1..5u32,
        max_batch_cost in 1..40u32,
    ) {
        let config = OneShotConfig { max_batch, max_batch_cost, max_waiting: 6, ..OneShotConfig::default() };
        let mut engine = engine(config);
        let mut live = HashSet::new();
        let mut last = 0;
        let mut check = |engine: &mut OneShotEngine<Squares>, live: &mut HashSet<u64>| {
            let could_work = !engine.is_empty();
            let report = engine.step(NOW);
            let stats = report.stats;
            prop_assert!(stats.admitted <= max_batch && (stats.admitted > 0) == could_work);
            prop_assert!(stats.admitted <= 1 || stats.prefill_tokens <= max_batch_cost);
            for (seq, output, reason) in ends(&report.events) {
                prop_assert!(live.remove(&seq), "{} ended twice", seq);
                prop_assert_eq!(output.is_some(), reason == FinishReason::Stop);
                if reason != FinishReason::Abort {
                    prop_assert!(seq > last, "{} was overtaken", seq);
                    last = seq;
                }
            }
            Ok(())
        };
        for (id, (op, n)) in (1..).zip(ops) {
            match op {
                0 | 1 => {
                    if try_add(&mut engine, id, n).is_ok() {
                        live.insert(id);
                    }
                }
                2 => {
                    let seq = u64::from(n);
                    let waits = engine.by_id.contains_key(&SeqId(seq));
                    prop_assert_eq!(engine.abort(SeqId(seq)), waits);
                    prop_assert!(!engine.abort(SeqId(seq)));
                }
                _ => check(&mut engine, &mut live)?,
            }
        }
        while engine.has_work() {
            check(&mut engine, &mut live)?;
        }
        prop_assert!(live.is_empty(), "left behind: {:?}", live);
        prop_assert_eq!((engine.len(), engine.waiting_cost), (0, 0));
    }
}
