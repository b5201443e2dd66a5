//! The thinker is loaded on demand, and its problems are reported then.

use omni_models::{CheckpointSource, LoadOptions, Problem, SpeechModel};
use serde_json::json;
use tempfile::TempDir;

use crate::broken_checkpoints::{copy, edit_config, edit_tensors};
use crate::golden::{assert_close, goldens};
use crate::support::kv;
use crate::thinker_support::{ask, say, tokens};

const HEAD: &str = "thinker.lm_head.weight";
const EMBEDDING: &str = "thinker.model.embed_tokens.weight";

fn load(dir: &TempDir) -> SpeechModel {
    SpeechModel::load(CheckpointSource::Dir(dir.path().into()), LoadOptions::default())
        .expect("a checkpoint that speaks")
}

fn problems(dir: &TempDir) -> Vec<Problem> {
    let model = load(dir);
    let checked = model.check_thinker().expect_err("the thinker is broken");
    let loaded = model.load_thinker().expect_err("the thinker is broken");
    assert_eq!(checked, loaded);
    assert!(loaded.to_string().contains(&dir.path().display().to_string()));
    loaded.problems().to_vec()
}

#[test]
fn a_checkpoint_without_a_thinker_speaks_and_says_what_is_missing() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        t.retain(|k, _| !k.starts_with("thinker.") || k == EMBEDDING);
    });
    let found = problems(&dir);
    let norm = |p: &Problem| matches!(p, Problem::MissingTensor { tensor, expected, .. } if tensor == "thinker.model.norm.weight" && expected == &[48]);
    assert!(found.iter().any(norm), "{found:?}");

    edit_config(&dir, |c| {
        c["thinker_config"]["text_config"] = json!({"vocab_size": 320, "hidden_size": 48});
    });
    let found = problems(&dir);
    let layers = |p: &Problem| matches!(p, Problem::Config { field, .. } if field == "thinker_config.text_config.num_hidden_layers");
    assert!(found.iter().any(layers), "{found:?}");
}

#[test]
fn misshapen_tensors_are_told() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        let (entry, _) = t.get_mut(HEAD).expect("there");
        entry["shape"] = json!([48, 320]);
    });
    let file = || "model.safetensors".to_owned();
    let expected = [Problem::Shape {
        file: file(),
        tensor: HEAD.into(),
        expected: vec![320, 48],
        found: vec![48, 320],
    }];
    assert_eq!(problems(&dir), expected);
}

#[test]
fn layers_without_experts_are_dense() {
    for (field, value, dense) in [
        ("mlp_only_layers", json!([1]), &[1][..]),
        ("decoder_sparse_step", json!(2), &[0, 2]),
        ("num_experts", json!(0), &[0, 1, 2]),
    ] {
        let dir = copy();
        edit_config(&dir, |c| c["thinker_config"]["text_config"][field] = value);
        let found: Vec<String> = problems(&dir)
            .into_iter()
            .filter_map(|p| match p {
                Problem::MissingTensor { tensor, expected, .. } => {
                    assert!(expected == [72, 48] || expected == [48, 72], "{expected:?}");
                    Some(tensor)
                }
                _ => None,
            })
            .collect();
        let expected: Vec<String> = dense
            .iter()
            .flat_map(|layer| {
                ["gate", "up", "down"]
                    .map(|part| format!("thinker.model.layers.{layer}.mlp.{part}_proj.weight"))
            })
            .collect();
        assert_eq!(found, expected, "{field}");
    }
}

#[test]
fn a_tied_head_is_the_embedding() {
    let ids = goldens().ids("text.input_ids");
    let mut logits = Vec::new();
    for tied in [false, true] {
        let dir = copy();
        edit_tensors(&dir, |t| {
            if tied {
                t.remove(HEAD);
            } else {
                let embedding = t[EMBEDDING].clone();
                t.insert(HEAD.into(), embedding);
            }
        });
        edit_config(&dir, |c| {
            c["thinker_config"]["text_config"]["tie_word_embeddings"] = json!(tied);
        });
        let weights = load(&dir).load_thinker().expect("it loads");
        let mut thinker = weights.thinker(kv()).expect("a thinker");
        let request = omni_models::ThinkerRequest {
            logprobs: true,
            ..ask(tokens(&ids))
        };
        let reply = say(&mut thinker, 1, request, 4, u32::MAX);
        logits.push(
            reply
                .said
                .iter()
                .map(|t| t.logprob.expect("asked for"))
                .collect::<Vec<_>>(),
        );
    }
    assert_close("tied", &logits[1], &logits[0], 0.0);
    let dir = copy();
    edit_tensors(&dir, |t| drop(t.remove(HEAD)));
    assert!(
        matches!(&problems(&dir)[..], [Problem::MissingTensor { tensor, .. }] if tensor == HEAD),
        "not said to be tied"
    );
}

#[test]
fn fields_that_cannot_be_are_told() {
    for (section, field, value) in [
        ("talker_config", "accept_hidden_layer", json!(4)),
        ("talker_config", "accept_hidden_layer", json!(null)),
        ("thinker_config", "audio_token_id", json!(320)),
    ] {
        let dir = copy();
        edit_config(&dir, |c| c[section][field] = value);
        let found = problems(&dir);
        let named =
            |p: &Problem| matches!(p, Problem::Config { field: f, .. } if *f == format!("{section}.{field}"));
        assert!(found.iter().any(named), "{section}.{field}: {found:?}");
    }
    let dir = copy();
    edit_config(&dir, |c| {
        c["thinker_config"]["text_config"]["rope_scaling"]["mrope_section"] = json!([4, 2, 3]);
    });
    assert!(
        matches!(&problems(&dir)[..], [Problem::Config { field, .. }] if field.ends_with("mrope_section"))
    );
}

#[test]
fn what_callers_must_know_comes_from_the_config() {
    let weights = load(&copy()).load_thinker().expect("it loads");
    let limits = weights.limits();
    assert_eq!(
        (limits.max_positions, limits.vocab, limits.hidden),
        (4096, 320, 48)
    );
    assert_eq!(
        (limits.audio_start, limits.audio_end, limits.audio_pad),
        (283, 284, 289)
    );
}
