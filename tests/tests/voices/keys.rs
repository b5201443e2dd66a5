//! Ownership of voices by API key.

use omni_config::{Quotas, Scope, new_key};
use omni_proto::v1;
use omni_tests::{http, reason};
use tonic::{Code, Request};

use crate::support::{babble, base, file, goldens, greedy, recorded, voices, wav};

fn with_key<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {key}").parse().expect("a value");
    request.metadata_mut().insert("authorization", value);
    request
}

#[tokio::test]
async fn a_voice_is_its_keys_and_what_has_no_owner_is_everybodys() {
    let place = tempfile::tempdir().expect("a directory");
    let make = |name| new_key(name, &[Scope::Speech], &Quotas::default()).expect("random bytes");
    let (anna, first) = make("anna");
    let (otto, second) = make("otto");
    let keys = place.path().join("keys");
    let dir = place.path().join("voices");
    std::fs::write(&keys, format!("{first}\n{second}\n")).expect("written");
    std::fs::create_dir(&dir).expect("a folder");
    let shared = file("shared", &goldens().floats("ref.spk_embedding"), None);
    std::fs::write(dir.join("any name.safetensors"), shared).expect("written");
    let args = [
        "--api-keys",
        keys.to_str().expect("text"),
        "--voices",
        dir.to_str().expect("text"),
    ];
    let server = base(&args).await;
    let mut service = voices(&server);

    let request = recorded("mine", wav(&babble(2.0, 120.0)));
    let missing = service.create_voice(request.clone()).await.expect_err("no key");
    assert_eq!(missing.code(), Code::Unauthenticated);
    let made = service
        .create_voice(with_key(request.clone(), &anna))
        .await
        .expect("a voice");
    assert!(!made.into_inner().voice.expect("a voice").shared);
    let mut listed = Vec::new();
    for key in [&anna, &otto] {
        let list = with_key(v1::ListKeptVoicesRequest::default(), key);
        let kept = service
            .list_kept_voices(list)
            .await
            .expect("a list")
            .into_inner()
            .voices;
        listed.push(kept.into_iter().map(|voice| voice.name).collect::<Vec<_>>());
    }
    assert_eq!(listed, [vec!["mine", "shared"], vec!["shared"]]);

    let name = "mine".to_owned();
    let get = service
        .get_voice(with_key(v1::GetVoiceRequest { name: name.clone() }, &otto))
        .await;
    assert_eq!(reason(&get.expect_err("not his")), "VOICE_NOT_FOUND");
    let delete = service
        .delete_voice(with_key(v1::DeleteVoiceRequest { name }, &otto))
        .await;
    assert_eq!(reason(&delete.expect_err("not his")), "VOICE_NOT_FOUND");
    let shared = v1::DeleteVoiceRequest {
        name: "shared".to_owned(),
    };
    let delete = service
        .delete_voice(with_key(shared, &otto))
        .await
        .expect_err("everybody's");
    assert_eq!(
        (delete.code(), reason(&delete).as_str()),
        (Code::PermissionDenied, "VOICE_NOT_OWNED")
    );

    let speak = |voice: &str, key: &str| {
        let message = v1::SynthesizeRequest {
            config: Some(greedy(voice, "en", 3)),
            text: "Hello.".to_owned(),
        };
        (server.speech(), with_key(message, key))
    };
    for (voice, key, works) in [
        ("mine", &anna, true),
        ("mine", &otto, false),
        ("shared", &otto, true),
    ] {
        let (mut speech, request) = speak(voice, key);
        let mut replies = speech.synthesize(request).await.expect("a stream").into_inner();
        let spoken = loop {
            match replies.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(status) => break Err(reason(&status)),
            }
        };
        let expected = if works {
            Ok(())
        } else {
            Err("VOICE_NOT_FOUND".to_owned())
        };
        assert_eq!(spoken, expected, "{voice}");
    }
    // If keys are required, a list without one has names only.
    let listed = http(&server, "GET", "/v1/audio/voices", &[], "").await;
    let listed: serde_json::Value = serde_json::from_slice(&listed.body).expect("JSON");
    assert_eq!(listed["names"], serde_json::json!(["shared"]));
    assert_eq!(listed["uploaded_voices"], serde_json::json!([]));
    // The name remains free for another key.
    service
        .create_voice(with_key(request, &otto))
        .await
        .expect("a voice");
    server.stop().await;
}

#[tokio::test]
async fn a_voice_that_is_exported_belongs_to_the_key_that_imports_it() {
    let place = tempfile::tempdir().expect("a directory");
    let make = |name| new_key(name, &[Scope::Speech], &Quotas::default()).expect("random bytes");
    let (anna, first) = make("anna");
    let (otto, second) = make("otto");
    let keys = place.path().join("keys");
    std::fs::write(&keys, format!("{first}\n{second}\n")).expect("written");
    let args = [
        "--api-keys",
        keys.to_str().expect("text"),
        "--set",
        "voices.max_voices_per_key=1",
    ];
    let server = base(&args).await;
    let mut service = voices(&server);
    let request = |name| recorded(name, wav(&babble(2.0, 120.0)));
    service
        .create_voice(with_key(request("mine"), &anna))
        .await
        .expect("a voice");
    let more = service.create_voice(with_key(request("more"), &anna)).await;
    assert_eq!(reason(&more.expect_err("one is allowed")), "VOICES_FULL");
    let name = || "mine".to_owned();
    let export = v1::ExportVoiceRequest { name: name() };
    let strange = service.export_voice(with_key(export.clone(), &otto)).await;
    assert_eq!(reason(&strange.expect_err("not his")), "VOICE_NOT_FOUND");
    let exported = service.export_voice(with_key(export, &anna)).await;
    let data = exported.expect("a file").into_inner().data;

    let import = v1::ImportVoiceRequest {
        data,
        name: String::new(),
    };
    let brought = service.import_voice(with_key(import, &otto)).await;
    let brought = brought.expect("it is kept").into_inner().voice.expect("a voice");
    assert!(brought.name == "mine" && !brought.shared);
    let delete = v1::DeleteVoiceRequest { name: name() };
    service
        .delete_voice(with_key(delete, &otto))
        .await
        .expect("his own");
    for (key, there) in [(&anna, true), (&otto, false)] {
        let get = v1::GetVoiceRequest { name: name() };
        let found = service.get_voice(with_key(get, key)).await;
        assert_eq!(found.is_ok(), there);
    }
    server.stop().await;
}
