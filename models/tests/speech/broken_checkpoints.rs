//! Every flaw of a checkpoint is an error that names it, all flaws at once, and nothing is loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use omni_engine::{ChunkModel, CodecFrame, SeqId};
use omni_models::{CheckpointSource, Kernels, LoadError, LoadOptions, Problem, SpeechModel};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::golden::tiny;

const WEIGHTS: &str = "model.safetensors";
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
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
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
    let path = dir.path().join(WEIGHTS);
    let mut tensors = read_tensors(&path);
    edit(&mut tensors);
    write_tensors(&path, &tensors);
}

#[test]
fn missing_misshapen_and_unknown_tensors_are_told_together() {
    let dir = copy();
    edit_tensors(&dir, |t| {
        t.remove(NORM);
        let (entry, _) = t.get_mut("code2wav.decoder.0.conv.weight").expect("there");
        entry["shape"] = json!([32, 7, 32]);
        let extra = t["talker.codec_head.weight"].clone();
        t.insert("talker.model.layers.9.surplus".into(), extra);
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
        Problem::UnknownTensor {
            file: file(),
            tensor: "talker.model.layers.9.surplus".into(),
            found: vec![1088, 32],
        },
    ];
    assert_eq!(problems(&dir), expected);
    let message = load(&dir).expect_err("broken").to_string();
    for line in [
        &format!("checkpoint {} not loaded, 3 problems:", dir.path().display()),
        "model.safetensors: tensor talker.model.norm.weight is missing, expected shape [32]",
        "tensor code2wav.decoder.0.conv.weight has shape [32, 7, 32], expected [32, 32, 7] from config.json",
        "tensor talker.model.layers.9.surplus of shape [1088, 32] is not used by the model that config.json describes",
    ] {
        assert!(message.contains(line), "{message}");
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
    let (file, tensor) = (WEIGHTS.to_owned(), NORM.to_owned());
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
    code2wav.open(SeqId(1), 0).expect("a stream opens");
    let frame = [CodecFrame(vec![0; 16].into())];
    let decoded = code2wav.decode(&[(SeqId(1), &frame)]).expect("a pass");
    let error = decoded[0].as_ref().expect_err("nothing to be heard");
    assert!(error.contains("is not a number"), "{error}");
}

/// One row of the codes' embeddings is no number: only the stream that has this code fails, on the processor's kernels and on
/// a GPU's. Neither the streams beside it nor one that gets its place later hear anything of it.
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
                code2wav.open(id, 0).expect("a stream opens");
            }
            let batch: Vec<_> = ids()
                .zip(&streams)
                .map(|(id, frames)| (id, &frames[..]))
                .collect();
            let mut heard = code2wav.decode(&batch).expect("a pass");
            code2wav.close(SeqId(1));
            code2wav.open(SeqId(4), 0).expect("a stream opens");
            let after = [(SeqId(0), &streams[2][..]), (SeqId(4), &streams[0][..])];
            heard.extend(code2wav.decode(&after).expect("a pass"));
            heard
        };
        let (whole, broken) = (heard(2), heard(BAD));
        assert!(whole.iter().all(Result::is_ok), "{kernels:?}");
        for i in [0, 2, 3, 4] {
            assert!(broken[i] == whole[i], "{kernels:?}: stream {i}");
        }
        let error = broken[1].as_ref().expect_err("nothing to be heard");
        assert!(error.contains("is not a number"), "{error}");
    }
}

#[test]
fn sharded_weights_load_and_their_flaws_name_the_shard() {
    let dir = copy();
    let tensors = read_tensors(&dir.path().join(WEIGHTS));
    fs::remove_file(dir.path().join(WEIGHTS)).expect("removed");
    let shard = |name: &str| {
        if name.starts_with("talker.") {
            "model-00001-of-00002.safetensors"
        } else {
            "model-00002-of-00002.safetensors"
        }
    };
    let map: BTreeMap<&String, &str> = tensors.keys().map(|k| (k, shard(k))).collect();
    let index = json!({"metadata": {}, "weight_map": map});
    fs::write(dir.path().join("model.safetensors.index.json"), index.to_string()).expect("written");
    for file in [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ] {
        let part: Tensors = tensors
            .iter()
            .filter(|(k, _)| shard(k) == file)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        write_tensors(&dir.path().join(file), &part);
    }
    load(&dir).expect("two shards load");

    let first = dir.path().join("model-00001-of-00002.safetensors");
    let mut part = read_tensors(&first);
    part.remove(NORM);
    write_tensors(&first, &part);
    let (file, tensor) = ("model-00001-of-00002.safetensors".to_owned(), NORM.to_owned());
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
            file: "model-00001-of-00002.safetensors".into()
        }]
    );
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
