//! Callers with the protocols of others: OpenAI's HTTP API, NVIDIA Riva.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use hyper::StatusCode;
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::riva::tts::riva_speech_synthesis_client::RivaSpeechSynthesisClient;
use omni_proto::riva::{AudioEncoding, RequestId};
use omni_tests::{Dice, HttpAnswer, babble, http_to, wav};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::callers::{BUSY, Visit, refused};
use super::speakers::words;

const WAV_HEADER: usize = 44;

/// Name of the model.
pub(super) async fn model(address: SocketAddr) -> anyhow::Result<String> {
    let answer = http_to(address, "GET", "/v1/models", &[], "").await;
    let models: Value = serde_json::from_slice(&answer.body).context("the list of models")?;
    let name = models["data"][0]["id"].as_str().context("a model")?;
    Ok(name.to_owned())
}

async fn post(visit: &Visit, path: &str, body: &Value) -> HttpAnswer {
    let headers = [("content-type", "application/json")];
    http_to(visit.target.address, "POST", path, &headers, body.to_string()).await
}

/// Outcome of an unsuccessful answer.
fn declined(answer: &HttpAnswer) -> String {
    let error: Value = serde_json::from_slice(&answer.body).expect("an error is JSON");
    let code = error["error"]["code"].as_str().unwrap_or_default();
    if code.eq_ignore_ascii_case("NOTHING_SPEAKABLE") {
        return "nothing to say".to_owned();
    }
    assert!(
        BUSY.iter().any(|busy| busy.eq_ignore_ascii_case(code)),
        "{} {error}",
        answer.status
    );
    format!("refused {code}")
}

/// The data of every event; the last must be `last`.
fn events<'a>(answer: &'a HttpAnswer, last: &str) -> Vec<&'a str> {
    let text = std::str::from_utf8(&answer.body).expect("text");
    assert!(text.ends_with("\n\n"), "whole events");
    let events = text.split_terminator("\n\n");
    let data: Vec<_> = events
        .map(|event| event.strip_prefix("data: ").expect("data"))
        .collect();
    assert!(
        data.last().is_some_and(|end| end.contains(last)),
        "{data:?} ends with {last}"
    );
    data
}

fn sound(dice: &mut Dice) -> (&'static str, &'static [u8]) {
    dice.of(&[
        ("pcm", &b""[..]),
        ("wav", b"RIFF"),
        ("opus", b"OggS"),
        ("flac", b"fLaC"),
        ("mp3", b"\xFF"),
        ("aac", b"\xFF\xF1"),
    ])
}

/// `POST /v1/audio/speech`, as bytes or as events.
pub(super) async fn speech(visit: &mut Visit) -> String {
    let (format, begins) = sound(&mut visit.dice);
    let told = visit.dice.one_in(3);
    let body = json!({
        "model": visit.model, "voice": "alloy", "input": words(&mut visit.dice), "response_format": format,
        "speed": if visit.dice.one_in(3) { 1.5 } else { 1.0 },
        "stream_format": if told { "sse" } else { "audio" },
    });
    let answer = post(visit, "/v1/audio/speech", &body).await;
    if answer.status != StatusCode::OK {
        return declined(&answer);
    }
    if told {
        for event in events(&answer, "speech.audio.done") {
            assert!(!event.contains("speech.audio.error"), "{event}");
        }
    } else if !answer.body.is_empty() {
        assert!(
            answer.body.starts_with(begins),
            "{format} begins with {:?}",
            answer.body.get(..4)
        );
        let samples = match format {
            "pcm" => answer.body.len(),
            "wav" => answer.body.len() - WAV_HEADER,
            _ => 0,
        };
        assert_eq!(samples % 2, 0, "whole samples");
    }
    "answered".to_owned()
}

/// `POST /v1/chat/completions`, written or spoken, streamed or not.
pub(super) async fn chat(visit: &mut Visit) -> String {
    let spoken = visit.dice.one_in(2);
    let streamed = visit.dice.one_in(2);
    let messages = json!([{"role": "user", "content": "Please spell the word library."}]);
    let mut body =
        json!({"model": visit.model, "messages": messages, "stream": streamed, "max_completion_tokens": 30});
    if spoken {
        let format = if streamed { "pcm16" } else { "wav" };
        body["modalities"] = json!(["text", "audio"]);
        body["audio"] = json!({"voice": "alloy", "format": format});
    }
    let answer = post(visit, "/v1/chat/completions", &body).await;
    if answer.status != StatusCode::OK {
        return declined(&answer);
    }
    if streamed {
        let events = events(&answer, "[DONE]");
        for event in &events[..events.len() - 1] {
            let chunk: Value = serde_json::from_str(event).expect("JSON");
            let error = chunk["error"]["code"].as_str();
            if let Some(code) = error {
                assert!(BUSY.iter().any(|busy| busy.eq_ignore_ascii_case(code)), "{chunk}");
                return format!("refused {code}");
            }
        }
    } else {
        let whole: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let reason = whole["choices"][0]["finish_reason"].as_str();
        assert!(matches!(reason, Some("stop" | "length")), "{whole}");
    }
    "answered".to_owned()
}

