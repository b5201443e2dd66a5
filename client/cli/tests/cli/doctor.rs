//! `doctor` finds what is wrong and says what to do.

use std::fs;

use serde_json::Value;
use tonic::Status;

use crate::fake::{Fake, Script, nowhere};
use crate::program::{Outcome, Place};

fn checks(outcome: &Outcome) -> Value {
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

fn verdicts(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap();
    checks
        .iter()
        .map(|check| (text(&check["name"]), text(&check["verdict"])))
        .collect()
}

fn verdict(report: &Value, name: &str) -> String {
    let found = verdicts(report).into_iter().find(|(known, _)| known == name);
    found.map(|(_, verdict)| verdict).unwrap()
}

#[test]
fn a_healthy_way_is_told_check_by_check() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let outcome = place.run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let report = checks(&outcome);
    assert_eq!(report["healthy"], true);
    let names: Vec<String> = verdicts(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "address",
            "connection",
            "encryption",
            "health",
            "key",
            "services",
            "models",
            "voices",
            "speech",
            "clock",
            "output"
        ]
    );
    // The scripted server has no reflection, which is no reason to fail.
    assert_eq!(verdict(&report, "services"), "warning");
    let speech = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "speech")
        .unwrap();
    assert_eq!(
        (&speech["verdict"], &speech["figures"]["audio_seconds"]),
        (&"ok".into(), &0.4.into())
    );
    assert_eq!(
        fs::read_dir(place.path(".")).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn people_get_a_line_for_each_check_and_advice() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["doctor"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(text.contains("ok       health      SERVING\n"), "{text}");
    assert!(
        text.contains("warning  services") && text.contains("-> it answers no reflection"),
        "{text}"
    );
}

#[test]
fn a_server_that_is_not_there_is_said_and_the_rest_is_skipped() {
    let outcome = Place::at(nowhere()).run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.stderr.contains("1 of 11 checks failed"),
        "{}",
        outcome.stderr
    );
    let report = checks(&outcome);
    assert_eq!(verdict(&report, "connection"), "wrong");
    assert!(
        report["checks"][1]["advice"]
            .as_str()
            .unwrap()
            .contains("omni-server")
    );
    for name in [
        "encryption",
        "health",
        "key",
        "services",
        "models",
        "voices",
        "speech",
    ] {
        assert_eq!(verdict(&report, name), "skipped", "{name}");
    }
    assert_eq!(
        (verdict(&report, "clock"), verdict(&report, "output")),
        ("ok".into(), "ok".into())
    );
}

#[test]
fn a_server_that_is_not_ready_is_told_from_one_that_is_broken() {
    let fake = Fake::start(Script::default());
    fake.set_serving(false);
    let outcome = Place::with(&fake).run(&["doctor"]);
    assert_eq!(outcome.code, Some(1));
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        text.contains("WRONG    health      NOT_SERVING") && text.contains("health --wait"),
        "{text}"
    );
    let fake = Fake::start(Script {
        refuse: Some(Status::internal("the talker is gone")),
        ..Script::default()
    });
    let report = checks(&Place::with(&fake).run(&["doctor", "--json"]));
    assert_eq!(
        (verdict(&report, "health"), verdict(&report, "speech")),
        ("ok".into(), "wrong".into())
    );
}

#[test]
fn a_model_without_a_voice_yet_is_no_fault_and_the_way_to_one_is_told() {
    let fake = Fake::start(Script {
        voiceless: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let outcome = place.run(&["doctor", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let report = checks(&outcome);
    assert_eq!(
        (verdict(&report, "voices"), verdict(&report, "speech")),
        ("warning".into(), "skipped".into())
    );
    let advice = report["checks"][7]["advice"].as_str().unwrap();
    assert!(
        advice.contains("omni-client voices add NAME --recording"),
        "{advice}"
    );
    let asked = checks(&place.run(&["doctor", "--voice", "anna", "--json"]));
    assert_eq!(verdict(&asked, "voices"), "wrong");
}

#[test]
fn a_voice_that_is_not_there_and_a_place_that_cannot_be_written_are_found() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let outcome = place.run(&["doctor", "--voice", "nobody", "-o", "no/such/place.wav", "--json"]);
    assert!(
        outcome.stderr.contains("2 of 11 checks failed"),
        "{}",
        outcome.stderr
    );
    let report = checks(&outcome);
    assert_eq!(
        (verdict(&report, "voices"), verdict(&report, "output")),
        ("wrong".into(), "wrong".into())
    );
    assert!(
        report["checks"][7]["advice"]
            .as_str()
            .unwrap()
            .contains("amber, onyx")
    );
}

#[test]
fn a_server_that_is_gone_before_it_is_talked_to_is_no_healthy_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let leaving = std::thread::spawn(move || listener.incoming().take(2).for_each(drop));
    let outcome = Place::at(&address).run(&["doctor", "--json", "--timeout", "5s"]);
    leaving.join().unwrap();
    assert_eq!(outcome.code, Some(1));
    assert_eq!(verdict(&checks(&outcome), "health"), "wrong");
}

#[test]
fn something_that_is_no_grpc_server_is_recognised() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let hanging_up = std::thread::spawn(move || {
        // Once to see that it is there, once to see whether it encrypts, once to talk to it, which it does not
        // understand.
        for connection in listener.incoming().take(3) {
            drop(connection);
        }
    });
    let outcome = Place::at(&address).run(&["doctor", "--json", "--timeout", "5s"]);
    hanging_up.join().unwrap();
    assert_eq!(outcome.code, Some(1));
    let report = checks(&outcome);
    assert_eq!(
        (verdict(&report, "connection"), verdict(&report, "health")),
        ("ok".into(), "wrong".into())
    );
}

#[test]
fn a_key_that_the_server_does_not_know_is_found_once_and_named() {
    let fake = Fake::start(Script {
        api_key: Some("omni_secret"),
        ..Script::default()
    });
    let place = Place::with(&fake);
    fs::write(place.path("old"), "omni_old").unwrap();
    fs::write(place.path("good"), "omni_secret").unwrap();
    for (args, finding, advice) in [
        (
            &["doctor", "--json"][..],
            "asks for an API key, and none is sent",
            "--api-key-file",
        ),
        (
            &["doctor", "--json", "--api-key-file", "old"],
            "does not know the one from old",
            "--api-keys file",
        ),
    ] {
        let outcome = place.run(args);
        assert!(
            outcome.stderr.contains("1 of 11 checks failed"),
            "{}",
            outcome.stderr
        );
        let report = checks(&outcome);
        let key = report["checks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|check| check["name"] == "key")
            .unwrap();
        assert!(key["finding"].as_str().unwrap().contains(finding), "{key}");
        assert!(key["advice"].as_str().unwrap().contains(advice), "{key}");
        for name in ["services", "models", "voices", "speech"] {
            assert_eq!(verdict(&report, name), "skipped", "{name}");
        }
    }
    let outcome = place.run(&["doctor", "--json", "--api-key-file", "good"]);
    assert_eq!(
        (outcome.code, verdict(&checks(&outcome), "key")),
        (Some(0), "ok".into())
    );
}
