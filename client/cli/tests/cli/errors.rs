//! Every failure: its exit code, and what a person is told.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::fake::{Fake, Script, Seen, nowhere};
use crate::program::{Outcome, Place, finish};

fn speak(script: Script) -> Outcome {
    let fake = Fake::start(script);
    Place::with(&fake).run(&["speak", "Hello.", "-o", "a.wav"])
}

#[test]
fn a_refused_call_exits_with_its_code_and_shows_every_detail() {
    let mut details =
        ErrorDetails::with_error_info("VOICE_NOT_FOUND", "omni", [("voice".into(), "nobody".into())]);
    details
        .add_bad_request_violation("config.voice", "must be amber or onyx")
        .set_request_info("r-17", "");
    let status = Status::with_error_details(Code::InvalidArgument, "there is no voice \"nobody\"", details);
    let outcome = speak(Script {
        refuse: Some(status),
        ..Script::default()
    });
    assert_eq!(outcome.code, Some(64 + 3));
    for text in [
        "error: there is no voice \"nobody\" (INVALID_ARGUMENT, VOICE_NOT_FOUND)",
        "config.voice: must be amber or onyx",
        "request id: r-17",
        "`omni-client voices`",
    ] {
        assert!(
            outcome.stderr.contains(text),
            "{text:?} is not in {}",
            outcome.stderr
        );
    }
}

