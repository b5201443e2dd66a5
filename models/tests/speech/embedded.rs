//! The embedded voice says what the reference implementation says with its weights: the same codes, greedily, and the
//! same waveform; alone and with the other sentences beside it.

use std::path::{Path, PathBuf};

use omni_models::{CheckpointSource, KvOptions, LoadOptions, Sampling, SpeechModel, TalkerRequest};
use serde_json::Value;

use crate::golden::{Goldens, assert_close};
use crate::support::{Run, decode, frames, greedy, step, tokens};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("embedded").join(name)
}

pub(crate) struct Case {
    pub(crate) request: TalkerRequest,
    pub(crate) text: Vec<u32>,
    pub(crate) codes: Vec<u32>,
    pub(crate) wav: Vec<f32>,
}

pub(crate) fn load(options: LoadOptions) -> SpeechModel {
    let source = CheckpointSource::Dir(folder("checkpoint"));
    SpeechModel::load(source, options).expect("the embedded checkpoint loads")
}

/// The sentence with the fewest frames.
pub(crate) fn shortest(model: &SpeechModel) -> Case {
    let g = Goldens::from(&folder("checkpoint-goldens"));
    let cases = cases(model, &g).into_iter();
    cases.min_by_key(|case| case.codes.len()).expect("a sentence")
}

/// The sentences of `goldens.json`, each a chat of an empty user turn and the text.
fn cases(model: &SpeechModel, g: &Goldens) -> Vec<Case> {
    let path = folder("checkpoint-goldens/goldens.json");
    let described: Value = serde_json::from_slice(&std::fs::read(path).expect("read")).expect("JSON");
    let max = described["max_frames"]
        .as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .expect("a limit");
    let penalty = described["repetition_penalty"].as_f64().expect("a penalty") as f32;
    let case = |(i, case): (usize, &Value)| {
        let ids = g.ids(&format!("{i}.input_ids"));
        let user = model.user_turn("").expect("text");
        let text = model
            .tokenizer()
            .encode(case["text"].as_str().expect("a text"))
            .expect("text");
        assert!(
            ids.starts_with(&user) && ids.ends_with(&text),
            "the prompt is the reference's"
        );
        let request = TalkerRequest {
            user: tokens(&user),
            speaker: case["voice"].as_str().expect("a voice").into(),
            talker: Sampling {
                repetition_penalty: penalty,
                ..greedy()
            },
            predictor: Sampling {
                repetition_penalty: 1.0,
                ..greedy()
            },
            seed: 0,
            max_frames: max,
        };
        Case {
            request,
            text,
            codes: g.ids(&format!("{i}.codes")),
            wav: g.floats(&format!("{i}.wav")),
        }
    };
    described["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .enumerate()
        .map(case)
        .collect()
}

#[test]
fn speaks_as_the_reference_alone_and_together() {
    let model = load(LoadOptions::default());
    let g = Goldens::from(&folder("checkpoint-goldens"));
    let cases = cases(&model, &g);
    let mut talker = model
        .talker(KvOptions {
            block_size: 16,
            num_blocks: 400,
        })
        .expect("a talker");
    let mut runs: Vec<Run> = (0..)
        .zip(&cases)
        .map(|(i, c)| Run::open(&mut talker, i, c.request.clone(), &c.text))
        .collect();
    while runs.iter().any(|r| !r.done) {
        step(
            &mut talker,
            &mut runs.iter_mut().filter(|r| !r.done).collect::<Vec<_>>(),
            u32::MAX,
        );
    }
    let mut code2wav = model.code2wav().expect("a vocoder");
    for (run, case) in runs.iter().zip(&cases) {
        assert_eq!(run.frames.concat(), case.codes, "sentence {}", run.seq.0);
        let mut single = model.talker(KvOptions::default()).expect("a talker");
        let alone = crate::support::speak(&mut single, run.seq.0, case.request.clone(), &case.text);
        assert_eq!(alone, run.frames, "sentence {} alone", run.seq.0);
        for sizes in [&[alone.len()][..], &[1, 2, 4, 8]] {
            let wav = decode(&mut code2wav, run.seq.0, &frames(&alone), sizes);
            assert_close(&format!("sentence {}", run.seq.0), &wav, &case.wav, 1e-4);
        }
    }
}
