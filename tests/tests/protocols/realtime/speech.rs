//! Turns by voice: recordings that are committed by hand, speech that is detected, interruptions, and a model that
//! cannot hear.

use omni_audio::encode_s16le;
use omni_config::{ModelSource, deploy::resolve};
use omni_server::app::load_model;
use omni_tests::{FakeScript, TestServer, http};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{Client, Heard, over, requests};

/// A second of 24 kHz, 16 bits.
const SECOND: usize = 48_000;

/// Speech of the embedded voice, as 24 kHz PCM: synthetic, so that the tests may keep it.
pub(super) async fn spoken() -> Vec<u8> {
    static SPOKEN: OnceCell<Vec<u8>> = OnceCell::const_new();
    let speak = async || {
        let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
        let load = move || load_model(&ModelSource::Embedded, &deploy, false);
        let mut server = TestServer::launch(&[], load).await;
        server.app.ready().await.expect("the embedded model loads");
        let body = json!({"input": "Hello there.", "response_format": "pcm", "seed": 1}).to_string();
        let kind = [("content-type", "application/json")];
        let answer = http(&server, "POST", "/v1/audio/speech", &kind, body).await;
        server.stop().await;
        answer.body
    };
    SPOKEN.get_or_init(speak).await.clone()
}

pub(super) fn silence(seconds: f64) -> Vec<u8> {
    vec![0; (seconds * 24_000.0) as usize * 2]
}

pub(super) async fn hearing() -> TestServer {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    TestServer::fake(script, &[]).await
}

/// Sends sound as a microphone does, in pieces.
pub(super) async fn hear(client: &mut Client, pcm: &[u8]) {
    for piece in pcm.chunks(SECOND / 25) {
        client.append(piece).await;
    }
}

#[tokio::test]
async fn recordings_are_committed_by_hand_where_turns_are_not_detected() {
    let server = hearing().await;
    let mut client = Client::connect(&server).await;
    client
        .update(json!({"audio": {"input": {"turn_detection": null}}, "output_modalities": ["text"]}))
        .await;
    client.append(&silence(0.05)).await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    assert_eq!(client.error().await.0, "input_audio_buffer_commit_empty");
    client.append(&silence(0.5)).await;
    client.send(json!({"type": "input_audio_buffer.clear"})).await;
    client.expect("input_audio_buffer.cleared").await;
    for _ in 0..5 {
        client.append(&silence(0.1)).await;
    }
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    let committed = client.expect("input_audio_buffer.committed").await;
    let added = client.expect("conversation.item.added").await;
    assert_eq!(added["item"]["id"], committed["item_id"]);
    assert_eq!(added["item"]["content"][0]["type"], "input_audio");
    client.expect("conversation.item.done").await;
    client.respond(json!({})).await;
    let samples = samples_heard(&client.heard().await.text);
    // Half a second at the rate of the model, but for what its filter still holds.
    assert!((7_500..=8_000).contains(&samples), "{samples}");

    // Half as much of a telephone's bytes is as long as that.
    client
        .update(json!({"audio": {"input": {"format": {"type": "audio/pcmu"}}}}))
        .await;
    client.append(&[0xFF; 4_000]).await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    client.until("conversation.item.done").await;
    client.respond(json!({})).await;
    let samples = samples_heard(&client.heard().await.text);
    assert!((7_500..=8_000).contains(&samples), "{samples}");
    server.stop().await;
}

/// Samples in `You said: [... samples]`.
pub(super) fn samples_heard(text: &str) -> usize {
    let number = text
        .trim_start_matches("You said: [")
        .trim_end_matches(" samples]");
    number.parse().unwrap_or_else(|_| panic!("{text}"))
}

#[tokio::test]
async fn a_recording_that_is_too_long_is_refused_and_the_rest_is_kept() {
    let server = hearing().await;
    let mut client = Client::connect(&server).await;
    client
        .update(json!({"audio": {"input": {"turn_detection": null}}}))
        .await;
    client.append(&silence(1.5)).await;
    client.append(&silence(1.0)).await;
    assert_eq!(client.error().await.0, "input_audio_buffer_full");
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    client.expect("input_audio_buffer.committed").await;
    server.stop().await;
}

#[tokio::test]
async fn a_recording_may_be_an_item_of_its_own() {
    use base64::Engine as _;
    let server = hearing().await;
    let mut client = Client::connect(&server).await;
    let audio = base64::engine::general_purpose::STANDARD.encode(silence(0.5));
    let content = json!([{"type": "input_audio", "audio": audio, "transcript": "nothing"}]);
    client
        .create(
            json!({"type": "message", "role": "user", "content": content}),
            Value::Null,
        )
        .await;
    client.respond(json!({"output_modalities": ["text"]})).await;
    assert_eq!(client.heard().await.text, "You said: [8000 samples]");
    server.stop().await;
}

