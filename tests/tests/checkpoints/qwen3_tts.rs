//! Server with a Qwen3-TTS checkpoint of random weights: it equals the reference implementation, and reports
//! unsupported requests.

use std::path::{Path, PathBuf};

use omni_audio::{from_i16, i16_from_s16le};
use omni_config::{ModelSource, deploy::resolve};
use omni_models::testing::{Goldens, TINY_TTS, file_of};
use omni_proto::v1;
use omni_server::app::load_model;
use omni_tests::{TestServer, audio_of, chat_config, chat_message, finish, generate, http, text};
use serde_json::json;
use tonic::Code;

/// Text that the goldens speak, and the number of its frames.
const TEXT: &str = "Hello, the user!";
const FRAMES: u32 = 13;

fn tiny(kind: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data");
    data.join(format!("qwen3-tts-tiny-{kind}"))
}

async fn server(model: PathBuf, args: &[&str]) -> TestServer {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Directory(model), &deploy, false);
    let mut server = TestServer::launch(args, load).await;
    server.app.ready().await.expect("the checkpoint loads");
    server
}

/// A copy that says of itself to be of another kind.
fn relabelled(kind: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("speech_tokenizer")).expect("a folder");
    for (name, content) in TINY_TTS {
        let mut content = content.to_vec();
        if *name == "config.json" {
            let json = String::from_utf8(content).expect("JSON");
            content = json
                .replace("\"custom_voice\"", &format!("\"{kind}\""))
                .into_bytes();
        }
        std::fs::write(dir.path().join(name), content).expect("written");
    }
    dir
}

fn greedy(voice: &str, language: &str) -> v1::SpeechConfig {
    v1::SpeechConfig {
        voice: voice.to_owned(),
        language: language.to_owned(),
        sampling: Some(v1::SamplingParams {
            temperature: Some(0.0),
            seed: Some(3),
            max_tokens: Some(FRAMES),
            ..v1::SamplingParams::default()
        }),
        ..v1::SpeechConfig::default()
    }
}

async fn spoken(server: &TestServer, config: v1::SpeechConfig) -> Vec<f32> {
    let (audio, _) = audio_of(&mut server.speech(), config, TEXT).await.expect("audio");
    i16_from_s16le(&audio).map(from_i16).collect()
}

/// A request to the reference implementation with this `non_streaming_mode`, by the name of its golden output.
fn asked(golden: &str, mode: Option<bool>) -> v1::SpeechConfig {
    let (voice, language, instructions) = match golden {
        "cv_stream" => ("Vivian", "en-GB", ""),
        "cv_nonstream" => ("vivian", "auto", ""),
        "cv_instruct_dialect" => ("Eric", "zh", "Be calm."),
        "vd" => ("", "de", "A low voice."),
        other => panic!("there is no {other}"),
    };
    v1::SpeechConfig {
        style_instructions: instructions.to_owned(),
        non_streaming_mode: mode,
        ..greedy(voice, language)
    }
}

fn assert_reference(got: &[f32], golden: &str) {
    let expected = Goldens::new(file_of(TINY_TTS, "goldens.safetensors")).floats(&format!("{golden}.wav"));
    assert_eq!(got.len(), expected.len(), "{golden}");
    // The server fades in and out, and a sample of 16 bits is a step of 1/32768.
    let faded = 240;
    for i in faded..expected.len() - faded {
        let apart = (got[i] - expected[i]).abs();
        assert!(
            apart < 2e-4,
            "{golden}, sample {i}: {}, expected {}",
            got[i],
            expected[i]
        );
    }
}

/// Speech of text that comes in pieces.
async fn streamed(server: &TestServer, config: v1::SpeechConfig) -> Vec<f32> {
    let mut call = server.call().await.configured(config).await;
    for piece in TEXT.split_inclusive(' ') {
        call.send(text(piece)).await;
    }
    call.send(finish()).await;
    let utterance = call.utterance().await;
    call.hang_up();
    call.end().await.expect("an end");
    i16_from_s16le(&utterance.audio).map(from_i16).collect()
}

#[tokio::test]
async fn whole_text_stands_in_front_as_in_the_reference_unless_the_caller_says_otherwise() {
    let server = server(tiny("custom-voice"), &[]).await;
    for (golden, mode) in [
        ("cv_stream", Some(false)),
        ("cv_nonstream", Some(true)),
        ("cv_nonstream", None),
        ("cv_instruct_dialect", None),
    ] {
        assert_reference(&spoken(&server, asked(golden, mode)).await, golden);
    }
    for (golden, mode) in [
        ("cv_stream", None),
        ("cv_stream", Some(false)),
        ("cv_nonstream", Some(true)),
    ] {
        assert_reference(&streamed(&server, asked(golden, mode)).await, golden);
    }
    // Clauses and everything up to the end are known as well before they are spoken.
    for buffering in [v1::TextBuffering::Clause, v1::TextBuffering::Manual] {
        let config = v1::SpeechConfig {
            buffering: buffering.into(),
            ..asked("cv_nonstream", Some(true))
        };
        assert!(!streamed(&server, config).await.is_empty(), "{buffering:?}");
    }
    let eager = |mode| v1::SpeechConfig {
        buffering: v1::TextBuffering::Eager.into(),
        ..asked("cv_stream", mode)
    };
    assert_reference(&spoken(&server, eager(None)).await, "cv_stream");
    let refused = audio_of(&mut server.speech(), eager(Some(true)), TEXT).await;
    let refused = refused.expect_err("a sentence begins before its end is known");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("config.non_streaming_mode"),
        "{refused:?}"
    );
    let mut call = server.call().await;
    call.send(omni_tests::config(asked("cv_nonstream", Some(true))))
        .await;
    let resolved = call.ready().await.resolved.expect("the settings in force");
    assert_eq!(resolved.non_streaming_mode, Some(true));
    call.hang_up();
    call.end().await.expect("an end");
    server.stop().await;
}

