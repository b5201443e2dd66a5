//! The engine against a decoder that echoes its items, two samples each.

mod look_ahead;

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Default)]
struct Echo {
    open: HashMap<SeqId, u32>,
    fail_next: bool,
    lost: bool,
    /// Streams that fail at this item.
    bad: HashMap<SeqId, u32>,
}

impl ChunkModel for Echo {
    type Request = ();
    type Item = u32;
    type Sample = u32;

    fn open(&mut self, seq: SeqId, (): (), _lead: u32) -> Result<Skipped, ModelError> {
        if self.lost {
            return Err(ModelError::Lost("scripted".into()));
        }
        assert!(self.open.insert(seq, 0).is_none());
        Ok(Skipped::default())
    }

    fn decode(&mut self, batch: &[(SeqId, &[u32])]) -> Result<Vec<Decoded<u32>>, ModelError> {
        if self.lost {
            return Err(ModelError::Lost("scripted".into()));
        }
        if std::mem::take(&mut self.fail_next) {
            return Err(ModelError::Compute("scripted".into()));
        }
        let mut out = Vec::new();
        for (seq, items) in batch {
            let next = self.open.get_mut(seq).expect("only open streams are decoded");
            assert!(!items.is_empty(), "nothing to decode");
            for item in *items {
                assert_eq!(item, next, "items in order, once");
                *next += 1;
            }
            out.push(match self.bad.get(seq) {
                Some(bad) if items.contains(bad) => Err(format!("item {bad} is bad")),
                _ => Ok(items.iter().flat_map(|i| [i * 2, i * 2 + 1]).collect()),
            });
        }
        Ok(out)
    }

    fn close(&mut self, seq: SeqId) {
        assert!(self.open.remove(&seq).is_some());
    }
}

const ITEM: Duration = Duration::from_millis(40);

/// All of it is heard.
const HEARD: StreamOptions = StreamOptions {
    unplayed_items: 0,
    look_ahead: 0,
};

fn at(ms: u64) -> Stamp {
    Stamp(Duration::from_millis(ms))
}

fn engine() -> ChunkEngine<Echo> {
    ChunkEngine::new(
        Echo::default(),
        ChunkConfig {
            max_batch: 2,
            max_streams: 4,
            ..ChunkConfig::new(ITEM)
        },
    )
}

type Event = SeqEvent<ChunkOutput<u32>>;

