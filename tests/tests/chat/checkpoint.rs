//! A real checkpoint with random weights: its output is nonsense, but all its code is that of the published models.

use std::path::Path;
use std::time::Duration;

use omni_config::{ModelSource, deploy::resolve};
use omni_proto::v1;
use omni_proto::v1::converse_request::Event as Request;
use omni_server::app::load_model;
use omni_tests::{TestServer, chat_config, chat_message, generate, respond, said};

async fn server() -> TestServer {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/data/qwen3-omni-tiny");
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Directory(model), &deploy, false);
    let mut server = TestServer::launch(&[], load).await;
    server.app.ready().await.expect("the checkpoint loads");
    server
}

/// Short, deterministic answers.
fn config(audio: bool) -> v1::ChatConfig {
    let sampling = |max_tokens| {
        Some(v1::SamplingParams {
            temperature: Some(0.0),
            seed: Some(3),
            max_tokens: Some(max_tokens),
            ..v1::SamplingParams::default()
        })
    };
    v1::ChatConfig {
        text_sampling: sampling(24),
        speech_sampling: sampling(16),
        ..chat_config(audio)
    }
}

#[tokio::test]
async fn it_answers_in_writing_and_aloud_and_always_the_same() {
    let server = server().await;
    let mut chat = server.converse().await;
    chat.configure(config(true)).await;
    let first = chat.turn("Hello there.").await;
    assert!(!first.text.is_empty() && first.samples() > 0, "{first:?}");
    let usage = first.outcome.usage.unwrap();
    assert!(
        usage.input_text_tokens > 10 && usage.output_text_tokens <= 24,
        "{usage:?}"
    );
    assert!((1..=16).contains(&usage.output_audio_tokens), "{usage:?}");

    let conversation = vec![chat_message(v1::Role::User, "Hello there.")];
    let again = generate(&mut server.chat(), config(true), conversation)
        .await
        .unwrap();
    assert_eq!(again.text, first.text);
    assert!(again.audio == first.audio, "the same audio");

    // The second turn reads the first.
    let second = chat.turn("Go on.").await;
    assert!(
        second.outcome.usage.unwrap().input_text_tokens > usage.input_text_tokens + usage.output_text_tokens
    );
    server.stop().await;
}

#[tokio::test]
async fn it_hears() {
    let server = server().await;
    let mut chat = server.converse().await;
    let ready = chat.configure(config(true)).await;
    assert_eq!(
        ready.resolved.unwrap().input_audio.unwrap().sample_rate_hz,
        16_000
    );
    assert!(ready.limits.unwrap().max_input_audio.is_some());
    let tone = |hz: f32| -> Vec<u8> {
        let samples = (0..16_000).map(|n| (n as f32 * hz / 16_000.0 * std::f32::consts::TAU).sin() * 8_000.0);
        samples.flat_map(|sample| (sample as i16).to_le_bytes()).collect()
    };
    chat.send(Request::InputAudio(v1::InputAudio {
        data: tone(440.0).into(),
    }))
    .await;
    chat.send(Request::Commit(v1::CommitInput { respond: true }))
        .await;
    let answer = chat.answer().await;
    let usage = answer.outcome.usage.unwrap();
    assert_eq!(usage.input_audio_tokens, 13, "a second is thirteen rows");
    assert!(!answer.text.is_empty() && answer.samples() > 0, "{answer:?}");

    // Spoken input stays in the conversation, and text may follow it.
    chat.send(said(v1::Role::User, "And now?")).await;
    chat.send(respond()).await;
    let answer = chat.answer().await;
    assert_eq!(answer.outcome.usage.unwrap().input_audio_tokens, 13);
    let total = Duration::try_from(answer.outcome.timings.unwrap().total.unwrap()).unwrap();
    assert!(!total.is_zero());
    chat.hang_up();
    chat.end().await.unwrap();
    server.chats_over(2).await;
    server.stop().await;
}
