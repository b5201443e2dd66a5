//! A collector that is not there, or does not answer, is the operator's trouble and not the caller's.

use std::time::Duration;

use omni_config::Config;
use omni_tests::{Reading, TestServer, speak};
use tokio::net::TcpListener;

use crate::collector::{Collector, server};

fn small(config: &mut Config) {
    let traces = config.traces.as_mut().expect("an endpoint");
    traces.limits.queue = 8;
    traces.limits.batch = 4;
    traces.limits.timeout = Duration::from_millis(200);
}

async fn spans(server: &TestServer, result: &str) -> f64 {
    let reading = Reading::of(server).await;
    reading.sum("vllm:omni_trace_spans_total", &[("result", result)])
}

/// Serves, logs the dropped data, and shuts down.
async fn serves_all_the_same(server: TestServer) {
    speak(&server, 4).await;
    assert!(spans(&server, "dropped").await > 0.0);
    assert_eq!(spans(&server, "exported").await, 0.0);
    server.stop().await;
}

#[tokio::test]
async fn a_server_works_and_ends_without_its_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    serves_all_the_same(server(&url, small).await).await;
}

#[tokio::test]
async fn a_server_works_and_ends_with_a_collector_that_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    serves_all_the_same(server(&url, small).await).await;
    drop(listener);
}

#[tokio::test]
async fn every_span_is_counted_by_what_became_of_it() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    speak(&server, 1).await;
    // The request, its text, its queue, and for each of two sentences two stages and three edges.
    server
        .until("all spans are there", || collector.spans().len() == 13)
        .await;
    while spans(&server, "exported").await < 13.0 {
        // They are counted when the collector's answer has come.
        tokio::task::yield_now().await;
    }
    assert_eq!(spans(&server, "dropped").await, 0.0);
    assert_eq!(spans(&server, "failed").await, 0.0);
    assert_eq!(spans(&server, "exported").await, 13.0);
    server.stop().await;
}
