//! Quotas of API keys: refusals and their messages, changes at run time, and the order of admission when places are
//! few.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use omni_config::{Quotas, Scope, new_key};
use omni_proto::v1;
use omni_proto::v1::speak_response::Event;
use omni_tests::{
    FakeScript, Reading, TestServer, audio_of_request, chat_config, chat_message, endless, finish, http,
    reason, respond, said, seeded, text,
};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

/// Longer than anything here takes; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and the file of its keys.
struct Keyed {
    server: TestServer,
    file: PathBuf,
    _place: tempfile::TempDir,
}

/// A key and its line.
fn key(quotas: &Quotas) -> (String, String) {
    new_key("somebody", &[Scope::Speech, Scope::Chat], quotas).expect("random bytes")
}

impl Keyed {
    async fn with(script: &FakeScript, lines: &[&str], args: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a place");
        let file = place.path().join("keys");
        fs::write(&file, lines.join("\n")).expect("a file");
        let path = file.to_str().expect("text").to_owned();
        let args = [&["--api-keys", &path], args].concat();
        Self {
            server: TestServer::fake(script.clone(), &args).await,
            file,
            _place: place,
        }
    }
}

fn with_key<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {key}").parse().expect("a value");
    request.metadata_mut().insert("authorization", value);
    request
}

async fn say(server: &TestServer, key: &str, text: &str) -> Result<usize, Status> {
    let request = v1::SynthesizeRequest {
        config: Some(seeded(1)),
        text: text.to_owned(),
    };
    let (audio, _) = audio_of_request(&mut server.speech(), with_key(request, key)).await?;
    Ok(audio.len())
}

/// An open `Speak` call that carries the key.
async fn call(server: &TestServer, key: &str) -> Result<v1::SpeechSessionReady, Status> {
    open(server, key).await.map(|(_, ready)| ready)
}

type Open = (
    tokio::sync::mpsc::Sender<v1::SpeakRequest>,
    tonic::Streaming<v1::SpeakResponse>,
);

async fn open(server: &TestServer, key: &str) -> Result<(Open, v1::SpeechSessionReady), Status> {
    let (requests, receiver) = tokio::sync::mpsc::channel(16);
    let config = v1::speak_request::Event::Config(seeded(1));
    requests
        .send(v1::SpeakRequest { event: Some(config) })
        .await
        .expect("room");
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut responses = server.speech().speak(with_key(stream, key)).await?.into_inner();
    match responses.message().await?.and_then(|response| response.event) {
        Some(Event::Ready(ready)) => Ok(((requests, responses), ready)),
        other => panic!("expected ready, found {other:?}"),
    }
}

/// Details of a refusal.
#[derive(Debug, PartialEq)]
struct Told {
    reason: String,
    quota: String,
    limit: String,
}

fn told(status: &Status) -> Told {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let details = status.get_error_details();
    let violations = &details.quota_failure().expect("a violation").violations;
    let info = details.error_info().expect("a reason");
    let retry = details.retry_info().expect("a time").retry_delay.expect("a time");
    assert!(retry > Duration::ZERO, "{status}");
    assert_eq!(violations[0].subject, info.metadata["quota"]);
    Told {
        reason: reason(status),
        quota: info.metadata["quota"].clone(),
        limit: info.metadata["limit"].clone(),
    }
}

fn over(reason: &str, quota: &str, limit: &str) -> Told {
    Told {
        reason: reason.to_owned(),
        quota: quota.to_owned(),
        limit: limit.to_owned(),
    }
}