fn ends(events: &[Event]) -> Vec<(u64, FinishReason)> {
    let end = |event: &Event| match event {
        SeqEvent::Finished { seq, reason, .. } => Some((seq.0, reason.clone())),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

fn chunk(seq: u64, samples: std::ops::Range<u32>, items: u32) -> Event {
    SeqEvent::Output {
        seq: SeqId(seq),
        item: ChunkOutput {
            samples: samples.collect(),
            items,
        },
    }
}

fn chunks(report: &StepReport<ChunkOutput<u32>>) -> Vec<(u64, u32)> {
    report
        .events
        .iter()
        .filter_map(|e| {
            if let SeqEvent::Output { seq, item } = e {
                Some((seq.0, item.items))
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn chunks_grow_along_the_ramp_when_there_is_lead() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(1), 0..40, false);
    let sizes: Vec<_> = (0..5).map(|_| chunks(&engine.step(at(0)))[0].1).collect();
    assert_eq!(
        sizes,
        [1, 8, 8, 8, 8],
        "the first is small, then everything queued up to the largest"
    );
}

#[test]
fn with_lead_it_waits_for_the_ramp_and_without_it_takes_what_is_there() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(1), 0..6, false);
    engine.step(at(0)); // 1 item
    engine.step(at(0)); // 5 items: 240 ms of lead
    engine.push(SeqId(1), 6..7, false);
    assert!(!engine.has_work(at(0)), "one item, four wanted, plenty of lead");
    // 160 ms of the lead are kept for one queued item and the one waited for.
    assert_eq!(engine.wake_at(), Some(at(80)));
    assert!(!engine.has_work(at(79)));
    assert_eq!(chunks(&engine.step(at(80))), [(1, 1)]);
}

#[test]
fn what_nobody_hears_gives_no_lead() {
    let mut engine = engine();
    engine
        .add(
            SeqId(1),
            (),
            StreamOptions {
                unplayed_items: 5,
                look_ahead: 0,
            },
            at(0),
        )
        .unwrap();
    for item in 0..5 {
        engine.push(SeqId(1), item..item + 1, false);
        assert_eq!(chunks(&engine.step(at(0))), [(1, 1)], "no stream waits for more");
    }
    engine.push(SeqId(1), 5..12, false);
    assert_eq!(
        chunks(&engine.step(at(1_000))),
        [(1, 1)],
        "the first that is heard"
    );
    assert_eq!(chunks(&engine.step(at(1_000))), [(1, 6)]);
    engine.push(SeqId(1), 12..13, false);
    // The listener began at 1000 and has 7 items, 280 ms, of which 160 are kept.
    assert_eq!(engine.wake_at(), Some(at(1_120)));
    engine.push(SeqId(1), 13..16, false);
    let stats = engine.step(at(1_281)).stats;
    assert_eq!(
        (stats.outputs, stats.late),
        (4, 1),
        "it ran dry one millisecond ago"
    );
}

#[test]
fn a_queued_head_that_nobody_hears_goes_with_the_first_sound() {
    let mut engine = engine();
    engine
        .add(
            SeqId(1),
            (),
            StreamOptions {
                unplayed_items: 5,
                look_ahead: 0,
            },
            at(0),
        )
        .unwrap();
    engine.push(SeqId(1), 0..20, false);
    assert_eq!(chunks(&engine.step(at(0))), [(1, 6)]);
    assert_eq!(chunks(&engine.step(at(0))), [(1, 8)]);
}

#[test]
fn newcomers_go_before_those_with_lead_and_these_by_the_time_they_run_dry() {
    let mut engine = engine();
    for seq in [1, 2, 3] {
        engine.add(SeqId(seq), (), HEARD, at(0)).unwrap();
    }
    engine.push(SeqId(1), 0..20, false);
    engine.step(at(0));
    engine.step(at(0)); // stream 1 has 9 items of lead
    engine.push(SeqId(2), 0..30, false);
    engine.step(at(0));
    engine.step(at(0)); // now 1 leads by 17, 2 by 9
    engine.push(SeqId(3), 0..20, false);
    assert_eq!(
        chunks(&engine.step(at(200))),
        [(3, 1), (2, 8)],
        "two places: the newcomer and the shortest lead"
    );
}

#[test]
fn a_first_chunk_does_not_share_its_step_with_large_chunks_that_can_wait() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(0)).unwrap();
    engine.add(SeqId(2), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(1), 0..40, false);
    (0..3).for_each(|_| drop(engine.step(at(0)))); // 17 items of lead
    engine.push(SeqId(2), 0..40, false);
    assert_eq!(chunks(&engine.step(at(0))), [(2, 1)], "the newcomer alone");
    assert_eq!(chunks(&engine.step(at(0))), [(2, 8), (1, 8)], "then both");
    engine.abort(SeqId(2));
    engine.add(SeqId(3), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(3), 0..40, false);
    // Stream 1 has 25 items, 1 s, and has played all but the last 8 of them.
    assert_eq!(
        chunks(&engine.step(at(680))),
        [(3, 1), (1, 8)],
        "it cannot wait any more"
    );
}

#[test]
fn a_newcomer_waits_for_a_listener_who_is_about_to_hear_a_gap() {
    let mut engine = engine();
    for seq in [1, 2, 3] {
        engine.add(SeqId(seq), (), HEARD, at(0)).unwrap();
    }
    engine.push(SeqId(1), 0..20, false);
    engine.step(at(0));
    engine.step(at(0)); // stream 1 has 9 items, 360 ms, of lead
    engine.push(SeqId(2), 0..20, false);
    engine.push(SeqId(3), 0..20, false);
    assert_eq!(
        chunks(&engine.step(at(280))),
        [(1, 8), (2, 1)],
        "80 ms left: it goes first, and takes a place"
    );
    assert_eq!(chunks(&engine.step(at(280))), [(2, 8), (3, 1)]);
}

