//! Paths: known ones, unknown ones, and the protocol of their errors.

use hyper::StatusCode;
use omni_tests::{FakeScript, FakeSpeech, Gate, HttpAnswer, TestServer, http, http2};
use serde_json::Value;

fn parsed(answer: &HttpAnswer) -> Value {
    assert_eq!(answer.kind(), "application/json", "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"))
}

async fn get(server: &TestServer, path: &str) -> HttpAnswer {
    http(server, "GET", path, &[], "").await
}

/// The message of a refusal, which is OpenAI's form of one.
fn refused(answer: &HttpAnswer, status: StatusCode, code: &str) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    let error = &parsed(answer)["error"];
    assert_eq!(
        (&error["code"], &error["type"]),
        (&code.into(), &"invalid_request_error".into())
    );
    error["message"].as_str().expect("a message").to_owned()
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_found_and_the_answer_says_what_does() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (method, path, says) in [
        ("POST", "/audio/speech", "/v1/audio/speech: the base URL"),
        ("POST", "/chat/completions", "ends in /v1"),
        ("GET", "/models", "ends in /v1"),
        ("POST", "/v1/v1/audio/speech", "but /v1/audio/speech"),
        ("POST", "/tts/v1/chat/completions", "but /v1/chat/completions"),
        ("GET", "/api/realtime", "but /v1/realtime"),
        ("POST", "/v1/responses", "POST /v1/chat/completions"),
        ("POST", "/v1/embeddings", "POST /v1/audio/speech"),
        ("POST", "/v1/audio/transcriptions", "another server"),
        ("POST", "/v1/realtime/client_secrets", "GET /v1/realtime"),
        ("GET", "/favicon.ico", "GET /v1/models"),
    ] {
        let answer = http(&server, method, path, &[], "").await;
        let told = refused(&answer, StatusCode::NOT_FOUND, "route_not_found");
        assert!(told.contains(says), "{path}: {told}");
    }
    let metrics = server.app.metrics_address().map(|address| address.to_string());
    let told = refused(
        &get(&server, "/metrics").await,
        StatusCode::NOT_FOUND,
        "route_not_found",
    );
    assert!(
        told.contains(metrics.as_deref().unwrap_or("--metrics-listen off")),
        "{told}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_path_with_more_slashes_than_it_needs_leads_to_its_route() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for path in [
        "/v1//models",
        "//v1/models",
        "/v1/models/",
        "///v1//models//?a=b",
        "/v1//models//fake",
    ] {
        for answer in [
            get(&server, path).await,
            http2(server.app.address(), "GET", path, &[], "").await,
        ] {
            assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
        }
    }
    let body = r#"{"input": "Hello."}"#;
    let headers = [("content-type", "application/json")];
    for path in ["/v1//audio/speech", "/v1/audio/speech/"] {
        let answer = http(&server, "POST", path, &headers, body).await;
        assert_eq!(
            (answer.status, answer.kind()),
            (StatusCode::OK, "audio/mpeg"),
            "{path}"
        );
    }
    let socket = get(&server, "/v1//audio/speech/stream").await;
    assert_eq!(socket.status, StatusCode::UPGRADE_REQUIRED);
    server.stop().await;
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_found_over_http_2_either() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for path in ["/audio/speech", "/v1/files"] {
        let answer = http2(server.app.address(), "POST", path, &[], "").await;
        refused(&answer, StatusCode::NOT_FOUND, "route_not_found");
    }
    let index = http2(server.app.address(), "GET", "/", &[], "").await;
    let base = parsed(&index)["openai_base_url"].clone();
    assert_eq!(base, format!("http://{}/v1", server.app.address()));
    server.stop().await;
}

