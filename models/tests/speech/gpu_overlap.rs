//! Steps queued before the previous frames are known, on a device that runs nothing before a caller waits.

use std::collections::BTreeMap;

use omni_engine::{AddOptions, ArConfig, ArEngine, CodecFrame, SeqEvent, SeqId, Stamp};
use omni_models::testing::decode_together;
use omni_models::{DType, Kernels, KvOptions, Sampling, SpeechModel, Talker, TalkerRequest};

use crate::golden::assert_close;
use crate::support::{load, sampled};

const NOW: fn() -> Stamp = Stamp::default;

/// Frames of every sequence, and its error.
type Told = BTreeMap<u64, (Vec<Box<[u32]>>, Option<String>)>;

struct Stage {
    engine: ArEngine<Talker>,
    told: Told,
    steps: u32,
    ahead: u32,
}

impl Stage {
    /// `blocks` may be so few that sequences are preempted.
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

    /// It may have more outputs than it has frames, so that the talker ends it.
    fn add(&mut self, seq: u64, request: TalkerRequest, text: Vec<u32>, last: bool) {
        let options = AddOptions {
            needs_rows: true,
            max_outputs: request.max_frames + seq as u32 % 2,
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
                SeqEvent::Output { seq, item } => self.told.entry(seq.0).or_default().0.push(item.0),
                SeqEvent::Finished { seq, reason, .. } => {
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

/// Sequences that join, wait for text, are cancelled and end at different times.
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
    stage.engine.push(SeqId(3), text(60), true);
    stage.add(6, sampled(6, 20), text(30), false);
    for _ in 0..2 {
        stage.step(overlaps);
    }
    // Only its text pauses in the middle of a step.
    assert!(stage.engine.is_under_way() == overlaps || blocks < 200);
    stage.engine.push(SeqId(6), vec![u32::MAX], true);
    while stage.engine.has_work() {
        stage.step(overlaps);
    }
    assert_eq!(stage.engine.len(), 0);
    // How far it came depends on the overlap.
    let broken = stage.told.remove(&6).expect("it ended");
    assert!(broken.1.expect("an end").contains("does not exist"));
    stage
}

/// A device that runs everything at once shows a write that comes too early; a late one shows a read that comes too
/// late.
#[test]
fn frames_are_those_of_steps_in_turn() {
    let own = load(Kernels::Auto, DType::F32);
    let expected = [200, 24].map(|blocks| (blocks, played(&own, blocks, false).told));
    let late = load(Kernels::EmulatedLate, DType::F32);
    let at_once = load(Kernels::Emulated { graphs: true }, DType::F32);
    let turns = played(&late, 200, false);
    assert_eq!((&turns.told, turns.ahead), (&expected[0].1, 0), "in turn");
    for (model, (blocks, expected)) in [
        (&late, &expected[0]),
        (&late, &expected[1]),
        (&at_once, &expected[0]),
    ] {
        let overlapped = played(model, *blocks, true);
        assert_eq!(overlapped.told, *expected, "{blocks} blocks");
        assert_eq!(overlapped.told.len(), 5);
        let ahead = overlapped.ahead;
        let steps = overlapped.steps;
        assert!(
            2 * ahead > steps,
            "{blocks} blocks: {ahead} of {steps} steps were begun ahead"
        );
        assert_eq!(model.take_gpu_fallbacks(), [""; 0]);
    }
}

/// Fails if a step begins with another frame than the last one, or with the upload of the next step.
#[test]
fn a_sequence_given_up_under_way_leaves_the_others_as_they_are() {
    let model = load(Kernels::EmulatedLate, DType::F32);
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

/// The device complains of host memory that is given back while it is used.
#[test]
fn a_talker_can_go_away_with_steps_under_way() {
    let model = load(Kernels::EmulatedLate, DType::F32);
    let mut stage = Stage::new(&model, 200);
    stage.add(1, sampled(1, 16), (40..50).collect(), true);
    stage.step(true);
    assert!(stage.engine.is_under_way());
    drop(stage);
    let again = played(&model, 200, true);
    assert_eq!(again.told.len(), 5);
}

/// As many frames of as many streams as need several passes, each queued before the previous one is waited for; the
/// shorter streams are not in all of them.
#[test]
fn samples_of_several_passes_are_those_of_one_after_another() {
    let stream = |(i, len): (u32, u32)| {
        let frame = |t: u32| CodecFrame((0..16).map(|q| (i * 7 + t * 31 + q * 17) % 64).collect());
        (0..len).map(frame).collect()
    };
    let streams: Vec<Vec<CodecFrame>> = (0..).zip([6, 40, 75]).map(stream).collect();
    let kinds = [
        Kernels::EmulatedLate,
        Kernels::Emulated { graphs: true },
        Kernels::Auto,
    ];
    let [late, at_once, own] = kinds.map(|kernels| {
        let model = load(kernels, DType::F32);
        let mut code2wav = model.code2wav().expect("a vocoder");
        let decoded = decode_together(&mut code2wav, &streams, 75).expect("frames decode");
        assert_eq!(model.take_gpu_fallbacks(), [""; 0]);
        decoded
    });
    assert!(
        late == at_once,
        "it shows when the device does what it is asked for"
    );
    for (got, expected) in late.iter().zip(&own) {
        assert_close("samples", got, expected, 1e-4);
    }
}
