//! The audio encoder against the reference, and the whole way from sound to sound.

use std::sync::Arc;

use omni_engine::{ModelError, OneShotModel, SeqId, Sequences};
use omni_models::{
    AudioEncoder, AudioError, CheckpointSource, DType, Kernels, LoadOptions, Message, MessagePart, Problem,
    Role, SpeechModel, ThinkerRequest,
};
use serde_json::json;
use tempfile::TempDir;

use crate::broken_checkpoints::{copy, edit_config, edit_tensors};
use crate::golden::{assert_close, goldens};
use crate::support::{all, both, decode, frames, kv, load, open, request, step};
use crate::thinker_support::{HIDDEN, ask, say};

fn encoder(model: &SpeechModel) -> AudioEncoder {
    model.load_audio_encoder().expect("the encoder loads")
}

#[test]
fn the_spectrogram_is_the_references() {
    let goldens = goldens();
    let encoder = encoder(&load(Kernels::Auto, DType::F32));
    let mel = encoder.log_mel(&goldens.floats("audio.wav16k")).expect("audio");
    let bands = goldens.floats("audio.input_features");
    let frames = bands.len() / 128;
    let expected: Vec<f32> = (0..frames)
        .flat_map(|t| (0..128).map(move |band| (t, band)))
        .map(|(t, band)| bands[band * frames + t])
        .collect();
    assert_close("log-mel", &mel, &expected, 1e-4);
}

#[test]
fn rows_are_the_references_with_windows() {
    let goldens = goldens();
    for (name, model) in all() {
        let encoder = encoder(&model);
        let wav = goldens.floats("audio.wav16k");
        let rows = encoder.encode(&wav).expect("audio");
        assert_close(name, &rows, &goldens.floats("audio.embeds_windowed"), 1e-4);
        assert_eq!(
            encoder.limits().rows_of(wav.len()) * encoder.limits().width(),
            rows.len()
        );
    }
}

#[test]
fn any_length_gives_as_many_rows_as_it_says() {
    let goldens = goldens();
    let wav = goldens.floats("audio.wav16k");
    for (name, model) in both() {
        let encoder = encoder(&model);
        for (samples, rows) in [
            (160, 1),
            (170, 1),
            (1_440, 2),
            (15_999, 13),
            (16_000, 13),
            (16_160, 14),
            (48_000, 39),
        ] {
            let encoded = encoder.encode(&wav[..samples]).expect("audio");
            assert_eq!(
                (encoded.len() / HIDDEN, encoder.limits().rows_of(samples)),
                (rows, rows),
                "{name}, {samples} samples"
            );
        }
    }
}

#[test]
fn windows_of_whole_chunks_do_not_see_each_other() {
    let encoder = encoder(&load(Kernels::Auto, DType::F32));
    // Two windows of two seconds; the second one's samples are changed. The loudest moment, which scales everything, is
    // in the first.
    let loudness = |i: usize| if i < 16_000 { 0.9 } else { 0.3 };
    let tone: Vec<f32> = (0..64_000)
        .map(|i| (i as f32 * 0.05).sin() * loudness(i))
        .collect();
    let mut changed = tone.clone();
    changed[33_000..].iter_mut().for_each(|s| *s *= 0.7);
    let [a, b] = [tone, changed].map(|wav| encoder.encode(&wav).expect("audio"));
    let window = 26 * HIDDEN;
    assert_close("the first window", &a[..window], &b[..window], 1e-6);
    assert!(a[window..] != b[window..], "the second window changed");
}

#[test]
fn audio_that_cannot_be_encoded_is_told() {
    let dir = copy();
    let preprocessor = json!({"feature_size": 128, "n_samples": 32_000});
    std::fs::write(
        dir.path().join("preprocessor_config.json"),
        preprocessor.to_string(),
    )
    .expect("written");
    let encoder = encoder(&load_dir(&dir));
    assert_eq!(encoder.limits().max_samples(), 32_000);
    let cases = [
        (
            vec![0.0; 159],
            AudioError::TooShort {
                found: 159,
                least: 160,
            },
        ),
        (
            vec![0.0; 32_001],
            AudioError::TooLong {
                found: 32_001,
                most: 32_000,
            },
        ),
    ];
    for (samples, expected) in cases {
        assert_eq!(encoder.encode(&samples).expect_err("no rows"), expected);
    }
    let mut broken = vec![0.0; 1000];
    broken[7] = f32::NAN;
    assert_eq!(
        encoder.encode(&broken).expect_err("no rows"),
        AudioError::NotFinite { index: 7 }
    );
    let silence = encoder.encode(&[0.0; 16_000]).expect("silence is audio");
    assert!(silence.iter().all(|v| v.is_finite()));
}

