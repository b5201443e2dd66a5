//! Conversations through the library.

use omni_audio::{SampleRate, Samples};
use omni_client::{
    ChatDone, ChatEvent, ChatEvents, ChatSettings, Client, ClientError, Endpoint, Finish, InputAudio,
    Message, Outputs, ResponseId, ResponseRequest, Role,
};
use omni_proto::v1;
use tonic::Code;

use crate::fake::{CHUNK, ChatScript, Fake, Seen};

/// Received part of one response.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    samples: u64,
    done: Option<(ResponseId, ChatDone)>,
}

/// Runs a conversation; the server has a runtime of its own.
fn talk(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

async fn client(fake: &Fake) -> Client {
    Client::connect(&Endpoint::parse(&fake.endpoint()).unwrap())
        .await
        .unwrap()
}

/// Listens until a response is done.
async fn answer(events: &mut ChatEvents) -> Answer {
    let mut answer = Answer::default();
    while answer.done.is_none() {
        match events.next().await.unwrap().expect("an answer") {
            ChatEvent::Text(_, text) => answer.text.push_str(&text),
            ChatEvent::Audio(_, audio) => answer.samples += audio.samples().0,
            ChatEvent::Done(id, done) => answer.done = Some((id, done)),
            _ => {}
        }
    }
    answer
}

#[test]
fn a_conversation_of_several_turns_ends_well() {
    let fake = Fake::chat(ChatScript::default());
    talk(async {
        let (chat, mut events) = client(&fake).await.converse(&ChatSettings::default());
        for text in ["Hello.", "And again."] {
            chat.say(text).await.unwrap();
            let answer = answer(&mut events).await;
            assert_eq!(answer.text, format!("You said: {text}"));
            assert_eq!(answer.samples, u64::from(5 * CHUNK));
            let (_, done) = answer.done.unwrap();
            assert_eq!(done.outcome.finish, Finish::Stop);
            assert_eq!(done.outcome.usage.output_text_tokens, 7);
            assert_eq!(done.message.unwrap().text(), answer.text);
        }
        drop(chat);
        assert_eq!(events.next().await.unwrap(), None);
        fake.until(&Seen::Closed);
    });
}

#[test]
fn ready_tells_the_settings_in_force() {
    let fake = Fake::chat(ChatScript::default());
    talk(async {
        let settings = ChatSettings {
            instructions: "Be brief.".into(),
            voice: "amber".into(),
            history: vec![Message::user("Hi."), Message::assistant("Hello.")],
            ..ChatSettings::default()
        };
        let (_chat, mut events) = client(&fake).await.converse(&settings);
        let Some(ChatEvent::Ready(ready)) = events.next().await.unwrap() else {
            panic!("not ready")
        };
        assert_eq!(
            (ready.voice.as_str(), ready.outputs),
            ("amber", Outputs::TextAndAudio)
        );
        assert_eq!(ready.instructions, "Be brief.");
        assert_eq!(ready.rate, SampleRate::new(24_000).ok());
        let Seen::ChatConfig(config) = fake.next() else {
            panic!("no config")
        };
        assert_eq!(config.history.len(), 2);
        assert_eq!(config.history[1].role(), v1::Role::Assistant);
    });
}

#[test]
fn an_interruption_tells_what_was_heard_and_gets_back_what_is_kept() {
    let fake = Fake::chat(ChatScript {
        hold: true,
        heard: "You",
        ..ChatScript::default()
    });
    talk(async {
        let (chat, mut events) = client(&fake).await.converse(&ChatSettings::default());
        chat.say("Tell me a story.").await.unwrap();
        while !matches!(events.next().await.unwrap(), Some(ChatEvent::Audio(_, audio)) if audio.last) {}
        chat.interrupt(None, Some(Samples(1_000))).await.unwrap();
        // Behind an interruption the next turn may follow at once.
        chat.say("Never mind.").await.unwrap();
        let (_, done) = answer(&mut events).await.done.unwrap();
        assert_eq!(done.outcome.finish, Finish::Interrupted);
        assert_eq!(done.message.unwrap().text(), "You");
        fake.until(&Seen::Interrupt(Some(1_000)));
        fake.until(&Seen::Message(v1::Role::User, "Never mind.".into()));
    });
}

#[test]
fn a_response_that_was_done_before_it_was_heard_is_cut() {
    let fake = Fake::chat(ChatScript {
        heard: "You",
        ..ChatScript::default()
    });
    talk(async {
        let (chat, mut events) = client(&fake).await.converse(&ChatSettings::default());
        chat.say("Hello.").await.unwrap();
        let (id, _) = answer(&mut events).await.done.unwrap();
        chat.interrupt(Some(&id), Some(Samples(10))).await.unwrap();
        let Some(ChatEvent::MessageCut(cut, Some(left))) = events.next().await.unwrap() else {
            panic!("not cut")
        };
        assert_eq!(
            (cut, left.role, left.text()),
            (id, Role::Assistant, "You".to_owned())
        );
    });
}

#[test]
fn speech_is_sent_in_whole_samples_and_answered_when_committed() {
    let fake = Fake::chat(ChatScript::default());
    talk(async {
        let settings = ChatSettings {
            input: Some(InputAudio {
                rate: SampleRate::new(8_000).unwrap(),
                channels: 1,
            }),
            ..ChatSettings::default()
        };
        let (chat, mut events) = client(&fake).await.converse(&settings);
        chat.audio(vec![0; 40_000]).await.unwrap();
        chat.commit(true).await.unwrap();
        assert_eq!(answer(&mut events).await.text, "You said: 40000 bytes of speech");
        let Seen::ChatConfig(config) = fake.next() else {
            panic!("no config")
        };
        assert_eq!(config.input_audio.unwrap().sample_rate_hz, 8_000);
        let seen = fake.until(&Seen::Commit);
        assert!(seen.len() > 1, "cut into several messages");
        for piece in seen {
            assert!(
                matches!(piece, Seen::Speech(bytes) if bytes % 4 == 0),
                "{piece:?}"
            );
        }
    });
}

#[test]
fn new_settings_and_single_requests_are_obeyed() {
    let fake = Fake::chat(ChatScript::default());
    talk(async {
        let mut settings = ChatSettings {
            history: vec![Message::user("Hi.")],
            ..ChatSettings::default()
        };
        let (chat, mut events) = client(&fake).await.converse(&settings);
        settings.outputs = Outputs::Text;
        chat.configure(&settings).await.unwrap();
        chat.say("Hello.").await.unwrap();
        assert_eq!(answer(&mut events).await.samples, 0);
        let aloud = ResponseRequest {
            outputs: Some(Outputs::TextAndAudio),
            ..ResponseRequest::default()
        };
        chat.respond(&aloud).await.unwrap();
        assert_eq!(answer(&mut events).await.samples, u64::from(5 * CHUNK));
        let configs: Vec<Seen> = fake
            .rest()
            .into_iter()
            .filter(|seen| matches!(seen, Seen::ChatConfig(_)))
            .collect();
        let [Seen::ChatConfig(first), Seen::ChatConfig(second)] = &configs[..] else {
            panic!("{configs:?}")
        };
        assert_eq!((first.history.len(), second.history.len()), (1, 0));
    });
}

#[test]
fn what_comes_after_the_end_of_a_response_is_a_broken_protocol() {
    let fake = Fake::chat(ChatScript {
        leaky: true,
        ..ChatScript::default()
    });
    talk(async {
        let (chat, mut events) = client(&fake).await.converse(&ChatSettings::default());
        chat.say("Hello.").await.unwrap();
        answer(&mut events).await;
        let error = events.next().await.unwrap_err();
        assert!(matches!(error, ClientError::Protocol { .. }), "{error}");
        assert_eq!(error.code(), Code::Internal);
    });
}

#[test]
fn one_answer_to_a_whole_conversation_needs_no_session() {
    let fake = Fake::chat(ChatScript::default());
    talk(async {
        let settings = ChatSettings {
            history: vec![Message::user("Hi."), Message::assistant("Hello.")],
            ..ChatSettings::default()
        };
        let mut events = client(&fake)
            .await
            .generate(&settings, &[Message::user("What now?")]);
        let answer = answer(&mut events).await;
        assert_eq!(answer.text, "3 messages");
        assert_eq!(events.next().await.unwrap(), None);
    });
}

#[test]
fn dropping_the_events_ends_the_conversation_though_the_sender_lives() {
    let fake = Fake::chat(ChatScript::default());
    talk(async {
        let (chat, mut events) = client(&fake).await.converse(&ChatSettings::default());
        events.next().await.unwrap();
        drop(events);
        fake.until(&Seen::Closed);
        assert!(chat.say("Is anybody there?").await.is_err());
    });
}
