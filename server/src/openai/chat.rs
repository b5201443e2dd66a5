//! `POST /v1/chat/completions`.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures::{Stream, StreamExt as _, stream};
use omni_audio::{SampleRate, Samples, WAV_HEADER_LEN, WavHeader};
use omni_proto::v1::chat_service_server::ChatService as _;
use omni_proto::v1::generate_response::Event;
use serde_json::{Value, json};
use tonic::Status;

use super::answer::{Answer, Whole};
use super::error::ApiError;
use super::question::Question;
use super::sound::Sound;
use super::{OpenAi, json, listing, request};
use crate::config::Scope;

/// Fields of the service's messages, and what they are called here.
const NAMES: [(&str, &str); 12] = [
    ("config.model", "model"),
    ("config.voice", "audio.voice"),
    ("config.output_audio.format.encoding", "audio.format"),
    ("config.text_sampling.temperature", "temperature"),
    ("config.text_sampling.top_p", "top_p"),
    ("config.text_sampling.top_k", "top_k"),
    ("config.text_sampling.repetition_penalty", "repetition_penalty"),
    ("config.text_sampling.max_tokens", "max_completion_tokens"),
    ("config.stop", "stop"),
    ("message.role", "messages"),
    ("message.parts", "messages"),
    ("message.parts.text", "messages"),
];

pub(super) async fn create(
    State(openai): State<OpenAi>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    openai.allow(&headers, Some(Scope::Chat))?;
    let question: Question = json(&headers, body)?;
    let (sound, streams, wants_usage) = (question.sound()?, question.stream, question.wants_usage());
    if streams && sound.is_some_and(|sound| sound != Sound::Pcm) {
        let problem =
            "audio.format cannot be streamed in pieces of JSON, expected pcm16 where stream is true";
        return Err(ApiError::invalid(Some("audio.format"), problem));
    }
    let model = question.model.clone();
    let answer = openai.chat.generate(request(headers, question.request()?)).await;
    let mut events = answer.map_err(|status| named(&status))?.into_inner();
    let ready = events.next().await.transpose().map_err(|status| named(&status))?;
    let Some(Event::Ready(ready)) = ready.and_then(|event| event.event) else {
        return Err(named(&Status::internal("the answer does not begin with ready")));
    };
    let answer = Answer::new(&ready.session_id, model, sound.is_some());
    let mut events = events.map(|event| event.map(|event| event.event));
    if !streams {
        return whole(&answer, sound, events).await;
    }
    // The status of the answer is decided by what comes first: words, or why there are none.
    let first = events.next().await.transpose().map_err(|status| named(&status))?;
    let events = stream::once(std::future::ready(Ok(first.flatten()))).chain(events);
    let mut response = Response::new(Body::from_stream(chunks(answer, wants_usage, events)));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn named(status: &Status) -> ApiError {
    ApiError::new(status, &NAMES)
}

async fn whole(
    answer: &Answer,
    sound: Option<Sound>,
    mut events: impl Stream<Item = Result<Option<Event>, Status>> + Unpin,
) -> Result<Response, ApiError> {
    let mut whole = Whole::default();
    let mut samples = 0;
    while let Some(event) = events.next().await.transpose().map_err(|status| named(&status))? {
        match event {
            Some(Event::Text(delta)) => whole.text.push_str(&delta.text),
            Some(Event::Audio(chunk)) => {
                samples += u64::from(chunk.sample_count);
                whole.audio.extend_from_slice(&chunk.data);
            }
            Some(Event::Done(done)) => {
                if sound == Some(Sound::Wav) {
                    finish_wav(&mut whole.audio, Samples(samples));
                }
                return Ok(listing::body(&answer.whole(&whole, &done)));
            }
            _ => {}
        }
    }
    Err(named(&Status::internal("the answer ended without an end")))
}

/// Puts the sizes into a WAV file that began before they were known.
fn finish_wav(file: &mut [u8], samples: Samples) {
    let Some(header) = file.first_chunk_mut::<WAV_HEADER_LEN>() else {
        return;
    };
    let rate = u32::from_le_bytes([header[24], header[25], header[26], header[27]]);
    if let Ok(rate) = SampleRate::new(rate) {
        *header = WavHeader::mono(rate).finished(samples);
    }
}

/// What `chunks` has said so far.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Something,
}

fn chunks(
    answer: Answer,
    wants_usage: bool,
    events: impl Stream<Item = Result<Option<Event>, Status>>,
) -> impl Stream<Item = Result<String, std::convert::Infallible>> {
    let mut said = Said::Nothing;
    let told = events.map(move |event| {
        let mut chunks: Vec<Value> = Vec::new();
        if std::mem::replace(&mut said, Said::Something) == Said::Nothing {
            chunks.push(answer.begin());
        }
        match event {
            Ok(Some(Event::Text(delta))) => chunks.push(answer.text(&delta.text)),
            Ok(Some(Event::Audio(audio))) => chunks.push(answer.audio(&audio.data)),
            Ok(Some(Event::Done(done))) => {
                chunks.push(answer.end(&done));
                chunks.extend(wants_usage.then(|| answer.used(&done)));
                chunks.push(json!("[DONE]"));
            }
            Ok(_) => {}
            Err(status) => chunks.push(json!({"error": named(&status).json()})),
        }
        let line = |chunk: &Value| match chunk.as_str() {
            Some(word) => format!("data: {word}\n\n"),
            None => format!("data: {chunk}\n\n"),
        };
        Ok(chunks.iter().map(line).collect())
    });
    told.filter(|line: &Result<String, _>| {
        std::future::ready(line.as_ref().is_ok_and(|line| !line.is_empty()))
    })
}