/// Asks, reads a little of the answer, and breaks the connection.
pub(super) async fn vanishes(visit: &mut Visit) -> String {
    let body =
        json!({"model": visit.model, "input": omni_tests::endless(), "response_format": "pcm"}).to_string();
    let head = format!(
        "POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(visit.target.address)
        .await
        .expect("the server listens");
    let sent = if visit.dice.one_in(4) {
        visit.dice.below(body.len() as u64) as usize
    } else {
        body.len()
    };
    stream
        .write_all(head.as_bytes())
        .await
        .expect("it takes the head");
    stream
        .write_all(&body.as_bytes()[..sent])
        .await
        .expect("it takes the body");
    let time = visit.dice.moment(Duration::from_millis(500));
    let mut some = vec![0; 1 + visit.dice.below(20_000) as usize];
    let _ = tokio::time::timeout(time, stream.read_exact(&mut some)).await;
    "gone".to_owned()
}

fn riva(visit: &mut Visit) -> SynthesizeSpeechRequest {
    let encodings = [
        AudioEncoding::LinearPcm,
        AudioEncoding::Mulaw,
        AudioEncoding::Alaw,
        AudioEncoding::Flac,
        AudioEncoding::Oggopus,
    ];
    SynthesizeSpeechRequest {
        text: format!("{} Hello.", words(&mut visit.dice)),
        encoding: visit.dice.of(&encodings).into(),
        sample_rate_hz: visit.dice.of(&[8_000, 16_000]),
        ..SynthesizeSpeechRequest::default()
    }
}

/// Outcome of a failed Riva call.
fn riva_failed(status: &tonic::Status) -> String {
    match omni_tests::reason(status).as_str() {
        "NOTHING_SPEAKABLE" => "nothing to say".to_owned(),
        _ => refused(status),
    }
}

/// One text, one answer.
pub(super) async fn riva_whole(visit: &mut Visit) -> String {
    let request = riva(visit);
    match RivaSpeechSynthesisClient::new(visit.channel())
        .synthesize(request)
        .await
    {
        Ok(answer) => {
            assert!(!answer.into_inner().audio.is_empty(), "empty audio");
            "answered".to_owned()
        }
        Err(status) => riva_failed(&status),
    }
}

/// Several texts, whose audio comes in their order.
pub(super) async fn riva_online(visit: &mut Visit) -> String {
    let count = 1 + visit.dice.below(5);
    let texts: Vec<_> = (0..count)
        .map(|n| SynthesizeSpeechRequest {
            id: Some(RequestId { value: n.to_string() }),
            ..riva(visit)
        })
        .collect();
    let answers = RivaSpeechSynthesisClient::new(visit.channel())
        .synthesize_online(tokio_stream::iter(texts))
        .await;
    let mut answers = match answers {
        Ok(answers) => answers.into_inner(),
        Err(status) => return riva_failed(&status),
    };
    let mut last = 0;
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                assert!(!answer.audio.is_empty(), "empty audio");
                let id = answer
                    .id
                    .expect("the request had one")
                    .value
                    .parse::<u64>()
                    .expect("a number");
                assert!((last..count).contains(&id), "audio of {id} after that of {last}");
                last = id;
            }
            Ok(None) => return "answered".to_owned(),
            Err(status) => return riva_failed(&status),
        }
    }
}

/// Makes a voice of a recording of up to 20 seconds, and deletes it again.
pub(super) async fn keeps_a_voice(visit: &mut Visit) -> String {
    let name = format!("soak{}", visit.dice.roll());
    let seconds = 2.0 + visit.dice.below(36) as f32 / 2.0;
    let recording = wav(&babble(seconds, 120.0));
    let fields: [(&str, &[u8]); 3] = [
        ("name", name.as_bytes()),
        ("consent", b"I agree that this voice is made."),
        ("audio_sample", &recording),
    ];
    let mut body = Vec::new();
    for (field, data) in fields {
        let head = format!("--edge\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--edge--\r\n");
    let address = visit.target.address;
    let headers = [("content-type", "multipart/form-data; boundary=edge")];
    let made = http_to(address, "POST", "/v1/audio/voices", &headers, body).await;
    if made.status == StatusCode::NOT_FOUND {
        return "the model has voices of its own only".to_owned();
    }
    if made.status != StatusCode::OK {
        return declined(&made);
    }
    let deleted = http_to(address, "DELETE", &format!("/v1/audio/voices/{name}"), &[], "").await;
    assert_eq!(deleted.status, StatusCode::OK);
    "made and deleted".to_owned()
}