#[tokio::test]
async fn openais_route_takes_the_mode_by_the_name_that_vllm_omni_gives_it() {
    let server = server(tiny("custom-voice"), &[]).await;
    let heard = async |mode: Option<bool>| {
        let mut body = json!({"input": TEXT, "voice": "vivian", "response_format": "pcm", "seed": 1});
        if let Some(mode) = mode {
            body["non_streaming_mode"] = json!(mode);
        }
        let headers = [("content-type", "application/json")];
        let answer = http(&server, "POST", "/v1/audio/speech", &headers, body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.body
    };
    let usual = heard(None).await;
    let whole = heard(Some(true)).await;
    let by_frame = heard(Some(false)).await;
    assert!(usual == whole, "the text of a request is whole");
    assert!(whole != by_frame);
    server.stop().await;
}

#[tokio::test]
async fn language_voice_and_instructions_reach_the_prompt() {
    let server = server(tiny("custom-voice"), &[]).await;
    let english = spoken(&server, greedy("vivian", "en")).await;
    let detected = spoken(&server, greedy("vivian", "")).await;
    assert!(detected == spoken(&server, greedy("vivian", "auto")).await);
    assert!(english != detected && english != spoken(&server, greedy("vivian", "de")).await);
    assert!(english != spoken(&server, greedy("eric", "en")).await);
    // A voice with a dialect speaks it instead of Chinese.
    assert!(spoken(&server, greedy("eric", "zh")).await == spoken(&server, greedy("eric", "")).await);
    let calm = |instructions: &str| v1::SpeechConfig {
        style_instructions: instructions.to_owned(),
        ..greedy("vivian", "en")
    };
    let told = spoken(&server, calm("Be calm.")).await;
    assert!(told != english && told != spoken(&server, calm("Be loud.")).await);
    assert!(spoken(&server, calm(" ")).await == english);
    server.stop().await;
}

#[tokio::test]
async fn the_catalogue_says_what_there_is_and_errors_name_it() {
    let server = server(tiny("custom-voice"), &[]).await;
    let models = server
        .catalog()
        .list_models(v1::ListModelsRequest::default())
        .await;
    let model = models.expect("a list").into_inner().models.remove(0);
    assert_eq!(model.languages, ["zh", "en", "de"]);
    assert_eq!(model.capabilities, ["speech"]);
    assert_eq!(model.native_output.expect("a format").sample_rate_hz, 24_000);
    let voices = server
        .catalog()
        .list_voices(v1::ListVoicesRequest::default())
        .await;
    let voices = voices.expect("a list").into_inner().voices;
    assert_eq!(
        voices.iter().map(|v| v.id.as_str()).collect::<Vec<_>>(),
        ["eric", "vivian"]
    );
    for (wrong, known) in [
        (greedy("nobody", ""), "eric, vivian"),
        (greedy("vivian", "tlh"), "zh, en, de"),
    ] {
        let status = audio_of(&mut server.speech(), wrong, TEXT)
            .await
            .expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(known), "{status:?}");
    }
    let asked = vec![chat_message(v1::Role::User, "Well?")];
    let status = generate(&mut server.chat(), chat_config(false), asked)
        .await
        .expect_err("no thinker");
    assert!(status.message().contains("has no thinker"), "{status:?}");
    server.stop().await;
}

#[tokio::test]
async fn chinese_is_cut_where_its_sentences_end() {
    let server = server(tiny("custom-voice"), &[]).await;
    let settings = v1::SpeechConfig {
        sampling: Some(v1::SamplingParams {
            max_tokens: Some(30),
            ..greedy("", "").sampling.expect("settings")
        }),
        ..greedy("vivian", "zh")
    };
    let mut call = server.call().await.configured(settings).await;
    call.send(text("你好。今天天气很好！")).await;
    call.send(finish()).await;
    let utterance = call.utterance().await;
    assert_eq!(utterance.outcome.usage.expect("usage").input_characters, 10);
    assert!(utterance.samples() > 0);
    call.hang_up();
    call.end().await.expect("an end");
    server.stop().await;
}

#[tokio::test]
async fn a_described_voice_is_the_only_one_and_follows_its_description_whatever_its_size() {
    let dir = relabelled("voice_design");
    let config = dir.path().join("config.json");
    let small = std::fs::read_to_string(&config)
        .expect("read")
        .replace("\"1b7\"", "\"0b6\"");
    assert!(small.contains("\"0b6\""));
    std::fs::write(&config, small).expect("written");
    let server = server(dir.path().to_owned(), &["--strict"]).await;
    let voices = server
        .catalog()
        .list_voices(v1::ListVoicesRequest::default())
        .await;
    let voices = voices.expect("a list").into_inner().voices;
    assert_eq!(voices.len(), 1, "{voices:?}");
    let of = |description: &str| v1::SpeechConfig {
        style_instructions: description.to_owned(),
        ..greedy("", "de")
    };
    let low = spoken(&server, of("A low voice.")).await;
    assert_reference(&low, "vd");
    assert!(low != spoken(&server, of("A high voice.")).await);
    server.stop().await;
}
