//! Where the metrics are, and what the flags change.

use omni_tests::{FakeScript, Reading, TestServer, get, speak};

#[tokio::test]
async fn probes_say_whether_the_server_lives_and_whether_it_serves() {
    let script = FakeScript::default();
    script.load.close();
    let load = script.clone();
    let mut server = TestServer::launch(&[], move || Ok(omni_tests::FakeSpeech::new(load))).await;
    assert_eq!(get(&server, "/healthz").await, "ok\n");
    assert_eq!(get(&server, "/readyz").await, "not ready\n");
    script.load.open();
    server.app.ready().await.expect("the fake model loads");
    assert_eq!(get(&server, "/readyz").await, "ready\n");
    server.stop().await;
}

#[tokio::test]
async fn statistics_that_are_off_are_nowhere() {
    let server = TestServer::fake(FakeScript::default(), &["--log-stats", "off"]).await;
    speak(&server, 1).await;
    assert!(get(&server, "/metrics").await.starts_with("# nothing to show"));
    server.stop().await;
}

#[tokio::test]
async fn the_newer_prefix_stands_before_the_same_names() {
    let server = TestServer::fake(FakeScript::default(), &["--metrics-prefix", "vllm_omni:"]).await;
    speak(&server, 1).await;
    let reading = Reading::of(&server).await;
    assert_eq!(
        reading.sum("vllm_omni:requests_success_total", &[("finished_reason", "stop")]),
        1.0
    );
    assert!(!reading.text.contains("vllm:omni_"));
    server.stop().await;
}

#[tokio::test]
async fn two_servers_in_one_process_know_nothing_of_each_other() {
    let (one, other) = (
        TestServer::fake(FakeScript::default(), &[]).await,
        TestServer::fake(FakeScript::default(), &[]).await,
    );
    speak(&one, 2).await;
    let requests = |reading: &Reading| reading.sum("vllm:omni_requests_success_total", &[]);
    assert_eq!(requests(&Reading::of(&one).await), 2.0);
    assert_eq!(requests(&Reading::of(&other).await), 0.0);
    one.stop().await;
    other.stop().await;
}
