//! Sessions without a transport: the test controls the reads.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use omni_audio::{Encoding, Format, Rendering};
use omni_config::Quotas;
use omni_core::caller::{Caller, QuotaState, Tenant};
use omni_core::error::ServeError;
use omni_pipeline::clock::Clock;
use omni_pipeline::request::Sampling;
use omni_session::{
    Buffering, Command, Delivery, Event, EventBody, Outcome, Session, SessionDeps, SessionHandle,
    SessionLimits, Settings, event_channel,
};
use omni_tests::{FakeScript, TestServer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Characters that the caller may send in a minute.
const QUOTA: u32 = 100;

fn settings(max_frames: Option<u32>) -> Settings {
    Settings {
        voice: "alto".to_owned(),
        voice_prompt: None,
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
        seed: Some(1),
        max_frames,
        buffering: Buffering::Manual,
        max_buffer_delay: None,
        alignment: false,
        ignored: Vec::new(),
    }
}

fn text(text: &str) -> Command {
    Command::Text {
        text: text.to_owned(),
        utterance: "a".to_owned(),
    }
}

/// A session, the account of its caller, and both of its ends. One event may wait for its reader.
struct Driven {
    caller: Caller,
    commands: mpsc::Sender<Command>,
    events: mpsc::Receiver<Result<Event, ServeError>>,
}

impl Driven {
    fn open(server: &TestServer, limits: SessionLimits) -> Self {
        let quotas = Quotas {
            characters_per_minute: Some(QUOTA),
            ..Quotas::default()
        };
        let caller = Caller::holder(Arc::new(QuotaState::new("somebody", Tenant::Unknown, &quotas)));
        let deps = SessionDeps {
            orchestrator: server.app.orchestrator().clone(),
            clock: Clock::start(),
            limits,
            records: Arc::new(server.records.clone()),
            stop: Default::default(),
        };
        let handle = SessionHandle::new("test", caller.clone(), deps.clock.now());
        let (commands, taken) = mpsc::channel(1);
        let (told, events) = event_channel(1);
        let session = Session::new(deps, None).with_handle(handle);
        tokio::spawn(session.run(ReceiverStream::new(taken).map(Ok), told));
        Self {
            caller,
            commands,
            events,
        }
    }

    async fn send(&self, command: Command) {
        self.commands.send(command).await.expect("it listens");
    }

    async fn event(&mut self) -> EventBody {
        let event = self.events.recv().await.expect("more");
        event.expect("no error").body
    }
}

#[tokio::test]
async fn a_reader_who_was_too_slow_gets_the_reason_last_however_late() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let limits = SessionLimits {
        stall_timeout: Duration::from_millis(50),
        ..SessionLimits::default()
    };
    let mut driven = Driven::open(&server, limits);
    driven.send(Command::Configure(Box::new(settings(None)))).await;
    driven.send(text("abcdefghij. klmnopqrst. uvwxyz.")).await;
    driven.send(Command::Finish).await;
    server
        .until("the session has given its reader up", || {
            driven.commands.is_closed()
        })
        .await;
    let mut last = None;
    while let Some(event) = driven.events.recv().await {
        last = Some(event.map(|event| event.body));
    }
    let last = last
        .expect("something was said")
        .expect_err("it did not end well");
    assert_eq!(last.reason(), "SLOW_READER", "{}", last.message());
    server.stop().await;
}

