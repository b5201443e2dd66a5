//! The kinds of load of the benchmark.

use std::fs;

use serde_json::Value;

use crate::fake::{Fake, Script, Seen};
use crate::program::{Outcome, Place};

/// Runs the benchmark with a report in `bench.json`.
fn bench(place: &Place, args: &[&str]) -> (Outcome, Value) {
    let mut all = vec!["bench", "--json", "bench.json"];
    all.extend(args);
    let outcome = place.run(&all);
    let report = fs::read(place.path("bench.json")).unwrap_or_else(|_| panic!("{outcome:?}"));
    (outcome, serde_json::from_slice(&report).unwrap())
}

fn requests(report: &Value) -> Vec<&Value> {
    let levels = report["levels"].as_array().unwrap();
    levels
        .iter()
        .flat_map(|level| level["requests"].as_array().unwrap())
        .collect()
}

fn number(request: &Value, name: &str) -> f64 {
    request[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} in {request}"))
}

#[test]
fn an_open_loop_sends_on_its_schedule_and_leaves_the_head_out() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let (outcome, report) = bench(&place, &["--rate", "200", "-n", "20", "--warmup", "5"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let table = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        table.contains("| requests/s |") && table.contains("send lag ms"),
        "{table}"
    );
    assert!(table.contains("| 200 | 20 | 20 | 0 |"), "{table}");
    assert_eq!(report["levels"][0]["requests_per_second"], 200.0);
    let requests = requests(&report);
    assert_eq!(requests.len(), 20);
    assert!(
        requests
            .iter()
            .all(|request| number(request, "send_lag_seconds") >= 0.0)
    );
    assert!(
        requests
            .windows(2)
            .all(|pair| { number(pair[0], "sent_at_seconds") <= number(pair[1], "sent_at_seconds") })
    );
    let finished = fake
        .rest()
        .into_iter()
        .filter(|seen| *seen == Seen::Finish)
        .count();
    assert_eq!(finished, 25, "the head of the schedule is sent too");
}

#[test]
fn a_share_of_the_requests_is_cancelled_and_its_latency_measured() {
    let fake = Fake::start(Script {
        hold: true,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let args = [
        "-c",
        "2",
        "-n",
        "6",
        "--warmup",
        "0",
        "--cancel",
        "100%",
        "--cancel-after",
        "10ms..20ms",
    ];
    let (outcome, report) = bench(&place, &args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for request in requests(&report) {
        assert_eq!(
            (&request["failure"], &request["finish"]),
            (&Value::Null, &"interrupted".into())
        );
        let after = number(&request["cancel"], "after_seconds");
        assert!((0.01..0.02).contains(&after), "{after}");
        assert!(number(&request["cancel"], "latency_seconds") >= 0.0);
    }
    let table = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        table.contains("| 2 | 6 | 6 | 0 | 6 of 6 |") && table.contains("cancel ms"),
        "{table}"
    );
    let cancels = fake
        .rest()
        .into_iter()
        .filter(|seen| *seen == Seen::Cancel)
        .count();
    assert_eq!(cancels, 6);
}

#[test]
fn who_ends_before_the_cancel_was_not_cancelled() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let (outcome, report) = bench(
        &place,
        &[
            "-c",
            "1",
            "-n",
            "3",
            "--cancel",
            "1.0",
            "--cancel-after",
            "50s..59s",
        ],
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for request in requests(&report) {
        assert_eq!(
            (&request["finish"], &request["cancel"]["latency_seconds"]),
            (&"stop".into(), &Value::Null)
        );
    }
    assert!(!fake.rest().contains(&Seen::Cancel));
}

#[test]
fn text_is_streamed_word_by_word() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let args = [
        "-c",
        "1",
        "-n",
        "1",
        "--warmup",
        "0",
        "--text-rate",
        "200",
        "--text",
        "One two. And three.",
    ];
    let (outcome, report) = bench(&place, &args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let seen = fake.until(&Seen::Closed);
    let texts = ["One", " two.", " And", " three."].map(|text| Seen::Text(text.into()));
    assert_eq!(seen[1..5], texts);
    let request = requests(&report)[0].clone();
    let first = number(&request, "time_to_first_audio_seconds");
    let of_sentence = number(&request, "sentence_to_first_audio_seconds");
    // The second of four words, 5 ms after the first, completed the sentence.
    assert!(
        of_sentence > 0.0 && of_sentence <= first - 0.005,
        "{of_sentence} of {first}"
    );
}

#[test]
fn readers_in_real_time_take_no_more_than_a_second_ahead() {
    let fake = Fake::start(Script {
        // 1.2 s of audio.
        chunks: 15,
        ..Script::default()
    });
    let place = Place::with(&fake);
    let args = ["-c", "1", "-n", "1", "--warmup", "0", "--readers", "realtime"];
    let (outcome, report) = bench(&place, &args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let request = requests(&report)[0].clone();
    let chunks = request["chunks"].as_array().unwrap();
    let first = chunks[0][0].as_f64().unwrap();
    for (i, chunk) in chunks.iter().enumerate() {
        let before = 0.08 * i as f64;
        assert!(
            chunk[0].as_f64().unwrap() >= first + before - 1.0 - 1e-6,
            "chunk {i} of {request}"
        );
    }
    assert_eq!(report["real_time_readers"], true);
}

#[test]
fn the_most_streams_are_searched_for_under_a_bound() {
    let fake = Fake::start(Script::default());
    let place = Place::with(&fake);
    let few = ["--per-stream", "2", "--steady", "1ms", "--warmup", "0"];
    let search = |slo: &str| {
        let mut args = vec!["--max-streams=4", "--slo", slo];
        args.extend(few);
        bench(&place, &args)
    };
    let (outcome, report) = search("ttfa=60s");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let found = &report["max_streams"];
    assert_eq!((&found["streams"], &found["at_least"]), (&4.into(), &true.into()));
    let tried: Vec<u64> = found["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["streams"].as_u64().unwrap())
        .collect();
    assert_eq!(tried, [1, 2, 4]);
    assert_eq!(report["levels"][2]["requests"].as_array().unwrap().len(), 8);
    // Nothing is fast enough for this.
    let (outcome, report) = search("ttfa=1ms,rtf=0.000001");
    assert_eq!(report["max_streams"]["streams"], 0);
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        text.contains("Most streams: 0") && text.contains("- 1: too many: "),
        "{text}"
    );
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let fake = Fake::start(Script::default());
    for args in [
        &["--rate", "5", "--chat"][..],
        &["--rate", "5", "-c", "2"],
        &["--rate", "0"],
        &["--max-streams"],
        &["--cancel", "120%"],
        &["--cancel-after", "1s..2s"],
        &["--slo", "speed=1"],
        &["--text-rate", "5", "--chat"],
    ] {
        let mut all = vec!["bench"];
        all.extend(args);
        assert_eq!(Place::with(&fake).run(&all).code, Some(2), "{args:?}");
    }
    assert!(fake.saw_nothing());
}
