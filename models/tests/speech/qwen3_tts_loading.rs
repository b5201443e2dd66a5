//! Detection of a directory's family, and error messages for all its problems, with hints.

use std::fs;
use std::path::Path;

use omni_models::testing::{TINY_TTS, TINY_TTS_BASE};
use omni_models::{CheckpointSource, DType, LoadError, LoadOptions, Problem, SpeechModel, counted_floor};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::broken_checkpoints::edit_tensors_of;

/// The tiny checkpoint as a directory.
fn copy() -> TempDir {
    copy_of(TINY_TTS)
}

fn copy_of(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("speech_tokenizer")).expect("a folder");
    for (name, content) in files {
        fs::write(dir.path().join(name), content).expect("written");
    }
    dir
}

fn error(dir: &TempDir) -> LoadError {
    let source = CheckpointSource::Dir(dir.path().into());
    SpeechModel::load(source, LoadOptions::default()).expect_err("the checkpoint is broken")
}

fn edit(dir: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = dir.join(file);
    let mut config = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    change(&mut config);
    fs::write(path, config.to_string()).expect("written");
}

#[test]
fn the_copy_loads() {
    let dir = copy();
    let source = CheckpointSource::Dir(dir.path().into());
    SpeechModel::load(source, LoadOptions::default()).expect("it loads");
}

#[test]
fn a_family_that_is_not_served_is_one_error_that_names_those_that_are() {
    let dir = copy();
    for (model_type, found) in [(json!("llama"), "\"llama\""), (json!(null), "nothing")] {
        edit(dir.path(), "config.json", |c| c["model_type"] = model_type);
        let error = error(&dir);
        assert_eq!(error.problems().len(), 1, "{error}");
        let expected = format!(
            "config.json: model_type: is {found}, served are \"qwen3_omni_moe\" (Qwen3-Omni), \"qwen3_tts\" (Qwen3-TTS)"
        );
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

#[test]
fn missing_files_are_told_together_with_the_command_that_fetches_them() {
    let dir = copy();
    let gone = [
        "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors",
        "merges.txt",
    ];
    for file in gone {
        fs::remove_file(dir.path().join(file)).expect("removed");
    }
    let error = error(&dir);
    let expected = gone.map(|file| Problem::MissingFile { file: file.into() });
    assert_eq!(error.problems(), expected);
    // By the tiny configuration's own description.
    let command = format!(
        "hf download Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice --local-dir {}",
        dir.path().display()
    );
    assert!(error.to_string().ends_with(&command), "{error}");
}

#[test]
fn an_empty_directory_names_every_file_and_the_smallest_checkpoint() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = error(&dir);
    assert_eq!(
        error.problems()[0],
        Problem::MissingFile {
            file: "config.json".into()
        }
    );
    assert!(
        error
            .to_string()
            .contains("hf download Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"),
        "{error}"
    );
}

#[test]
fn a_download_that_was_cut_off_names_the_command_too() {
    let dir = copy();
    let path = dir.path().join("speech_tokenizer/model.safetensors");
    let content = fs::read(&path).expect("read");
    fs::write(&path, &content[..content.len() / 2]).expect("written");
    let error = error(&dir);
    assert!(
        matches!(error.problems(), [Problem::Truncated { file, .. }] if file == "speech_tokenizer/model.safetensors")
    );
    assert!(error.to_string().contains("hf download"), "{error}");
}

#[test]
fn what_stands_in_the_place_of_a_file_names_the_command_too() {
    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 914643008\n";
    for (file, content, says) in [
        ("model.safetensors", POINTER, "is a Git LFS pointer"),
        (
            "speech_tokenizer/model.safetensors",
            POINTER,
            "is a Git LFS pointer",
        ),
        ("model.safetensors", "<html>Not found</html>", "its header claims"),
        ("config.json", "{\"model_type\": \"qwen3", "not JSON"),
    ] {
        let dir = copy();
        fs::write(dir.path().join(file), content).expect("written");
        let error = error(&dir).to_string();
        assert!(error.contains(&format!("{file}: {says}")), "{error}");
        assert!(error.contains("hf download Qwen/Qwen3-TTS"), "{error}");
    }
}

#[test]
fn configurations_that_contradict_each_other_name_both_fields() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 9] = [
        (
            "config.json",
            |c| c["tts_model_type"] = json!("duet"),
            "tts_model_type",
        ),
        (
            "config.json",
            |c| c["tts_model_size"] = json!("9b"),
            "tts_model_size",
        ),
        (
            "config.json",
            |c| c["talker_config"]["spk_id"] = json!({}),
            "talker_config.spk_id",
        ),
        (
            "config.json",
            |c| c["talker_config"]["spk_is_dialect"]["eric"] = json!("pirate"),
            "talker_config.spk_is_dialect",
        ),
        (
            "config.json",
            |c| c["talker_config"]["codec_language_id"]["english"] = json!(4000),
            "talker_config.codec_language_id",
        ),
        (
            "config.json",
            |c| c["talker_config"]["text_vocab_size"] = json!(200),
            "im_start_token_id",
        ),
        (
            "speech_tokenizer/config.json",
            |c| c["decoder_config"]["num_quantizers"] = json!(8),
            "decoder_config.num_quantizers",
        ),
        (
            "speech_tokenizer/config.json",
            |c| c["decoder_config"]["codebook_dim"] = json!(31),
            "decoder_config.codebook_dim",
        ),
        (
            "speech_tokenizer/config.json",
            |c| c["decode_upsample_rate"] = json!(960),
            "decode_upsample_rate",
        ),
    ];
    for (file, change, field) in cases {
        let dir = copy();
        edit(dir.path(), file, change);
        let error = error(&dir);
        let named =
            |p: &Problem| matches!(p, Problem::Config { file: f, field: g, .. } if f == file && g == field);
        assert!(error.problems().iter().any(named), "{field}: {error}");
    }
}

