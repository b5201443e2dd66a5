//! Refusals have the same words in every protocol, with the accepted values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_proto::riva::AudioEncoding;
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::v1;
use omni_tests::{TestServer, http, reason};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::support::{TEXT, babble, base, checkpoint, file, goldens, greedy, served, spoken, voices, wav};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn openai(server: &TestServer, fields: Value) -> Value {
    let mut body = json!({"input": TEXT, "response_format": "pcm"});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    let answer = http(server, "POST", "/v1/audio/speech", &[JSON], body.to_string()).await;
    assert_eq!(answer.status, 400, "{}", String::from_utf8_lossy(&answer.body));
    serde_json::from_slice::<Value>(&answer.body).expect("JSON")["error"].clone()
}

async fn riva(server: &TestServer, voice: &str, language: &str) -> Status {
    let request = SynthesizeSpeechRequest {
        text: TEXT.to_owned(),
        language_code: language.to_owned(),
        encoding: AudioEncoding::LinearPcm.into(),
        sample_rate_hz: 24_000,
        voice_name: voice.to_owned(),
        ..SynthesizeSpeechRequest::default()
    };
    let mut client = RivaSpeechSynthesisClient::new(server.channel.clone());
    client.synthesize(request).await.expect_err("a refusal")
}

#[tokio::test]
async fn an_unknown_voice_or_language_is_refused_with_those_that_there_are() {
    let server = served(checkpoint(omni_models::testing::TINY_TTS, None), &[]).await;
    let own = server
        .catalog()
        .list_voices(v1::ListVoicesRequest::default())
        .await;
    let own = own.expect("a list").into_inner().voices;
    assert!(!own.is_empty());
    let names_them = |text: &str| own.iter().all(|voice| text.contains(&voice.id));

    let refused = spoken(&server, greedy("unknown", "en", 3))
        .await
        .expect_err("no voice");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "VOICE_NOT_FOUND")
    );
    assert!(names_them(refused.message()), "{refused:?}");
    let error = openai(&server, json!({"voice": "unknown"})).await;
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("voice_not_found"), &json!("voice"))
    );
    assert!(names_them(&error["message"].to_string()), "{error}");
    let refused = riva(&server, "unknown", "en-US").await;
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(names_them(refused.message()), "{refused:?}");

    for language in ["nl", "yue-HK", "zh-yue", "Klingon"] {
        let says = "expected one of: zh, en, de";
        let refused = spoken(&server, greedy("", language, 3))
            .await
            .expect_err("no language");
        assert_eq!(reason(&refused), "LANGUAGE_NOT_FOUND", "{language}");
        assert!(refused.message().contains(says), "{refused:?}");
        let error = openai(&server, json!({"language": language})).await;
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("language_not_found"), &json!("language"))
        );
        let refused = riva(&server, "", language).await;
        assert!(refused.message().contains(says), "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn languages_are_understood_as_callers_write_them() {
    let server = served(checkpoint(omni_models::testing::TINY_TTS, None), &[]).await;
    let plain = spoken(&server, greedy("", "zh", 4)).await.expect("audio");
    for language in ["zh-CN", "cmn-CN", "zh-Hans-CN", "zh_CN", "Chinese", "ZHO"] {
        let heard = spoken(&server, greedy("", language, 4)).await.expect(language);
        assert!(heard == plain, "{language}");
    }
    let german = spoken(&server, greedy("", "de-AT", 4)).await.expect("audio");
    assert!(german != plain && german == spoken(&server, greedy("", "German", 4)).await.expect("audio"));
    server.stop().await;
}

/// Checkpoint that states the size of the 0.6B ones.
fn small() -> tempfile::TempDir {
    let dir = checkpoint(omni_models::testing::TINY_TTS, None);
    let path = dir.path().join("config.json");
    let config = std::fs::read_to_string(&path).expect("the file");
    let relabelled = config.replace("\"1b7\"", "\"0b6\"");
    assert_ne!(config, relabelled);
    std::fs::write(path, relabelled).expect("written");
    dir
}

