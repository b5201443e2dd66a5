//! API keys: which callers are admitted, to what, and that the file is read again.

use std::fs;
use std::path::Path;

use omni_config::{Quotas, Scope, new_key};
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::riva::tts::{RivaSynthesisConfigRequest, SynthesizeSpeechRequest};
use omni_proto::v1;
use omni_tests::{FakeScript, TestServer, http, reason};
use tonic::{Code, Request, Status};

const SPEECH: &str = "/v1/audio/speech";

/// A key with these scopes, and its line.
fn key(scopes: &[Scope]) -> (String, String) {
    new_key("somebody", scopes, &Quotas::default()).expect("random bytes")
}

async fn server(file: &Path) -> TestServer {
    let file = file.to_str().expect("text");
    TestServer::fake(FakeScript::default(), &["--api-keys", file]).await
}

fn with_key<T>(message: T, key: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(key) = key {
        let value = format!("Bearer {key}").parse().expect("a value");
        request.metadata_mut().insert("authorization", value);
    }
    request
}

async fn speak(server: &TestServer, key: Option<&str>) -> Result<(), Status> {
    let message = v1::SynthesizeRequest {
        text: "Hello.".to_owned(),
        ..v1::SynthesizeRequest::default()
    };
    let mut answers = server
        .speech()
        .synthesize(with_key(message, key))
        .await?
        .into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}

async fn chat(server: &TestServer, key: Option<&str>) -> Result<(), Status> {
    let message = v1::GenerateRequest {
        messages: vec![omni_tests::chat_message(v1::Role::User, "ab")],
        ..v1::GenerateRequest::default()
    };
    let mut answers = server.chat().generate(with_key(message, key)).await?.into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}

async fn models(server: &TestServer, key: Option<&str>) -> Result<(), Status> {
    let request = with_key(v1::ListModelsRequest::default(), key);
    server.catalog().list_models(request).await.map(drop)
}

fn refusal(answer: Result<(), Status>) -> (Code, String) {
    let status = answer.expect_err("a refusal");
    (status.code(), reason(&status))
}

#[tokio::test]
async fn a_key_opens_what_its_scopes_say() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("keys");
    let (speaker, first) = key(&[Scope::Speech]);
    let (talker, second) = key(&[Scope::Chat]);
    let (meter, third) = key(&[Scope::Metrics]);
    fs::write(&file, format!("{first}\n{second}\n{third}\n")).unwrap();
    let server = server(&file).await;
    let missing = (Code::Unauthenticated, "API_KEY_MISSING".to_owned());
    let invalid = (Code::Unauthenticated, "API_KEY_INVALID".to_owned());
    let closed = (Code::PermissionDenied, "SCOPE_MISSING".to_owned());

    assert_eq!(refusal(speak(&server, None).await), missing);
    assert_eq!(refusal(speak(&server, Some("omni_guess")).await), invalid);
    assert_eq!(refusal(speak(&server, Some(&talker)).await), closed);
    speak(&server, Some(&speaker)).await.unwrap();

    assert_eq!(refusal(chat(&server, Some(&speaker)).await), closed);
    chat(&server, Some(&talker)).await.unwrap();

    assert_eq!(refusal(models(&server, None).await), missing);
    let mut riva = RivaSpeechSynthesisClient::new(server.channel.clone());
    // NVIDIA's clients list voices before they speak, without a key; one that is sent must be good.
    let mut list = async |key| {
        let request = with_key(RivaSynthesisConfigRequest::default(), key);
        riva.get_riva_synthesis_config(request).await.map(drop)
    };
    list(None).await.unwrap();
    list(Some(&talker)).await.unwrap();
    assert_eq!(refusal(list(Some("omni_guess")).await), invalid);
    let explain = |key| {
        let message = v1::ExplainRequest {
            text: "Hello.".to_owned(),
            ..v1::ExplainRequest::default()
        };
        let request = with_key(message, key);
        let mut client = server.speech();
        async move { client.explain(request).await.map(drop) }
    };
    assert_eq!(refusal(explain(None).await), missing);
    assert_eq!(refusal(explain(Some(&talker)).await), closed);
    explain(Some(&speaker)).await.unwrap();
    let mute = riva.synthesize(SynthesizeSpeechRequest::default()).await;
    assert_eq!(refusal(mute.map(drop)), missing);
    let framed = [0, 0, 0, 0, 0].as_slice();
    let headers = [("content-type", "application/grpc-web+proto")];
    let page = http(
        &server,
        "POST",
        "/omni.v1.SpeechService/Synthesize",
        &headers,
        framed,
    )
    .await;
    assert!(
        String::from_utf8_lossy(&page.body).contains("grpc-status:16") || page.header("grpc-status") == "16"
    );
    models(&server, Some(&talker)).await.unwrap();

    let declare = |key| {
        let request = with_key(v1::DeclareMetricsRequest::default(), key);
        let mut client = server.measurements();
        async move { client.declare(request).await.map(drop) }
    };
    assert_eq!(refusal(declare(None).await), missing);
    assert_eq!(refusal(declare(Some(&speaker)).await), closed);
    let off = (Code::Unimplemented, "METRICS_SERVICE_OFF".to_owned());
    assert_eq!(refusal(declare(Some(&meter)).await), off);

    assert!(server.serving().await, "probes need no key");
    server.stop().await;
}

