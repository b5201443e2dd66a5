//! Reports of the benchmark.

use std::fs;

use serde_json::Value;

use crate::fake::{Fake, Script};
use crate::program::Place;

fn measured(name: &str) -> Place {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let page = format!("{name}.html");
    let file = format!("{name}.json");
    let args = [
        "bench", "-c", "1,2", "-n", "5", "--slo", "ttfa=1s", "--json", &file, "--html", &page,
    ];
    let outcome = place.run(&args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    place
}

#[test]
fn a_report_says_how_it_was_made() {
    let place = measured("a");
    let report: Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    assert_eq!(
        report["served"],
        serde_json::json!({ "model": "fake-model", "voice": "fake" })
    );
    assert_eq!(report["command"][0], "bench");
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    assert!(report["started_unix_seconds"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(
        (&report["load_seed"], &report["slo"]),
        (&1.into(), &"ttfa <= 1000.0 ms".into())
    );
    let request = &report["levels"][0]["requests"][0];
    assert_eq!(request["chunks"].as_array().unwrap().len(), 5);
    assert_eq!(
        (&request["chunks"][0][1], &request["seed"]),
        (&0.08.into(), &42.into())
    );
    assert_eq!(request["stages"][0]["stage"], "talker");
}

#[test]
fn a_page_has_the_charts() {
    let place = measured("a");
    let page = fs::read_to_string(place.path("a.html")).unwrap();
    for part in [
        "<!doctype html>",
        "share of requests that were at most so slow",
        "TTFA against load",
        "Without a gap against load",
        "When audio came, at 2 streams",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg ").count(), 5, "four charts, and the requests");
}

#[test]
fn columns_can_be_asked_for() {
    let fake = Fake::start(Script::default());
    let outcome = Place::with(&fake).run(&["bench", "-c", "1", "-n", "2", "--format", "text"]);
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        !text.contains('|') && text.starts_with("streams  requests  good"),
        "{text}"
    );
}