#[tokio::test]
async fn an_instruction_to_a_checkpoint_that_follows_none_is_told_and_refused_where_hints_are() {
    let told = |style: &str| v1::SpeechConfig {
        style_instructions: style.to_owned(),
        ..greedy("", "en", 4)
    };
    let server = served(small(), &[]).await;
    let plain = spoken(&server, told("")).await.expect("audio");
    assert!(
        spoken(&server, told("Whisper.")).await.expect("audio") == plain,
        "it is ignored"
    );
    server.stop().await;
    let server = served(small(), &["--strict"]).await;
    let refused = spoken(&server, told("Whisper.")).await.expect_err("a refusal");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("style_instructions") && refused.message().contains("follows none"),
        "{refused:?}"
    );
    let error = openai(&server, json!({"instructions": "Whisper."})).await;
    assert_eq!(error["param"], json!("instructions"));
    server.stop().await;
}

#[tokio::test]
async fn a_voice_of_another_width_is_refused_by_every_protocol() {
    let dir = tempfile::tempdir().expect("a directory");
    let wide = file("wide", &[0.5; 33], None);
    std::fs::write(dir.path().join("wide.safetensors"), wide).expect("written");
    let server = base(&["--voices", dir.path().to_str().expect("text")]).await;
    let says = "make it anew of the recording here";
    let refused = spoken(&server, greedy("wide", "en", 3))
        .await
        .expect_err("another width");
    assert_eq!(reason(&refused), "VOICE_OF_ANOTHER_MODEL");
    assert!(refused.message().contains(says), "{refused:?}");
    let error = openai(&server, json!({"voice": "wide"})).await;
    assert_eq!(error["code"], json!("voice_of_another_model"));
    assert!(error["message"].to_string().contains(says), "{error}");
    let refused = riva(&server, "wide", "en").await;
    assert!(refused.message().contains(says), "{refused:?}");
    // It is no default either.
    let refused = riva(&server, "", "en").await;
    assert!(
        refused.message().contains("there are no voices yet"),
        "{refused:?}"
    );
    let good = v1::ImportVoiceRequest {
        data: file("good", &goldens().floats("ref.spk_embedding"), None),
        name: String::new(),
    };
    voices(&server).import_voice(good).await.expect("it is kept");
    spoken(&server, greedy("", "en", 3)).await.expect("audio");
    server.stop().await;
}

#[tokio::test]
async fn word_times_are_listed_by_language_and_refused_where_there_are_none() {
    let dir = checkpoint(omni_models::testing::TINY_TTS, None);
    std::fs::write(dir.path().join("omni.json"), r#"{"languages": ["zh", "ar"]}"#).expect("written");
    let server = served(dir, &[]).await;
    let models = server
        .catalog()
        .list_models(v1::ListModelsRequest::default())
        .await;
    let model = models.expect("a list").into_inner().models.remove(0);
    assert_eq!(
        (&model.languages[..], &model.alignment_languages[..]),
        (&["zh".into(), "ar".into()][..], &["zh".into()][..])
    );
    let timed = |language: &str| v1::SpeechConfig {
        alignment: true,
        ..greedy("", language, 12)
    };
    let refused = spoken(&server, timed("ar")).await.expect_err("no word times");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("config.alignment") && refused.message().contains("word times are in: zh"),
        "{refused:?}"
    );
    spoken(&server, timed("zh")).await.expect("audio");
    server.stop().await;
}

#[tokio::test]
async fn a_recording_is_refused_by_name_where_it_lacks_its_transcript_or_a_model_that_clones() {
    let recording = BASE64.encode(wav(&babble(2.0, 120.0)));
    let asked = json!({"ref_audio": recording, "x_vector_only_mode": false});
    let server = base(&[]).await;
    let error = openai(&server, asked.clone()).await;
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("transcript_missing"), &json!("ref_text"))
    );
    assert!(error["message"].to_string().contains("vector alone"), "{error}");
    server.stop().await;
    let server = served(checkpoint(omni_models::testing::TINY_TTS, None), &[]).await;
    let error = openai(&server, asked).await;
    assert_eq!(error["param"], json!("ref_audio"));
    assert!(
        error["message"].to_string().contains("Base checkpoints"),
        "{error}"
    );
    server.stop().await;
}