#[tokio::test]
async fn a_service_that_does_not_exist_is_unimplemented_and_named() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let headers = [("content-type", "application/grpc")];
    let path = "/nvidia.riva.asr.RivaSpeechRecognition/Recognize";
    let answer = http2(server.app.address(), "POST", path, &headers, vec![0; 5]).await;
    assert_eq!(
        (answer.kind(), answer.header("grpc-status")),
        ("application/grpc", "12")
    );
    assert!(
        answer.header("grpc-message").contains("nvidia.riva.asr"),
        "{answer:?}"
    );
    assert!(answer.header("x-request-id").starts_with("req_"), "{answer:?}");
    let kind = "application/grpc-web+proto";
    let headers = [("content-type", kind)];
    let answer = http(&server, "POST", "/no.Such/Method", &headers, vec![0; 5]).await;
    assert_eq!((answer.status, answer.kind()), (StatusCode::OK, kind));
    assert_eq!(answer.header("grpc-status"), "12", "{answer:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_call_in_another_protocol_is_told_which_one_is_spoken() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for kind in [
        "application/json",
        "application/proto",
        "application/connect+proto",
    ] {
        let headers = [("content-type", kind), ("connect-protocol-version", "1")];
        let path = "/omni.v1.CatalogService/ListModels";
        let answer = http(&server, "POST", path, &headers, "{}").await;
        let told = refused(
            &answer,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
        );
        assert!(told.contains("gRPC-Web"), "{told}");
        // As clients of that protocol read it.
        assert_eq!(parsed(&answer)["code"], "unimplemented");
    }
    let answer = get(&server, "/omni.v1.SpeechService/Speak").await;
    refused(&answer, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed");
    server.stop().await;
}

#[tokio::test]
async fn the_base_url_says_what_is_served() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for path in ["/", "/v1", "/v1/"] {
        let answer = get(&server, path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let told = parsed(&answer);
        assert_eq!(told["models"][0], "fake");
        assert_eq!(
            told["openai_base_url"],
            format!("http://{}/v1", server.app.address())
        );
        let routes = told["routes"].to_string();
        assert!(routes.contains("POST /v1/audio/speech"), "{routes}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_base_url_names_the_services_that_are_on() {
    for (arguments, watches, measures) in [
        (&[][..], true, false),
        (&["--studio=off", "--metrics-service=on"], false, true),
    ] {
        let server = TestServer::fake(FakeScript::default(), arguments).await;
        let told = parsed(&get(&server, "/").await)["grpc_services"].to_string();
        for (service, on) in [
            ("omni.v1.SpeechService", true),
            ("omni.v1.VoiceService", true),
            ("omni.v1.ChatService", true),
            ("omni.v1.WatchService", watches),
            ("omni.v1.MetricsService", measures),
        ] {
            assert_eq!(told.contains(service), on, "{service} in {told}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn health_is_what_it_is() {
    let load = Gate::default();
    load.close();
    let script = FakeScript {
        load: load.clone(),
        ..FakeScript::default()
    };
    let mut server = TestServer::launch(&[], move || Ok(FakeSpeech::new(script))).await;
    for path in ["/health", "/healthz", "/readyz"] {
        let answer = get(&server, path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        let told = parsed(&answer);
        assert_eq!(
            (&told["status"], &told["speech"]["reason"]),
            (&"unavailable".into(), &"MODEL_LOADING".into())
        );
    }
    assert_eq!(get(&server, "/livez").await.status, StatusCode::OK);
    load.open();
    server.app.ready().await.unwrap();
    let answer = get(&server, "/health").await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let told = parsed(&answer);
    assert_eq!(
        (&told["status"], &told["chat"]["ready"]),
        (&"ok".into(), &true.into())
    );
    assert_eq!(
        http(&server, "HEAD", "/health", &[], "").await.status,
        StatusCode::OK
    );
    server.stop().await;
}

#[tokio::test]
async fn a_stage_without_a_replica_is_no_health() {
    let server = TestServer::fake(FakeScript::default(), &["--admin-listen", "127.0.0.1:0"]).await;
    let remove = omni_proto::v1::SetReplicaStateRequest {
        stage: "talker".to_owned(),
        replica: "0".to_owned(),
        state: omni_proto::v1::ReplicaState::Removed.into(),
    };
    server.admin().await.set_replica_state(remove).await.unwrap();
    server
        .until("the stage has no replica", || {
            server.app.orchestrator().available().is_err()
        })
        .await;
    let answer = get(&server, "/health").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    assert_eq!(parsed(&answer)["speech"]["reason"], "STAGE_UNAVAILABLE");
    server.stop().await;
}

#[tokio::test]
async fn open_webui_finds_models_and_voices_in_its_form() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let models = parsed(&get(&server, "/v1/audio/models").await);
    assert_eq!(models["models"][0]["id"], "fake");
    let voices = parsed(&get(&server, "/v1/audio/voices").await);
    let named = voices["voices"].as_array().expect("a list").iter();
    let named: Vec<_> = named
        .map(|voice| (voice["id"].as_str(), voice["name"].as_str()))
        .collect();
    assert_eq!(
        named,
        [(Some("alto"), Some("ALTO")), (Some("bass"), Some("BASS"))]
    );
    server.stop().await;
}
