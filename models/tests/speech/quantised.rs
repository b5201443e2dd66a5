//! Effect of quantised weights on the next frame, after each frame of the reference.

use omni_models::{KvOptions, LoadOptions, SpeechModel, TalkerRequest, Weights};

use crate::embedded::{cases, load};
use crate::support::{open, step};

/// Predicts each frame greedily along the reference's frames; returns how many are equal.
fn kept(model: &SpeechModel, request: TalkerRequest, text: &[u32], codes: &[u32]) -> usize {
    let groups = model.limits().code_groups as usize;
    let mut talker = model.talker(KvOptions::default()).expect("a talker");
    let mut run = open(&mut talker, 1, request, text);
    let mut kept = 0;
    for frame in codes.chunks(groups) {
        step(&mut talker, &mut [&mut run], u32::MAX);
        let Some(last) = run.frames.last().filter(|_| !run.done) else {
            break;
        };
        kept += usize::from(last == frame);
        talker.replace_frame(run.seq, frame).expect("it has a frame");
    }
    kept
}

fn share(weights: Weights) -> f64 {
    let model = load(LoadOptions {
        weights,
        ..LoadOptions::default()
    });
    let groups = model.limits().code_groups as usize;
    let mut same = 0;
    let mut all = 0;
    for case in cases(&model) {
        same += kept(&model, case.request, &case.text, &case.codes);
        all += case.codes.len() / groups;
    }
    same as f64 / all as f64
}

#[test]
fn the_reference_goes_on_with_its_own_frames() {
    assert_eq!(share(Weights::Stored), 1.0);
}

/// Codes that are nearly as likely as the chosen ones are many: of the eight of a frame at least one is another in one
/// frame of nine with 8 bits. The reference's own frames were 89 and 19 of 100 (AVX512-VNNI).
#[test]
fn frames_stay_what_they_are_as_often_as_the_bits_of_the_weights_allow() {
    let eight = share(Weights::Int8);
    let four = share(Weights::Int4);
    assert!(eight > 0.85, "{eight} of the frames with 8 bits");
    assert!(four > 0.15, "{four} of the frames with 4 bits");
}
