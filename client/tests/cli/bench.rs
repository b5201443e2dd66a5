//! The benchmark counts what happened.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tonic::Status;

use crate::fake::{Fake, Script, Seen};
use crate::program::Place;

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