#[tokio::test]
async fn text_for_an_utterance_that_is_at_its_limit_changes_and_costs_nothing() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let limits = SessionLimits {
        max_buffered_text_bytes: 200,
        ..SessionLimits::default()
    };
    let mut driven = Driven::open(&server, limits);
    driven.send(Command::Configure(Box::new(settings(Some(2))))).await;
    driven.send(text("abcdef")).await;
    driven.send(Command::Flush).await;
    while !matches!(driven.event().await, EventBody::Audio(_)) {}
    // The rest of the audio waits for its reader.
    let admission = server.app.orchestrator().admission();
    let places = admission.limits().max_active;
    server
        .until("its work is done", || admission.free() == places)
        .await;
    driven.send(text(&"g".repeat(300))).await;
    driven.send(Command::Finish).await;
    server
        .until("both are taken", || driven.commands.capacity() == 1)
        .await;
    let done = loop {
        match driven.event().await {
            EventBody::Done(done) => break done,
            EventBody::Audio(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((done.outcome, done.error), (Outcome::Length, None));
    let half = QUOTA as usize / 2;
    driven
        .caller
        .begin(half, Clock::start().now())
        .expect("what was dropped is not charged");
    server.stop().await;
}

/// Speaks `first` up to a flush, then `second`; gives how it ended, and of every audio whether it said that it was the
/// last.
async fn flushed(
    server: &TestServer,
    max_audio: Duration,
    max_frames: Option<u32>,
    [first, second]: [&str; 2],
) -> (Outcome, Vec<bool>) {
    let limits = SessionLimits {
        max_audio,
        ..SessionLimits::default()
    };
    let driven = Driven::open(server, limits);
    driven
        .send(Command::Configure(Box::new(settings(max_frames))))
        .await;
    let speak = async |commands: mpsc::Sender<Command>| {
        for command in [text(first), Command::Flush, text(second), Command::Finish] {
            commands.send(command).await.expect("it listens");
        }
    };
    let hear = async |mut events: mpsc::Receiver<Result<Event, ServeError>>| {
        let mut lasts = Vec::new();
        loop {
            match events.recv().await.expect("more").expect("no error").body {
                EventBody::Audio(audio) => lasts.push(audio.last),
                EventBody::Done(done) => break (done.outcome, lasts),
                _ => {}
            }
        }
    };
    tokio::join!(speak(driven.commands), hear(driven.events)).1
}

fn only_the_end(lasts: &[bool]) -> bool {
    lasts.iter().position(|last| *last) == lasts.len().checked_sub(1) && !lasts.is_empty()
}

#[tokio::test]
async fn the_last_audio_says_so_whatever_comes_of_what_is_behind_a_flush() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let long = SessionLimits::default().max_audio;
    for (max_frames, second, ends) in [
        // Only silence, and not even all of that.
        (None, "__", Outcome::Stop),
        (Some(6), "____", Outcome::Length),
        (Some(7), "____", Outcome::Length),
        // No samples at all, or none to begin with.
        (None, "~", Outcome::Stop),
        (None, "~~~_", Outcome::Stop),
        (Some(7), "~~~~", Outcome::Length),
    ] {
        let (outcome, lasts) = flushed(&server, long, max_frames, ["aaaaa", second]).await;
        assert_eq!(outcome, ends, "{max_frames:?} {second}");
        assert!(only_the_end(&lasts), "{max_frames:?} {second}: {lasts:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_last_audio_says_so_also_where_the_longest_audio_ends_behind_a_flush() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    // Five frames are 200 ms: the limit is reached before their end, with it, and behind it.
    for limit in 190..=230 {
        let texts = ["aaaaa", "____bbbbbb"];
        let (outcome, lasts) = flushed(&server, Duration::from_millis(limit), None, texts).await;
        assert_eq!(outcome, Outcome::Length, "{limit} ms");
        assert!(only_the_end(&lasts), "{limit} ms: {lasts:?}");
    }
    server.stop().await;
}

/// A caller keeps sending text for a failed utterance; the one before it is still spoken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_never_stops_sending_is_still_spoken_to() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let deps = SessionDeps {
        orchestrator: server.app.orchestrator().clone(),
        clock: Clock::start(),
        limits: SessionLimits {
            max_text_bytes: 50,
            ..SessionLimits::default()
        },
        records: Arc::new(server.records.clone()),
        stop: Default::default(),
    };
    let stop = deps.stop.clone();
    // The session ends in any case.
    let ended = stop.clone().drop_guard();
    let say = |utterance: &str, text: String| Command::Text {
        text,
        utterance: utterance.to_owned(),
    };
    let begin = [
        Command::Configure(Box::new(settings(None))),
        say("a", "This is to be spoken.".to_owned()),
        Command::Finish,
        say("b", "x".repeat(51)),
    ];
    let flood = std::iter::repeat_with(move || say("b", "y".to_owned()));
    let endless = begin
        .into_iter()
        .chain(flood)
        .take_while(move |_| !stop.is_cancelled());
    let (told, mut events) = event_channel(4);
    let session = tokio::spawn(Session::new(deps, None).run(futures::stream::iter(endless.map(Ok)), told));
    let done = async {
        loop {
            let event = events.recv().await.expect("more").expect("no error");
            if let EventBody::Done(done) = event.body {
                break done;
            }
        }
    };
    // Longer than anything takes on a busy machine; only a test that fails waits for it.
    let done = tokio::time::timeout(Duration::from_secs(30), done).await;
    assert_eq!(done.expect("it is spoken").outcome, Outcome::Stop);
    drop(ended);
    drop(events);
    session.await.expect("it ends");
    server.stop().await;
}