#[test]
fn an_overloaded_server_says_when_to_try_again() {
    let mut details = ErrorDetails::with_error_info("SERVER_OVERLOADED", "omni", []);
    details.set_retry_info(Some(Duration::from_millis(1_500)));
    let status = Status::with_error_details(Code::ResourceExhausted, "too many streams", details);
    let outcome = speak(Script {
        refuse: Some(status),
        ..Script::default()
    });
    assert_eq!(outcome.code, Some(64 + 8));
    assert!(
        outcome.stderr.contains("try again in 1.5 s"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn every_code_has_its_exit_code() {
    for code in (1..=16).map(Code::from_i32) {
        let outcome = speak(Script {
            refuse: Some(Status::new(code, "as scripted")),
            ..Script::default()
        });
        assert_eq!(
            outcome.code,
            Some(64 + code as i32),
            "{code:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("error: as scripted ("),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_failed_utterance_counts_like_a_failed_call() {
    let details = ErrorDetails::with_error_info("TEXT_TOO_LONG", "omni", [("limit".into(), "5000".into())]);
    let status = Status::with_error_details(Code::InvalidArgument, "the text is too long", details);
    let outcome = speak(Script {
        fail: Some(status),
        chunks: 0,
        ..Script::default()
    });
    assert_eq!(outcome.code, Some(64 + 3));
    assert!(outcome.stderr.contains("limit: 5000"), "{}", outcome.stderr);
}

#[test]
fn without_a_server_the_address_is_named_and_how_to_start_one() {
    for args in [
        &["speak", "Hello."][..],
        &["chat", "Hello."],
        &["voices"],
        &["models"],
        &["health"],
        &["bench"],
    ] {
        let outcome = Place::at(nowhere()).run(args);
        assert_eq!(outcome.code, Some(64 + 14), "{args:?}: {outcome:?}");
        let expected = format!("cannot reach {}: Connection refused", nowhere());
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("start a server with `omni-server`"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_server_that_dies_half_way_is_a_lost_connection() {
    let mut fake = Fake::start(Script {
        hold: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    // The first audio is on standard output, so it has arrived.
    let mut child = place
        .command(&["speak", "Hello.", "-o", "-", "--format", "pcm"])
        .spawn()
        .unwrap();
    fake.until(&Seen::Holding);
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 1_000]).unwrap();
    fake.die();
    let outcome = finish(child);
    assert_eq!(outcome.code, Some(64 + 14), "{outcome:?}");
    assert!(
        outcome.stderr.contains("lost the connection to"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn running_out_of_time_is_deadline_exceeded() {
    let fake = Fake::start(Script {
        hold: true,
        ..Script::default()
    });
    let outcome = Place::with(&fake).run(&["speak", "Hello.", "--timeout", "300ms"]);
    assert_eq!(outcome.code, Some(64 + 4), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("not done within 0.3 s (DEADLINE_EXCEEDED)"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn lost_samples_are_noticed() {
    let outcome = speak(Script {
        skip: 10,
        ..Script::default()
    });
    assert_eq!(outcome.code, Some(64 + 13));
    assert!(
        outcome
            .stderr
            .contains("broke the protocol: audio goes on at sample"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn no_audio_for_a_text_is_an_error() {
    let outcome = speak(Script {
        chunks: 0,
        ..Script::default()
    });
    assert_eq!(outcome.code, Some(64 + 2));
    assert!(outcome.stderr.contains("no audio"), "{}", outcome.stderr);
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let place = Place::at(nowhere());
    for args in [
        &["speak", "Hi", "--temperature", "warm"][..],
        &["speak", "Hi", "--timeout", "soon"],
        &["speak", "Hi", "--rate", "7"],
        &["speak", "Hi", "--repeat", "0"],
        &["speak", "Hi", "--endpoint", "ftp://host:1"],
        &["sing"],
        &[],
    ] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn an_api_key_is_sent_from_a_file_or_the_environment_and_never_shown() {
    let fake = Fake::start(Script {
        api_key: Some("omni_secret"),
        ..Script::default()
    });
    let place = Place::with(&fake);
    let without = place.run(&["voices"]);
    assert_eq!(without.code, Some(64 + 16), "{}", without.stderr);
    // The message for a caller that has arguments and no headers.
    for text in [
        "asks for an API key, and none is sent",
        "--api-key-file",
        "OMNI_API_KEY",
    ] {
        assert!(without.stderr.contains(text), "{}", without.stderr);
    }
    assert!(!without.stderr.contains("Bearer"), "{}", without.stderr);

    std::fs::write(place.path("key"), "omni_secret\n").unwrap();
    assert_eq!(place.run(&["voices", "--api-key-file", "key"]).code, Some(0));
    let mut command = place.command(&["voices"]);
    let child = command.env("OMNI_API_KEY", "omni_secret").spawn().unwrap();
    assert_eq!(finish(child).code, Some(0));

    std::fs::write(place.path("bad"), "two words").unwrap();
    let bad = place.run(&["voices", "--api-key-file", "bad"]);
    assert_eq!(bad.code, Some(2));
    assert!(
        bad.stderr.contains("API key") && !bad.stderr.contains("words"),
        "{}",
        bad.stderr
    );
    assert_eq!(place.run(&["voices", "--api-key-file", "none"]).code, Some(4));
}

#[test]
fn what_the_message_says_already_is_not_said_again() {
    let mut details = ErrorDetails::with_error_info("VOICE_NOT_FOUND", "omni", []);
    let message = "voice \"zz\" does not exist, the model has: amber, onyx";
    details.add_bad_request_violation("config.voice", message);
    let outcome = speak(Script {
        refuse: Some(Status::with_error_details(
            Code::InvalidArgument,
            message,
            details,
        )),
        ..Script::default()
    });
    assert_eq!(
        outcome.stderr.matches("does not exist").count(),
        1,
        "{}",
        outcome.stderr
    );
}

/// A port that answers everything with this, and then closes.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 4096];
            let asked = match stream.read(&mut asked) {
                Ok(read) => asked[..read].to_vec(),
                Err(_) => continue,
            };
            // Servers of HTTP/1.1 close when HTTP/2 is spoken to them.
            if !asked.starts_with(b"PRI") || answer.starts_with('{') {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    format!("http://{address}")
}

#[test]
fn a_port_of_something_else_is_told_by_what_it_is() {
    let metrics = "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nexpected /metrics, \
                   /metrics/catalogue, /healthz or /readyz\n";
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html></html>";
    let wyoming = "{\"type\":\"error\",\"data\":{}}\n";
    let own = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n{\"error\":{\"code\":\"tls_expected\"}}";
    let nginx = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n<center>The plain HTTP request was sent to HTTPS port</center>";
    let go = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    let apache = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nYou're speaking plain HTTP to an SSL-enabled server port.<br />";
    for (answer, problem, advice) in [
        (metrics, "is a port for metrics", "--listen"),
        (page, "speaks HTTP/1.1 alone", "another program"),
        (wyoming, "is a port for Wyoming", "--listen"),
        (own, "speaks TLS", "https://"),
        (nginx, "speaks TLS", "https://"),
        (go, "speaks TLS", "https://"),
        (apache, "speaks TLS", "https://"),
    ] {
        let endpoint = answering(answer);
        let place = Place::at(&endpoint);
        for args in [&["speak", "Hello."][..], &["health"], &["explain", "Hello."]] {
            let outcome = place.run(args);
            assert_eq!(outcome.code, Some(64 + 14), "{args:?}: {outcome:?}");
            for text in [problem, advice] {
                assert!(outcome.stderr.contains(text), "{args:?}: {}", outcome.stderr);
            }
        }
        let doctor = place.run(&["doctor"]);
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        let report = String::from_utf8_lossy(&doctor.stdout);
        assert!(report.contains(problem) && report.contains(advice), "{report}");
    }
}

#[test]
fn the_help_of_a_command_has_its_own_exit_codes_alone() {
    let place = Place::at("http://127.0.0.1:1");
    for (command, own, others) in [
        (
            "speak",
            "130     interrupted",
            &["not serving", "something is wrong", "requests failed"][..],
        ),
        (
            "health",
            "1       not serving",
            &["something is wrong", "requests failed"],
        ),
        (
            "doctor",
            "1       something is wrong",
            &["not serving", "requests failed"],
        ),
        (
            "bench",
            "3       some requests failed",
            &["not serving", "something is wrong"],
        ),
    ] {
        let help = place.run(&[command, "--help"]);
        let help = String::from_utf8_lossy(&help.stdout);
        assert!(help.contains(own), "{command}: {help}");
        let codes = help.split("Exit codes:").nth(1).expect("exit codes");
        for other in others {
            assert!(!codes.contains(other), "{command}: {other}");
        }
    }
}
