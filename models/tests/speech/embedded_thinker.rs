//! The embedded thinker equals the reference implementation with its weights: the same prompts, greedy answers and
//! logits.

use std::path::{Path, PathBuf};

use omni_engine::Sequences as _;
use omni_models::testing::{ThinkerCase, thinker_cases};
use omni_models::{ChatPiece, CheckpointSource, KvOptions, LoadOptions, Message, Role, SpeechModel};

use crate::golden::assert_close;
use crate::thinker_support::{ask, open, step, tokens};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../embedded")
        .join(name)
}

fn messages(case: &ThinkerCase) -> Vec<Message> {
    let message = |(role, text): &(String, String)| {
        let role = match role.as_str() {
            "system" => Role::System,
            "assistant" => Role::Assistant,
            _ => Role::User,
        };
        Message::text(role, text)
    };
    case.chat.iter().map(message).collect()
}

#[test]
fn answers_as_the_reference() {
    let source = CheckpointSource::Dir(folder("checkpoint"));
    let model = SpeechModel::load(source, LoadOptions::default()).expect("the embedded checkpoint loads");
    assert_eq!(model.unused(), None, "nobody is warned of it");
    let template = model.chat_template().expect("its chat template");
    let weights = model.load_thinker().expect("its thinker");
    let mut thinker = weights.thinker(KvOptions::default()).expect("a thinker");
    let file = std::fs::read(folder("checkpoint-goldens/thinker.json")).expect("read");
    let (cases, tolerance) = thinker_cases(&file);
    for (id, case) in (0..).zip(&cases) {
        let rendered = template.render(&messages(case)).expect("a prompt");
        let pieces: Vec<_> = case.prompt.iter().map(|&id| ChatPiece::Token(id)).collect();
        assert_eq!(rendered.pieces(), pieces, "{:?}", case.chat);
        let mut request = ask(tokens(&case.prompt));
        request.stop = vec![case.stop];
        let mut reply = open(&mut thinker, id, request, case.answer.len() + 1);
        while !reply.done {
            step(&mut thinker, &mut [&mut reply], u32::MAX);
            let golden = case
                .logits
                .iter()
                .find(|(computed, _)| *computed == reply.computed);
            if let Some((_, expected)) = golden {
                let logits = thinker.logits(reply.seq).expect("just computed");
                assert_close(&case.text, &logits, expected, tolerance);
            }
        }
        thinker.close(reply.seq);
        assert_eq!(reply.ids(), case.answer, "{}", case.text);
    }
}
