//! A collector behind TLS gets the spans of a server that trusts it, and of no other.

use std::path::PathBuf;
use std::time::Duration;

use omni_config::Config;
use omni_tests::{Authority, Reading, TestServer, speak};

use crate::collector::{Collector, server};

fn trusting(authority: PathBuf) -> impl FnOnce(&mut Config) {
    move |config| {
        let traces = config.traces.as_mut().expect("an endpoint");
        traces.authority = Some(authority);
        traces.limits.timeout = Duration::from_secs(5);
    }
}

async fn spans(server: &TestServer, result: &str) -> f64 {
    let reading = Reading::of(server).await;
    reading.sum("vllm:omni_trace_spans_total", &[("result", result)])
}

#[tokio::test]
async fn spans_arrive_at_a_collector_behind_tls() {
    let place = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let collector = Collector::encrypted(&ours.server()).await;
    let authority = ours.write(place.path(), "ours");
    let server = server(&collector.url(), trusting(authority)).await;
    speak(&server, 1).await;
    server
        .until("all spans are there", || collector.spans().len() == 13)
        .await;
    server.stop().await;
}

#[tokio::test]
async fn a_collector_that_is_not_trusted_gets_nothing_and_its_spans_are_counted() {
    let place = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let others = Authority::new("others");
    let collector = Collector::encrypted(&others.server()).await;
    let trust = trusting(ours.write(place.path(), "ours"));
    let adjust = |config: &mut Config| {
        trust(config);
        let traces = config.traces.as_mut().expect("an endpoint");
        traces.limits.queue = 8;
        traces.limits.batch = 4;
    };
    let server = server(&collector.url(), adjust).await;
    speak(&server, 4).await;
    assert!(spans(&server, "dropped").await > 0.0);
    assert_eq!(spans(&server, "exported").await, 0.0);
    assert!(collector.spans().is_empty());
    server.stop().await;
}
