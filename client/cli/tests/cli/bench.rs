//! The benchmark counts what happened.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tonic::Status;

use crate::fake::{ChatScript, Fake, Script, Seen};
use crate::program::{Place, finish};
use crate::tls::{LOCAL, certificate};

#[test]
fn every_level_is_measured_and_reported() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let outcome = place.run(&[
        "bench",
        "-c",
        "1,3",
        "-n",
        "6",
        "--seed",
        "10",
        "--json",
        "bench.json",
    ]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let table = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        table.contains("\n| 1 | 6 | 6 | 0 |") && table.contains("\n| 3 | 6 | 6 | 0 |"),
        "{table}"
    );
    let report: Value = serde_json::from_slice(&fs::read(place.path("bench.json")).unwrap()).unwrap();
    for (level, streams) in report["levels"].as_array().unwrap().iter().zip([1, 3]) {
        assert_eq!(level["streams"], streams);
        let requests = level["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 6);
        assert!(requests.iter().all(|request| request["audio_seconds"] == 0.4));
        let texts: BTreeSet<u64> = requests
            .iter()
            .map(|request| request["text"].as_u64().unwrap())
            .collect();
        assert_eq!(texts.len(), 6, "texts differ between streams");
    }
    // One warm-up for each of the four streams, twelve measured requests.
    let finished = fake
        .rest()
        .into_iter()
        .filter(|seen| *seen == Seen::Finish)
        .count();
    assert_eq!(finished, 16);
}

#[test]
fn seeds_differ_between_requests_and_repeat_between_runs() {
    let seeds = || {
        let fake = Fake::start(Script::default());
        Place::with(&fake).run(&["bench", "-c", "2", "-n", "4", "--warmup", "0", "--seed", "10"]);
        let seed = |seen: Seen| match seen {
            Seen::Config(config) => config.sampling.unwrap().seed,
            _ => None,
        };
        fake.rest()
            .into_iter()
            .filter_map(seed)
            .collect::<BTreeSet<u64>>()
    };
    assert_eq!(seeds(), BTreeSet::from([10, 11, 12, 13]));
}

#[test]
fn failed_requests_are_counted_and_told() {
    let fake = Fake::start(Script {
        refuse: Some(Status::resource_exhausted("full")),
        ..Script::default()
    });
    let outcome = Place::with(&fake).run(&["bench", "-c", "2", "-n", "3"]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("3 of 3 requests failed, the first with: full (RESOURCE_EXHAUSTED)")
    );
    assert!(
        String::from_utf8(outcome.stdout)
            .unwrap()
            .contains("\n| 2 | 3 | 0 | 3 |")
    );
}

#[test]
fn own_texts_are_spoken() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    fs::write(place.path("texts.txt"), "First text.\n\nSecond text.\n").unwrap();
    let args = [
        "bench",
        "-c",
        "1",
        "-n",
        "2",
        "--warmup",
        "0",
        "--text-file",
        "texts.txt",
    ];
    assert_eq!(place.run(&args).code, Some(0));
    let seen = fake.rest();
    assert!(
        seen.contains(&Seen::Text("First text.".into())) && seen.contains(&Seen::Text("Second text.".into()))
    );
    assert_eq!(place.run(&["bench", "--text-file", "missing.txt"]).code, Some(4));
}

