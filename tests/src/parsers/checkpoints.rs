//! Parsers that read files: every thread has a directory of its own for each parser.

use std::fs;
use std::path::{Path, PathBuf};

use http::{Extensions, HeaderMap};
use omni_config::{ModelSource, Scope, deploy};
use omni_models::{
    ChatPiece, ChatPrompt, ChatTemplate, Checkpoint, CheckpointSource, LoadOptions, Message, MessagePart,
    Role, SpeechModel, Tokenizer,
};
use omni_server::app::load_model;
use omni_transport::Keys;
use tempfile::TempDir;

const WEIGHTS: &str = "model.safetensors";
/// Everything else that a checkpoint is read from.
const OTHERS: [&str; 4] = [
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
];
/// Files that may be present instead of `tokenizer.json`.
const VOCABULARY: [&str; 3] = ["vocab.json", "merges.txt", "tokenizer_config.json"];
/// Files that may be faulty in a model that is loaded as the server does.
const SETTINGS: [&str; 3] = ["generation_config.json", "preprocessor_config.json", "omni.json"];
/// The first special token of the small checkpoint.
const SPECIAL: u32 = 275;

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
    static VOCABULARIES: [TempDir; 3] = VOCABULARY.map(|_| directory(&[&[WEIGHTS][..], &VOCABULARY].concat()));
    static MODELS: [TempDir; 3] = SETTINGS.map(|_| directory(&[&[WEIGHTS][..], &OTHERS].concat()));
    static TEMPLATED: (TempDir, SpeechModel) = model();
    static OWN_TEMPLATE: ChatTemplate = model().1.chat_template().expect("a template");
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

/// A tokenizer, and its tokens of a text.
pub(super) fn tokenizer(bytes: &[u8]) {
    let source = SPEECHLESS.with(|directory| with(directory, "tokenizer.json", bytes));
    let checkpoint = Checkpoint::open(source).expect("the tensors are good");
    if let Ok(tokenizer) = Tokenizer::load(&checkpoint) {
        tokenized(&tokenizer);
    }
}

/// A tokenizer in several files; the first byte selects the file that the rest is.
pub(super) fn vocabulary(bytes: &[u8]) {
    let [which, rest @ ..] = bytes else { return };
    let which = usize::from(*which) % VOCABULARY.len();
    let source = VOCABULARIES.with(|directories| with(&directories[which], VOCABULARY[which], rest));
    let checkpoint = Checkpoint::open(source).expect("the tensors are good");
    if let Ok(tokenizer) = Tokenizer::load(&checkpoint) {
        tokenized(&tokenizer);
    }
}

fn tokenized(tokenizer: &Tokenizer) {
    if let Ok(tokens) = tokenizer.encode("Hello <|im_end|> world, \u{e9} \u{1f600}!") {
        let mut decoder = tokenizer.decoder();
        for token in tokens {
            let _ = decoder.push(token);
        }
    }
}

/// Parses a file beside a checkpoint's configuration; the first byte selects it.
pub(super) fn settings(bytes: &[u8]) {
    let [which, rest @ ..] = bytes else { return };
    let which = usize::from(*which) % SETTINGS.len();
    MODELS.with(|directories| {
        let directory = &directories[which];
        fs::write(directory.path().join(SETTINGS[which]), rest).expect("written");
        let deploy = deploy::resolve(None, &[], 64)
            .expect("the defaults are legal")
            .deploy;
        let _ = load_model(
            &ModelSource::Directory(directory.path().to_owned()),
            &deploy,
            false,
        );
    });
}

fn model() -> (TempDir, SpeechModel) {
    let directory = directory(&[&[WEIGHTS][..], &OTHERS].concat());
    let source = CheckpointSource::Dir(directory.path().to_owned());
    let model = SpeechModel::load(source, LoadOptions::default()).expect("it is good");
    (directory, model)
}

/// A chat template, and its prompt of a conversation.
pub(super) fn template(bytes: &[u8]) {
    TEMPLATED.with(|(directory, model)| {
        fs::write(directory.path().join("chat_template.jinja"), bytes).expect("written");
        if let Ok(template) = model.chat_template() {
            let _ = template.render(&conversation("Hello!"));
        }
    });
}

/// Renders callers' text in a conversation by the template of the checkpoint: it opens and closes no turn.
pub(super) fn prompt(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    OWN_TEMPLATE.with(|template| {
        let skeleton = |text: &str| special(&template.render(&conversation(text)).expect("a prompt"));
        assert_eq!(skeleton(&text), skeleton("Hello!"), "text is text");
    });
}

fn conversation(text: &str) -> [Message; 3] {
    let parts = [
        MessagePart::Audio,
        MessagePart::Text(text.to_owned()),
        MessagePart::Text(text.to_owned()),
    ];
    [
        Message::text(Role::System, text),
        Message {
            role: Role::User,
            parts: parts.into(),
        },
        Message::text(Role::Assistant, text),
    ]
}

fn special(prompt: &ChatPrompt) -> Vec<ChatPiece> {
    let plain = |piece: &ChatPiece| matches!(piece, ChatPiece::Token(id) if *id < SPECIAL);
    prompt
        .pieces()
        .iter()
        .filter(|piece| !plain(piece))
        .copied()
        .collect()
}

/// Returns true if a server admits these headers, where no caller has its only key.
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
