//! The log as an operator reads it: who asked for what, and what became of it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use serde_json::Value;

use super::{Server, run};

/// Answer to a request.
fn ask(server: &Server, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(&server.address).expect("it listens");
    let length = body.len();
    write!(
        stream,
        "{head}\r\nhost: {}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}",
        server.address
    )
    .expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// The lines of a log in JSON.
fn lines(log: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    log.lines().map(read).collect()
}

fn found<'a>(lines: &'a [Value], message: &str, route: &str) -> &'a Value {
    let is = |line: &&Value| line["message"] == message && line["route"] == route;
    lines
        .iter()
        .find(is)
        .unwrap_or_else(|| panic!("no {message:?} of {route}: {lines:#?}"))
}

async fn speak(server: &Server, voice: &str, key: &str) -> Result<(), tonic::Status> {
    let mut client = SpeechServiceClient::connect(format!("http://{}", server.address))
        .await
        .expect("it listens");
    let config = v1::SpeechConfig {
        voice: voice.into(),
        ..Default::default()
    };
    let mut request = tonic::Request::new(v1::SynthesizeRequest {
        config: Some(config),
        text: "Hello.".to_owned(),
    });
    if !key.is_empty() {
        let value = format!("Bearer {key}").parse().expect("plain");
        request.metadata_mut().insert("authorization", value);
    }
    let mut responses = client.synthesize(request).await?.into_inner();
    while responses.message().await?.is_some() {}
    Ok(())
}

#[tokio::test]
async fn every_request_and_every_refusal_says_who_asked_for_what_at_the_default_level() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = run(&["new-key", "alice", "--scopes", "speech"]);
    let keys = folder.path().join("keys");
    std::fs::write(&keys, &made.stdout).expect("it can be written");
    let told = String::from_utf8_lossy(&made.stderr).into_owned();
    let key = told.trim().rsplit(' ').next().expect("a key").to_owned();
    let server = Server::start(&[
        "--log-format",
        "json",
        "--api-keys",
        keys.to_str().expect("plain"),
    ]);

    speak(&server, "aria", &key).await.expect("it speaks");
    speak(&server, "nobody", &key)
        .await
        .expect_err("there is no such voice");
    speak(&server, "aria", "").await.expect_err("there is no key");
    let json = "content-type: application/json";
    let bearer = format!("authorization: Bearer {key}");
    let body = r#"{"model": "no-such-model", "input": "Hello.", "voice": "aria"}"#;
    for (head, body) in [
        (
            format!(
                "POST /v1/audio/speech HTTP/1.1\r\n{json}\r\nx-request-id: wrong-key\r\nauthorization: Bearer no"
            ),
            body,
        ),
        (
            format!("POST /v1/audio/speech HTTP/1.1\r\n{json}\r\nx-request-id: no-model\r\n{bearer}"),
            body,
        ),
        (
            format!("POST /audio/speech HTTP/1.1\r\n{json}\r\nx-request-id: no-path\r\n{bearer}"),
            body,
        ),
        (
            format!("POST /v1/chat/completions HTTP/1.1\r\n{json}\r\nx-request-id: no-scope\r\n{bearer}"),
            "{}",
        ),
        (
            format!("POST /v1/audio/speech HTTP/1.1\r\n{json}\r\nx-request-id: no-json\r\n{bearer}"),
            r#"{"speed": "Rhubarb"}"#,
        ),
    ] {
        let answer = ask(&server, &head, body);
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    server.signal("-TERM");
    let (_, log) = server.end();
    assert!(!log.contains("Rhubarb"), "{log}");
    let lines = lines(&log);

    let spoke = "/omni.v1.SpeechService/Synthesize";
    let utterance = found(&lines, "utterance", spoke);
    assert_eq!(
        (&utterance["key"], &utterance["protocol"]),
        (&"alice".into(), &"grpc".into())
    );
    assert!(
        utterance["stage_ms"]
            .as_object()
            .is_some_and(|stages| stages.len() == 2),
        "{utterance}"
    );
    for figure in [
        "first_audio_ms",
        "queue_ms",
        "audio_s",
        "worst_gap_ms",
        "real_time_factor",
    ] {
        let digits = utterance[figure].to_string();
        assert!(
            utterance[figure].is_number() && digits.len() < 9,
            "{figure}: {digits}"
        );
    }
    let refused: Vec<_> = lines.iter().filter(|line| line["message"] == "refused").collect();
    for line in &refused {
        assert_eq!(
            (&line["level"], &line["peer"]),
            (&"INFO".into(), &"127.0.0.1".into()),
            "{line}"
        );
        assert!(
            line["request_id"].is_string() && line["route"].is_string(),
            "{line}"
        );
        assert!(
            line.get("span").is_none() && line.get("spans").is_none(),
            "{line}"
        );
    }
    let one = |reason: &str, key: Option<&str>, protocol: &str| {
        let is = |line: &&&Value| {
            line["reason"] == reason && line["key"].as_str() == key && line["protocol"] == protocol
        };
        let found: Vec<_> = refused.iter().filter(is).collect();
        assert_eq!(found.len(), 1, "{reason}: {refused:#?}");
        found[0]["request_id"].as_str().expect("a name").to_owned()
    };
    one("VOICE_NOT_FOUND", Some("alice"), "grpc");
    one("API_KEY_MISSING", None, "grpc");
    assert_eq!(one("api_key_invalid", None, "http"), "wrong-key");
    assert_eq!(one("model_not_found", Some("alice"), "http"), "no-model");
    assert_eq!(one("route_not_found", None, "http"), "no-path");
    assert_eq!(one("scope_missing", Some("alice"), "http"), "no-scope");
    assert_eq!(one("invalid_field", Some("alice"), "http"), "no-json");
}

