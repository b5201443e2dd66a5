use std::sync::Mutex;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::telemetry::TelemetryOptions;

/// A request at a gateway: method, path, authorization, body.
type Seen = (Method, String, Option<String>, String);

/// A gateway that answers with `statuses` in turn, the last one for ever.
async fn gateway(statuses: Vec<StatusCode>) -> (String, mpsc::Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (seen, requests) = mpsc::channel(64);
    let statuses = Arc::new(Mutex::new(statuses));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = seen.clone();
            let statuses = Arc::clone(&statuses);
            let service = service_fn(move |request: Request<Incoming>| {
                let seen = seen.clone();
                let statuses = Arc::clone(&statuses);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let authorization = head
                        .headers
                        .get("authorization")
                        .and_then(|value| value.to_str().ok());
                    let what = (
                        head.method,
                        head.uri.path().to_owned(),
                        authorization.map(str::to_owned),
                        String::from_utf8_lossy(&body).into_owned(),
                    );
                    let status = {
                        let mut statuses = statuses.lock().expect("no panic");
                        if statuses.len() > 1 {
                            statuses.remove(0)
                        } else {
                            statuses[0]
                        }
                    };
                    let _ = seen.send(what).await;
                    let mut response =
                        Response::new(Full::new(Bytes::from_static(b"pushed metrics are invalid\n")));
                    *response.status_mut() = status;
                    Ok::<_, hyper::Error>(response)
                }
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = connection.await;
        }
    });
    (url, requests)
}

fn telemetry() -> Telemetry {
    Telemetry::new(&TelemetryOptions::default()).expect("good options")
}

fn options(url: &str) -> PushOptions {
    let target = PushTarget::new(url, "omni", &[("instance", "a/b")]).expect("a good target");
    PushOptions {
        interval: Duration::from_millis(20),
        ..PushOptions::new(target)
    }
}

#[tokio::test]
async fn the_group_is_put_at_once_again_and_when_drained_and_is_deleted_on_exit() {
    let (url, mut requests) = gateway(vec![StatusCode::OK]).await;
    let telemetry = telemetry();
    let drained = CancellationToken::new();
    let exit = CancellationToken::new();
    let pusher = Pusher::new(&telemetry, options(&url)).expect("a pusher");
    let task = tokio::spawn(pusher.run(drained.clone(), exit.clone()));
    for _ in 0..3 {
        let (method, path, _, body) = requests.recv().await.expect("a push");
        assert_eq!(
            (method, path.as_str()),
            (Method::PUT, "/metrics/job/omni/instance@base64/YS9i")
        );
        assert!(body.contains("# TYPE process_open_fds gauge\n") && body.ends_with('\n'));
    }
    crate::SessionInstruments::new(telemetry.meter()).opened();
    drained.cancel();
    let mut last = String::new();
    while !last.contains("vllm:omni_sessions_active{model_name=\"\"} 1.0\n") {
        last = requests.recv().await.expect("the last push").3;
    }
    exit.cancel();
    task.await.expect("the pusher ends");
    let mut methods = Vec::new();
    while let Ok((method, ..)) = requests.try_recv() {
        methods.push(method);
    }
    assert_eq!(methods.last(), Some(&Method::DELETE));
}

#[tokio::test]
async fn failures_are_counted_and_pushing_goes_on() {
    let (url, mut requests) = gateway(vec![
        StatusCode::BAD_REQUEST,
        StatusCode::BAD_GATEWAY,
        StatusCode::OK,
    ])
    .await;
    let telemetry = telemetry();
    let exit = CancellationToken::new();
    let pusher = Pusher::new(&telemetry, options(&url)).expect("a pusher");
    let task = tokio::spawn(pusher.run(exit.clone(), exit.clone()));
    let mut body = String::new();
    while !body.contains("vllm:omni_metrics_push_total{result=\"success\"} 1.0\n") {
        body = requests.recv().await.expect("a push").3;
    }
    assert!(
        body.contains("vllm:omni_metrics_push_total{result=\"failure\"} 2.0\n"),
        "{body}"
    );
    exit.cancel();
    task.await.expect("the pusher ends");
}

#[tokio::test]
async fn a_refusal_says_what_the_gateway_said() {
    let (url, _requests) = gateway(vec![StatusCode::BAD_REQUEST]).await;
    let options = options(&url);
    let client = Client::new(&options.target).expect("a client");
    let error = client
        .send(&options.target, Method::PUT, Bytes::from_static(b"x"))
        .await
        .expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the gateway answered 400 Bad Request: pushed metrics are invalid"
    );
}

#[test]
fn credentials_are_recognised_however_they_are_repeated() {
    let target = PushTarget::new("http://ann:s3cret@h", "omni", &[]).expect("a target");
    let basic = target.credentials.expect("they are in the address");
    let bearer = Credentials::Bearer(Secret::new("t0ken"));
    for (credentials, text) in [
        (&basic, "who is ann:s3cret?"),
        (&basic, "authorization: Basic YW5uOnMzY3JldA=="),
        (&bearer, "bad token t0ken"),
    ] {
        assert!(credentials.are_in(text), "{text}");
    }
    assert!(!basic.are_in("pushed metrics are invalid") && !bearer.are_in(""));
}

#[tokio::test]
async fn a_gateway_that_never_answers_does_not_hold_the_server_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let telemetry = telemetry();
    let options = PushOptions {
        timeout: Duration::from_millis(30),
        ..options(&url)
    };
    let exit = CancellationToken::new();
    exit.cancel();
    let pusher = Pusher::new(&telemetry, options).expect("a pusher");
    pusher.run(exit.clone(), exit).await;
    let text = telemetry.exposition().render(&Selection::default());
    assert!(text.contains("vllm:omni_metrics_push_total{result=\"failure\"} 2.0\n"));
}