#[tokio::test]
async fn speech_is_detected_and_answered_when_it_ends() {
    let server = hearing().await;
    let speech = spoken().await;
    let mut client = Client::connect(&server).await;
    let updated = client
        .update(json!({"audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 400}}}}))
        .await;
    assert_eq!(
        updated["audio"]["input"]["turn_detection"]["silence_duration_ms"],
        400
    );
    hear(&mut client, &silence(1.0)).await;
    hear(&mut client, &speech).await;
    hear(&mut client, &silence(2.0)).await;
    let started = client.expect("input_audio_buffer.speech_started").await;
    let stopped = client.expect("input_audio_buffer.speech_stopped").await;
    let committed = client.expect("input_audio_buffer.committed").await;
    assert_eq!(started["item_id"], stopped["item_id"]);
    assert_eq!(started["item_id"], committed["item_id"]);
    let start = started["audio_start_ms"].as_u64().expect("ms");
    let end = stopped["audio_end_ms"].as_u64().expect("ms");
    let spoken_ms = speech.len() as u64 / 48;
    // It begins before the speech by the padding, and the voice itself may begin and end with some silence.
    assert!((500..=1_300).contains(&start), "{start}");
    assert!(
        (start + 500..=1_000 + spoken_ms + 700).contains(&end),
        "{end} of {spoken_ms}"
    );
    let heard = client.heard().await;
    assert_eq!(heard.status(), "completed");
    let samples = samples_heard(&heard.transcript);
    let expected = (end - start) as usize * 16;
    assert!(samples.abs_diff(expected) <= 1_600, "{samples} and {expected}");
    server.stop().await;
}

#[tokio::test]
async fn silence_and_hiss_begin_nothing() {
    let server = hearing().await;
    let mut client = Client::connect(&server).await;
    hear(&mut client, &silence(3.0)).await;
    let mut state = 1_u32;
    let hiss: Vec<f32> = (0..72_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 0.01
        })
        .collect();
    let mut pcm = Vec::new();
    encode_s16le(&hiss, &mut pcm);
    hear(&mut client, &pcm).await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    assert_eq!(client.error().await.0, "input_audio_buffer_commit_empty");
    client.send(json!({"type": "input_audio_buffer.clear"})).await;
    client.expect("input_audio_buffer.cleared").await;
    assert_eq!(client.ask("say Hello.").await.transcript, "Hello.");
    server.stop().await;
}

#[tokio::test]
async fn a_user_who_speaks_interrupts_the_answer() {
    let server = hearing().await;
    let speech = spoken().await;
    let mut client = Client::connect(&server).await;
    client.say("forever").await;
    client.respond(json!({})).await;
    client.until("response.output_audio.delta").await;
    hear(&mut client, &speech).await;
    hear(&mut client, &silence(1.0)).await;
    client.until("input_audio_buffer.speech_started").await;
    let done = client.until("response.done").await["response"].clone();
    assert_eq!(
        done["status_details"],
        json!({"type": "cancelled", "reason": "turn_detected"})
    );
    client.until("input_audio_buffer.committed").await;
    client.until("response.created").await;
    assert_eq!(client.heard().await.status(), "completed");
    drop(client);
    over(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn turns_may_be_detected_without_an_answer_or_an_interruption() {
    let server = hearing().await;
    let speech = spoken().await;
    let mut client = Client::connect(&server).await;
    let turns = json!({"type": "server_vad", "create_response": false, "interrupt_response": false});
    client
        .update(json!({"audio": {"input": {"turn_detection": turns}}}))
        .await;
    hear(&mut client, &speech).await;
    hear(&mut client, &silence(1.0)).await;
    client.expect("input_audio_buffer.speech_started").await;
    client.until("conversation.item.done").await;
    client.respond(json!({})).await;
    let heard = client.heard().await;
    assert!(
        heard.transcript.starts_with("You said: ["),
        "{}",
        heard.transcript
    );
    server.stop().await;
}

/// Speaks to a model that cannot hear.
pub(super) async fn speak_in_vain(client: &mut Client) -> Heard {
    client
        .send(json!({"type": "input_audio_buffer.append", "audio": "AAAA".repeat(4_000)}))
        .await;
    client.send(json!({"type": "input_audio_buffer.commit"})).await;
    client.until("conversation.item.done").await;
    client.respond(json!({})).await;
    client.heard().await
}

#[tokio::test]
async fn a_model_that_cannot_hear_says_so_once_aloud_and_then_briefly() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut client = Client::connect(&server).await;
    client
        .update(json!({"audio": {"input": {"turn_detection": null}}}))
        .await;
    let first = speak_in_vain(&mut client).await;
    assert_eq!(first.status(), "completed");
    assert_eq!(
        first.transcript,
        "I cannot hear you. This model only reads text. Please write to me."
    );
    assert!(!first.audio.is_empty());
    let second = speak_in_vain(&mut client).await;
    assert_eq!((second.status(), second.audio.len()), ("failed", 0));
    assert_eq!(
        second.done["status_details"]["error"]["code"],
        "audio_input_not_supported"
    );
    assert_eq!(client.ask("say Hello.").await.transcript, "Hello.");
    assert_eq!(
        (requests(&server, "ok").await, requests(&server, "error").await),
        (2.0, 1.0)
    );
    drop(client);
    over(&server).await;
    server.stop().await;

    // Where there is no place for another session, it is written.
    let server = TestServer::fake(FakeScript::default(), &["--max-sessions", "1"]).await;
    let mut client = Client::connect(&server).await;
    client
        .update(json!({"audio": {"input": {"turn_detection": null}}}))
        .await;
    let first = speak_in_vain(&mut client).await;
    assert_eq!((first.status(), first.audio.len()), ("completed", 0));
    assert!(first.transcript.starts_with("I cannot hear you."));
    server.stop().await;
}

#[tokio::test]
async fn a_model_that_cannot_hear_notices_speech_all_the_same() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let speech = spoken().await;
    let mut client = Client::connect(&server).await;
    hear(&mut client, &speech).await;
    hear(&mut client, &silence(1.0)).await;
    client.expect("input_audio_buffer.speech_started").await;
    client.expect("input_audio_buffer.speech_stopped").await;
    let heard = client.heard().await;
    assert!(heard.transcript.starts_with("I cannot hear you."), "{heard:?}");
    server.stop().await;
}
