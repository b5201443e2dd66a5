//! Steps that are asked for before the last one's frames are known, on a device that does nothing before somebody waits.

use std::collections::BTreeMap;

use omni_engine::{AddOptions, ArConfig, ArEngine, ArEvent, SeqId, Stamp};
use omni_models::{DType, Kernels, KvOptions, Sampling, SpeechModel, Talker, TalkerRequest};

use crate::support::{load, sampled};

const NOW: fn() -> Stamp = Stamp::default;

/// What every sequence said, and how it ended.
type Told = BTreeMap<u64, (Vec<Box<[u32]>>, Option<String>)>;

struct Stage {
    engine: ArEngine<Talker>,
    told: Told,
    steps: u32,
    ahead: u32,
}

impl Stage {
    /// With so few blocks that some lose theirs.
    fn new(model: &SpeechModel, blocks: u32) -> Self {
        let kv = KvOptions {
            block_size: 4,
            num_blocks: blocks,
        };
        let talker = model.talker(kv).expect("a talker");
        Self {
            engine: ArEngine::new(talker, ArConfig::default()),
            told: Told::new(),
            steps: 0,
            ahead: 0,
        }
    }

    fn add(&mut self, seq: u64, request: TalkerRequest, text: Vec<u32>, last: bool) {
        let options = AddOptions {
            needs_rows: true,
            max_outputs: request.max_frames,
            ..AddOptions::default()
        };
        let added = self.engine.add(SeqId(seq), request, options, NOW());
        added.expect("admitted");
        self.engine.push(SeqId(seq), text, last);
    }

    /// A step, and another ahead of its end if `overlaps`.
    fn step(&mut self, overlaps: bool) {
        if !self.engine.is_under_way() {
            self.engine.begin_step(NOW());
        }
        let ahead = overlaps && self.engine.begin_step_ahead(NOW(), |_| true);
        let report = self.engine.end_step(NOW);
        self.steps += 1;
        self.ahead += u32::from(ahead);
        for event in report.events {
            match event {
                ArEvent::Output { seq, item } => self.told.entry(seq.0).or_default().0.push(item.0),
                ArEvent::Finished { seq, reason, .. } => {
                    let end = &mut self.told.entry(seq.0).or_default().1;
                    assert_eq!(end.replace(format!("{reason:?}")), None, "it ends once");
                }
                _ => {}
            }
        }
    }
}

/// A repetition penalty that shows, and an end that may not come too early.
fn penalised(seed: u64, max_frames: u32) -> TalkerRequest {
    let request = sampled(seed, max_frames);
    let talker = Sampling {
        temperature: 1.3,
        repetition_penalty: 3.0,
        min_tokens: 5,
        ..request.talker
    };
    TalkerRequest { talker, ..request }
}

/// Sequences that join, wait for text, are given up and end at different times.
fn played(model: &SpeechModel, blocks: u32, overlaps: bool) -> Stage {
    let mut stage = Stage::new(model, blocks);
    let text = |from: u32| (from..from + 6).collect::<Vec<u32>>();
    stage.add(1, penalised(1, 14), text(40), true);
    stage.add(2, sampled(2, 6), text(50), true);
    stage.add(3, penalised(3, 30), vec![44, 45], false);
    for _ in 0..3 {
        stage.step(overlaps);
    }
    stage.add(4, penalised(4, 9), text(33), true);
    stage.add(5, sampled(5, 20), text(30), true);
    for _ in 0..3 {
        stage.step(overlaps);
    }
    // At the same output either way: which steps it has been in depends on the overlap.
    stage.engine.push(SeqId(3), text(60), true);
    while stage.engine.has_work() {
        stage.step(overlaps);
    }
    assert_eq!(stage.engine.len(), 0);
    stage
}

#[test]
fn frames_are_those_of_steps_in_turn() {
    let model = load(Kernels::Emulated { graphs: true }, DType::F32);
    let own = load(Kernels::Auto, DType::F32);
    for blocks in [200, 24] {
        let expected = played(&own, blocks, false);
        let turns = played(&model, blocks, false);
        let overlapped = played(&model, blocks, true);
        assert_eq!(turns.told, expected.told, "{blocks} blocks: in turn");
        assert_eq!(overlapped.told, expected.told, "{blocks} blocks: overlapped");
        assert_eq!((expected.told.len(), turns.ahead), (5, 0));
        assert!(
            2 * overlapped.ahead > overlapped.steps,
            "{blocks} blocks: {} of {} steps were begun ahead",
            overlapped.ahead,
            overlapped.steps
        );
    }
    assert_eq!(model.take_gpu_fallbacks(), [""; 0]);
}

/// What would show if a step began with something else than the last frame, or with what is brought for the next.
#[test]
fn a_sequence_given_up_under_way_leaves_the_others_as_they_are() {
    let model = load(Kernels::Emulated { graphs: true }, DType::F32);
    let alone = {
        let mut stage = Stage::new(&model, 200);
        stage.add(7, penalised(7, 16), (40..50).collect(), true);
        while stage.engine.has_work() {
            stage.step(false);
        }
        stage.told.remove(&7)
    };
    for given_up_after in 0..6 {
        let mut stage = Stage::new(&model, 200);
        stage.add(6, penalised(6, 16), (30..40).collect(), true);
        stage.add(7, penalised(7, 16), (40..50).collect(), true);
        for _ in 0..given_up_after {
            stage.step(true);
        }
        assert!(stage.engine.abort(SeqId(6)));
        stage.add(8, penalised(8, 16), (35..45).collect(), true);
        while stage.engine.has_work() {
            stage.step(true);
        }
        assert_eq!(stage.told.remove(&7), alone, "{given_up_after}");
    }
}

#[test]
fn a_talker_that_goes_away_under_way_waits_for_the_device() {
    let model = load(Kernels::Emulated { graphs: true }, DType::F32);
    let mut stage = Stage::new(&model, 200);
    stage.add(1, sampled(1, 16), (40..50).collect(), true);
    stage.step(true);
    assert!(stage.engine.is_under_way());
    drop(stage);
    let again = played(&model, 200, true);
    assert_eq!(again.told.len(), 5);
}
