//! Against the programs themselves: Prometheus scrapes and is asked, a Pushgateway is pushed to and read, promtool
//! parses.
//!
//! They are packages of Debian, which `scripts/setup` fetches. Where they are missing and cannot be had, these tests
//! say so and do nothing.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use omni_telemetry::*;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[path = "support/programs.rs"]
mod programs;

use programs::{call, find, free_address, gateway, start, until};

/// Everything that can be on, with some traffic.
/// So many new tokens came out.
fn outputs(engine: &EngineInstruments, new_tokens: u64) {
    engine.iteration(&IterationRecord {
        new_tokens,
        ..IterationRecord::default()
    });
}

fn busy() -> (Telemetry, EngineInstruments) {
    let options = TelemetryOptions {
        catalogue: CatalogueOptions {
            enable: vec!["torchserve".to_owned()],
            pending: true,
            ..CatalogueOptions::default()
        },
        model_name: Some("a \"quoted\" \\ name".to_owned()),
        hostname: "here".to_owned(),
        ..TelemetryOptions::default()
    };
    let telemetry = Telemetry::new(&options).expect("good options");
    let replica = Replica { stage: 1, replica: 2 };
    let engine = telemetry.engine(replica);
    outputs(&engine, 42);
    engine.next_output(Duration::from_millis(20));
    let _sessions = SessionInstruments::new(telemetry.meter());
    let torchserve = TorchServeInstruments::new(telemetry.meter(), "m", "1");
    let latency = [0.05, 0.7].map(Duration::from_secs_f64);
    let http = HttpInstruments::new(telemetry.meter());
    for (took, trace) in latency
        .into_iter()
        .zip([Some("4bf92f3577b34da6a3ce929d0e0e4736"), None])
    {
        let exchange = HttpExchange {
            handler: "/v1/audio/speech",
            method: "POST",
            works: true,
            status: 200,
            request_bytes: 10,
            response_bytes: 20,
            took,
        };
        with_exemplar(trace.map(str::to_owned), || http.answered(&exchange));
    }
    torchserve.arrived();
    collect_system(telemetry.exposition(), telemetry.meter());
    let custom = CustomMetrics::new(
        &telemetry,
        CustomOptions {
            sinks: MetricsMode::Prometheus.sinks(""),
            ..CustomOptions::default()
        },
    );
    let spec = MetricSpec {
        name: "MyTimes".to_owned(),
        kind: CustomKind::Histogram,
        unit: "ms".to_owned(),
        help: "Mine: with a \\ and\na second line".to_owned(),
        labels: vec!["Voice".to_owned()],
        bounds: None,
        sinks: None,
    };
    custom.declare(&spec).expect("a declaration");
    let voice = ("Voice".to_owned(), "a,b:c|#\"\\".to_owned());
    let handle = custom.handle("MyTimes", &[voice]).expect("a series");
    handle.record(12.0).expect("a number");
    (telemetry, engine)
}

#[test]
fn promtool_parses_everything_and_remarks_only_on_inherited_names() {
    let Some(program) = find("promtool") else {
        return;
    };
    let (telemetry, _engine) = busy();
    let text = telemetry.exposition().render(&Selection::default());
    let directory = tempfile::tempdir().expect("a directory");
    let mut promtool = call(&program, directory.path())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = promtool.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("promtool reads");
    drop(input);
    let output = promtool.wait_with_output().expect("promtool ends");
    let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
    // 3: it has remarks. 1 would be: it cannot parse.
    assert!(
        [Some(0), Some(3)].contains(&output.status.code()),
        "{remarks}\n{text}"
    );
    let inherited = [
        "metric names should not contain ':'",
        "metric names should not contain abbreviated units",
        "metric names should be written in 'snake_case' not 'camelCase'",
        "counter metrics should have \"_total\" suffix",
        "non-counter metrics should not have \"_total\" suffix",
        "label names should be written in 'snake_case' not 'camelCase'",
        "use base unit \"seconds\" instead of \"microseconds\"",
        "metric name should not include type 'info'",
    ];
    for remark in remarks.lines().filter(|line| !line.trim().is_empty()) {
        assert!(inherited.iter().any(|known| remark.contains(known)), "{remark}");
    }
}

