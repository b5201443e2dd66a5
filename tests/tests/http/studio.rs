//! Studio, the page for browsers, over plain HTTP: its address, its policy, and the callers to which the server shows
//! its work.

use std::fs;

use hyper::StatusCode;
use omni_config::{Config, Quotas, Scope, new_key};
use omni_proto::v1;
use omni_proto::v1::watch_service_client::WatchServiceClient;
use omni_tests::{FakeScript, FakeSpeech, TestServer, http, reason};
use tonic::{Code, Request};

async fn fake(arguments: &[&str]) -> TestServer {
    TestServer::fake(FakeScript::default(), arguments).await
}

/// A server that other machines may reach.
async fn open(arguments: &[&str]) -> TestServer {
    let load = || Ok(FakeSpeech::new(FakeScript::default()));
    let everywhere = |config: &mut Config| config.listen = ([0, 0, 0, 0], 0).into();
    let mut server = TestServer::adjusted(arguments, everywhere, load).await;
    server.app.ready().await.expect("the fake model loads");
    server
}

#[tokio::test]
async fn the_page_and_its_files_come_with_a_policy_that_lets_them_do_no_more_than_they_need() {
    let server = fake(&[]).await;
    for (path, kind) in [
        ("/studio/", "text/html; charset=utf-8"),
        ("/studio/app.js", "text/javascript; charset=utf-8"),
        ("/studio/app.css", "text/css; charset=utf-8"),
        ("/studio/playback.js", "text/javascript; charset=utf-8"),
        ("/studio/capture.js", "text/javascript; charset=utf-8"),
        ("/studio/icon.svg", "image/svg+xml"),
    ] {
        let answer = http(&server, "GET", path, &[], "").await;
        assert_eq!((answer.status, answer.kind()), (StatusCode::OK, kind), "{path}");
        let policy = answer.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self';",
            "connect-src 'self';",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        let tag = answer.header("etag").to_owned();
        for tags in [tag.clone(), format!("\"other\", {tag}")] {
            let again = http(&server, "GET", path, &[("if-none-match", &tags)], "").await;
            assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{tags}");
            assert_eq!((again.body.len(), again.header("etag")), (0, tag.as_str()));
        }
        let other = http(&server, "GET", path, &[("if-none-match", "\"other\"")], "").await;
        assert_eq!(other.body, answer.body);
        let packed = http(&server, "GET", path, &[("accept-encoding", "br, gzip;q=0.5")], "").await;
        // A browser unpacks it: the other tests of the page would notice.
        let is_packed = packed.header("content-encoding") == "gzip";
        assert_eq!(is_packed, packed.body.starts_with(&[0x1f, 0x8b]), "{path}");
        assert_eq!(is_packed, packed.body.len() < answer.body.len(), "{path}");
        assert_eq!(
            (packed.header("etag"), packed.header("vary")),
            (tag.as_str(), "accept-encoding")
        );
        let plain = http(&server, "GET", path, &[("accept-encoding", "gzip;q=0.0")], "").await;
        assert_eq!(
            (plain.header("content-encoding"), &plain.body),
            ("", &answer.body)
        );
        let posted = http(&server, "POST", path, &[], "").await;
        assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);
    }
    for path in ["/studio/other.js", "/studio/../Cargo.toml", "/studio/app.js/"] {
        let answer = http(&server, "GET", path, &[], "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_browser_is_led_to_the_page_and_a_program_is_told_of_it() {
    let server = fake(&[]).await;
    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for (path, to) in [("/", "studio/"), ("/studio", "studio/")] {
        let answer = http(&server, "GET", path, &browser, "").await;
        assert!(answer.status.is_redirection(), "{path}: {answer:?}");
        // Relative, for proxies that serve the page below a prefix.
        assert_eq!(answer.header("location"), to);
    }
    for accept in ["*/*", "application/json"] {
        let answer = http(&server, "GET", "/", &[("accept", accept)], "").await;
        assert_eq!((answer.status, answer.header("vary")), (StatusCode::OK, "accept"));
        let about: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(about["studio"], "/studio/");
    }
    server.stop().await;
}

#[tokio::test]
async fn where_the_page_is_off_its_address_says_how_it_is_turned_on() {
    for (arguments, served) in [(&["--studio"][..], true), (&["--studio=off"], false)] {
        let server = fake(arguments).await;
        let answer = http(&server, "GET", "/studio/", &[], "").await;
        assert_eq!(answer.status == StatusCode::OK, served, "{arguments:?}");
        let browser = [("accept", "text/html")];
        let index = http(&server, "GET", "/", &browser, "").await;
        assert_eq!(index.status.is_redirection(), served, "{arguments:?}");
        if !served {
            let told = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(told.contains("--studio=on"), "{told}");
        }
        server.stop().await;
    }
}

fn asked<T>(message: T, key: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(key) = key {
        let value = format!("Bearer {key}").parse().expect("a value");
        request.metadata_mut().insert("authorization", value);
    }
    request
}

/// Code with which the server shows its work, or not, to a caller with this key.
async fn shows(server: &TestServer, key: Option<&str>) -> Code {
    let mut watch = WatchServiceClient::new(server.channel.clone());
    let looks = watch
        .watch_stats(asked(v1::WatchStatsRequest::default(), key))
        .await;
    let courses = watch
        .watch_requests(asked(v1::WatchRequestsRequest::default(), key))
        .await;
    let codes = [looks.err(), courses.err()].map(|error| error.map_or(Code::Ok, |error| error.code()));
    assert_eq!(codes[0], codes[1]);
    codes[0]
}

#[tokio::test]
async fn the_work_is_shown_to_this_machine_and_to_keys_for_operators() {
    let server = fake(&[]).await;
    assert_eq!(shows(&server, None).await, Code::Ok);
    let mut watch = WatchServiceClient::new(server.channel.clone());
    let request = v1::WatchStatsRequest {
        include_sessions: true,
        ..v1::WatchStatsRequest::default()
    };
    let refused = watch
        .watch_stats(request)
        .await
        .expect_err("sessions are for operators");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("--admin-listen"), "{refused}");
    server.stop().await;

    let server = fake(&["--studio=off"]).await;
    assert_eq!(shows(&server, None).await, Code::Unimplemented);
    server.stop().await;

    let server = open(&["--studio=on"]).await;
    assert_eq!(shows(&server, None).await, Code::Unimplemented);
    server.stop().await;

    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("keys");
    let made = |scope| new_key("somebody", &[scope], &Quotas::default()).expect("random bytes");
    let (admin, first) = made(Scope::Admin);
    let (speaks, second) = made(Scope::Speech);
    fs::write(&file, format!("{first}\n{second}\n")).expect("written");
    let server = open(&["--studio=on", "--api-keys", file.to_str().expect("text")]).await;
    assert_eq!(shows(&server, None).await, Code::Unauthenticated);
    assert_eq!(shows(&server, Some(&speaks)).await, Code::PermissionDenied);
    assert_eq!(shows(&server, Some(&admin)).await, Code::Ok);
    server.stop().await;
}

