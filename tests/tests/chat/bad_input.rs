//! Input that is refused: each with its reason, its field and the way out.

use omni_proto::v1;
use omni_proto::v1::content_part::Part;
use omni_proto::v1::converse_request::Event as Request;
use omni_tests::{
    FakeScript, TestServer, chat_config, chat_message, generate, interrupt, reason, respond, said,
};
use tonic::{Code, Status};

/// Sends all of it behind a good config, and expects the call to end with a status.
async fn refused(server: &TestServer, requests: Vec<Request>) -> Status {
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    for request in requests {
        chat.send(request).await;
    }
    chat.hang_up();
    match chat.end().await {
        Err(status) => status,
        Ok(history) => panic!("not refused: {:?}", history.responses.last()),
    }
}

fn config(change: impl FnOnce(&mut v1::ChatConfig)) -> Request {
    let mut config = v1::ChatConfig::default();
    change(&mut config);
    Request::Config(config)
}

fn message(role: v1::Role, parts: Vec<Part>) -> Request {
    let parts = parts.into_iter().map(|part| v1::ContentPart { part: Some(part) });
    Request::Message(v1::ChatMessage {
        id: String::new(),
        role: role.into(),
        parts: parts.collect(),
    })
}

fn named(id: &str) -> Request {
    let mut message = chat_message(v1::Role::User, "hi");
    id.clone_into(&mut message.id);
    Request::Message(message)
}

fn clip() -> Part {
    Part::Audio(v1::AudioClip {
        format: None,
        data: vec![0; 4].into(),
    })
}

fn sampling(change: impl FnOnce(&mut v1::SamplingParams)) -> Option<v1::SamplingParams> {
    let mut sampling = v1::SamplingParams::default();
    change(&mut sampling);
    Some(sampling)
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_by_name() {
    let server = TestServer::fake(FakeScript::default(), &["--max-text-bytes", "100"]).await;
    let text = |text: &str| Part::Text(text.to_owned());
    let long = "x".repeat(101);
    let user = v1::Role::User;
    let cases: Vec<(Vec<Request>, &str, &str)> = vec![
        (
            vec![config(|c| c.model = "other".into())],
            "MODEL_NOT_FOUND",
            "other",
        ),
        (
            vec![config(|c| c.voice = "tenor".into())],
            "VOICE_NOT_FOUND",
            "alto",
        ),
        (
            vec![config(|c| c.language = "tlh".into())],
            "LANGUAGE_NOT_FOUND",
            "en",
        ),
        (
            vec![config(|c| c.instructions = long.clone())],
            "TEXT_TOO_LONG",
            "config.instructions",
        ),
        (
            vec![config(|c| c.output_modalities = vec![0])],
            "INVALID_FIELD",
            "config.output_modalities",
        ),
        (
            vec![config(|c| c.output_modalities = vec![9])],
            "INVALID_FIELD",
            "MODALITY_TEXT",
        ),
        (
            vec![config(|c| {
                c.text_sampling = sampling(|s| s.temperature = Some(-1.0));
            })],
            "INVALID_FIELD",
            "config.text_sampling.temperature",
        ),
        (
            vec![config(|c| c.text_sampling = sampling(|s| s.max_tokens = Some(0)))],
            "INVALID_FIELD",
            "config.text_sampling.max_tokens",
        ),
        (
            vec![config(|c| c.speech_sampling = sampling(|s| s.top_p = Some(2.0)))],
            "INVALID_FIELD",
            "config.speech_sampling.top_p",
        ),
        (
            vec![config(|c| c.stop = vec![String::new()])],
            "INVALID_FIELD",
            "config.stop",
        ),
        (
            vec![config(|c| c.stop = vec!["x".into(); 17])],
            "INVALID_FIELD",
            "config.stop",
        ),
        (
            vec![config(|c| c.history = vec![chat_message(user, "hi")])],
            "INVALID_FIELD",
            "config.history",
        ),
        (
            vec![config(|c| {
                c.output_audio = Some(v1::AudioDelivery {
                    max_lead: Some(omni_proto::Duration::default()),
                    ..v1::AudioDelivery::default()
                });
            })],
            "INVALID_FIELD",
            "config.output_audio.max_lead",
        ),
        (
            vec![config(|c| {
                c.input_audio = Some(v1::AudioFormat {
                    sample_rate_hz: 8_000,
                    ..v1::AudioFormat::default()
                });
            })],
            "AUDIO_INPUT_NOT_SUPPORTED",
            "config.input_audio",
        ),
        (
            vec![message(v1::Role::Unspecified, vec![text("x")])],
            "INVALID_FIELD",
            "message.role",
        ),
        (vec![message(user, vec![])], "INVALID_FIELD", "message.parts"),
        (
            vec![message(user, vec![text("")])],
            "INVALID_FIELD",
            "message.parts.text",
        ),
        (
            vec![message(user, vec![text(&long[..60]), text(&long[..60])])],
            "TEXT_TOO_LONG",
            "120",
        ),
        (
            vec![message(user, vec![clip()])],
            "AUDIO_INPUT_NOT_SUPPORTED",
            "message.parts.audio",
        ),
        (
            vec![message(v1::Role::Assistant, vec![clip()])],
            "INVALID_FIELD",
            "ROLE_USER",
        ),
        (
            vec![said(user, "hi"), said(v1::Role::System, "be kind")],
            "INVALID_FIELD",
            "message.role",
        ),
        (vec![named("a"), named("a")], "MESSAGE_ID_INVALID", "\"a\""),
        (vec![named(&"n".repeat(129))], "MESSAGE_ID_INVALID", "128"),
        (
            vec![Request::InputAudio(v1::InputAudio {
                data: vec![0; 2].into(),
            })],
            "AUDIO_INPUT_NOT_SUPPORTED",
            "input_audio",
        ),
        (
            vec![Request::Respond(v1::CreateResponse {
                output_modalities: vec![0],
                ..v1::CreateResponse::default()
            })],
            "INVALID_FIELD",
            "respond.output_modalities",
        ),
        (
            vec![Request::Respond(v1::CreateResponse {
                instructions: long.clone(),
                ..v1::CreateResponse::default()
            })],
            "TEXT_TOO_LONG",
            "respond.instructions",
        ),
    ];
    for (requests, expected, excerpt) in cases {
        let what = format!("{requests:?}");
        let status = refused(&server, requests).await;
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, expected),
            "{what}"
        );
        assert!(status.message().contains(excerpt), "{what}: {}", status.message());
    }
    server.stop().await;
}