#[test]
fn a_session_that_ends_without_an_answer_is_a_failure() {
    let fake = Fake::start(Script {
        leave: true,
        ..Script::default()
    });
    let outcome = Place::with(&fake).run(&["bench", "-c", "1", "-n", "2"]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(
        outcome.stderr.contains("2 of 2 requests failed"),
        "{}",
        outcome.stderr
    );
}

/// The lines of a table of which each cell of the first column is `streams`.
fn rows(table: &str, streams: u32) -> Vec<&str> {
    let start = format!("| {streams} |");
    table.lines().filter(|line| line.starts_with(&start)).collect()
}

#[test]
fn conversations_are_measured_turn_by_turn() {
    let fake = Fake::chat(ChatScript::default());
    let place = Place::with(&fake);
    let args = [
        "bench",
        "--chat",
        "-c",
        "1,3",
        "-n",
        "6",
        "--turns",
        "2",
        "--seed",
        "10",
        "--json",
        "bench.json",
    ];
    let outcome = place.run(&args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let table = String::from_utf8(outcome.stdout).unwrap();
    for title in [
        "TTFT ms",
        "TPOT ms",
        "TTFA ms",
        "tokens/s",
        "without a gap over 50 / 100 / 200 ms",
    ] {
        assert!(table.contains(title), "{title}: {table}");
    }
    for streams in [1, 3] {
        assert!(
            rows(&table, streams)[0].starts_with(&format!("| {streams} | 6 | 6 | 0 |")),
            "{table}"
        );
        assert!(!table.contains("- / - / -"), "{table}");
    }
    let report: Value = serde_json::from_slice(&fs::read(place.path("bench.json")).unwrap()).unwrap();
    assert_eq!((&report["mode"], &report["turns"]), (&"chat".into(), &2.into()));
    for level in report["levels"].as_array().unwrap() {
        for request in level["requests"].as_array().unwrap() {
            assert_eq!(request["output_text_tokens"], 7);
            assert_eq!(request["audio_seconds"], 0.4);
            let first = request["time_to_first_text_seconds"].as_f64().unwrap();
            assert!(first <= request["time_to_first_audio_seconds"].as_f64().unwrap());
        }
    }
    // The level of one stream: a conversation to warm up, and three of two turns each.
    let seen = fake.rest();
    let calls: Vec<&[Seen]> = seen.split(|seen| matches!(seen, Seen::ChatConfig(_))).collect();
    let turns = |call: &&[Seen]| {
        call.iter()
            .filter(|seen| matches!(seen, Seen::Respond(_)))
            .count()
    };
    assert_eq!(calls[1..5].iter().map(turns).collect::<Vec<_>>(), [1, 2, 2, 2]);
}

#[test]
fn conversations_without_speech_are_measured_by_their_text() {
    let fake = Fake::chat(ChatScript::default());
    let outcome = Place::with(&fake).run(&["bench", "--chat", "--text-only", "-c", "2", "-n", "4"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let table = String::from_utf8(outcome.stdout).unwrap();
    assert!(table.contains("TTFT ms") && !table.contains("TTFA"), "{table}");
    assert!(rows(&table, 2)[0].starts_with("| 2 | 4 | 4 | "), "{table}");
}

#[test]
fn failed_turns_are_counted_and_the_next_conversation_goes_on() {
    let status = tonic::Status::aborted("too old");
    let fake = Fake::chat(ChatScript {
        end_after: Some((2, status)),
        ..ChatScript::default()
    });
    let args = [
        "bench", "--chat", "-c", "1", "-n", "6", "--turns", "3", "--warmup", "0",
    ];
    let outcome = Place::with(&fake).run(&args);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("2 of 6 requests failed, the first with: too old (ABORTED)"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn what_only_conversations_have_is_refused_without_them() {
    let fake = Fake::start(Script::default());
    for args in [
        &["--turns", "2"][..],
        &["--text-only"],
        &["--max-tokens", "9"],
        &["--chat", "--text-only", "-v", "x"],
    ] {
        let mut all = vec!["bench"];
        all.extend(args);
        assert_eq!(Place::with(&fake).run(&all).code, Some(2), "{args:?}");
    }
    assert!(fake.saw_nothing());
}

#[test]
fn two_sides_get_the_same_requests_in_turn_and_are_compared() {
    let sides = [Fake::start(Script::default()), Fake::start(Script::default())];
    let place = Place::with(&sides[0]);
    let endpoint = sides[1].endpoint();
    let outcome = place.run(&["bench", "-n", "30", "--warmup", "0", "--versus", &endpoint]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let table = String::from_utf8(outcome.stdout).unwrap();
    for title in ["whole request", "first audio"] {
        assert!(table.contains(&format!("\n| {title} | 30 | ")), "{table}");
    }
    let asked = sides.map(|side| {
        let seen = side.rest().into_iter();
        let kept = seen.filter_map(|seen| match seen {
            Seen::Config(config) => Some(format!("seed {}", config.sampling.unwrap().seed?)),
            Seen::Text(text) => Some(text),
            _ => None,
        });
        kept.collect::<Vec<_>>()
    });
    assert!(asked[0].len() >= 60, "a seed and a text each");
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn every_server_of_a_comparison_gets_the_key_and_the_certificates() {
    let identity = certificate(&LOCAL);
    let script = || Script {
        api_key: Some("secret"),
        ..Script::default()
    };
    let encrypted = || Fake::encrypted(script(), &identity, None);
    let one = encrypted();
    let beside = encrypted();
    let other = Fake::start(script());
    let place = Place::with(&one);
    fs::write(place.path("ca.pem"), &identity.certificate).unwrap();
    let beside = beside.endpoint();
    let other = other.endpoint();
    let args = [
        "bench", "-n", "4", "--versus", &other, "--beside", &beside, "--tls-ca", "ca.pem",
    ];
    let mut bench = place.command(&args);
    bench.env("OMNI_API_KEY", "secret");
    let outcome = finish(bench.spawn().unwrap());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let table = String::from_utf8(outcome.stdout).unwrap();
    assert!(table.contains("| first audio | 4 |"), "{table}");
}