#[test]
fn the_encoder_answers_each_request_of_a_batch() {
    let goldens = goldens();
    let mut encoder = encoder(&load(Kernels::Auto, DType::F32));
    let long: Arc<[f32]> = goldens.floats("audio.wav16k").into();
    let short: Arc<[f32]> = long[..8000].into();
    let silent: Arc<[f32]> = Vec::new().into();
    assert_eq!(encoder.cost(&long).expect("it can be served"), 330);
    assert!(matches!(encoder.cost(&silent), Err(ModelError::Rejected(_))));
    let batch = [(SeqId(1), &long), (SeqId(2), &silent), (SeqId(3), &short)];
    let answers = encoder.run(&batch).expect("it runs");
    assert_eq!(answers[0], Ok(vec![encoder.encode(&long).expect("audio")]));
    assert!(
        answers[1].as_ref().is_err_and(|e| e.contains("0 samples")),
        "{answers:?}"
    );
    assert_eq!(answers[2], Ok(vec![encoder.encode(&short).expect("audio")]));
}

fn load_dir(dir: &TempDir) -> SpeechModel {
    SpeechModel::load(CheckpointSource::Dir(dir.path().into()), LoadOptions::default()).expect("it speaks")
}

#[test]
fn flaws_of_the_encoder_are_told_when_it_is_asked_for() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        t.remove("thinker.audio_tower.ln_post.bias");
        let extra = t["thinker.audio_tower.ln_post.weight"].clone();
        t.insert("thinker.audio_tower.surplus".into(), extra);
    });
    let model = load_dir(&dir);
    model.check_thinker().expect("the text model is whole");
    let error = model.load_audio_encoder().expect_err("broken");
    assert_eq!(model.audio_limits(), Err(error.clone()));
    assert!(
        matches!(error.problems(), [Problem::MissingTensor { .. }]),
        "{error}"
    );
    for (field, value) in [
        ("d_model", json!(30)),
        ("output_dim", json!(47)),
        ("n_window_infer", json!(250)),
    ] {
        let dir = copy();
        edit_config(&dir, |c| c["thinker_config"]["audio_config"][field] = value);
        let error = load_dir(&dir).audio_limits().expect_err("contradictory");
        let named = |p: &Problem| matches!(p, Problem::Config { field: f, .. } if f.ends_with(field));
        assert!(error.problems().iter().any(named), "{field}: {error}");
    }
}

/// From the question's samples to the answer's: encoder, chat template, thinker, talker, vocoder.
#[test]
fn a_spoken_question_is_answered_as_by_the_reference() {
    let goldens = goldens();
    for (name, model) in both() {
        let rows = encoder(&model)
            .encode(&goldens.floats("audio.wav16k"))
            .expect("audio");
        let parts = vec![MessagePart::Audio, MessagePart::Text("What?".into())];
        let question = Message {
            role: Role::User,
            parts,
        };
        let template = model.chat_template().expect("a template");
        let prompt = template.render(&[question]).expect("a prompt");

        let expected = goldens.ids("audio.gen_ids");
        let weights = model.load_thinker().expect("the thinker loads");
        let mut thinker = weights.thinker(kv()).expect("a thinker");
        let asked = ThinkerRequest {
            export_hidden: true,
            ..ask(prompt
                .thinker_prompt(std::slice::from_ref(&rows))
                .expect("one audio"))
        };
        let reply = say(&mut thinker, 1, asked, expected.len(), 16);
        assert_eq!(reply.ids(), expected, "{name}");

        let hidden = reply.said[0].hidden.as_ref().expect("asked for");
        let heard = prompt
            .talker_prompt(&[rows.len() / HIDDEN], hidden)
            .expect("rows");
        let codes = goldens.ids("audio.codes");
        let count = u32::try_from(codes.len() / 16).expect("few frames");
        let mut talker = model.talker(kv()).expect("a talker");
        // The last token is never fed to the thinker, so the reference does not speak it.
        let text = &expected[..expected.len() - 1];
        let mut run = open(&mut talker, 1, request(heard.user, "chelsie", count), text);
        while !run.done {
            step(&mut talker, &mut [&mut run], u32::MAX);
        }
        talker.close(SeqId(1));
        assert_eq!(run.frames.concat(), codes, "{name}");
        let mut code2wav = model.code2wav().expect("a vocoder");
        let wav = decode(&mut code2wav, 1, &frames(&run.frames), &[4, 3]);
        assert_close(name, &wav, &goldens.floats("audio.wav"), 1e-4);
    }
}