#[tokio::test]
async fn streams_are_limited_per_key_and_given_back() {
    let quotas = Quotas {
        streams: Some(1),
        ..Quotas::default()
    };
    let (first, line) = key(&quotas);
    let (second, other) = key(&quotas);
    let keyed = Keyed::with(&FakeScript::default(), &[&line, &other], &[]).await;
    let server = &keyed.server;
    let (held, _) = open(server, &first).await.unwrap();
    let refused = call(server, &first).await.unwrap_err();
    assert_eq!(told(&refused), over("CONCURRENCY_LIMIT", "streams", "1"));
    say(server, &second, "Hello.")
        .await
        .expect("another key has its own");
    drop(held);
    server
        .until("the stream is closed", || server.app.sessions() == 0)
        .await;
    say(server, &first, "Hello.").await.unwrap();
    keyed.server.stop().await;
}

#[tokio::test]
async fn requests_have_a_rate_and_http_is_told_so_in_its_own_words() {
    let (key, line) = key(&Quotas::default());
    let defaults = "defaults requests-per-second=0.01 burst=2";
    let keyed = Keyed::with(&FakeScript::default(), &[defaults, &line], &[]).await;
    let server = &keyed.server;
    for _ in 0..2 {
        say(server, &key, "Hello.").await.unwrap();
    }
    let refused = say(server, &key, "Hello.").await.unwrap_err();
    assert_eq!(
        told(&refused),
        over("RATE_LIMITED", "requests-per-second", "0.01")
    );
    let authorization = format!("Bearer {key}");
    let headers = [
        ("content-type", "application/json"),
        ("authorization", authorization.as_str()),
    ];
    let body = r#"{"model": "fake", "input": "Hello."}"#;
    let answer = http(server, "POST", "/v1/audio/speech", &headers, body).await;
    assert_eq!(answer.status, 429);
    let wait: u64 = answer.header("retry-after").parse().expect("seconds");
    assert!((1..=100).contains(&wait), "{wait} s");
    let error: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(error["error"]["type"], "rate_limit_error");
    assert_eq!(error["error"]["code"], "rate_limited");
    // Reading the catalogue costs nothing.
    assert_eq!(http(server, "GET", "/v1/models", &headers, "").await.status, 200);

    let reading = Reading::of(server).await;
    let counted = |reason: &str| reading.sum("vllm:admission_rejections_total", &[("reason", reason)]);
    assert_eq!(
        (counted("rate_limited"), counted("concurrency_limit")),
        (2.0, 0.0)
    );
    assert!(!reading.text.contains("somebody"), "metrics name no key");
    keyed.server.stop().await;
}

#[tokio::test]
async fn characters_are_limited_where_something_begins_and_a_stream_goes_on() {
    let quotas = Quotas {
        characters_per_minute: Some(20),
        ..Quotas::default()
    };
    let (key, line) = key(&quotas);
    let keyed = Keyed::with(&FakeScript::default(), &[&line], &[]).await;
    let server = &keyed.server;
    let ((requests, mut responses), _) = open(server, &key).await.unwrap();
    let send = async |event| {
        requests
            .send(v1::SpeakRequest { event: Some(event) })
            .await
            .unwrap();
    };
    let mut done = async || loop {
        let response = responses.message().await.unwrap().expect("more");
        if let Some(Event::Done(done)) = response.event {
            return done.outcome.expect("an outcome");
        }
    };
    // A debt too large to be repaid while the test runs, even on a busy machine.
    for _ in 0..20 {
        send(text("Fifteen letters")).await;
    }
    send(finish()).await;
    assert_eq!(
        done().await.finish_reason(),
        v1::FinishReason::Stop,
        "no caller is cut off"
    );
    send(text("More.")).await;
    send(finish()).await;
    let error = done().await.error.expect("an error");
    let details = tonic_types::RpcStatusExt::get_error_details(&error);
    assert_eq!(details.error_info().unwrap().reason, "RATE_LIMITED");
    assert_eq!(
        details.quota_failure().unwrap().violations[0].subject,
        "characters-per-minute"
    );
    // Also refused by the other protocols.
    let refused = say(server, &key, "More.").await.unwrap_err();
    assert_eq!(
        told(&refused),
        over("RATE_LIMITED", "characters-per-minute", "20")
    );
    let request = v1::GenerateRequest {
        messages: vec![chat_message(v1::Role::User, "More.")],
        ..v1::GenerateRequest::default()
    };
    let mut answers = server
        .chat()
        .generate(with_key(request, &key))
        .await
        .unwrap()
        .into_inner();
    let refused = loop {
        match answers.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it was answered"),
            Err(status) => break status,
        }
    };
    assert_eq!(told(&refused).quota, "characters-per-minute");
    keyed.server.stop().await;
}

