//! Equal to the reference implementation: rows, logits, hidden states, codes, waveform.

use std::path::Path;

use omni_models::testing::{Goldens, Heard, Prompted, Run, codes_by_frame, step, tiny_prompt};
use omni_models::{CheckpointSource, Kernels, LoadOptions, SpeechModel};

use crate::golden::{assert_close, goldens, goldens_of, tiny};
use crate::support::{both, decode, frames, greedy, kv};

const TOLERANCE: f32 = 1e-4;

/// Checks a model's outputs for a prompt against those of the reference.
pub(crate) fn check_case(kernels: &str, model: &SpeechModel, g: &Goldens, name: &str, speaker: &str) {
    let heard = Heard::of(model, &tiny_prompt(g, name, speaker)).expect("it speaks");
    for (part, got) in [
        ("talker.prefill_embeds", &heard.prompt),
        ("talker.logits", &heard.logits),
        ("talker.hidden", &heard.hidden),
        ("talker.step_embeds", &heard.inputs),
        ("wav", &heard.wav),
    ] {
        let expected = g.floats(&format!("{name}.{part}"));
        assert_close(&format!("{kernels} {name}.{part}"), got, &expected, TOLERANCE);
    }
    assert_eq!(heard.codes, g.ids(&format!("{name}.codes")), "{kernels} {name}");
    let groups = model.limits().code_groups as usize;
    assert_eq!(heard.wav.len(), model.samples_of(heard.codes.len() / groups));
}

#[test]
fn text_and_audio_prompts_speak_as_the_reference() {
    let g = goldens();
    for (kernels, model) in &both() {
        check_case(kernels, model, &g, "text", "Ethan");
        check_case(kernels, model, &g, "audio", "chelsie");
    }
}

#[test]
fn the_reference_ended_the_text_case_by_itself() {
    let g = goldens();
    for (kernels, model) in &both() {
        let Prompted { mut request, text } = tiny_prompt(&g, "text", "ethan");
        request.max_frames = 1000;
        let mut talker = model.talker(kv()).expect("a talker");
        let spoken = crate::support::speak(&mut talker, 1, request, &text);
        assert_eq!(spoken.concat(), g.ids("text.codes"), "{kernels}");
    }
}

#[test]
fn the_predictors_logits_behind_the_codes_of_a_frame_are_the_references() {
    let g = goldens();
    let expected = g.floats("text.pred.logits");
    let Prompted { request, text } = tiny_prompt(&g, "text", "ethan");
    for (kernels, model) in &both() {
        let groups = model.limits().code_groups as usize;
        let mut talker = model.talker(kv()).expect("a talker");
        let mut run = Run::open(&mut talker, 1, request.clone(), &text).expect("a sequence");
        let mut got = Vec::new();
        for _ in 0..3 {
            step(&mut talker, &mut [&mut run], u32::MAX).expect("a frame");
            let frame = run.frames.last().expect("a frame").clone();
            for known in 1..groups {
                got.extend(talker.predictor_logits(run.seq, &frame[..known]).expect("logits"));
            }
        }
        assert_close(kernels, &got, &expected[..got.len()], TOLERANCE);
        for wrong in [0, groups] {
            assert!(
                talker.predictor_logits(run.seq, &vec![0; wrong]).is_err(),
                "{wrong} codes"
            );
        }
    }
}

#[test]
fn repetition_penalty_counts_in_the_reference() {
    // Without the penalty the greedy choice differs, so the parity above has tested it.
    let g = goldens();
    let model = &both()[0].1;
    let Prompted { mut request, text } = tiny_prompt(&g, "audio", "chelsie");
    request.talker = omni_models::Sampling {
        repetition_penalty: 3.0,
        ..greedy()
    };
    let mut talker = model.talker(kv()).expect("a talker");
    let spoken = crate::support::speak(&mut talker, 1, request, &text);
    assert_ne!(spoken.concat(), g.ids("audio.codes"));
}

#[test]
fn code2wav_gives_the_reference_waveform() {
    let g = goldens();
    let codes = codes_by_frame(&g);
    for (kernels, model) in &both() {
        let mut code2wav = model.code2wav().expect("a vocoder");
        let wav = decode(&mut code2wav, 3, &frames(&codes), &[codes.len()]);
        assert_close(
            &format!("{kernels} c2w"),
            &wav,
            &g.floats("c2w.wav_full"),
            TOLERANCE,
        );
    }
}

/// Other checkpoints with goldens can be checked by naming their directories in `OMNI_PARITY_DIRS`.
#[test]
fn further_checkpoints_speak_as_the_reference() {
    let dirs = std::env::var("OMNI_PARITY_DIRS").unwrap_or_default();
    for dir in dirs
        .split(':')
        .filter(|d| !d.is_empty())
        .chain([tiny().to_str().expect("a plain path")])
    {
        let (dir, g) = (Path::new(dir), goldens_of(Path::new(dir)));
        for kernels in [Kernels::Auto, Kernels::Candle] {
            let options = LoadOptions {
                kernels,
                ..LoadOptions::default()
            };
            let model = SpeechModel::load(CheckpointSource::Dir(dir.into()), options).expect("it loads");
            check_case(&format!("{dir:?} {kernels:?}"), &model, &g, "text", "ethan");
            check_case(&format!("{dir:?} {kernels:?}"), &model, &g, "audio", "chelsie");
        }
    }
}