#[tokio::test]
async fn openais_routes_ask_for_the_same_keys() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("keys");
    let (speaker, first) = key(&[Scope::Speech]);
    let (talker, second) = key(&[Scope::Chat]);
    fs::write(&file, format!("{first}\n{second}\n")).unwrap();
    let server = server(&file).await;
    let body = r#"{"model": "fake", "input": "Hello."}"#;
    let ask = |key: Option<String>| {
        let value = key.map(|key| format!("Bearer {key}")).unwrap_or_default();
        let server = &server;
        async move {
            let headers = [
                ("content-type", "application/json"),
                ("authorization", value.as_str()),
            ];
            http(server, "POST", SPEECH, &headers, body).await
        }
    };
    for (key, status, kind) in [
        (None, 401, "authentication_error"),
        (Some("omni_guess".to_owned()), 401, "authentication_error"),
        (Some(talker), 403, "permission_error"),
    ] {
        let answer = ask(key).await;
        assert_eq!(answer.status, status);
        assert!(String::from_utf8_lossy(&answer.body).contains(kind));
    }
    let answer = ask(Some(speaker)).await;
    assert!(![401, 403].contains(&answer.status.as_u16()), "{answer:?}");
    let chatting = http(
        &server,
        "POST",
        "/v1/chat/completions",
        &[("content-type", "application/json")],
        "{}",
    )
    .await;
    assert_eq!(chatting.status, 401);
    for path in ["/v1/models", "/v1/models/fake"] {
        assert_eq!(http(&server, "GET", path, &[], "").await.status, 401);
    }
    // Open WebUI sends no key with these.
    for path in ["/v1/audio/models", "/v1/audio/voices"] {
        assert_eq!(http(&server, "GET", path, &[], "").await.status, 200);
    }
    server.stop().await;
}

#[tokio::test]
async fn keys_come_and_go_while_the_server_runs() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("keys");
    let (old, first) = key(&[Scope::Speech]);
    let (new, second) = key(&[Scope::Speech]);
    fs::write(&file, &first).unwrap();
    let server = server(&file).await;
    speak(&server, Some(&old)).await.unwrap();

    fs::write(&file, "this is no file of keys").unwrap();
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_millis(1_500) {
        speak(&server, Some(&old))
            .await
            .expect("a broken file takes nothing away");
    }

    // Put in its place, so that it is taken at once.
    fs::write(file.with_extension("new"), &second).unwrap();
    fs::rename(file.with_extension("new"), &file).unwrap();
    let patience = std::time::Duration::from_secs(30);
    let changed = tokio::time::timeout(patience, async {
        while speak(&server, Some(&new)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    changed.await.expect("the new key becomes good");
    assert_eq!(refusal(speak(&server, Some(&old)).await).0, Code::Unauthenticated);
    server.stop().await;
}
