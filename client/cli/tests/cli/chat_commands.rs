//! Commands between the turns of a conversation.

use std::fs;

use omni_proto::v1::ChatConfig;
use serde_json::{Value, json};

use crate::fake::{ChatScript, Fake, Seen};
use crate::program::Place;

fn configs(fake: &Fake) -> Vec<ChatConfig> {
    let config = |seen| match seen {
        Seen::ChatConfig(config) => Some(*config),
        _ => None,
    };
    fake.rest().into_iter().filter_map(config).collect()
}

#[test]
fn a_conversation_is_saved_as_json_and_as_text() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let args = ["chat", "--system", "Be brief."];
    let outcome = place.run_with(&args, b"One.\n/save all.json\nTwo.\n/save all of it.txt\n");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(
        outcome.stderr,
        "2 messages saved to all.json\n4 messages saved to all of it.txt\n"
    );
    let saved: Value = serde_json::from_slice(&fs::read(place.path("all.json")).unwrap()).unwrap();
    assert_eq!(
        saved,
        json!({
            "model": "fake-model",
            "voice": "fake",
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "One." },
                { "role": "assistant", "content": "You said: One." },
            ],
        })
    );
    assert_eq!(
        fs::read_to_string(place.path("all of it.txt")).unwrap(),
        "system: Be brief.\n\nuser: One.\n\nassistant: You said: One.\n\nuser: Two.\n\nassistant: You said: Two.\n"
    );
}

#[test]
fn a_file_that_cannot_be_saved_ends_a_script() {
    let fake = Fake::chat(ChatScript::default());
    let outcome = Place::with(&fake).run_with(&["chat"], b"One.\n/save nowhere/all.txt\nTwo.\n");
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert_eq!(outcome.stdout, b"You said: One.\n");
}

#[test]
fn voice_and_instructions_change_between_turns() {
    let fake = Fake::chat(ChatScript::default());
    let script = b"One.\n/voice onyx\n/voice\n/system Speak like a pirate.\n/system\nTwo.\n";
    let outcome = Place::with(&fake).run_with(&["chat", "-o", "all.wav", "-v", "amber"], script);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(
        outcome.stderr,
        "voice: onyx\nvoice: onyx\nsystem: Speak like a pirate.\n"
    );
    let configs = configs(&fake);
    let told: Vec<(&str, &str)> = configs
        .iter()
        .map(|config| (config.voice.as_str(), config.instructions.as_str()))
        .collect();
    let pirate = "Speak like a pirate.";
    assert_eq!(told, [("amber", ""), ("onyx", ""), ("onyx", pirate)]);
    assert!(configs.iter().all(|config| config.history.is_empty()));
}

#[test]
fn clearing_begins_a_new_conversation() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let outcome = place.run_with(&["chat"], b"One.\n/clear\nTwo.\n/save all.txt\n");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(
        fs::read_to_string(place.path("all.txt")).unwrap(),
        "user: Two.\n\nassistant: You said: Two.\n"
    );
    let configs = configs(&fake);
    assert_eq!(configs.len(), 2);
    assert!(configs[1].history.is_empty());
}

#[test]
fn a_script_may_leave_early_and_say_slashes() {
    let fake = Fake::chat(ChatScript::default());
    let outcome = Place::with(&fake).run_with(&["chat"], b"//help me\n/quit\nNever said.\n");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stdout, b"You said: /help me\n");
}

#[test]
fn wrong_commands_end_a_script() {
    for (line, what) in [
        ("/sing", "there is no /sing"),
        ("/save", "needs the name of a file"),
        ("/voice amber", "--audio-out"),
        ("/voice zz", "there is no voice zz, expected one of: amber, onyx"),
    ] {
        let fake = Fake::chat(ChatScript::default());
        let outcome = Place::with(&fake).run_with(&["chat"], format!("{line}\nOne.\n").as_bytes());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(what), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, b"");
    }
}
