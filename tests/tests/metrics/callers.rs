//! Metrics of callers: declared, recorded and listed over gRPC, and read where the server's own are.

use futures::stream;
use omni_proto::v1;
use omni_proto::v1::{MetricErrorReason as Reason, MetricKind as Kind};
use omni_tests::{FakeScript, Reading, TestServer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const ON: [&str; 2] = ["--metrics-service", "on"];

fn declaration(name: &str, kind: Kind, labels: &[&str]) -> v1::MetricDeclaration {
    v1::MetricDeclaration {
        name: name.to_owned(),
        kind: kind.into(),
        unit: "ms".to_owned(),
        help: "What a caller measures.".to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        bounds: Vec::new(),
    }
}

fn sample(name: &str, labels: &[(&str, &str)], value: f64) -> v1::MetricSample {
    let labels = labels.iter().map(|(name, value)| v1::MetricLabel {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    });
    v1::MetricSample {
        name: name.to_owned(),
        labels: labels.collect(),
        value: Some(value),
        ..v1::MetricSample::default()
    }
}

/// Declares metrics; returns the refused ones.
async fn declare(server: &TestServer, metrics: Vec<v1::MetricDeclaration>) -> Vec<(u32, Reason)> {
    let request = v1::DeclareMetricsRequest { metrics };
    let answer = server.measurements().declare(request).await.expect("an answer");
    reasons(&answer.into_inner().errors)
}

fn reasons(errors: &[v1::MetricError]) -> Vec<(u32, Reason)> {
    errors.iter().map(|error| (error.index, error.reason())).collect()
}

/// Records messages of samples; the answers.
async fn record(
    server: &TestServer,
    messages: Vec<Vec<v1::MetricSample>>,
) -> Result<Vec<v1::RecordMetricsResponse>, Status> {
    let requests = messages
        .into_iter()
        .map(|samples| v1::RecordMetricsRequest { samples });
    let call = server.measurements().record(stream::iter(requests)).await?;
    let mut answers = Vec::new();
    let mut call = call.into_inner();
    while let Some(answer) = call.message().await? {
        answers.push(answer);
    }
    Ok(answers)
}

fn reason(status: &Status) -> String {
    let info = status.get_details_error_info().expect("every error has a reason");
    info.reason
}

#[tokio::test]
async fn what_callers_measure_is_read_with_what_the_server_measures() {
    let server = TestServer::fake(FakeScript::default(), &ON).await;
    let declared = declare(
        &server,
        vec![
            declaration("app_turns_total", Kind::Counter, &["room"]),
            declaration("app_listeners", Kind::Gauge, &["room", "model_name"]),
            v1::MetricDeclaration {
                bounds: vec![10.0, 100.0],
                ..declaration("app_answer_ms", Kind::Histogram, &[])
            },
        ],
    )
    .await;
    assert_eq!(declared, []);
    let hall = [("room", "hall")];
    let yard = [("room", "yard")];
    let messages = vec![
        vec![
            sample("app_turns_total", &hall, 2.0),
            sample("app_turns_total", &yard, 1.5),
            sample("app_listeners", &hall, 7.0),
        ],
        vec![
            sample("app_turns_total", &hall, 3.0),
            sample("app_listeners", &hall, -4.0),
            sample("app_answer_ms", &[], 10.0),
            sample("app_answer_ms", &[], 50.0),
            sample("app_answer_ms", &[], 500.0),
        ],
        vec![],
    ];
    let answers = record(&server, messages).await.expect("answers");
    let recorded: Vec<_> = answers.iter().map(|answer| answer.recorded).collect();
    assert_eq!(recorded, [3, 5, 0], "every message has its answer");
    assert!(answers.iter().all(|answer| answer.errors.is_empty()));
    let reading = Reading::of(&server).await;
    assert_eq!(reading.sum("app_turns_total", &hall), 5.0);
    assert_eq!(reading.sum("app_turns_total", &yard), 1.5);
    let named = [hall[0], ("model_name", "fake")];
    assert_eq!(reading.sum("app_listeners", &named), -4.0);
    for (bound, count) in [("10.0", 1.0), ("100.0", 2.0), ("+Inf", 3.0)] {
        assert_eq!(
            reading.sum("app_answer_ms_bucket", &[("le", bound)]),
            count,
            "{bound}"
        );
    }
    assert_eq!(reading.sum("app_answer_ms_sum", &[]), 560.0);
    for (name, kind) in [
        ("app_turns_total", "counter"),
        ("app_listeners", "gauge"),
        ("app_answer_ms", "histogram"),
    ] {
        assert_eq!(reading.types[name], kind);
    }
    assert_eq!(reading.sum("vllm:omni_metrics_dropped_total", &[]), 0.0);
    server.stop().await;
}

#[tokio::test]
async fn a_sample_that_does_not_fit_is_answered_with_its_place_and_reason_and_recorded_nowhere() {
    let server = TestServer::fake(FakeScript::default(), &ON).await;
    let counter = declaration("app_turns_total", Kind::Counter, &["room"]);
    assert_eq!(declare(&server, vec![counter]).await, []);
    let hall = [("room", "hall")];
    let good = || sample("app_turns_total", &hall, 1.0);
    let value = |value| sample("app_turns_total", &hall, value);
    let labels = |labels: &[(&str, &str)]| sample("app_turns_total", labels, 1.0);
    let long = "x".repeat(300);
    let bad = [
        (sample("app_turn_total", &hall, 1.0), Reason::NotDeclared),
        (sample("vllm:num_requests_running", &[], 1.0), Reason::BuiltIn),
        (sample(&long, &hall, 1.0), Reason::InvalidDeclaration),
        (value(-1.0), Reason::NegativeCounter),
        (value(f64::NAN), Reason::NotFinite),
        (value(f64::INFINITY), Reason::NotFinite),
        (labels(&[]), Reason::MissingLabel),
        (labels(&[hall[0], ("door", "2")]), Reason::UnknownLabel),
        (labels(&[hall[0], ("room", "yard")]), Reason::DuplicateLabel),
        (labels(&[("room", &long)]), Reason::LabelValue),
        (labels(&[("room", "a\nb")]), Reason::LabelValue),
        (
            v1::MetricSample {
                kind: Kind::Gauge.into(),
                ..good()
            },
            Reason::WrongKind,
        ),
        (v1::MetricSample { kind: 9, ..good() }, Reason::UnknownKind),
        (
            v1::MetricSample {
                unit: "s".to_owned(),
                ..good()
            },
            Reason::WrongUnit,
        ),
        (
            v1::MetricSample {
                value: None,
                ..good()
            },
            Reason::MissingValue,
        ),
        (
            v1::MetricSample {
                request_id: "r".repeat(129),
                ..good()
            },
            Reason::RequestId,
        ),
    ];
    // Valid samples among them, and the same unit in another spelling.
    let mut samples = vec![good()];
    for (sample, _) in &bad {
        samples.push(sample.clone());
        samples.push(v1::MetricSample {
            kind: Kind::Counter.into(),
            unit: "Milliseconds".to_owned(),
            ..good()
        });
    }
    let answers = record(&server, vec![samples]).await.expect("an answer");
    let expected: Vec<_> = (0..)
        .zip(&bad)
        .map(|(index, (_, reason))| (2 * index + 1, *reason))
        .collect();
    assert_eq!(reasons(&answers[0].errors), expected);
    assert_eq!(answers[0].recorded as usize, bad.len() + 1);
    let hint = &answers[0].errors[0].message;
    assert!(hint.contains("did you mean \"app_turns_total\"?"), "{hint}");
    let reading = Reading::of(&server).await;
    let mut series = reading.of_name("app_turns_total", &[]);
    assert_eq!(
        series.next().map(|sample| sample.value),
        Some(bad.len() as f64 + 1.0)
    );
    assert!(series.next().is_none(), "no refused sample made a series");
    assert!(!reading.types.contains_key("app_turn_total"));
    server.stop().await;
}

#[tokio::test]
async fn a_declaration_that_cannot_be_is_answered_with_its_place_and_the_others_are_made() {
    let server = TestServer::fake(FakeScript::default(), &ON).await;
    let good = || declaration("app_listeners", Kind::Gauge, &["room"]);
    let refused = declare(
        &server,
        vec![
            good(),
            good(),
            declaration("app_listeners", Kind::Counter, &["room"]),
            declaration("process_open_fds", Kind::Gauge, &[]),
            declaration("my-metric", Kind::Gauge, &[]),
            declaration("vllm:mine", Kind::Gauge, &[]),
            declaration("app_other", Kind::Unspecified, &[]),
            declaration("app_last", Kind::Gauge, &[]),
        ],
    )
    .await;
    let expected = [
        (2, Reason::DeclaredDifferently),
        (3, Reason::BuiltIn),
        (4, Reason::InvalidDeclaration),
        (5, Reason::InvalidDeclaration),
        (6, Reason::InvalidDeclaration),
    ];
    assert_eq!(refused, expected);
    let reading = Reading::of(&server).await;
    assert_eq!(reading.types["app_listeners"], "gauge");
    assert_eq!(reading.types["app_last"], "gauge");
    assert!(!reading.types.contains_key("app_other"));
    server.stop().await;
}

#[tokio::test]
async fn where_undeclared_metrics_are_taken_the_first_sample_declares_them() {
    let auto = ["--metrics-service", "on", "--metrics-auto-declare"];
    let server = TestServer::fake(FakeScript::default(), &auto).await;
    let hall = [("room", "hall")];
    let described = v1::MetricSample {
        kind: Kind::Counter.into(),
        unit: "count".to_owned(),
        ..sample("app_turns_total", &hall, 2.0)
    };
    let negative = v1::MetricSample {
        value: Some(-2.0),
        ..described.clone()
    };
    let samples = vec![
        sample("app_turns_total", &hall, 1.0),
        negative,
        described,
        sample("app_turns_total", &hall, 1.0),
    ];
    let answers = record(&server, vec![samples]).await.expect("an answer");
    let expected = [(0, Reason::Undescribed), (1, Reason::NegativeCounter)];
    assert_eq!(reasons(&answers[0].errors), expected);
    let reading = Reading::of(&server).await;
    assert_eq!(reading.sum("app_turns_total", &hall), 3.0);
    server.stop().await;
}

#[tokio::test]
async fn nothing_is_taken_unless_the_operator_wants_it() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut client = server.measurements();
    let declared = client.declare(v1::DeclareMetricsRequest::default()).await;
    let listed = client.list(v1::ListMetricsRequest::default()).await;
    let recorded = record(&server, vec![vec![]]).await;
    for status in [
        declared.expect_err("it is off"),
        listed.expect_err("it is off"),
        recorded.expect_err("it is off"),
    ] {
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(reason(&status), "METRICS_SERVICE_OFF");
        assert!(status.message().contains("--metrics-service on"));
    }
    server.stop().await;
}

