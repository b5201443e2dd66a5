//! Real programs: Prometheus scrapes a busy server and is queried by PromQL, and a Pushgateway receives pushes.
//!
//! They are Debian packages that `scripts/setup test` installs. Where they are missing these tests print a note and
//! do nothing.

use std::io::Write as _;
use std::process::Stdio;

use omni_proto::v1;
use omni_tests::{FakeScript, Reading, TEXT, TestServer, audio_of, vanish};

#[path = "../../../telemetry/tests/support/programs.rs"]
mod started;

use started::{call, find, free_address, gateway, start, until};

/// Requests that end well, at once.
const CROWD: usize = 8;

/// Callers that are served, and one more that disconnects. Returns the samples of the callers' audio.
async fn load(server: &TestServer, script: &FakeScript) -> usize {
    let spoken = (0..CROWD).map(|_| async {
        let mut client = server.speech();
        let spoken = audio_of(&mut client, v1::SpeechConfig::default(), TEXT).await;
        spoken.expect("audio").0.len() / 2
    });
    let samples = futures::future::join_all(spoken).await.into_iter().sum();
    vanish(server, script).await;
    script.talker.open();
    server.idle(CROWD + 1).await;
    samples
}

/// A caller declares a metric and records seven turns.
async fn measure(server: &TestServer) {
    let declaration = v1::MetricDeclaration {
        name: "app_turns_total".to_owned(),
        kind: v1::MetricKind::Counter.into(),
        unit: "count".to_owned(),
        labels: vec!["room".to_owned()],
        ..v1::MetricDeclaration::default()
    };
    let request = v1::DeclareMetricsRequest {
        metrics: vec![declaration],
    };
    let declared = server.measurements().declare(request).await;
    assert_eq!(declared.expect("an answer").into_inner().errors, []);
    let sample = v1::MetricSample {
        name: "app_turns_total".to_owned(),
        labels: vec![v1::MetricLabel {
            name: "room".to_owned(),
            value: "hall".to_owned(),
        }],
        value: Some(1.0),
        ..v1::MetricSample::default()
    };
    let request = v1::RecordMetricsRequest {
        samples: vec![sample; 7],
    };
    let requests = futures::stream::iter([request]);
    let answers = server.measurements().record(requests).await;
    let answer = answers.expect("a call").into_inner().message().await;
    assert_eq!(answer.expect("an answer").expect("an answer").recorded, 7);
}

fn query(expression: &str) -> String {
    let encoded: String = expression
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b':' | b'(' | b')' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("/api/v1/query?query={encoded}")
}

#[tokio::test]
async fn prometheus_finds_what_was_asked_for_and_nothing_twice() {
    let (Some(program), Some(promtool)) = (find("prometheus"), find("promtool")) else {
        return;
    };
    let script = FakeScript::default();
    let arguments = ["--set", "stages.talker.replicas=2", "--metrics-service", "on"];
    let server = TestServer::fake(script.clone(), &arguments).await;
    let samples = load(&server, &script).await;
    measure(&server).await;
    let directory = tempfile::tempdir().expect("a directory");
    let web = free_address();
    let target = server.app.metrics_address().expect("an address");
    let settings = format!(
        "global: {{scrape_interval: 200ms}}\nscrape_configs:\n- job_name: omni\n  static_configs: [{{targets: ['{target}']}}]\n"
    );
    std::fs::write(directory.path().join("prometheus.yml"), settings).expect("it is written");
    let arguments = [
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=data".to_owned(),
        format!("--web.listen-address={web}"),
    ];
    let _prometheus = start(&program, &arguments, directory.path());
    // Series that come twice in one answer fail the scrape as a whole.
    for (expression, expected) in [
        ("up{job=\"omni\"}".to_owned(), 1),
        ("vllm:omni_requests_success_total{finished_reason=\"stop\"}".to_owned(), CROWD),
        ("sum(vllm:omni_requests_success_total)".to_owned(), CROWD + 1),
        ("sum(vllm:omni_requests_failed_total)".to_owned(), 1),
        ("sum(vllm:omni_audio_frames_total) >= bool SAMPLES".replace("SAMPLES", &samples.to_string()), 1),
        ("vllm:omni_e2e_request_latency_s_bucket{le=\"+Inf\"}".to_owned(), CROWD),
        ("sum(vllm:omni_transfer_size_bytes_count) > bool 0".to_owned(), 1),
        ("app_turns_total{room=\"hall\"}".to_owned(), 7),
        (
            "sum by (stage_name) (vllm:request_success_total{finished_reason=\"abort\"} * on (stage, replica) \
             group_left (stage_name) vllm:omni_stage_info{stage_name=\"talker\"})"
                .to_owned(),
            1,
        ),
    ] {
        let expected = format!(",\"{expected}\"]");
        let seen = until(web, &query(&expression), |answer| answer.contains(&expected)).await;
        assert!(seen.is_ok(), "{expression}: {}", seen.unwrap_err());
    }
    let reading = Reading::of(&server).await;
    assert_eq!(reading.sum("vllm:omni_metrics_dropped_total", &[]), 0.0);
    check(&promtool, &reading.text);
    server.stop().await;
}

/// Promtool finds only style: the names are vLLM's.
fn check(promtool: &std::path::Path, text: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut linter = call(promtool, directory.path())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = linter.stdin.take().expect("it is piped");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = linter.wait_with_output().expect("it ends");
    let found = String::from_utf8_lossy(&output.stderr).into_owned();
    let style = ["':'", "abbreviat", "_total", "unit", "non-histogram"];
    let other: Vec<_> = found
        .lines()
        .filter(|line| !line.is_empty() && !style.iter().any(|word| line.contains(word)))
        .collect();
    assert!(other.is_empty(), "{other:?}");
}

#[tokio::test]
async fn a_pushgateway_has_the_group_while_the_server_lives() {
    let Some(program) = find("prometheus-pushgateway") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let (_gateway, web) = gateway(&program, directory.path()).await;
    let script = FakeScript::default();
    let url = format!("http://{web}");
    let server = TestServer::fake(
        script.clone(),
        &[
            "--push-gateway",
            &url,
            "--push-interval",
            "100ms",
            "--push-grouping",
            "instance=test",
        ],
    )
    .await;
    load(&server, &script).await;
    let expected = CROWD.to_string();
    let ours = |answer: &str| {
        answer.lines().any(|line| {
            line.starts_with("vllm:omni_requests_success_total{")
                && line.contains("finished_reason=\"stop\"")
                && line.contains("instance=\"test\"")
                && line.ends_with(&expected)
        })
    };
    let seen = until(web, "/metrics", ours).await;
    assert!(seen.is_ok(), "{}", seen.unwrap_err());
    let reading = Reading::of(&server).await;
    let pushed = reading.sum("vllm:omni_metrics_push_total", &[("result", "success")]);
    assert!(pushed > 0.0);
    server.stop().await;
    let gone = until(web, "/metrics", |answer| {
        !answer.is_empty() && !answer.contains("vllm:omni_requests_success_total")
    })
    .await;
    assert!(gone.is_ok(), "the group stays");
}