#[tokio::test]
async fn the_order_of_messages_is_the_protocols() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    for early in [said(v1::Role::User, "hi"), respond(), interrupt(None)] {
        let mut chat = server.converse().await;
        chat.send(early).await;
        chat.hang_up();
        let status = chat.end().await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, "PROTOCOL_VIOLATION")
        );
    }
    script.thinker.close();
    for busy in [
        said(v1::Role::User, "hi"),
        respond(),
        config(|_| {}),
        Request::Commit(v1::CommitInput::default()),
    ] {
        let status = refused(&server, vec![respond(), busy]).await;
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::FailedPrecondition, "RESPONSE_IN_PROGRESS")
        );
    }
    script.thinker.open();
    let status = refused(&server, vec![Request::Commit(v1::CommitInput { respond: true })]).await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::FailedPrecondition, "NO_INPUT_AUDIO")
    );
    server.stop().await;
}

#[tokio::test]
async fn samples_of_an_answer_that_was_not_spoken_make_no_sense() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    chat.turn("hello").await;
    chat.send(interrupt(Some(5))).await;
    let status = chat.end().await.unwrap_err();
    assert!(
        status.message().contains("interrupt.played_samples"),
        "{}",
        status.message()
    );
    server.stop().await;
}

#[tokio::test]
async fn generate_takes_a_conversation_and_no_more() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let user = || vec![chat_message(v1::Role::User, "hi")];
    let with = |change: fn(&mut v1::ChatConfig)| {
        let mut config = v1::ChatConfig::default();
        change(&mut config);
        config
    };
    let cases = [
        (with(|_| {}), vec![], "messages"),
        (
            with(|c| c.history = vec![chat_message(v1::Role::User, "hi")]),
            user(),
            "config.history",
        ),
        (
            with(|c| c.input_audio = Some(v1::AudioFormat::default())),
            user(),
            "config.input_audio",
        ),
        (
            with(|c| c.instructions = "be kind".into()),
            vec![chat_message(v1::Role::System, "be rude")],
            "config.instructions",
        ),
    ];
    for (config, messages, field) in cases {
        let status = generate(&mut server.chat(), config, messages).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(field), "{}", status.message());
    }
    server.stop().await;
}