#[tokio::test]
async fn prometheus_scrapes_the_endpoint_and_answers_queries() {
    let Some(program) = find("prometheus") else {
        return;
    };
    let (telemetry, engine) = busy();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let metrics = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    let endpoint = PullEndpoint::new(&telemetry, Arc::new(|| true));
    let serving = tokio::spawn(endpoint.serve(listener, stop.clone()));
    let directory = tempfile::tempdir().expect("a directory");
    let config = format!(
        "global: {{scrape_interval: 200ms}}\nscrape_configs:\n  - job_name: omni\n    static_configs: [{{targets: ['{metrics}']}}]\n"
    );
    std::fs::write(directory.path().join("prometheus.yml"), config).expect("a file");
    let web = free_address();
    let arguments = [
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=data".to_owned(),
        format!("--web.listen-address={web}"),
    ];
    let _prometheus = start(&program, &arguments, directory.path());
    let query = |query: &str| format!("/api/v1/query?query={query}");
    let up = until(web, &query("up"), |answer| answer.contains("\"1\"]")).await;
    assert!(up.is_ok(), "never scraped: {up:?}");
    let tokens = query("vllm:generation_tokens_total%7Bstage=%221%22,replica=%222%22%7D");
    let seen = until(web, &tokens, |answer| answer.contains("\"42\"")).await;
    assert!(seen.is_ok(), "{seen:?}");
    // A query on a bound as vLLM's dashboards write it.
    let bucket = query("vllm:inter_token_latency_seconds_bucket%7Ble=%221.0%22%7D");
    let seen = until(web, &bucket, |answer| answer.contains("\"1\"]")).await;
    assert!(seen.is_ok(), "{seen:?}");
    outputs(&engine, 8);
    let seen = until(web, &tokens, |answer| answer.contains("\"50\"")).await;
    assert!(seen.is_ok(), "{seen:?}");
    stop.cancel();
    serving.await.expect("the endpoint ends");
}

#[tokio::test]
async fn a_pushgateway_takes_the_group_shows_it_and_loses_it_on_exit() {
    let Some(program) = find("prometheus-pushgateway") else {
        return;
    };
    let (telemetry, engine) = busy();
    let directory = tempfile::tempdir().expect("a directory");
    let (_gateway, web) = gateway(&program, directory.path()).await;
    let target =
        PushTarget::new(&format!("http://{web}"), "omni", &[("instance", "a/b c")]).expect("a target");
    let options = PushOptions {
        interval: Duration::from_millis(100),
        ..PushOptions::new(target)
    };
    let drained = CancellationToken::new();
    let exit = CancellationToken::new();
    let pusher = Pusher::new(&telemetry, options).expect("a pusher");
    let pushing = tokio::spawn(pusher.run(drained.clone(), exit.clone()));
    let ours = |answer: &str, value: &str| {
        answer.lines().any(|line| {
            line.starts_with("vllm:generation_tokens_total{")
                && line.contains("instance=\"a/b c\"")
                && line.contains("job=\"omni\"")
                && line.ends_with(value)
        })
    };
    let seen = until(web, "/metrics", |answer| ours(answer, " 42")).await;
    assert!(seen.is_ok(), "{}", seen.unwrap_err());
    outputs(&engine, 8);
    drained.cancel();
    let seen = until(web, "/metrics", |answer| ours(answer, " 50")).await;
    assert!(seen.is_ok(), "{}", seen.unwrap_err());
    exit.cancel();
    pushing.await.expect("the pusher ends");
    let gone = until(web, "/metrics", |answer| {
        !answer.is_empty() && !answer.contains("vllm:generation_tokens_total")
    })
    .await;
    assert!(gone.is_ok(), "{}", gone.unwrap_err());
    let text = telemetry.exposition().render(&Selection::default());
    assert!(
        text.contains("vllm:omni_metrics_push_total{result=\"failure\"} 0.0\n"),
        "{text}"
    );
}
