//! The metrics of a server that works: everything it serves is fed, and says what its callers know.

use omni_proto::v1;
use omni_tests::{FakeScript, TestServer, audio_of, config, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TEXT: &str = "This is a sentence. And here is one more, a longer one, to be spoken after it.";

/// The body of an answer of the metrics' own server.
async fn get(server: &TestServer, path: &str) -> String {
    let address = server.app.metrics_address().expect("metrics are served");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.0\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

/// Sum of the samples of `name` whose labels contain all of `labels`.
fn value(text: &str, name: &str, labels: &[&str]) -> f64 {
    let samples = text.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    });
    let values: Vec<f64> = samples
        .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
        .collect();
    assert!(!values.is_empty(), "{name} {labels:?} in\n{text}");
    values.iter().sum()
}

/// Speaks `utterances` texts one after the other. Gives the bytes of their audio.
async fn speak(server: &TestServer, utterances: usize) -> usize {
    let mut bytes = 0;
    for _ in 0..utterances {
        let (audio, _) = audio_of(&mut server.speech(), v1::SpeechConfig::default(), TEXT)
            .await
            .expect("audio");
        bytes += audio.len();
    }
    server.idle(utterances).await;
    bytes
}

#[tokio::test]
async fn every_family_that_is_served_is_fed_by_real_requests() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 2).await;
    let text = get(&server, "/metrics").await;
    let mut unfed = Vec::new();
    for line in text.lines() {
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        // There need not be a GPU, and not every driver tells everything.
        if name.contains("gpu_") {
            continue;
        }
        let series = if kind == "histogram" {
            format!("{name}_count")
        } else {
            name.to_owned()
        };
        let mut own = text.lines().filter(|line| {
            let rest = line.strip_prefix(series.as_str());
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        let fed = match kind {
            "histogram" => own.any(|line| !line.ends_with(" 0.0")),
            _ => own.next().is_some(),
        };
        if !fed {
            unfed.push(name);
        }
    }
    assert!(unfed.is_empty(), "served and never fed: {unfed:?}");
    server.stop().await;
}

#[tokio::test]
async fn requests_and_audio_are_what_the_callers_got() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let bytes = speak(&server, 3).await;
    let text = get(&server, "/metrics").await;
    let frames = (bytes / 2) as f64;
    assert_eq!(
        value(&text, "vllm:omni_requests_success_total", &["\"stop\""]),
        3.0
    );
    assert_eq!(value(&text, "vllm:omni_requests_failed_total", &[]), 0.0);
    assert_eq!(value(&text, "vllm:omni_e2e_request_latency_s_count", &[]), 3.0);
    assert_eq!(
        value(&text, "vllm:omni_audio_frames_total", &["stage=\"1\""]),
        frames
    );
    assert_eq!(value(&text, "vllm:omni_audio_ttfp_s_count", &[]), 3.0);
    assert_eq!(value(&text, "vllm:omni_audio_underrun_s_count", &[]), 3.0);
    assert!(
        value(
            &text,
            "vllm:generation_tokens_total",
            &["stage=\"0\"", "replica=\"0\""]
        ) > 0.0
    );
    assert_eq!(value(&text, "vllm:num_requests_running", &[]), 0.0);
    assert_eq!(value(&text, "vllm:omni_num_requests_running", &[]), 0.0);
    assert_eq!(
        value(
            &text,
            "vllm:omni_stage_info",
            &["stage=\"1\"", "stage_name=\"code2wav\""]
        ),
        1.0
    );
    server.stop().await;
}

#[tokio::test]
async fn every_hop_between_stages_is_measured_and_has_the_size_of_what_it_carried() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    speak(&server, 1).await;
    let text = get(&server, "/metrics").await;
    let edge = ["from_stage=\"0\"", "to_stage=\"1\""];
    let hops = value(&text, "vllm:omni_transfer_size_bytes_count", &edge);
    let bytes = value(&text, "vllm:omni_transfer_size_bytes_sum", &edge);
    assert!(hops > 0.0);
    let edges = server.edges.all();
    let between: Vec<_> = edges
        .iter()
        .filter(|edge| edge.hop.from.stage == "talker")
        .collect();
    let told: u64 = between.iter().map(|edge| edge.bytes).sum();
    let chunks: u32 = between.iter().map(|edge| edge.chunks).sum();
    assert_eq!((hops, bytes), (f64::from(chunks), told as f64));
    for part in ["tx_s", "rx_s", "in_flight_s"] {
        let count = value(&text, &format!("vllm:omni_transfer_{part}_count"), &edge);
        assert_eq!(count, hops, "{part}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_caller_that_cancels_is_counted_as_an_abort() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    call.ready().await;
    call.send(text(TEXT)).await;
    drop(call);
    server.idle(1).await;
    let text = get(&server, "/metrics").await;
    assert_eq!(
        value(&text, "vllm:omni_requests_success_total", &["\"abort\""]),
        1.0
    );
    assert_eq!(value(&text, "vllm:omni_requests_failed_total", &[]), 1.0);
    assert_eq!(value(&text, "vllm:omni_e2e_request_latency_s_count", &[]), 0.0);
    server.stop().await;
}

#[tokio::test]
async fn probes_and_statistics_follow_the_flags() {
    let server = TestServer::fake(FakeScript::default(), &["--log-stats", "off"]).await;
    assert_eq!(get(&server, "/readyz").await, "ready\n");
    speak(&server, 1).await;
    assert!(get(&server, "/metrics").await.starts_with("# nothing to show"));
    server.stop().await;
    let newer = TestServer::fake(FakeScript::default(), &["--metrics-prefix", "vllm_omni:"]).await;
    speak(&newer, 1).await;
    let text = get(&newer, "/metrics").await;
    assert_eq!(
        value(&text, "vllm_omni:requests_success_total", &["\"stop\""]),
        1.0
    );
    newer.stop().await;
}
