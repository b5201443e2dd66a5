//! The embedded thinker says what the reference implementation says with its weights: the same prompts by its chat
//! template, the same greedy answers, the same logits.

use std::path::{Path, PathBuf};

use omni_engine::ArModel as _;
use omni_models::{ChatPiece, CheckpointSource, KvOptions, LoadOptions, Message, Role, SpeechModel};
use serde_json::Value;

use crate::golden::assert_close;
use crate::thinker_support::{Reply, ask, step, tokens};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("embedded").join(name)
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("token ids")
}

fn messages(case: &Value) -> Vec<Message> {
    let message = |m: &Value| {
        let role = match m["role"].as_str() {
            Some("system") => Role::System,
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        Message::text(role, m["text"].as_str().expect("a text"))
    };
    case["chat"]
        .as_array()
        .expect("a chat")
        .iter()
        .map(message)
        .collect()
}

/// The golden logits after `computed` positions, if there are any.
fn golden_logits(case: &Value, computed: u32) -> Option<Vec<f32>> {
    let kept = case["logits"].as_array().expect("logits");
    let found = kept
        .iter()
        .find(|l| l["position"].as_u64().map(|p| p + 1) == Some(u64::from(computed)))?;
    Some(serde_json::from_value(found["values"].clone()).expect("logits"))
}

#[test]
fn answers_as_the_reference() {
    let source = CheckpointSource::Dir(folder("checkpoint"));
    let model = SpeechModel::load(source, LoadOptions::default()).expect("the embedded checkpoint loads");
    let template = model.chat_template().expect("its chat template");
    let weights = model.load_thinker().expect("its thinker");
    let mut thinker = weights.thinker(KvOptions::default()).expect("a thinker");
    let file = std::fs::read(folder("checkpoint-goldens/thinker.json")).expect("read");
    let goldens: Value = serde_json::from_slice(&file).expect("JSON");
    let tolerance = goldens["logits_tolerance"].as_f64().expect("a tolerance") as f32;
    for (id, case) in (0..).zip(goldens["cases"].as_array().expect("cases")) {
        let (prompt, mut answer) = (ids(&case["prompt_ids"]), ids(&case["generated_ids"]));
        let rendered = template.render(&messages(case)).expect("a prompt");
        let pieces: Vec<_> = prompt.iter().map(|&id| ChatPiece::Token(id)).collect();
        assert_eq!(rendered.pieces(), pieces, "{}", case["chat"]);
        let mut request = ask(tokens(&prompt));
        request.stop = vec![answer.pop().expect("the end of the turn")];
        let mut reply = Reply::open(&mut thinker, id, request, answer.len() + 1);
        while !reply.done {
            step(&mut thinker, &mut [&mut reply], u32::MAX);
            if let Some(expected) = golden_logits(case, reply.computed) {
                let logits = thinker.logits(reply.seq).expect("just computed");
                assert_close(&case["text"].to_string(), &logits, &expected, tolerance);
            }
        }
        thinker.close(reply.seq);
        assert_eq!(reply.ids(), answer, "{}", case["text"]);
    }
}