#[test]
fn a_step_takes_a_bounded_number_of_items_and_at_least_one_chunk() {
    let bounded = |max_batched_items| {
        let config = ChunkConfig {
            max_batched_items,
            ..ChunkConfig::new(ITEM)
        };
        let mut engine = ChunkEngine::new(Echo::default(), config);
        for seq in 0..4 {
            engine.add(SeqId(seq), (), HEARD, at(0)).unwrap();
            engine.push(SeqId(seq), 0..30, false);
        }
        (0..4).map(|_| chunks(&engine.step(at(0)))).collect::<Vec<_>>()
    };
    let steps = bounded(9);
    assert_eq!(steps[0], [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!(
        steps[1..],
        [[(0, 8)], [(1, 8)], [(2, 8)]],
        "8 and 8 are more than 9"
    );
    assert_eq!(bounded(16)[1], [(0, 8), (1, 8)]);
    assert_eq!(
        bounded(1),
        [[(0, 1)], [(0, 8)], [(1, 1)], [(1, 8)]],
        "a chunk is never cut"
    );
}

#[test]
fn the_last_item_finishes_the_stream_even_if_it_came_empty() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(1), 0..1, false);
    engine.step(at(0));
    engine.push(SeqId(1), [], true);
    let report = engine.step(at(0));
    assert_eq!(ends(&report.events), [(1, FinishReason::Stop)]);
    assert!(chunks(&report).is_empty());
    assert!(engine.is_empty() && engine.model.open.is_empty());
}

#[test]
fn a_late_chunk_is_counted() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(1), 0..1, false);
    assert_eq!(engine.step(at(0)).stats.late, 0);
    engine.push(SeqId(1), 1..2, false);
    assert_eq!(engine.step(at(41)).stats.late, 1);
}

#[test]
fn a_failed_decode_ends_its_batch_and_nothing_else() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(0)).unwrap();
    engine.add(SeqId(2), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(1), 0..1, false);
    engine.model.fail_next = true;
    let message = "computation failed: scripted".to_owned();
    let report = engine.step(at(0));
    assert_eq!(ends(&report.events), [(1, FinishReason::Error(message))]);
    assert!(chunks(&report).is_empty());
    engine.push(SeqId(2), 0..1, true);
    assert_eq!(chunks(&engine.step(at(0))), [(2, 1)]);
}

#[test]
fn a_model_that_is_lost_ends_no_stream_and_says_why() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(0)).unwrap();
    engine.push(SeqId(1), 0..1, false);
    assert_eq!(engine.lost(), None);
    engine.model.lost = true;
    let report = engine.step(at(0));
    assert!(ends(&report.events).is_empty() && chunks(&report).is_empty());
    assert_eq!(engine.lost(), Some("scripted"));
}

#[test]
fn a_stream_that_fails_alone_leaves_its_batch_alone() {
    let mut engine = engine();
    for seq in [1, 2] {
        engine.add(SeqId(seq), (), HEARD, at(0)).unwrap();
        engine.push(SeqId(seq), 0..1, seq == 2);
    }
    engine.model.bad.insert(SeqId(1), 0);
    let report = engine.step(at(0));
    let failed = FinishReason::Error("item 0 is bad".to_owned());
    assert_eq!(ends(&report.events), [(1, failed), (2, FinishReason::Stop)]);
    assert!(report.events.contains(&chunk(2, 0..2, 1)));
    assert_eq!((chunks(&report).len(), report.stats.outputs), (1, 1));
    assert!(engine.is_empty() && engine.model.open.is_empty());
}

#[test]
fn streams_are_bounded() {
    let mut engine = engine();
    (0..4).for_each(|s| engine.add(SeqId(s), (), HEARD, at(0)).unwrap());
    assert!(matches!(
        engine.add(SeqId(9), (), HEARD, at(0)),
        Err(OpenError::Full { open: 4, limit: 4 })
    ));
    assert!(engine.abort(SeqId(0)) && !engine.abort(SeqId(0)));
    engine.add(SeqId(9), (), HEARD, at(0)).unwrap();
    assert!(engine.has_work(at(0)), "an end is to be told");
    assert_eq!(ends(&engine.step(at(7)).events), [(0, FinishReason::Abort)]);
    assert!(!engine.has_work(at(7)));
}