/// Asks for answers in one conversation, one after the other; gives the reasons of the errors that they ended with.
async fn answers(
    server: &TestServer,
    key: &str,
    requests: Vec<v1::converse_request::Event>,
) -> Vec<Option<String>> {
    let asked = |event: &_| matches!(event, v1::converse_request::Event::Respond(_));
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let answer = server.chat().converse(with_key(stream, key)).await.unwrap();
    let mut responses = answer.into_inner();
    let mut reasons = Vec::new();
    for event in requests {
        let awaits = asked(&event);
        let event = Some(event);
        sender.send(v1::ConverseRequest { event }).await.expect("room");
        if !awaits {
            continue;
        }
        let done = loop {
            let event = responses.message().await.unwrap().expect("more").event;
            if let Some(v1::converse_response::Event::ResponseDone(done)) = event {
                break done;
            }
        };
        let error = done.outcome.expect("an outcome").error;
        let details = error.map(|error| tonic_types::RpcStatusExt::get_error_details(&error));
        reasons.push(details.map(|details| details.error_info().expect("a reason").reason.clone()));
    }
    reasons
}

#[tokio::test]
async fn what_was_refused_in_a_conversation_is_not_had_for_nothing_the_next_time() {
    let quotas = Quotas {
        characters_per_minute: Some(20),
        ..Quotas::default()
    };
    let limited = || Some("RATE_LIMITED".to_owned());
    let instructed = |characters: usize| {
        v1::converse_request::Event::Respond(v1::CreateResponse {
            instructions: "i".repeat(characters),
            ..v1::CreateResponse::default()
        })
    };
    let config = |characters: usize| {
        v1::converse_request::Event::Config(v1::ChatConfig {
            instructions: "i".repeat(characters),
            ..chat_config(false)
        })
    };
    let user = |text: &str| said(v1::Role::User, text);
    let cases = [
        // Charged each time an answer is requested.
        (
            vec![
                config(0),
                user("Ten of them"),
                respond(),
                user(&"c".repeat(30)),
                respond(),
                respond(),
            ],
            vec![None, limited(), limited()],
        ),
        // Instructions are read like everything else.
        (
            vec![config(15), user("ab"), respond(), user("Ten of them"), respond()],
            vec![None, limited()],
        ),
        (
            vec![
                config(0),
                user("ab"),
                instructed(15),
                user("Ten of them"),
                respond(),
            ],
            vec![None, limited()],
        ),
    ];
    for (requests, expected) in cases {
        let (key, line) = key(&quotas);
        let keyed = Keyed::with(&FakeScript::default(), &[&line], &[]).await;
        assert_eq!(answers(&keyed.server, &key, requests).await, expected);
        keyed.server.stop().await;
    }
}

#[tokio::test]
async fn audio_is_limited_by_what_was_sent() {
    let quotas = Quotas {
        audio_seconds_per_minute: Some(1),
        ..Quotas::default()
    };
    let (key, line) = key(&quotas);
    let keyed = Keyed::with(&FakeScript::default(), &[&line], &[]).await;
    let long = "A sentence that is longer than a second, to be sure, and goes on for a while.";
    let bytes = say(&keyed.server, &key, long).await.unwrap();
    assert!(bytes > 2 * 16_000, "the test needs more than a second");
    let refused = say(&keyed.server, &key, "More.").await.unwrap_err();
    assert_eq!(
        told(&refused),
        over("RATE_LIMITED", "audio-seconds-per-minute", "1")
    );
    keyed.server.stop().await;
}