#[tokio::test]
async fn all_metrics_are_listed_page_by_page() {
    let server = TestServer::fake(FakeScript::default(), &ON).await;
    let own = declaration("app_answer_ms", Kind::Histogram, &["room"]);
    assert_eq!(declare(&server, vec![own]).await, []);
    let mut client = server.measurements();
    let mut metrics = Vec::new();
    let mut token = String::new();
    loop {
        let request = v1::ListMetricsRequest {
            page_size: 7,
            page_token: token,
            custom_only: false,
        };
        let page = client.list(request).await.expect("a page").into_inner();
        assert!(page.metrics.len() <= 7);
        metrics.extend(page.metrics);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let mut names: Vec<_> = metrics.iter().map(|metric| metric.name.clone()).collect();
    assert!(names.is_sorted());
    names.dedup();
    let reading = Reading::of(&server).await;
    // Older names are no families of their own.
    let deprecated = |name: &String| reading.text.contains(&format!("# HELP {name} DEPRECATED"));
    let read: Vec<_> = reading
        .types
        .keys()
        .filter(|name| !deprecated(name))
        .cloned()
        .collect();
    assert_eq!(names, read, "what is listed is what is read");
    let find = |name: &str| {
        metrics
            .iter()
            .find(|metric| metric.name == name)
            .expect("it is listed")
    };
    let mine = find("app_answer_ms");
    assert_eq!((mine.kind(), mine.unit.as_str()), (Kind::Histogram, "ms"));
    assert_eq!(
        (mine.custom, mine.labels.as_slice()),
        (true, &["room".to_owned()][..])
    );
    assert!(mine.bounds.is_sorted() && !mine.bounds.is_empty());
    let theirs = find("vllm:num_requests_running");
    assert_eq!((theirs.kind(), theirs.custom), (Kind::Gauge, false));
    assert_eq!(theirs.labels, ["model_name", "stage", "replica"]);
    assert!(!theirs.help.is_empty());
    let request = v1::ListMetricsRequest {
        custom_only: true,
        ..v1::ListMetricsRequest::default()
    };
    let only = client.list(request).await.expect("a page").into_inner();
    assert_eq!(only.metrics, std::slice::from_ref(mine));
    for request in [
        v1::ListMetricsRequest {
            page_size: -1,
            ..v1::ListMetricsRequest::default()
        },
        v1::ListMetricsRequest {
            page_token: "nothing".to_owned(),
            ..v1::ListMetricsRequest::default()
        },
    ] {
        let status = client.list(request).await.expect_err("nonsense");
        assert_eq!(reason(&status), "INVALID_FIELD");
    }
    server.stop().await;
}

#[tokio::test]
async fn series_samples_and_messages_are_bounded() {
    let server = TestServer::fake(FakeScript::default(), &ON).await;
    let gauge = declaration("app_listeners", Kind::Gauge, &["room"]);
    assert_eq!(declare(&server, vec![gauge]).await, []);
    let of_room = |room: usize| sample("app_listeners", &[("room", &room.to_string())], 1.0);
    let answers = record(&server, vec![(0..300).map(of_room).collect()]).await;
    let answer = &answers.expect("an answer")[0];
    assert_eq!(answer.recorded, 256);
    let expected: Vec<_> = (256..300).map(|index| (index, Reason::TooManySeries)).collect();
    assert_eq!(reasons(&answer.errors), expected);
    let known = record(&server, vec![vec![of_room(0)]]).await.expect("an answer");
    assert_eq!(known[0].recorded, 1, "known ones are taken");

    let many = vec![sample("app_listeners", &[], 1.0); 1001];
    let status = record(&server, vec![many]).await.expect_err("too many");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::InvalidArgument, "TOO_MANY_ITEMS")
    );
    let large = vec![sample(&"x".repeat(300 << 10), &[], 1.0)];
    let status = record(&server, vec![large]).await.expect_err("too large");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::InvalidArgument, "MESSAGE_TOO_LARGE")
    );
    assert!(status.message().contains("262144"), "{status}");

    let metrics = vec![declaration("app_more", Kind::Gauge, &[]); 257];
    let status = server
        .measurements()
        .declare(v1::DeclareMetricsRequest { metrics })
        .await
        .expect_err("too many");
    assert_eq!(reason(&status), "TOO_MANY_ITEMS");
    let metrics = (0..256).map(|n| declaration(&format!("app_{n}"), Kind::Gauge, &[]));
    let refused = declare(&server, metrics.collect()).await;
    assert_eq!(refused, [(255, Reason::TooManyMetrics)]);
    server.stop().await;
}

#[tokio::test]
async fn calls_that_record_are_bounded_and_end_with_the_server() {
    let server = TestServer::fake(FakeScript::default(), &ON).await;
    let gauge = declaration("app_listeners", Kind::Gauge, &[]);
    assert_eq!(declare(&server, vec![gauge]).await, []);
    let mut calls = Vec::new();
    for _ in 0..64 {
        let (samples, requests) = mpsc::channel(1);
        let call = server.measurements().record(ReceiverStream::new(requests)).await;
        calls.push((samples, call.expect("it is taken").into_inner()));
    }
    let status = record(&server, vec![]).await.expect_err("one too many");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(reason(&status), "CONCURRENCY_LIMIT");
    let (samples, mut last) = calls.pop().expect("calls");
    let request = v1::RecordMetricsRequest {
        samples: vec![sample("app_listeners", &[], 3.0)],
    };
    samples.send(request).await.expect("it is open");
    let answer = last.message().await.expect("an answer").expect("an answer");
    assert_eq!(
        answer.recorded, 1,
        "each message is answered while the call is open"
    );
    server.stop().await;
    let status = last.message().await.expect_err("the server has stopped");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "STOPPED")
    );
    drop(samples);
}
