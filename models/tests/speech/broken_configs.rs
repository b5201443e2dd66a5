//! Every flaw of a configuration is an error that names it, all flaws at once.

use std::fs;

use omni_models::Problem;
use serde_json::{Value, json};

use crate::broken_checkpoints::{copy, edit_config, load, problems};

/// A change of the config.
type Edit = fn(&mut Value);

#[test]
fn a_config_that_contradicts_the_tensors_names_them() {
    let dir = copy();
    edit_config(&dir, |c| {
        c["talker_config"]["text_config"]["num_experts"] = json!(9);
    });
    let found = problems(&dir);
    let missing = found
        .iter()
        .filter(|p| matches!(p, Problem::MissingTensor { tensor, .. } if tensor.contains("experts.8")));
    assert_eq!(
        missing.count() % 3,
        0,
        "three tensors per expert and layer: {found:?}"
    );
    let router = |p: &Problem| matches!(p, Problem::Shape { expected, found, .. } if expected == &[9, 32] && found == &[8, 32]);
    assert!(found.iter().any(router), "{found:?}");
}

#[test]
fn fields_that_are_missing_or_impossible_are_told_together() {
    let dir = copy();
    edit_config(&dir, |c| {
        c["talker_config"]["text_config"]["hidden_size"] = Value::Null;
        c["talker_config"]["code_predictor_config"]["num_attention_heads"] = json!("four");
        c["code2wav_config"]["upsample_rates"] = json!([8, 0]);
        c["tts_eos_token_id"] = json!(320);
        c["talker_config"]["text_config"]["use_sliding_window"] = json!(true);
        c["talker_config"]["speaker_id"]["ethan"] = json!(5000);
    });
    let fields: Vec<String> = problems(&dir)
        .into_iter()
        .map(|p| {
            if let Problem::Config { field, .. } = p {
                field
            } else {
                panic!("{p:?}")
            }
        })
        .collect();
    for expected in [
        "talker_config.text_config.hidden_size",
        "talker_config.code_predictor_config.num_attention_heads",
        "code2wav_config.upsample_rates",
        "tts_eos_token_id",
        "talker_config.text_config.use_sliding_window",
        "talker_config.speaker_id",
    ] {
        assert!(
            fields.iter().any(|f| f == expected),
            "{expected} is not among {fields:?}"
        );
    }
}

#[test]
fn fields_that_contradict_each_other_are_told() {
    let cases: [(Edit, &str); 5] = [
        (
            |c| c["code2wav_config"]["num_quantizers"] = json!(8),
            "code2wav_config.num_quantizers",
        ),
        (
            |c| c["talker_config"]["thinker_hidden_size"] = json!(64),
            "talker_config.thinker_hidden_size",
        ),
        (
            |c| c["talker_config"]["code_predictor_config"]["num_code_groups"] = json!(4),
            "talker_config.code_predictor_config.num_code_groups",
        ),
        (
            |c| c["code2wav_config"]["decoder_dim"] = json!(40),
            "code2wav_config.decoder_dim",
        ),
        (
            |c| c["code2wav_config"]["codebook_size"] = json!(32),
            "talker_config.text_config.vocab_size",
        ),
    ];
    for (edit, expected) in cases {
        let dir = copy();
        edit_config(&dir, edit);
        let found = problems(&dir);
        let named = |p: &Problem| matches!(p, Problem::Config { field, .. } if field == expected);
        assert!(found.iter().any(named), "{expected}: {found:?}");
    }
}

#[test]
fn sizes_that_no_model_has_are_errors_and_not_allocations() {
    let huge = || json!(u32::MAX);
    let cases: [(&str, Value, &str); 12] = [
        ("talker_config.text_config", huge(), "num_hidden_layers"),
        ("talker_config.text_config", huge(), "num_experts"),
        ("talker_config.text_config", json!(1000), "num_experts"),
        ("talker_config.text_config", json!(1e-60), "rms_norm_eps"),
        ("talker_config.text_config", json!(1e60), "rope_theta"),
        ("talker_config", huge(), "num_code_groups"),
        (
            "talker_config.code_predictor_config",
            huge(),
            "num_attention_heads",
        ),
        ("code2wav_config", huge(), "sliding_window"),
        ("code2wav_config", huge(), "head_dim"),
        ("code2wav_config", huge(), "decoder_dim"),
        (
            "code2wav_config",
            json!([1024, 1024, 1024, 1024]),
            "upsample_rates",
        ),
        ("code2wav_config", json!(vec![1; 1000]), "upsampling_ratios"),
    ];
    for (section, value, field) in cases {
        let dir = copy();
        edit_config(&dir, |c| {
            if value == json!(1000) {
                c["talker_config"]["text_config"]["num_hidden_layers"] = json!(500);
            }
            section.split('.').fold(c, |v, k| &mut v[k])[field] = value.clone();
        });
        let found = problems(&dir);
        let named = |p: &Problem| matches!(p, Problem::Config { field: f, .. } if f.contains(section) && f.contains(field));
        assert!(found.iter().any(named), "{section}.{field} = {value}: {found:?}");
    }
}

#[test]
fn sampling_defaults_out_of_range_are_told() {
    let dir = copy();
    let content = r#"{"talker_top_p": 0.0, "thinker_repetition_penalty": -1.0}"#;
    fs::write(dir.path().join("generation_config.json"), content).expect("written");
    match &problems(&dir)[..] {
        [talker, thinker] => {
            assert!(
                talker
                    .to_string()
                    .contains("generation_config.json: talker_*: top_p is 0"),
                "{talker}"
            );
            assert!(
                thinker
                    .to_string()
                    .contains("thinker_*: repetition_penalty is -1"),
                "{thinker}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_newer_spelling_of_the_config_loads_the_same() {
    let dir = copy();
    edit_config(&dir, |c| {
        for part in [
            "talker_config.text_config",
            "talker_config.code_predictor_config",
            "code2wav_config",
        ] {
            let section = part
                .split('.')
                .fold(&mut *c, |v, k| &mut v[k])
                .as_object_mut()
                .expect("an object");
            let theta = section.remove("rope_theta").expect("there");
            section.remove("rope_scaling");
            section.insert(
                "rope_parameters".into(),
                json!({"rope_theta": theta, "rope_type": "default"}),
            );
            if let Some(experts) = section.remove("num_experts") {
                section.insert("num_local_experts".into(), experts);
            }
        }
    });
    load(&dir).expect("both spellings load");
}
