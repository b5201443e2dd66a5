//! Every family that a server serves is fed.

use omni_tests::{FakeScript, Reading, TestServer, chat_config, http, speak, vanish};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Families that need something which this machine, or this test, may not have.
const ELSEWHERE: [&str; 4] = [
    // The scripted model does not hear here; a test beside this one has one that does.
    "vllm:mm_cache_",
    // The scripted model makes no voices; a test of those feeds them.
    "vllm:omni_voice",
    // No replica has a process of its own here; a test of instruments feeds these.
    "vllm:omni_stage_process_",
    // There may be no GPU, and not every driver reports everything.
    "vllm:omni_gpu_",
];

/// Counters that stay at zero while all goes well: here they only have to be there. A test beside this one makes the
/// pushes count.
const QUIET: [&str; 18] = [
    "vllm:admission_rejections_total",
    "vllm:external_prefix_cache_hits_total",
    "vllm:external_prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total",
    "vllm:num_preemptions_total",
    "vllm:omni_audio_silent_requests_total",
    "vllm:omni_audio_skipped_requests_total",
    "vllm:omni_metrics_dropped_total",
    "vllm:omni_metrics_push_total",
    "vllm:omni_replica_deaths_total",
    "vllm:omni_replica_restarts_total",
    "vllm:omni_stage_starved_total",
    "vllm:omni_trace_spans_total",
    // The scripted model does not report its cache.
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prompt_tokens_cached_by_source_total",
    "vllm:prompt_tokens_cached_total",
];

/// Speaks, converses, and goes away in the middle.
async fn work(server: &TestServer, script: &FakeScript) {
    speak(server, 2).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    chat.ask("say One sentence is long enough to be heard.").await;
    chat.answer().await;
    drop(chat);
    server.chats_over(1).await;
    http(server, "GET", "/v1/models", &[], "").await;
    let json = [("content-type", "application/json")];
    let body = r#"{"input": "By HTTP."}"#;
    http(server, "POST", "/v1/audio/speech", &json, body).await;
    vanish(server, script).await;
    script.talker.open();
    wyoming(server).await;
    server.idle(5).await;
}

/// Speaks by Wyoming.
async fn wyoming(server: &TestServer) {
    let address = server.app.wyoming_address().expect("--wyoming");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = b"{\"type\": \"synthesize\", \"data\": {\"text\": \"Hello.\"}}\n";
    stream.write_all(request).await.expect("the server reads");
    let mut answer = Vec::new();
    let end = b"audio-stop";
    while !answer.windows(end.len()).any(|window| window == end) {
        assert_ne!(stream.read_buf(&mut answer).await.expect("an answer"), 0);
    }
}

fn fed(reading: &Reading, name: &str, kind: &str) -> bool {
    match kind {
        "histogram" | "summary" => reading
            .of_name(&format!("{name}_count"), &[])
            .any(|sample| sample.value > 0.0),
        "counter" => reading.of_name(name, &[]).any(|sample| sample.value > 0.0),
        _ => reading.of_name(name, &[]).next().is_some(),
    }
}

#[tokio::test]
async fn every_family_that_is_served_is_fed_by_real_requests() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--wyoming", "127.0.0.1:0"]).await;
    work(&server, &script).await;
    // The first reading is counted in the second.
    Reading::of(&server).await;
    let reading = Reading::of(&server).await;
    let unfed: Vec<_> = reading
        .types
        .iter()
        .filter(|(name, _)| !ELSEWHERE.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|(name, kind)| !QUIET.contains(&name.as_str()) && !fed(&reading, name, kind))
        .collect();
    assert!(unfed.is_empty(), "served and never fed: {unfed:?}");
    let silent: Vec<_> = QUIET
        .iter()
        .filter(|name| reading.of_name(name, &[]).next().is_none())
        .collect();
    assert!(silent.is_empty(), "not even at zero: {silent:?}");
    server.stop().await;
}
