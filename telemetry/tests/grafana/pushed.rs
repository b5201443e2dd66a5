//! The rules hold for what a Pushgateway serves, which writes bounds its own way (`le="1"`), as for what the server
//! serves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use omni_telemetry::{
    AudioInstruments, PushOptions, PushTarget, Pusher, Replica, Selection, Telemetry, TelemetryOptions,
};
use tokio_util::sync::CancellationToken;

use crate::committed::{folder, text};
use crate::programs::{call, find, gateway, until};

/// First packets within a second and later ones.
const EARLY: u32 = 9;
const LATE: u32 = 3;
const RATIO: f64 = 0.25;

fn served() -> Telemetry {
    let options = TelemetryOptions {
        model_name: Some("tiny".to_owned()),
        ..TelemetryOptions::default()
    };
    let telemetry = Telemetry::new(&options).expect("good options");
    let audio = AudioInstruments::new(telemetry.meter(), Replica { stage: 2, replica: 0 });
    for (times, after) in [(EARLY, 200), (LATE, 1500)] {
        for _ in 0..times {
            audio.first_packet(Duration::from_millis(after));
        }
    }
    telemetry
}

/// The series of first packets in a page of metrics, as they are written there.
fn first_packets(page: &str) -> BTreeMap<String, f64> {
    let own = |line: &&str| {
        ["_bucket{", "_count{"]
            .iter()
            .any(|suffix| line.starts_with(&format!("vllm:omni_audio_ttfp_s{suffix}")))
    };
    page.lines()
        .filter(own)
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            (series.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

/// Asks promtool for the share of late first packets where these series are all that was read.
fn share_is(pages: &[(&str, BTreeMap<String, f64>)], expected: f64) -> Result<(), String> {
    let program = find("promtool").expect("it was there");
    let directory = tempfile::tempdir().expect("a directory");
    let mut tests = String::from(
        "rule_files: [rules.yml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n",
    );
    for (instance, series) in pages {
        for (name, value) in series {
            // What a scrape adds that the page does not have.
            let mut name = name.clone();
            for (label, value) in [("job", "omni"), ("instance", *instance)] {
                if !name.contains(&format!("{label}=\"")) {
                    name = name.replacen('{', &format!("{{{label}=\"{value}\","), 1);
                }
            }
            let _ = writeln!(tests, "      - {{series: '{name}', values: '0+{value}x20'}}");
        }
    }
    let _ = write!(
        tests,
        "    promql_expr_test:\n      - expr: round(omni:first_packet_late:ratio_rate5m, 0.001)\n        eval_time: 15m\n        exp_samples:\n          \
         - {{labels: '{{job=\"omni\",model_name=\"tiny\"}}', value: {expected}}}\n"
    );
    fs::write(directory.path().join("rules.yml"), text("prometheus/rules.yml")).expect("a file");
    fs::write(directory.path().join("tests.yml"), &tests).expect("a file");
    let output = call(&program, directory.path())
        .args(["test", "rules", "tests.yml"])
        .output()
        .expect("promtool runs");
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{}{}\n{tests}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

#[tokio::test]
async fn the_share_of_late_first_packets_is_the_same_whoever_serves_the_series() {
    let (Some(_), Some(program)) = (find("promtool"), find("prometheus-pushgateway")) else {
        return;
    };
    assert!(folder().is_dir());
    let telemetry = served();
    let directory = tempfile::tempdir().expect("a directory");
    let (_gateway, web) = gateway(&program, directory.path()).await;
    let target =
        PushTarget::new(&format!("http://{web}"), "omni", &[("instance", "pushed")]).expect("a target");
    let options = PushOptions {
        interval: Duration::from_millis(100),
        ..PushOptions::new(target)
    };
    let drained = CancellationToken::new();
    let exit = CancellationToken::new();
    let pusher = Pusher::new(&telemetry, options).expect("a pusher");
    let pushing = tokio::spawn(pusher.run(drained.clone(), exit.clone()));
    let page = until(web, "/metrics", |answer| !first_packets(answer).is_empty()).await;
    exit.cancel();
    pushing.await.expect("the pusher ends");
    let pushed = first_packets(&page.expect("the gateway shows what was pushed"));
    let scraped = first_packets(&telemetry.exposition().render(&Selection::default()));
    assert_eq!(pushed.len(), scraped.len());
    // The two do spell them differently, or there is nothing to see here.
    assert!(
        pushed.keys().any(|series| series.contains("le=\"1\"")),
        "{pushed:?}"
    );
    assert!(
        scraped.keys().any(|series| series.contains("le=\"1.0\"")),
        "{scraped:?}"
    );
    for pages in [
        vec![("scraped", scraped.clone())],
        vec![("pushed", pushed.clone())],
        vec![("scraped", scraped), ("pushed", pushed)],
    ] {
        let asked = share_is(&pages, RATIO);
        assert!(asked.is_ok(), "{}", asked.unwrap_err());
    }
    assert!(
        share_is(&[("none", BTreeMap::new())], RATIO).is_err(),
        "nothing is not a share"
    );
}
