//! Trace of a request with stages in other processes: one trace, with the caller's parent.

use std::sync::{Arc, Mutex};

use omni_proto::v1;
use omni_proto::v1::synthesize_response::Event;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::part::{Cluster, Part, SENTENCE, long_text};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

#[derive(Debug, Clone, Default)]
struct Received(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        let spans = scopes.flat_map(|scope| scope.spans);
        self.0.lock().expect("no panic holds it").extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A receiver of spans, which runs as long as this lives.
struct Collector {
    url: String,
    received: Received,
    task: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let received = Received::default();
        let serving = Server::builder()
            .add_service(TraceServiceServer::new(received.clone()))
            .serve_with_incoming(TcpIncoming::from(listener));
        let task = tokio::spawn(async move { serving.await.expect("it serves") });
        Self { url, received, task }
    }

    /// All spans of a front end, which ends and sends those that it has.
    async fn all_of(&self, front: &mut Part) -> Vec<Span> {
        front.signal("-TERM");
        // It sends to a task of this thread.
        let ended = tokio::task::block_in_place(|| front.ended());
        assert_eq!(ended, Some(0));
        self.received.0.lock().expect("no panic holds it").clone()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value<'a>(span: &'a Span, name: &str) -> Option<&'a Value> {
    let found = span.attributes.iter().find(|pair| pair.key == name)?;
    found.value.as_ref()?.value.as_ref()
}

fn count(span: &Span, name: &str) -> Option<i64> {
    match value(span, name)? {
        Value::IntValue(count) => Some(*count),
        _ => None,
    }
}

fn text<'a>(span: &'a Span, name: &str) -> &'a str {
    match value(span, name) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{name} of {} is {other:?}", span.name),
    }
}

/// All are in the caller's trace, and parts of one request, which is a part of the caller's span.
fn one_trace(spans: &[Span]) -> &Span {
    let roots: Vec<_> = spans.iter().filter(|span| span.name == "llm_request").collect();
    let [root] = roots[..] else {
        panic!("expected one request: {spans:#?}")
    };
    assert_eq!(hex(&root.parent_span_id), CALLER);
    for span in spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{span:#?}");
        assert!(
            span.span_id == root.span_id || span.parent_span_id == root.span_id,
            "{span:#?}"
        );
        assert!(
            root.start_time_unix_nano <= span.start_time_unix_nano
                && span.start_time_unix_nano <= span.end_time_unix_nano
                && span.end_time_unix_nano <= root.end_time_unix_nano,
            "{span:#?} is not within {root:#?}"
        );
    }
    root
}

/// Speaks for a caller that traces, with a seed: of forty sentences one that is drawn at random may run to its limit.
async fn speak(front: &Part, text: &str) -> Streaming<v1::SynthesizeResponse> {
    let sampling = v1::SamplingParams {
        seed: Some(1),
        ..Default::default()
    };
    let mut request = Request::new(v1::SynthesizeRequest {
        config: Some(v1::SpeechConfig {
            sampling: Some(sampling),
            ..Default::default()
        }),
        text: text.to_owned(),
    });
    let parent = format!("00-{TRACE}-{CALLER}-01");
    request
        .metadata_mut()
        .insert("traceparent", parent.parse().expect("a header"));
    let mut client = front.client().await;
    client
        .synthesize(request)
        .await
        .expect("it is taken")
        .into_inner()
}

/// Reads to the end, or to the first audio. Whether there was some.
async fn heard(speech: &mut Streaming<v1::SynthesizeResponse>, all: bool) -> bool {
    let mut audio = false;
    while let Some(message) = speech.message().await.expect("it speaks") {
        audio |= matches!(message.event, Some(Event::Audio(_)));
        if audio && !all {
            break;
        }
    }
    audio
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_trace_has_the_spans_of_three_processes() {
    let cluster = Cluster::new();
    let collector = Collector::start().await;
    let _talker = cluster.stage("talker", &["--replica", "4"]);
    let _vocoder = cluster.stage("code2wav", &["--replica", "9"]);
    let mut front = cluster.frontend(&["--otlp-traces-endpoint", &collector.url]);
    front.serves();
    assert!(heard(&mut speak(&front, SENTENCE).await, true).await);
    let spans = collector.all_of(&mut front).await;
    let root = one_trace(&spans);
    assert_eq!(text(root, "omni.outcome"), "stop");
    let mut names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "code2wav",
        "edge code2wav->session",
        "edge session->talker",
        "edge talker->code2wav",
        "llm_request",
        "queue",
        "talker",
    ];
    assert_eq!(names, expected);
    let of = |name: &str| spans.iter().find(|span| span.name == name).expect("it is there");
    for (stage, replica) in [("talker", 4), ("code2wav", 9)] {
        let stage = of(stage);
        assert_eq!(count(stage, "omni.replica"), Some(replica));
        assert!(count(stage, "omni.outputs") > Some(0), "{stage:#?}");
        let events: Vec<_> = stage.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(events, ["first step", "first output"]);
    }
    assert_eq!(
        count(of("talker"), "omni.outputs"),
        count(of("edge talker->code2wav"), "omni.edge.chunks")
    );
    assert_eq!(text(of("edge talker->code2wav"), "omni.edge.from"), "talker-4");
    assert_eq!(text(of("edge talker->code2wav"), "omni.edge.to"), "code2wav-9");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_after_a_kill_is_in_the_same_trace_with_both_replicas() {
    let cluster = Cluster::new();
    let collector = Collector::start().await;
    let mut victim = cluster.stage("talker", &["--replica", "4"]);
    let _vocoder = cluster.stage("code2wav", &[]);
    let args = [
        "--max-buffered-audio",
        "200ms",
        "--otlp-traces-endpoint",
        &collector.url,
    ];
    let mut front = cluster.frontend(&args);
    front.serves();
    let mut speech = speak(&front, &long_text()).await;
    assert!(heard(&mut speech, false).await);
    let _another = cluster.stage("talker", &["--replica", "7"]);
    front.says_times("replica ready", 3);
    victim.kill();
    assert!(heard(&mut speech, true).await);
    front.says("is retried on another replica");
    let spans = collector.all_of(&mut front).await;
    assert_eq!(text(one_trace(&spans), "omni.outcome"), "stop");
    let of = |name: &'static str| spans.iter().filter(move |span| span.name == name);
    // Each sentence has its spans in the stages, of the replica that ended it.
    let talkers: Vec<_> = of("talker").map(|span| count(span, "omni.replica")).collect();
    assert_eq!(talkers.last(), Some(&Some(7)), "{talkers:?}");
    assert_eq!(of("code2wav").count(), talkers.len());
    // The sentence that was begun twice left from both.
    let begun = |replica: &str| {
        let of_it = of("edge talker->code2wav").filter(move |span| text(span, "omni.edge.from") == replica);
        of_it.count()
    };
    assert!(begun("talker-4") > 0 && begun("talker-7") > 0, "{spans:#?}");
}