#[test]
fn tensors_of_both_files_are_checked_by_name_and_shape() {
    let dir = copy();
    // Shapes follow the configuration, so a wider one finds all of a part misshapen.
    edit(dir.path(), "config.json", |c| {
        c["talker_config"]["intermediate_size"] = json!(60);
    });
    edit(dir.path(), "speech_tokenizer/config.json", |c| {
        c["decoder_config"]["num_hidden_layers"] = json!(3);
    });
    let error = error(&dir);
    let shape = |p: &Problem| matches!(p, Problem::Shape { file, tensor, .. } if file == "model.safetensors" && tensor.ends_with("mlp.gate_proj.weight"));
    assert_eq!(error.problems().iter().filter(|p| shape(p)).count(), 2, "{error}");
    let missing = |p: &Problem| matches!(p, Problem::MissingTensor { file, tensor, .. } if file == "speech_tokenizer/model.safetensors" && tensor.starts_with("decoder.pre_transformer.layers.2."));
    assert_eq!(
        error.problems().iter().filter(|p| missing(p)).count(),
        11,
        "{error}"
    );
}

#[test]
fn what_makes_voices_of_recordings_must_be_there_from_the_start() {
    for (file, prefix) in [
        ("model.safetensors", "speaker_encoder."),
        ("speech_tokenizer/model.safetensors", "encoder."),
    ] {
        let dir = copy_of(TINY_TTS_BASE);
        let path = dir.path().join(file);
        edit_tensors_of(&path, |tensors| {
            tensors.retain(|name, _| !name.starts_with(prefix));
        });
        let error = error(&dir);
        let message = error.to_string();
        assert!(
            message.contains(&format!("{file}: "))
                && message.contains(&format!("tensors are missing: {prefix}")),
            "{message}"
        );
        assert!(
            message.contains("hf download Qwen/Qwen3-TTS-12Hz-1.7B-Base"),
            "{message}"
        );
        assert!(message.lines().count() <= 3, "{message}");
        // Built-in voices need none of it.
        let dir = copy();
        let path = dir.path().join(file);
        edit_tensors_of(&path, |tensors| {
            tensors.retain(|name, _| !name.starts_with(prefix));
        });
        let source = CheckpointSource::Dir(dir.path().into());
        SpeechModel::load(source, LoadOptions::default()).expect("it loads");
    }
}

#[test]
fn another_codec_and_another_kind_are_told_by_their_names() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 6] = [
        (
            "speech_tokenizer/config.json",
            |c| *c = json!({"model_type": "mimi", "hidden_size": 512}),
            "model_type: is \"mimi\": it is another codec, expected \"qwen3_tts_tokenizer_12hz\"",
        ),
        (
            "speech_tokenizer/config.json",
            |c| c["model_type"] = json!("qwen3_tts_tokenizer_25hz"),
            "model_type: is \"qwen3_tts_tokenizer_25hz\": it is another codec",
        ),
        (
            "speech_tokenizer/config.json",
            |c| *c = json!({"sampling_rate": 24000}),
            "model_type: is missing, and so is decoder_config: it is another codec",
        ),
        (
            "config.json",
            |c| c["tokenizer_type"] = json!("qwen3_tts_tokenizer_25hz"),
            "tokenizer_type: is \"qwen3_tts_tokenizer_25hz\": it is another codec",
        ),
        (
            "config.json",
            |c| c["tts_model_type"] = json!("instruct"),
            "tts_model_type: is \"instruct\", expected one of: custom_voice, base, voice_design",
        ),
        (
            "config.json",
            |c| drop(c.as_object_mut().expect("an object").remove("tts_model_type")),
            "tts_model_type: is missing, expected one of: custom_voice, base, voice_design",
        ),
    ];
    for (file, change, expected) in cases {
        let dir = copy();
        edit(dir.path(), file, change);
        let message = error(&dir).to_string();
        assert!(message.contains(&format!("{file}: {expected}")), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn the_published_shapes_have_the_published_number_of_parameters() {
    // 0.6B-Base has 914,643,008 and 1.7B-Base 1,928,677,440 with their speaker encoders, which voices of their own do
    // without.
    for (name, talker, predictor, read) in [
        ("random:qwen3-tts-0.6b", 764.2, 141.6, 0.887),
        ("random:qwen3-tts-1.7b", 1741.6, 175.1, 2.83),
    ] {
        let source = CheckpointSource::Random(name.parse().expect("a name"));
        let floor = counted_floor(source, DType::Bf16).expect("it can be counted");
        let millions = |n: u64| n as f64 / 1e6;
        assert!(
            (millions(floor.talker.parameters) - talker).abs() < 0.1,
            "{name}: {floor:?}"
        );
        assert!(
            (millions(floor.predictor.parameters) - predictor).abs() < 0.1,
            "{name}: {floor:?}"
        );
        assert!(
            (floor.talker.step_bytes(1) / 1e9 / read - 1.0).abs() < 0.002,
            "{name}: {floor:?}"
        );
        assert!(
            (millions(floor.code2wav.parameters) - 114.3).abs() < 0.2,
            "{name}: {floor:?}"
        );
        assert_eq!(floor.talker.kv_position_bytes, 112 << 10);
        assert_eq!(floor.thinker, None);
    }
}