#[test]
fn a_record_has_the_stamps_of_the_steps() {
    let mut engine = engine();
    engine.add(SeqId(1), (), HEARD, at(1)).unwrap();
    engine.push(SeqId(1), 0..3, true);
    let mut clock = [2, 4, 5, 9].into_iter().map(at);
    let mut events = engine
        .step_with(|| clock.next().expect("two readings a step"))
        .events;
    events.extend(
        engine
            .step_with(|| clock.next().expect("two readings a step"))
            .events,
    );
    let Some(SeqEvent::Finished { record, .. }) = events.last() else {
        panic!("{events:?}");
    };
    let expected = SeqRecord {
        queued: at(1),
        scheduled: Some(at(2)),
        first_output: Some(at(4)),
        last_output: Some(at(9)),
        finished: at(9),
        outputs: 3,
        ..SeqRecord::default()
    };
    assert_eq!(*record, expected);
}

proptest! {
    /// Whatever fails, and whenever: a stream that fails ends once and is closed in the model, and every other one is
    /// decoded whole, as if it had been alone.
    #[test]
    fn streams_that_fail_change_nothing_for_the_others(
        streams in prop::collection::vec((1..30u32, prop::option::of(0..30u32)), 1..12),
        max_batch in 1..6u32,
        max_batched_items in 1..20u32,
    ) {
        let config = ChunkConfig { max_batch, max_batched_items, ..ChunkConfig::new(ITEM) };
        let mut engine = ChunkEngine::new(Echo::default(), config);
        let ids = || (0..).map(SeqId).zip(&streams);
        for (seq, &(items, bad)) in ids() {
            engine.add(seq, (), HEARD, at(0)).unwrap();
            engine.push(seq, 0..items, true);
            engine.model.bad.extend(bad.map(|bad| (seq, bad)));
        }
        let mut heard: HashMap<SeqId, Vec<u32>> = HashMap::new();
        let mut ends = HashMap::new();
        while engine.has_work(at(0)) {
            for event in engine.step(at(0)).events {
                let (seq, failed) = match event {
                    SeqEvent::Output { seq, item } => {
                        prop_assert!(!ends.contains_key(&seq), "samples after the end");
                        heard.entry(seq).or_default().extend(item.samples);
                        continue;
                    }
                    SeqEvent::Finished { seq, reason, .. } => (seq, reason != FinishReason::Stop),
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(ends.insert(seq, failed), None, "one end");
            }
        }
        prop_assert!(engine.is_empty() && engine.model.open.is_empty());
        for (seq, &(items, bad)) in ids() {
            let fails = bad.is_some_and(|bad| bad < items);
            prop_assert_eq!(ends.get(&seq), Some(&fails));
            if !fails {
                let whole: Vec<u32> = (0..2 * items).collect();
                prop_assert_eq!(heard.get(&seq), Some(&whole));
            }
        }
    }

    /// Whatever the arrivals, pauses and clock: every item is decoded once and in order, nothing is left waiting, a
    /// stream that collects always has a wake-up time.
    #[test]
    fn any_traffic_is_decoded_once_in_order(
        ops in prop::collection::vec((0..3u64, 0..5u32, 0..60u64, any::<bool>()), 1..80)
    ) {
        let mut engine = engine();
        let mut pushed = [0u32; 3];
        let mut decoded = [0u32; 3];
        (0..3).for_each(|s| {
            let unplayed_items = 2 * s as u32;
            engine.add(SeqId(s), (), StreamOptions { unplayed_items, look_ahead: 0 }, at(0)).unwrap();
        });
        let mut now = 0;
        let book = |report: StepReport<ChunkOutput<u32>>, decoded: &mut [u32; 3]| {
            for (seq, items) in chunks(&report) {
                decoded[seq as usize] += items;
            }
        };
        for (seq, items, ms, pause) in ops {
            let n = &mut pushed[seq as usize];
            engine.push(SeqId(seq), *n..*n + items, false);
            *n += items;
            engine.set_paused(SeqId(seq), pause);
            now += ms;
            book(engine.step(at(now)), &mut decoded);
        }
        (0..3).for_each(|s| engine.set_paused(SeqId(s), false));
        loop {
            if !engine.has_work(at(now)) {
                let Some(wake) = engine.wake_at() else { break };
                prop_assert!(wake > at(now));
                now = wake.0.as_millis() as u64;
            }
            book(engine.step(at(now)), &mut decoded);
        }
        // Streams that never sent anything have no deadline: their first item goes out at once.
        prop_assert_eq!(pushed, decoded);
        (0..3).for_each(|s| engine.push(SeqId(s), [], true));
        while engine.has_work(at(now)) {
            engine.step(at(now));
        }
        prop_assert!(engine.is_empty());
    }
}
