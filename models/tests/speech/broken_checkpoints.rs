//! Every flaw of a checkpoint is an error that names it, all flaws at once, and nothing is loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use omni_engine::{ChunkModel, CodecFrame, SeqId};
use omni_models::{CheckpointSource, Kernels, LoadError, LoadOptions, Parts, Problem, SpeechModel};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::golden::tiny;

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const NORM: &str = "talker.model.norm.weight";

/// A copy of the tiny checkpoint to break.
pub(crate) fn copy() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for file in ["config.json", "generation_config.json", "tokenizer.json", WEIGHTS] {
        fs::copy(tiny().join(file), dir.path().join(file)).expect("copied");
    }
    dir
}

pub(crate) fn load(dir: &TempDir) -> Result<SpeechModel, LoadError> {
    SpeechModel::load(CheckpointSource::Dir(dir.path().into()), LoadOptions::default())
}

pub(crate) fn problems(dir: &TempDir) -> Vec<Problem> {
    load(dir)
        .expect_err("the checkpoint is broken")
        .problems()
        .to_vec()
}

pub(crate) fn edit_config(dir: &TempDir, edit: impl FnOnce(&mut Value)) {
    let path = dir.path().join("config.json");
    let mut config = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    edit(&mut config);
    fs::write(path, config.to_string()).expect("written");
}

/// Tensors by name: their header entry and bytes.
pub(crate) type Tensors = BTreeMap<String, (Value, Vec<u8>)>;

fn read_tensors(path: &Path) -> Tensors {
    let bytes = fs::read(path).expect("read");
    let size = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().expect("eight"))).expect("small");
    let header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + size]).expect("JSON");
    let part = |entry: &Value| {
        let at = |i: usize| {
            8 + size + usize::try_from(entry["data_offsets"][i].as_u64().expect("offset")).expect("small")
        };
        bytes[at(0)..at(1)].to_vec()
    };
    header
        .into_iter()
        .filter(|(k, _)| k != "__metadata__")
        .map(|(k, v)| (k, (v.clone(), part(&v))))
        .collect()
}