#[test]
fn a_probe_that_fails_while_the_server_loads_or_drains_is_no_line() {
    let server = Server::start(&["--log-format", "json"]);
    let answer = ask(&server, "GET /health HTTP/1.1", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Something that is open keeps the server draining.
    let mut held = TcpStream::connect(&server.address).expect("it listens");
    let body = format!(
        r#"{{"model": "tts-1", "voice": "aria", "input": "{}"}}"#,
        "Hello there. ".repeat(200)
    );
    write!(
        held,
        "POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it is taken");
    let mut first = [0; 1];
    held.read_exact(&mut first).expect("it answers");
    server.signal("-TERM");
    let drains = std::time::Instant::now();
    loop {
        let answer = ask(&server, "GET /health HTTP/1.1", "");
        if answer.starts_with("HTTP/1.1 503") {
            break;
        }
        assert!(drains.elapsed() < std::time::Duration::from_secs(60), "{answer}");
    }
    drop(held);
    let (_, log) = server.end();
    for line in lines(&log) {
        assert!(
            line["level"] != "WARN" || !line.to_string().contains("/health"),
            "{line}"
        );
        assert_ne!(line["message"], "failed", "{line}");
    }
}

#[test]
fn a_caller_that_goes_before_its_answer_leaves_a_line() {
    let server = Server::start(&["--log-format", "json"]);
    let mut gone = TcpStream::connect(&server.address).expect("it listens");
    // The body that is announced never comes.
    write!(
        gone,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-request-id: gone\r\ncontent-type: application/json\r\n\
         content-length: 100000\r\n\r\n{{"
    )
    .expect("it is taken");
    // The next request is answered, so the first one was read.
    ask(&server, "GET /v1/models HTTP/1.1", "");
    drop(gone);
    ask(&server, "GET /v1/models HTTP/1.1", "");
    server.signal("-TERM");
    let (_, log) = server.end();
    let line = lines(&log);
    let line = line.iter().find(|line| line["request_id"] == "gone");
    let line = line.unwrap_or_else(|| panic!("no line: {log}"));
    assert_eq!(
        (&line["level"], &line["route"]),
        (&"INFO".into(), &"POST /v1/chat/completions".into())
    );
}

#[test]
fn a_level_that_does_not_exist_is_refused_from_wherever_it_comes() {
    let output = run(&["--log-level", "loud"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("expected error, warn, info, debug, trace, off"),
        "{message}"
    );
    let output = super::omni_server()
        .env("OMNI_LOG_LEVEL", "inof")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("did you mean info?"), "{message}");
    let check = run(&["check-config", "--log-level", "omni_sever=debug"]);
    assert!(String::from_utf8_lossy(&check.stderr).contains("did you mean omni_server?"));
}

/// Run by the test below, in a process of its own: what happens on a panic holds for a whole process.
#[test]
#[ignore = "a part of another test"]
fn a_program_that_panics() {
    let config = omni_config::RawConfig::arguments_only(["omni-server", "--log-format", "json"]);
    let config = config
        .expect("good flags")
        .validate()
        .expect("a good configuration");
    omni_server::app::init_logging(&config, &[]).expect("it begins");
    let caught = std::panic::catch_unwind(|| panic!("lost {} \"frames\"", 3));
    let thread = std::thread::Builder::new().name("decoder".to_owned());
    let lost = thread.spawn(|| panic!("in a thread")).expect("a thread").join();
    assert!(caught.is_err() && lost.is_err());
}

#[test]
fn a_panic_is_a_line_of_the_log_also_where_it_is_caught() {
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program)
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "log::a_program_that_panics",
        ])
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let lines = lines(&String::from_utf8_lossy(&output.stderr));
    let panics: Vec<_> = lines
        .iter()
        .map(|line| (&line["level"], &line["message"]))
        .collect();
    let error = "ERROR".into();
    let first = "panic: lost 3 \"frames\"".into();
    let second = "panic: in a thread".into();
    assert_eq!(panics, [(&error, &first), (&error, &second)]);
    assert_eq!(lines[1]["thread"], "decoder");
    assert!(
        lines[0]["location"]
            .as_str()
            .is_some_and(|place| place.contains("log.rs")),
        "{lines:?}"
    );
}
