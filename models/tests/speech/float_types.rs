//! bf16 and f16 compute something close to f32, and nothing that is not a number.

use omni_engine::SeqId;
use omni_models::testing::{codes_by_frame, deviation};
use omni_models::{DType, Kernels, SpeechModel};

use crate::golden::goldens;
use crate::support::{decode, frames, kv, load, open, request, step, tokens};

/// Talker logits after the prompt, and a waveform.
fn run(model: &SpeechModel) -> (Vec<f32>, Vec<f32>) {
    let mut talker = model.talker(kv()).expect("a talker");
    let mut run = open(
        &mut talker,
        1,
        request(tokens(&[276, 263, 10, 65, 277, 10]), "ethan", 5),
        &[30, 31, 32],
    );
    step(&mut talker, &mut [&mut run], u32::MAX);
    let logits = talker.logits(SeqId(1)).expect("computed");
    while !run.done {
        step(&mut talker, &mut [&mut run], u32::MAX);
    }
    let codes = frames(&codes_by_frame(&goldens()));
    (
        logits,
        decode(&mut model.code2wav().expect("a vocoder"), 1, &codes, &[8]),
    )
}

#[test]
fn half_precision_stays_near() {
    let (logits, wav) = run(&load(Kernels::Auto, DType::F32));
    for (dtype, tolerance) in [(DType::Bf16, 0.05), (DType::F16, 0.01)] {
        let (half_logits, half_wav) = run(&load(Kernels::Auto, dtype));
        assert!(
            half_logits.iter().chain(&half_wav).all(|v| v.is_finite()),
            "{dtype:?}"
        );
        let l = deviation(&half_logits, &logits);
        let w = deviation(&half_wav, &wav);
        assert!(l < tolerance, "{dtype:?}: logits deviate by {l}");
        // The random vocoder amplifies roundings, and its samples are clipped: only the order of size is expected.
        assert!(w < 20.0 * tolerance, "{dtype:?}: waveform deviates by {w}");
        assert_eq!(half_wav.len(), wav.len(), "{dtype:?}");
    }
}