fn write_tensors(path: &Path, tensors: &Tensors) {
    let mut header = serde_json::Map::new();
    let mut data = Vec::<u8>::new();
    for (name, (entry, bytes)) in tensors {
        let begin = data.len();
        data.extend(bytes);
        let entry =
            json!({"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": [begin, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    fs::write(path, file).expect("written");
}

pub(crate) fn edit_tensors(dir: &TempDir, edit: impl FnOnce(&mut Tensors)) {
    edit_tensors_of(&dir.path().join(WEIGHTS), edit);
}

pub(crate) fn edit_tensors_of(file: &Path, edit: impl FnOnce(&mut Tensors)) {
    let mut tensors = read_tensors(file);
    edit(&mut tensors);
    write_tensors(file, &tensors);
}

#[test]
fn missing_and_misshapen_tensors_are_told_together() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        t.remove(NORM);
        let (entry, _) = t.get_mut("code2wav.decoder.0.conv.weight").expect("there");
        entry["shape"] = json!([32, 7, 32]);
    });
    let file = || WEIGHTS.to_owned();
    let expected = [
        Problem::MissingTensor {
            file: file(),
            tensor: NORM.into(),
            expected: vec![32],
        },
        Problem::Shape {
            file: file(),
            tensor: "code2wav.decoder.0.conv.weight".into(),
            expected: vec![32, 32, 7],
            found: vec![32, 7, 32],
        },
    ];
    assert_eq!(problems(&dir), expected);
    let message = load(&dir).expect_err("broken").to_string();
    for line in [
        &format!("checkpoint {} not loaded, 2 problems:", dir.path().display()),
        "model.safetensors: tensor talker.model.norm.weight is missing, expected shape [32]",
        "tensor code2wav.decoder.0.conv.weight has shape [32, 7, 32], expected [32, 32, 7] from config.json",
    ] {
        assert!(message.contains(line), "{message}");
    }
}

#[test]
fn tensors_that_nothing_uses_are_counted_and_named_and_refuse_nothing() {
    assert_eq!(load(&copy()).expect("it loads").unused(), None);
    let dir = copy();
    edit_tensors(&dir, |t| {
        let extra = t[NORM].clone();
        for layer in 0..3 {
            t.insert(
                format!("talker.model.layers.{layer}.self_attn.rotary_emb.inv_freq"),
                extra.clone(),
            );
        }
        t.insert(
            "thinker.model.layers.0.self_attn.q_proj.lora_A.weight".into(),
            extra,
        );
    });
    let model = load(&dir).expect("it loads");
    model.check_thinker().expect("its thinker, too");
    let inv_freq = |layer| format!("talker.model.layers.{layer}.self_attn.rotary_emb.inv_freq");
    let expected = format!("4 ({}, {}, {} and 1 more)", inv_freq(0), inv_freq(1), inv_freq(2));
    assert_eq!(model.unused(), Some(expected.as_str()));
}

#[test]
fn many_tensors_with_one_flaw_are_one_line() {
    let dir = copy();
    edit_tensors(&dir, |t| t.retain(|k, _| !k.starts_with("talker.model.layers.")));
    let message = load(&dir).expect_err("broken").to_string();
    assert!(
        message.contains(" tensors are missing: talker.model.layers.0."),
        "{message}"
    );
    assert!(message.lines().count() <= 3, "{message}");
    let dir = copy();
    edit_config(&dir, |c| {
        c["talker_config"]["text_config"]["moe_intermediate_size"] = json!(8);
    });
    let message = load(&dir).expect_err("broken").to_string();
    assert!(
        message.contains(" have other shapes than config.json says: "),
        "{message}"
    );
    assert!(message.lines().count() <= 4, "{message}");
}

#[test]
fn names_with_a_prefix_or_without_theirs_are_one_line_that_says_so() {
    type Rename = fn(&str) -> String;
    let cases: [(Rename, &str); 4] = [
        (|name| format!("model.{name}"), "have the prefix \"model.\""),
        (|name| format!("module.{name}"), "have the prefix \"module.\""),
        (
            |name| format!("base_model.model.{name}"),
            "have the prefix \"base_model.model.\"",
        ),
        (
            |name| name.strip_prefix("talker.").unwrap_or(name).to_owned(),
            "lack the prefix \"talker.\"",
        ),
    ];
    for (rename, expected) in cases {
        let dir = copy();
        edit_tensors(&dir, |t| {
            *t = std::mem::take(t)
                .into_iter()
                .map(|(k, v)| (rename(&k), v))
                .collect();
        });
        let error = load(&dir).expect_err("broken");
        let message = error.to_string();
        assert!(
            matches!(error.problems(), [Problem::Renamed { .. }]) && message.contains(expected),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_mark_in_front_of_a_text_file_changes_nothing() {
    let dir = copy();
    for file in ["config.json", "generation_config.json", "tokenizer.json"] {
        let path = dir.path().join(file);
        let content = fs::read(&path).expect("read");
        fs::write(&path, ["\u{feff}".as_bytes(), &content].concat()).expect("written");
    }
    load(&dir).expect("it loads");
}

#[test]
fn a_checkpoint_that_does_not_speak_is_told_in_one_line_with_the_one_that_does() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 2] = [
        (
            |c| c["enable_audio_output"] = json!(false),
            "enable_audio_output: is false: this checkpoint does not speak",
        ),
        (
            |c| drop(c.as_object_mut().expect("an object").remove("talker_config")),
            "talker_config: is missing: this checkpoint does not speak",
        ),
    ];
    for (change, expected) in cases {
        let dir = copy();
        edit_config(&dir, change);
        // No other file is requested.
        fs::remove_file(dir.path().join(WEIGHTS)).expect("removed");
        let message = load(&dir).expect_err("silent").to_string();
        assert!(message.contains(expected), "{message}");
        assert!(
            message.contains("hf download Qwen/Qwen3-Omni-30B-A3B-Instruct"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn the_thinker_may_be_left_out_but_for_its_text_embedding() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        t.retain(|k, _| !k.starts_with("thinker.") || k == "thinker.model.embed_tokens.weight");
    });
    load(&dir).expect("speech needs no thinker layer");
    edit_tensors(&dir, |t| t.retain(|k, _| !k.starts_with("thinker.")));
    assert!(
        matches!(&problems(&dir)[..], [Problem::MissingTensor { tensor, .. }] if tensor.contains("embed_tokens"))
    );
}

#[test]
fn a_file_cut_short_tells_both_lengths() {
    let dir = copy();
    let path = dir.path().join(WEIGHTS);
    let bytes = fs::read(&path).expect("read");
    for (keep, expected) in [(bytes.len() - 5, bytes.len()), (100, 0), (3, 8)] {
        fs::write(&path, &bytes[..keep]).expect("written");
        match &problems(&dir)[..] {
            [
                Problem::Truncated {
                    file,
                    expected: e,
                    found,
                },
            ] => {
                assert_eq!((file.as_str(), *found), (WEIGHTS, keep as u64));
                assert!(
                    expected == 0 || *e == expected as u64,
                    "expected {expected}, said {e}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn files_that_are_no_safetensors_are_told_as_such() {
    let dir = copy();
    let path = dir.path().join(WEIGHTS);
    let mut garbage = 12_u64.to_le_bytes().to_vec();
    garbage.extend(b"not a header and more");
    let huge = u64::MAX.to_le_bytes().to_vec();
    let mut overlap = Vec::new();
    let header = br#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}}"#;
    overlap.extend((header.len() as u64).to_le_bytes());
    overlap.extend(header);
    overlap.extend([0; 8]);
    for (content, reason) in [
        (garbage, "not JSON"),
        (huge, "header claims"),
        (overlap, "shape [4] and type F32 occupies 8"),
    ] {
        fs::write(&path, content).expect("written");
        match &problems(&dir)[..] {
            [Problem::Malformed { file, reason: r }] => assert!(file == WEIGHTS && r.contains(reason), "{r}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_type_that_cannot_be_computed_with_is_named() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        let (entry, bytes) = t.get_mut(NORM).expect("there");
        entry["dtype"] = json!("I32");
        assert_eq!(bytes.len(), 128);
    });
    let file = WEIGHTS.to_owned();
    let tensor = NORM.to_owned();
    assert_eq!(
        problems(&dir),
        [Problem::Type {
            file,
            tensor,
            found: "I32".into()
        }]
    );
}

#[test]
fn missing_files_are_named() {
    for file in ["config.json", WEIGHTS] {
        let dir = copy();
        fs::remove_file(dir.path().join(file)).expect("removed");
        assert_eq!(problems(&dir), [Problem::MissingFile { file: file.into() }]);
    }
    let dir = copy();
    fs::remove_file(dir.path().join("tokenizer.json")).expect("removed");
    // Older checkpoints have three files instead.
    let expected = ["vocab.json", "tokenizer_config.json", "merges.txt"];
    let expected = expected.map(|file| Problem::MissingFile { file: file.into() });
    assert_eq!(problems(&dir), expected);
}

#[test]
fn a_tokenizer_that_breaks_off_is_malformed() {
    let dir = copy();
    let path = dir.path().join("tokenizer.json");
    let whole = fs::read(&path).expect("read");
    let decoder = whole
        .windows(9)
        .position(|name| name == b"\"decoder\"")
        .expect("it has one");
    // Also where the library that reads it would panic: within a decoder.
    for end in [0, decoder / 2, decoder + 30, whole.len() - 2] {
        fs::write(&path, &whole[..end]).expect("written");
        let [Problem::Malformed { file, .. }] = &problems(&dir)[..] else {
            panic!("{:?}", problems(&dir))
        };
        assert_eq!(file, "tokenizer.json");
    }
}

#[test]
fn shards_outside_the_checkpoint_are_refused() {
    for shard in ["../model.safetensors", "/etc/passwd", "a\\b", "..", ""] {
        let dir = copy();
        let index = json!({"metadata": {}, "weight_map": {"a": shard}});
        fs::write(dir.path().join("model.safetensors.index.json"), index.to_string()).expect("written");
        match &problems(&dir)[..] {
            [Problem::Malformed { file, reason }] => assert!(
                file == "model.safetensors.index.json" && reason.contains("a plain file name is expected"),
                "{reason}"
            ),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn tensors_that_share_bytes_are_told() {
    let dir = copy();
    let header =
        br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"c":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}"#;
    let mut content = (header.len() as u64).to_le_bytes().to_vec();
    content.extend(header);
    content.extend([0; 12]);
    fs::write(dir.path().join(WEIGHTS), content).expect("written");
    match &problems(&dir)[..] {
        [Problem::Malformed { reason, .. }] => assert_eq!(reason, "tensors b and a share bytes"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn weights_that_are_no_numbers_are_an_error_and_not_silence() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        let (_, bytes) = t.get_mut("code2wav.decoder.0.conv.bias").expect("there");
        bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    let mut code2wav = load(&dir).expect("it loads").code2wav().expect("a vocoder");
    code2wav.open(SeqId(1), (), 0).expect("a stream opens");
    let frame = [CodecFrame(vec![0; 16].into())];
    let decoded = code2wav.decode(&[(SeqId(1), &frame)]).expect("a pass");
    let error = decoded[0].as_ref().expect_err("nothing to be heard");
    assert!(error.contains("is not a number"), "{error}");
}

/// One row of the codes' embeddings is no number: only the stream that has this code fails, on the processor's kernels
/// and on a GPU's. Neither the streams beside it nor one that gets its place later hear anything of it.
#[test]
fn a_code_without_numbers_ends_its_own_stream_and_no_other() {
    const BAD: u32 = 5;
    let dir = copy();
    edit_tensors(&dir, |t| {
        let (header, bytes) = t.get_mut("code2wav.code_embedding.weight").expect("there");
        let width = header["shape"][1].as_u64().expect("a width") as usize;
        let row = BAD as usize * width * 4;
        bytes[row..row + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    let frames = |first: u32| -> Vec<_> {
        let codes = |f: u32| (0..16).map(move |q| if q == 0 { first } else { 6 + (q + f) % 50 });
        (0..3).map(|f| CodecFrame(codes(f).collect())).collect()
    };
    for kernels in [Kernels::Auto, Kernels::Candle, Kernels::Emulated { graphs: true }] {
        let options = LoadOptions {
            kernels,
            ..LoadOptions::default()
        };
        let model = SpeechModel::load(CheckpointSource::Dir(dir.path().into()), options).expect("it loads");
        let heard = |second: u32| {
            let mut code2wav = model.code2wav().expect("a vocoder");
            let streams = [frames(1), frames(second), frames(3)];
            let ids = || (0..3).map(SeqId);
            for id in ids() {
                code2wav.open(id, (), 0).expect("a stream opens");
            }
            let batch: Vec<_> = ids()
                .zip(&streams)
                .map(|(id, frames)| (id, &frames[..]))
                .collect();
            let mut heard = code2wav.decode(&batch).expect("a pass");
            code2wav.close(SeqId(1));
            code2wav.open(SeqId(4), (), 0).expect("a stream opens");
            let after = [(SeqId(0), &streams[2][..]), (SeqId(4), &streams[0][..])];
            heard.extend(code2wav.decode(&after).expect("a pass"));
            heard
        };
        let whole = heard(2);
        let broken = heard(BAD);
        assert!(whole.iter().all(Result::is_ok), "{kernels:?}");
        for i in [0, 2, 3, 4] {
            assert!(broken[i] == whole[i], "{kernels:?}: stream {i}");
        }
        let error = broken[1].as_ref().expect_err("nothing to be heard");
        assert!(error.contains("is not a number"), "{error}");
    }
}

/// Spreads the tensors over files, by the number of each of them.
fn shards(dir: &TempDir, count: usize, shard: impl Fn(&str) -> usize) {
    let tensors = read_tensors(&dir.path().join(WEIGHTS));
    fs::remove_file(dir.path().join(WEIGHTS)).expect("removed");
    let map: BTreeMap<&String, String> = tensors.keys().map(|k| (k, shard_name(shard(k), count))).collect();
    let index = json!({"metadata": {}, "weight_map": map});
    fs::write(dir.path().join(INDEX), index.to_string()).expect("written");
    for number in 1..=count {
        let part = tensors.iter().filter(|(k, _)| shard(k) == number);
        let part: Tensors = part.map(|(k, v)| (k.clone(), v.clone())).collect();
        write_tensors(&dir.path().join(shard_name(number, count)), &part);
    }
}

fn shard_name(number: usize, count: usize) -> String {
    format!("model-{number:05}-of-{count:05}.safetensors")
}

#[test]
fn sharded_weights_load_and_their_flaws_name_the_shard() {
    let dir = copy();
    shards(&dir, 2, |name| if name.starts_with("talker.") { 1 } else { 2 });
    load(&dir).expect("two shards load");

    let first = dir.path().join(shard_name(1, 2));
    let mut part = read_tensors(&first);
    part.remove(NORM);
    write_tensors(&first, &part);
    let file = shard_name(1, 2);
    let tensor = NORM.to_owned();
    assert_eq!(
        problems(&dir),
        [Problem::MissingTensor {
            file,
            tensor,
            expected: Vec::new()
        }]
    );
    fs::remove_file(&first).expect("removed");
    assert_eq!(
        problems(&dir),
        [Problem::MissingFile {
            file: shard_name(1, 2)
        }]
    );
}

#[test]
fn only_the_shards_that_hold_what_is_needed_must_be_there() {
    let shard = |name: &str| match name {
        "thinker.model.embed_tokens.weight" => 1,
        name if name.starts_with("thinker.visual.") => 4,
        name if name.starts_with("thinker.") => 3,
        _ => 2,
    };
    let whole = |dir: &TempDir| {
        let options = LoadOptions {
            parts: Parts {
                converse: true,
                ..Parts::default()
            },
            ..LoadOptions::default()
        };
        SpeechModel::load(CheckpointSource::Dir(dir.path().into()), options)
    };
    type Damage = fn(&Path);
    let damages: [Damage; 3] = [
        |shard| fs::remove_file(shard).expect("removed"),
        |shard| fs::write(shard, [1, 2, 3]).expect("written"),
        |shard| fs::write(shard, "version https://git-lfs.github.com/spec/v1\n").expect("written"),
    ];
    for damage in damages {
        let dir = copy();
        shards(&dir, 4, shard);
        damage(&dir.path().join(shard_name(4, 4)));
        whole(&dir).expect("pictures are not served");
        damage(&dir.path().join(shard_name(3, 4)));
        let model = load(&dir).expect("speech needs no thinker layer");
        let thinker = model.check_thinker().expect_err("it is damaged");
        assert!(thinker.is_of_files(), "{thinker}");
        let error = whole(&dir).expect_err("a part is missing");
        let files: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
        assert!(
            files.len() == 1 && files[0].starts_with(&shard_name(3, 4)),
            "{error}"
        );
        let command = format!(
            "hf download Qwen/Qwen3-Omni-30B-A3B-Instruct {} --local-dir {}",
            shard_name(3, 4),
            dir.path().display()
        );
        assert!(error.to_string().ends_with(&command), "{error}");
        damage(&dir.path().join(shard_name(1, 4)));
        damage(&dir.path().join(shard_name(2, 4)));
        let error = load(&dir).expect_err("nothing is there");
        assert_eq!(error.problems().len(), 2, "{error}");
        let named = format!("Instruct {} {} --local-dir", shard_name(1, 4), shard_name(2, 4));
        assert!(error.to_string().contains(&named), "{error}");
    }
}

#[test]
fn shards_without_their_list_miss_the_list() {
    let dir = copy();
    shards(&dir, 2, |name| if name.starts_with("talker.") { 1 } else { 2 });
    fs::remove_file(dir.path().join(INDEX)).expect("removed");
    assert_eq!(problems(&dir), [Problem::MissingFile { file: INDEX.into() }]);
}

#[test]
fn files_in_memory_load_like_a_directory() {
    let read = |file: &'static str| {
        let content: &'static [u8] = fs::read(tiny().join(file)).expect("read").leak();
        (file, content)
    };
    let files: &'static [_] = ["config.json", "generation_config.json", "tokenizer.json", WEIGHTS]
        .map(read)
        .to_vec()
        .leak();
    let model = SpeechModel::load(CheckpointSource::Memory(files), LoadOptions::default()).expect("it loads");
    assert_eq!(model.limits().voices, ["aiden", "chelsie", "ethan"]);
    let without = SpeechModel::load(CheckpointSource::Memory(&files[..3]), LoadOptions::default());
    assert_eq!(
        without.expect_err("no weights").problems(),
        [Problem::MissingFile { file: WEIGHTS.into() }]
    );
}