#[tokio::test]
async fn credentials_are_sent_and_never_shown() {
    let (url, mut requests) = gateway(vec![StatusCode::OK]).await;
    let with_user = url.replace("http://", "http://ann:s3cret@");
    let targets = [
        (
            PushTarget::new(&with_user, "omni", &[]).expect("a target"),
            "Basic YW5uOnMzY3JldA==",
        ),
        (
            PushTarget::new(&url, "omni", &[])
                .expect("a target")
                .with_credentials(Credentials::Bearer(Secret::new("s3cret"))),
            "Bearer s3cret",
        ),
    ];
    for (target, expected) in targets {
        assert!(!format!("{target} {target:?}").contains("s3cret"));
        let client = Client::new(&target).expect("a client");
        client
            .send(&target, Method::PUT, Bytes::new())
            .await
            .expect("an answer");
        let (_, _, authorization, _) = requests.recv().await.expect("a push");
        assert_eq!(authorization.as_deref(), Some(expected));
    }
}

#[test]
fn credentials_in_the_address_may_have_what_separates_its_parts() {
    let target =
        PushTarget::new("https://us%40er:p%3A%2Fs%23s%zz@gateway:9091", "omni", &[]).expect("a target");
    let expected = Credentials::Basic {
        user: "us@er".to_owned(),
        password: Secret::new("p:/s#s%zz"),
    };
    assert_eq!(target.credentials, Some(expected));
    assert_eq!((target.host.as_str(), target.port), ("gateway", 9091));
}

#[test]
fn the_grouping_key_is_written_as_the_gateway_reads_it() {
    let path = |job: &str, grouping: &[(&str, &str)]| {
        let target = PushTarget::new("http://h:9091/base/", job, grouping).expect("a target");
        target.to_string()
    };
    assert_eq!(path("omni", &[]), "http://h:9091/base/metrics/job/omni");
    assert_eq!(
        path("a b", &[("instance", "h:1")]),
        "http://h:9091/base/metrics/job/a%20b/instance/h%3A1"
    );
    assert_eq!(
        path("a/b", &[("instance", "")]),
        "http://h:9091/base/metrics/job@base64/YS9i/instance@base64/="
    );
}

#[test]
fn addresses_that_are_none_are_refused_without_repeating_them() {
    for url in [
        "",
        "gateway:9091",
        "ftp://h",
        "http://",
        "http://a:s3cret@",
        "https:///x",
    ] {
        let error = PushTarget::new(url, "omni", &[]).expect_err(url).to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert_eq!(
        PushTarget::new("http://h", "", &[]).expect_err("no job"),
        PushTargetError::Job
    );
    assert!(PushTarget::new("http://h", "omni", &[("le", "x")]).is_err());
    let missing = PushTarget::new("https://h", "omni", &[])
        .expect("a target")
        .trusting("/nowhere.pem".into());
    let Err(error) = Client::new(&missing) else {
        panic!("certificates that are not there");
    };
    assert!(
        error.to_string().starts_with("certificates of /nowhere.pem: "),
        "{error}"
    );
}

#[test]
fn attempts_come_later_and_later_and_never_more_than_five_minutes_apart() {
    let mut pusher = Pusher::new(&telemetry(), options("http://h")).expect("a pusher");
    pusher.options.interval = Duration::from_secs(15);
    let mut delay = |failures| {
        pusher.failures = failures;
        pusher.delay().as_secs_f64()
    };
    assert!((13.5..=15.0).contains(&delay(0)));
    assert!((54.0..=60.0).contains(&delay(2)));
    assert!((54.0..=60.0).contains(&delay(9)));
}

#[test]
fn labels_that_metrics_have_are_refused_as_labels_of_the_grouping_key() {
    let telemetry = telemetry();
    let custom = crate::CustomMetrics::new(&telemetry, crate::CustomOptions::default());
    let spec = |label: &str| crate::MetricSpec {
        name: format!("By_{label}"),
        kind: crate::CustomKind::Gauge,
        unit: "seats".to_owned(),
        help: String::new(),
        labels: vec![label.to_owned()],
        bounds: None,
        sinks: None,
    };
    custom.declare(&spec("seat")).expect("a declaration");
    let pusher = |label: &str| {
        let target = PushTarget::new("http://gateway:9091", "omni", &[("zone", "a"), (label, "b")]);
        Pusher::new(&telemetry, PushOptions::new(target.expect("a name")))
    };
    let taken = [
        "stage",
        "reason",
        "result",
        "kind",
        "handler",
        "replica",
        "grpc_type",
        "listener",
        "device",
        "protocol",
        "source",
        "model_name",
        "version",
        "status",
        "method",
        "Hostname",
        "hostname",
        "threshold_ms",
        "seat",
    ];
    for label in taken {
        let error = pusher(label).expect_err(label);
        assert!(
            error.to_string().starts_with(&format!("{label:?} cannot be")),
            "{error}"
        );
    }
    pusher("rack").expect("a label that nothing has");
    let error = custom
        .declare(&spec("rack"))
        .expect_err("it is in the grouping key");
    assert!(error.to_string().contains("grouping key"), "{error}");
}

#[test]
fn the_interval_is_told_so_that_silence_can_be_told_from_patience() {
    let telemetry = telemetry();
    let _pusher = Pusher::new(&telemetry, options("http://gateway:9091")).expect("a pusher");
    let text = telemetry.exposition().render(&Selection::default());
    assert!(
        text.contains("vllm:omni_metrics_push_interval_s 0.02\n"),
        "{text}"
    );
}
