//! GPU kernels on the processor: equal to the CPU's own kernels, and equal with graphs and without.

use omni_engine::{CodecFrame, SeqId};
use omni_models::testing::{codes_by_frame, decode_together, deviation, speak_together};
use omni_models::{
    CheckpointSource, DType, GpuFigures, Kernels, KvOptions, LoadOptions, SpeechModel, TalkerRequest,
};

use crate::embedded;
use crate::golden::{assert_close, goldens, tiny};
use crate::parity::check_case;
use crate::support::{Run, decode, frames, kv, load, open, request, sampled, speak, step, tokens};

fn emulated(graphs: bool) -> SpeechModel {
    load(Kernels::Emulated { graphs }, DType::F32)
}

fn figures(model: &SpeechModel) -> GpuFigures {
    model.gpu_figures().expect("a GPU computes")
}

/// Nothing was launched without its graph.
fn assert_no_fallbacks(model: &SpeechModel) {
    assert_eq!(model.take_gpu_fallbacks(), [""; 0]);
    assert_eq!(figures(model).fallbacks, 0);
}

#[test]
fn speaks_as_the_reference() {
    let g = goldens();
    for (name, graphs) in [("launched", false), ("graphs", true)] {
        let model = emulated(graphs);
        check_case(name, &model, &g, "text", "Ethan");
        check_case(name, &model, &g, "audio", "chelsie");
        assert_no_fallbacks(&model);
        assert_eq!(figures(&model).graphs > 0, graphs, "{name}");
    }
}

#[test]
fn the_embedded_voice_speaks_as_on_the_processor() {
    let model = embedded::load(LoadOptions {
        kernels: Kernels::Emulated { graphs: true },
        ..LoadOptions::default()
    });
    let case = embedded::shortest(&model);
    let mut talker = model.talker(kv()).expect("a talker");
    let codes = speak(&mut talker, 1, case.request, &case.text);
    assert_eq!(codes.concat(), case.codes);
    let mut code2wav = model.code2wav().expect("a vocoder");
    let wav = decode(&mut code2wav, 1, &frames(&codes), &[1, 2, 4, 8]);
    assert_close("wav", &wav, &case.wav, 1e-4);
    assert_no_fallbacks(&model);
}

/// Requests of different lengths.
fn requests() -> Vec<(TalkerRequest, Vec<u32>)> {
    let text: Vec<u32> = (40..60).collect();
    let request = |i: u32| (sampled(i.into(), 3 + 2 * i), text[i as usize..].to_vec());
    (0..5).map(request).collect()
}

/// A talker's frames and a vocoder's samples of sequences of different lengths that join and leave.
fn together(model: &SpeechModel) -> (Vec<Vec<Vec<u32>>>, Vec<Vec<f32>>) {
    let mut talker = model.talker(kv()).expect("a talker");
    let spoken = speak_together(&mut talker, &requests()).expect("they speak");
    let streams: Vec<Vec<CodecFrame>> = spoken.iter().map(|codes| frames(codes)).collect();
    let mut code2wav = model.code2wav().expect("a vocoder");
    let samples = decode_together(&mut code2wav, &streams, 2).expect("frames decode");
    (spoken, samples)
}

#[test]
fn graphs_change_nothing_and_a_batch_is_what_its_parts_are() {
    let own = load(Kernels::Auto, DType::F32);
    let launched = emulated(false);
    let graphs = emulated(true);
    let (expected, wav) = together(&own);
    let (codes, samples) = together(&launched);
    assert_eq!(codes, expected, "launched");
    let (with, again) = together(&graphs);
    assert_eq!(with, expected, "graphs");
    assert_eq!(
        samples, again,
        "a graph's samples are those of its launches to the last bit"
    );
    for (got, expected) in again.iter().zip(&wav) {
        assert_close("samples", got, expected, 1e-4);
    }
    // Alone every size is another one, and rounded up to none.
    let mut talker = graphs.talker(kv()).expect("a talker");
    for (i, ((request, text), expected)) in (0..).zip(requests().into_iter().zip(&expected)) {
        assert_eq!(speak(&mut talker, i, request, &text), *expected, "{i} alone");
    }
    assert_no_fallbacks(&graphs);
    let f = figures(&graphs);
    assert!(f.replays > f.graphs, "most steps are known: {f:?}");
}

#[test]
fn blocks_of_any_size_hold_the_same_keys() {
    let model = emulated(true);
    let text: Vec<u32> = (40..60).collect();
    let spoken = [4, 6, 64].map(|block_size| {
        let options = KvOptions {
            block_size,
            num_blocks: 240,
        };
        let mut talker = model.talker(options).expect("a talker");
        speak(&mut talker, 1, sampled(7, 12), &text)
    });
    assert!(spoken.iter().all(|codes| codes.len() == 12));
    // A size that is no power of two has no tables.
    assert_eq!(spoken[0], spoken[1]);
    assert_eq!(spoken[0], spoken[2]);
    assert_no_fallbacks(&model);
}

#[test]
fn a_frame_is_few_launches_and_no_more_in_a_batch() {
    let model = emulated(true);
    let mut talker = model.talker(kv()).expect("a talker");
    let text: Vec<u32> = (40..60).collect();
    let mut runs: Vec<Run> = (0..4)
        .map(|i| open(&mut talker, i, sampled(i, 12), &text))
        .collect();
    let mut per_frame = Vec::new();
    for sequences in [1, 4] {
        let mut last = None;
        for _ in 0..4 {
            let before = figures(&model);
            step(
                &mut talker,
                &mut runs.iter_mut().take(sequences).collect::<Vec<_>>(),
                u32::MAX,
            );
            let after = figures(&model);
            if after.replays == before.replays + 2 {
                assert_eq!(
                    after.launches, before.launches,
                    "a known step is two graphs and nothing else"
                );
                last = Some(after.replayed_launches - before.replayed_launches);
            }
        }
        per_frame.push(last.expect("steps repeat"));
    }
    // Two layers of 7 in the talker, 15 passes of two layers of 5 in the predictor (of 6 in the first), plus the
    // launches around them.
    assert_eq!(per_frame[0], per_frame[1]);
    assert_eq!(per_frame[0], 206, "{per_frame:?} launches");
}

#[test]
fn bf16_stays_near() {
    let half = SpeechModel::load(
        CheckpointSource::Dir(tiny()),
        LoadOptions {
            dtype: DType::Bf16,
            kernels: Kernels::Emulated { graphs: true },
            ..LoadOptions::default()
        },
    )
    .expect("the tiny checkpoint loads");
    let logits = |model: &SpeechModel| {
        let mut talker = model.talker(kv()).expect("a talker");
        let mut run = open(
            &mut talker,
            1,
            request(tokens(&[276, 263, 10, 65, 277, 10]), "ethan", 5),
            &[30, 31, 32],
        );
        step(&mut talker, &mut [&mut run], u32::MAX);
        let logits = talker.logits(SeqId(1)).expect("computed");
        step(&mut talker, &mut [&mut run], u32::MAX);
        let codes = frames(&codes_by_frame(&goldens())[..4]);
        let wav = decode(&mut model.code2wav().expect("a vocoder"), 1, &codes, &[2]);
        (logits, wav)
    };
    let (l, w) = logits(&half);
    let (expected, wav) = logits(&load(Kernels::Auto, DType::F32));
    assert!(
        deviation(&l, &expected) < 0.05,
        "logits: {}",
        deviation(&l, &expected)
    );
    assert!(deviation(&w, &wav) < 1.0, "waveform: {}", deviation(&w, &wav));
    assert_no_fallbacks(&half);
}