#[tokio::test]
async fn the_courses_of_requests_are_told_in_the_order_of_their_ends_and_in_time() {
    let server = fake(&[]).await;
    let speak = async |text: &str| {
        let body = serde_json::json!({"input": text, "response_format": "pcm"}).to_string();
        let kind = [("content-type", "application/json")];
        let answer = http(&server, "POST", "/v1/audio/speech", &kind, body).await;
        assert_eq!(answer.status, StatusCode::OK);
    };
    for n in 0..3 {
        speak("Hello there.").await;
        server
            .until("it is recorded", || server.records.all().len() == n + 1)
            .await;
    }
    let mut watch = WatchServiceClient::new(server.channel.clone());
    let request = v1::WatchRequestsRequest { last: Some(2) };
    let mut courses = watch
        .watch_requests(request)
        .await
        .expect("an answer")
        .into_inner();
    let begun = courses
        .message()
        .await
        .expect("no error")
        .expect("an answer")
        .requests;
    assert_eq!(
        begun.iter().map(|course| course.number).collect::<Vec<_>>(),
        [2, 3]
    );
    speak("How are you?").await;
    let news = courses
        .message()
        .await
        .expect("no error")
        .expect("an answer")
        .requests;
    let [course] = news.as_slice() else {
        panic!("one request ended, not {}", news.len());
    };
    assert_eq!(
        (course.number, course.outcome.as_str(), course.answer),
        (4, "stop", false)
    );
    // Later events have later times.
    let time = |time: &Option<omni_proto::Duration>| {
        let time = time.expect("it happened");
        std::time::Duration::try_from(time).expect("no time below zero")
    };
    let mut before = [time(&course.ready), time(&course.admitted)].to_vec();
    assert_eq!(course.stages.len(), 2, "{course:?}");
    for stage in &course.stages {
        before.extend([time(&stage.started), time(&stage.first_output)]);
        assert!(time(&stage.first_output) <= time(&stage.last_output));
        assert!(time(&stage.last_output) <= time(&course.total));
    }
    before.extend([time(&course.first_packet), time(&course.total)]);
    assert!(before.is_sorted(), "{before:?}");
    assert!(time(&course.longest_gap) <= time(&course.total));
    assert!(!time(&course.audio).is_zero());
    // A watcher ends with the server, and does not hold it up.
    drop(watch);
    server.stop().await;
    let ended = loop {
        match courses.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Unavailable, "{}", reason(&ended));
}