#[tokio::test]
async fn new_quotas_count_for_open_streams_too_and_none_is_dropped() {
    let (key, line) = key(&Quotas::default());
    let keyed = Keyed::with(&FakeScript::default(), &["defaults streams=1", &line], &[]).await;
    let server = &keyed.server;
    let (held, _) = open(server, &key).await.unwrap();
    call(server, &key).await.unwrap_err();
    fs::write(&keyed.file, format!("{line} streams=2\n")).unwrap();
    let second = tokio::time::timeout(PATIENCE, async {
        loop {
            match open(server, &key).await {
                Ok((open, _)) => return open,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let _second = second.await.expect("the new quota counts");
    let refused = call(server, &key).await.unwrap_err();
    assert_eq!(told(&refused).limit, "2", "the stream from before counts");
    let (requests, mut responses) = held;
    for event in [text("Still here."), finish()] {
        requests
            .send(v1::SpeakRequest { event: Some(event) })
            .await
            .unwrap();
    }
    let spoken = async {
        loop {
            let event = responses.message().await.unwrap().expect("more").event;
            if let Some(Event::Done(done)) = event {
                return done.outcome.unwrap().finish_reason();
            }
        }
    };
    assert_eq!(spoken.await, v1::FinishReason::Stop);
    keyed.server.stop().await;
}

#[tokio::test]
async fn a_party_with_many_waiting_does_not_hold_up_one_with_few() {
    let script = FakeScript::default();
    let (greedy, first) = key(&Quotas::default());
    let (modest, second) = key(&Quotas::default());
    let keyed = Keyed::with(
        &script,
        &[&first, &second],
        &["--max-active", "1", "--max-waiting", "20"],
    )
    .await;
    let server = &keyed.server;
    script.talker.close();
    let spoken = |key: &str, text: &'static str| {
        let mut client = server.speech();
        let key = key.to_owned();
        tokio::spawn(async move {
            let config = Some(seeded(1));
            let text = text.to_owned();
            let request = v1::SynthesizeRequest { config, text };
            audio_of_request(&mut client, with_key(request, &key)).await
        })
    };
    let mut all = vec![spoken(&greedy, "One of many.")];
    script.talker.reached().await;
    let admission = server.app.orchestrator().admission();
    all.extend((1..=15).map(|_| spoken(&greedy, "One of many.")));
    server
        .until("all of them wait", || admission.waiting() == 15)
        .await;
    let single = "The only one of its kind, and the last to come.";
    all.push(spoken(&modest, single));
    server.until("one more waits", || admission.waiting() == 16).await;
    script.talker.open();
    for one in all {
        one.await.unwrap().unwrap();
    }
    let records = server.records.all();
    let its = |characters: u32| characters as usize == single.len();
    let turn = records.iter().position(|record| its(record.usage.characters));
    // Behind the one that held the place and the one that was next when it came; records are made a little later.
    assert!(
        turn.is_some_and(|turn| turn <= 4),
        "{turn:?} of {}",
        records.len()
    );
    keyed.server.stop().await;
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_says_when_to_come_back() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--max-active", "1", "--max-waiting", "0"]).await;
    script.talker.close();
    let holder = server.call().await.configured(seeded(1)).await;
    holder.send(text(&endless())).await;
    script.talker.reached().await;
    let request = v1::SynthesizeRequest {
        config: Some(seeded(1)),
        text: "No place.".to_owned(),
    };
    let refused = audio_of_request(&mut server.speech(), Request::new(request))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::ResourceExhausted, "SERVER_OVERLOADED")
    );
    assert!(refused.get_details_retry_info().unwrap().retry_delay.unwrap() > Duration::ZERO);
    script.talker.open();
    drop(holder);
    server.stop().await;
}
