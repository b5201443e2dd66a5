//! The embedded voice equals the reference implementation with its weights: the same greedy codes and waveform, alone
//! and in a batch.

use std::path::{Path, PathBuf};

use omni_models::testing::{EmbeddedCase, deviation, embedded_cases};
use omni_models::{CheckpointSource, KvOptions, LoadOptions, SpeechModel, Weights};

use crate::golden::{assert_close, goldens_of};
use crate::support::{Run, decode, frames, open, step};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../embedded")
        .join(name)
}

pub(crate) fn load(options: LoadOptions) -> SpeechModel {
    let source = CheckpointSource::Dir(folder("checkpoint"));
    SpeechModel::load(source, options).expect("the embedded checkpoint loads")
}

/// The sentence with the fewest frames.
pub(crate) fn shortest(model: &SpeechModel) -> EmbeddedCase {
    let cases = cases(model).into_iter();
    cases.min_by_key(|case| case.codes.len()).expect("a sentence")
}

pub(crate) fn cases(model: &SpeechModel) -> Vec<EmbeddedCase> {
    let folder = folder("checkpoint-goldens");
    let described = std::fs::read(folder.join("goldens.json")).expect("read");
    embedded_cases(model, &goldens_of(&folder), &described)
}

#[test]
fn speaks_as_the_reference_alone_and_together() {
    let model = load(LoadOptions::default());
    let cases = cases(&model);
    let mut talker = model
        .talker(KvOptions {
            block_size: 16,
            num_blocks: 400,
        })
        .expect("a talker");
    let mut runs: Vec<Run> = (0..)
        .zip(&cases)
        .map(|(i, c)| open(&mut talker, i, c.request.clone(), &c.text))
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

/// Rounding of both factors to 8 bits of mantissa is noise far below the signal.
#[test]
fn products_of_rounded_factors_stay_near_the_reference() {
    let model = load(LoadOptions {
        weights: Weights::RoundedProducts,
        ..LoadOptions::default()
    });
    let groups = model.limits().code_groups as usize;
    let mut code2wav = model.code2wav().expect("a vocoder");
    for case in cases(&model) {
        let codes: Vec<_> = case.codes.chunks(groups).map(<[u32]>::to_vec).collect();
        let wav = decode(&mut code2wav, 1, &frames(&codes), &[1, 2, 4, 8]);
        let apart = deviation(&wav, &case.wav);
        assert!(apart < 6e-3, "{}: {apart}", case.sentence);
    }
}
