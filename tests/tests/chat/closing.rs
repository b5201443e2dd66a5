//! Conversations of a server that is about to go.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use omni_audio::{Encoding, Format, Rendering};
use omni_core::error::ServeError;
use omni_family::{ChatMessage, Part, Role};
use omni_pipeline::clock::Clock;
use omni_pipeline::request::Sampling;
use omni_session::{
    Buffering, ChatCommand, ChatEvent, ChatEventBody, ChatSession, ChatSettings, Delivery, Modalities,
    NewMessage, Outcome, Respond, SessionDeps, SessionLimits, Settings, event_channel,
};
use omni_tests::{FakeScript, TestServer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Commands that may wait.
const COMMANDS: usize = 16;

fn written() -> ChatCommand {
    let settings = ChatSettings {
        instructions: None,
        modalities: Modalities {
            text: true,
            audio: false,
        },
        sampling: Sampling::default(),
        seed: None,
        max_tokens: 100,
        stop: Vec::new(),
        input: None,
        speech: Settings {
            voice_prompt: None,
            voice: "alto".to_owned(),
            language: None,
            instructions: None,
            non_streaming: false,
            delivery: Delivery {
                format: Format::new(Encoding::Pcm16, 16_000).unwrap(),
                rendering: Rendering::default(),
                leading_silence: Duration::ZERO,
                max_lead: None,
                whole: false,
            },
            sampling: Sampling::default(),
            seed: None,
            max_frames: None,
            buffering: Buffering::Eager,
            max_buffer_delay: None,
            alignment: false,
            ignored: Vec::new(),
        },
    };
    ChatCommand::Configure {
        settings: Box::new(settings),
        history: Vec::new(),
        cut: 0,
    }
}

fn said(text: &str) -> ChatCommand {
    ChatCommand::Message(NewMessage {
        id: String::new(),
        message: ChatMessage {
            role: Role::User,
            parts: vec![Part::Text(text.into())],
        },
    })
}

/// Events after the first, in a conversation that is not read until all these commands are taken; a shutdown begins
/// once an answer is in progress.
async fn unread(
    server: &TestServer,
    script: &FakeScript,
    more: Vec<ChatCommand>,
) -> Vec<Result<ChatEvent, ServeError>> {
    let deps = SessionDeps {
        orchestrator: server.app.orchestrator().clone(),
        clock: Clock::start(),
        limits: SessionLimits::default(),
        records: Arc::new(server.records.clone()),
        stop: Default::default(),
    };
    let (commands, taken) = mpsc::channel(COMMANDS);
    let (events, mut seen) = event_channel(1);
    let session = ChatSession::new(deps, None);
    let session = tokio::spawn(session.run(ReceiverStream::new(taken).map(Ok), events));
    script.thinker.close();
    for command in [written(), said("one"), ChatCommand::Respond(Respond::default())] {
        commands.send(command).await.unwrap();
    }
    script.thinker.reached().await;
    server.app.orchestrator().draining().cancel();
    for command in more {
        commands.send(command).await.unwrap();
    }
    server
        .until("every command is taken", || commands.capacity() == COMMANDS)
        .await;
    script.thinker.open();
    let mut all = Vec::new();
    while let Some(event) = seen.recv().await {
        all.push(event);
    }
    session.await.unwrap();
    all
}

#[tokio::test]
async fn no_answer_is_begun_once_the_server_has_said_so() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let interrupt = ChatCommand::Interrupt {
        response: String::new(),
        played: None,
    };
    let more = vec![interrupt, said("two"), ChatCommand::Respond(Respond::default())];
    let seen = unread(&server, &script, more).await;
    let ended = seen.iter().filter_map(|event| match event {
        Ok(ChatEvent {
            body: ChatEventBody::Done(done),
            ..
        }) => Some(done.outcome),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [Outcome::Interrupted], "{seen:?}");
    let warned = seen.iter().any(|event| match event {
        Ok(ChatEvent {
            response,
            body: ChatEventBody::Warning { reason, .. },
        }) => response.is_none() && *reason == "DRAINING",
        _ => false,
    });
    assert!(warned, "{seen:?}");
    let last = seen.last().and_then(|last| last.as_ref().err());
    assert_eq!(last.map(ServeError::reason), Some("DRAINING"), "{seen:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_in_progress_is_finished() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let seen = unread(&server, &script, Vec::new()).await;
    let finished = seen.iter().any(|event| match event {
        Ok(ChatEvent {
            body: ChatEventBody::Done(done),
            ..
        }) => done.outcome == Outcome::Stop && done.said.text == "You said: one",
        _ => false,
    });
    assert!(finished, "{seen:?}");
    server.stop().await;
}
