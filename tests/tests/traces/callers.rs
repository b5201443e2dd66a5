//! Callers that trace: their context is taken over, and their decision.

use omni_proto::v1;
use omni_tests::{TestServer, audio_of_request, chat_config, chat_message, generate_request};
use tonic::Request;

use crate::collector::{Collector, only, server};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn with<T>(message: T, headers: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (name, value) in headers {
        let value = value.parse().expect("a header");
        request.metadata_mut().append(*name, value);
    }
    request
}

async fn speak(server: &TestServer, headers: &[(&'static str, &str)]) {
    let message = v1::SynthesizeRequest {
        config: None,
        text: "This is one sentence.".to_owned(),
    };
    let spoken = audio_of_request(&mut server.speech(), with(message, headers)).await;
    spoken.expect("audio");
}

async fn answer(server: &TestServer, headers: &[(&'static str, &str)]) {
    let message = v1::GenerateRequest {
        config: Some(chat_config(false)),
        messages: vec![chat_message(v1::Role::User, "say Yes.")],
    };
    let answered = generate_request(&mut server.chat(), with(message, headers)).await;
    answered.expect("an answer");
}

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

#[tokio::test]
async fn a_callers_trace_goes_on_in_the_server() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    let headers = parent("01");
    let headers = [
        ("traceparent", headers.as_str()),
        ("tracestate", "congo=t61"),
        ("tracestate", "rojo=1"),
    ];
    speak(&server, &headers).await;
    answer(&server, &headers).await;
    server.stop().await;
    let spans = collector.spans();
    let roots: Vec<_> = spans.iter().filter(|span| span.name == "llm_request").collect();
    assert_eq!(roots.len(), 2);
    for root in roots {
        assert_eq!(root.parent, SPAN);
        assert_eq!(
            root.wire.flags, 0x301,
            "sampled, and the parent is another program's"
        );
    }
    for span in &spans {
        assert_eq!(span.trace, TRACE, "{span:#?}");
        assert_eq!(span.wire.trace_state, "congo=t61,rojo=1");
    }
}

#[tokio::test]
async fn a_caller_who_does_not_record_is_not_recorded_here_either() {
    let collector = Collector::start().await;
    let server = server(&collector.url(), |_| {}).await;
    let quiet = parent("00");
    speak(&server, &[("traceparent", &quiet)]).await;
    answer(&server, &[("traceparent", &quiet)]).await;
    // A header that cannot be read counts as none: the trace begins here.
    speak(&server, &[("traceparent", "00-nonsense-01")]).await;
    server.idle(2).await;
    server.stop().await;
    let spans = collector.spans();
    let root = only(&spans, "llm_request");
    assert!(root.trace != TRACE && root.parent.is_empty(), "{root:#?}");
    assert!(spans.iter().all(|span| span.trace == root.trace));
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_kept_for_traces() {
    let server = TestServer::fake(omni_tests::FakeScript::default(), &[]).await;
    let sampled = parent("01");
    speak(&server, &[("traceparent", &sampled)]).await;
    answer(&server, &[("traceparent", &sampled)]).await;
    server.idle(1).await;
    assert_eq!(server.records.traced(), 0);
    assert!(server.edges.all().iter().all(|edge| edge.trace.is_none()));
    server.stop().await;
}
