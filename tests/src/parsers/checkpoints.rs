//! What has to be in a file to be read: every thread has a directory of its own for each parser.

use std::fs;
use std::path::{Path, PathBuf};

use http::{Extensions, HeaderMap};
use omni_models::{Checkpoint, CheckpointSource, LoadOptions, SpeechModel, Tokenizer};
use omni_server::config::Scope;
use omni_server::grpc::Keys;
use tempfile::TempDir;

const WEIGHTS: &str = "model.safetensors";

/// A checkpoint of the published layout, small.
pub(super) fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data/qwen3-omni-tiny")
}

fn directory(files: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for file in files {
        fs::copy(tiny().join(file), directory.path().join(file)).expect("copied");
    }
    directory
}

/// Writes `bytes` as `file` of the checkpoint in `directory`, and gives where that is.
fn with(directory: &TempDir, file: &str, bytes: &[u8]) -> CheckpointSource {
    fs::write(directory.path().join(file), bytes).expect("written");
    CheckpointSource::Dir(directory.path().to_owned())
}

thread_local! {
    static ALONE: TempDir = directory(&[]);
    static INDEXED: TempDir = directory(&[WEIGHTS]);
    static UNCONFIGURED: TempDir = directory(&[WEIGHTS, "generation_config.json", "tokenizer.json"]);
    static SPEECHLESS: TempDir = directory(&[WEIGHTS]);
    static KEYS: (TempDir, Keys) = keys();
}

/// The header of a file of tensors, or the index of several.
pub(super) fn tensors(bytes: &[u8]) {
    let _ = Checkpoint::open(ALONE.with(|directory| with(directory, WEIGHTS, bytes)));
    let _ =
        Checkpoint::open(INDEXED.with(|directory| with(directory, "model.safetensors.index.json", bytes)));
}

/// The configuration of a model.
pub(super) fn config(bytes: &[u8]) {
    let source = UNCONFIGURED.with(|directory| with(directory, "config.json", bytes));
    let _ = SpeechModel::load(source, LoadOptions::default());
}

/// A tokenizer, and what it makes of a text.
pub(super) fn tokenizer(bytes: &[u8]) {
    let source = SPEECHLESS.with(|directory| with(directory, "tokenizer.json", bytes));
    let checkpoint = Checkpoint::open(source).expect("the tensors are good");
    let Ok(tokenizer) = Tokenizer::load(&checkpoint) else {
        return;
    };
    if let Ok(tokens) = tokenizer.encode("Hello <|im_end|> world, \u{e9} \u{1f600}!") {
        let mut decoder = tokenizer.decoder();
        for token in tokens {
            let _ = decoder.push(token);
        }
    }
}

/// Whether a server whose only key nobody has lets these headers in.
pub(super) fn allowed(headers: &HeaderMap, scope: Option<Scope>) -> bool {
    KEYS.with(|(_, keys)| keys.allow(headers, &Extensions::new(), scope).is_ok())
}

fn keys() -> (TempDir, Keys) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys");
    fs::write(&path, format!("a speech,metrics sha256:{}", "0".repeat(64))).expect("written");
    let keys = Keys::new(Some(&path)).expect("it is good");
    (directory, keys)
}
