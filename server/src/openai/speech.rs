//! `POST /v1/audio/speech`.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::{Stream, StreamExt as _, stream};
use omni_audio::Samples;
use omni_proto::v1;
use omni_proto::v1::speech_service_server::SpeechService as _;
use omni_proto::v1::synthesize_response::Event;
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::Status;

use super::error::ApiError;
use super::notes::Notes;
use super::sound::{Sound, Voice, voice_name};
use super::{OpenAi, request};
use crate::config::Scope;
use crate::grpc::status;

/// Longest body, in bytes: far more than the text that is spoken.
const MAX_BODY: usize = 1 << 20;

/// What clients get unless they say otherwise, as from OpenAI.
const DEFAULT_FORMAT: &str = "mp3";

/// How fields of the service's messages begin, and what they are called here.
const NAMES: [(&str, &str); 7] = [
    ("config.model", "model"),
    ("config.voice", "voice"),
    ("config.language", "language"),
    ("config.speed", "speed"),
    ("config.style_instructions", "instructions"),
    ("config.output.format", "response_format"),
    ("text", "input"),
];

/// Longest WAV file, in bytes, that is finished before it is sent.
const MAX_WHOLE: usize = 4 << 20;

/// What OpenAI's clients send; `language`, `seed` and `stream` are additions that others know too.
#[derive(Debug, Deserialize)]
pub(super) struct Speech {
    model: Option<String>,
    input: String,
    voice: Option<Voice>,
    instructions: Option<String>,
    response_format: Option<String>,
    speed: Option<f64>,
    stream_format: Option<String>,
    stream: Option<bool>,
    language: Option<String>,
    seed: Option<u64>,
}

/// How audio is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// The bytes themselves, as they are made.
    Audio,
    /// The bytes themselves, when there are no more: a header before them has true sizes.
    Whole,
    /// Server-sent events with the bytes in base64.
    Events,
}

impl Speech {
    /// The format, and how it is sent. WAV says in front how long it is, which nothing knows before the end: unless a stream
    /// is asked for, it is sent when it is complete.
    pub(super) fn sound(&self) -> Result<(Sound, Carrier), ApiError> {
        let name = self.response_format.as_deref().unwrap_or(DEFAULT_FORMAT);
        let sound = Sound::named(name, "response_format")?;
        let carrier = match self.stream_format.as_deref() {
            Some("sse") => Carrier::Events,
            Some("audio") => Carrier::Audio,
            None if sound == Sound::Wav && self.stream != Some(true) => Carrier::Whole,
            None => Carrier::Audio,
            Some(_) => {
                let problem = "stream_format is unknown, expected audio or sse";
                return Err(ApiError::invalid(Some("stream_format"), problem));
            }
        };
        Ok((sound, carrier))
    }

    pub(super) fn request(self, sound: Sound) -> v1::SynthesizeRequest {
        v1::SynthesizeRequest {
            config: Some(v1::SpeechConfig {
                model: self.model.unwrap_or_default(),
                voice: self.voice.map(voice_name).unwrap_or_default(),
                language: self.language.unwrap_or_default(),
                output: Some(sound.delivery()),
                speed: self.speed,
                style_instructions: self.instructions.unwrap_or_default(),
                sampling: Some(v1::SamplingParams {
                    seed: self.seed,
                    ..v1::SamplingParams::default()
                }),
                ..v1::SpeechConfig::default()
            }),
            text: self.input,
        }
    }
}

pub(super) async fn create(
    State(openai): State<OpenAi>,
    head: Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = openai.allow(&head, Some(Scope::Speech))?;
    let asked = |speech: Speech| {
        let (sound, carrier) = speech.sound()?;
        Ok((speech.request(sound), sound, carrier))
    };
    let (speech, sound, carrier) = openai.json(&head, body, MAX_BODY, asked).await?;
    let place = (carrier == Carrier::Whole)
        .then(|| openai.parcels.reserve())
        .transpose();
    let place = place.inspect_err(|error| openai.chat.records().refused(error));
    let place = place.map_err(|error| named(&status(&error)))?;
    let Parts {
        headers, extensions, ..
    } = head;
    let answer = openai.speech.synthesize(request(caller, headers, speech)).await;
    // The session has what there was to read.
    drop(extensions);
    let mut events = answer.map_err(|status| named(&status))?.into_inner();
    // The status of the answer is decided by what comes first: sound, or why there is none.
    let mut notes = Notes::default();
    let first = loop {
        match events.next().await.transpose().map_err(|status| named(&status))? {
            Some(v1::SynthesizeResponse {
                event: Some(event @ (Event::Audio(_) | Event::Done(_))),
            }) => break event,
            Some(v1::SynthesizeResponse {
                event: Some(Event::Warning(warning)),
            }) => notes.add(&warning, &NAMES),
            Some(_) => {}
            None => return Err(named(&Status::internal("the speech ended without an end"))),
        }
    };
    let rest = events.map(|event| event.map(|event| event.event));
    let events = stream::once(std::future::ready(Ok(Some(first)))).chain(rest);
    let (kind, body) = match (carrier, place) {
        (Carrier::Events, _) => ("text/event-stream", Body::from_stream(told(events))),
        (Carrier::Whole, Some(place)) => {
            let body = match whole(sound, &mut notes, events).await? {
                Gathered::File(file) => Body::new(openai.parcels.wrap(Body::from(file), place)),
                // A session is behind it as long as it lasts, and judges its reader.
                Gathered::Stream(body) => body,
            };
            (sound.content_type(), body)
        }
        (Carrier::Audio | Carrier::Whole, _) => (sound.content_type(), Body::from_stream(bytes(events))),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    notes.tell(&mut response);
    Ok(response)
}

fn named(status: &Status) -> ApiError {
    ApiError::new(status, &NAMES)
}

/// Audio that was to be answered as one file.
enum Gathered {
    /// All of it.
    File(Vec<u8>),
    /// Longer than is gathered: what there is of it, and what comes.
    Stream(Body),
}

/// The audio with its true length in front. What is longer than is gathered here begins like a stream, and goes on as one.
async fn whole(
    sound: Sound,
    notes: &mut Notes,
    mut events: impl Stream<Item = Result<Option<Event>, Status>> + Send + Unpin + 'static,
) -> Result<Gathered, ApiError> {
    let (mut file, mut samples) = (Vec::new(), 0);
    while let Some(event) = events.next().await.transpose().map_err(|status| named(&status))? {
        match event {
            Some(Event::Audio(audio)) => {
                samples += u64::from(audio.sample_count);
                file.extend_from_slice(&audio.data);
                if file.len() > MAX_WHOLE {
                    let begun = stream::once(std::future::ready(Ok(Bytes::from(file))));
                    return Ok(Gathered::Stream(Body::from_stream(begun.chain(bytes(events)))));
                }
            }
            Some(Event::Warning(warning)) => notes.add(&warning, &NAMES),
            Some(Event::Done(_)) => {
                sound.finish(&mut file, Samples(samples));
                return Ok(Gathered::File(file));
            }
            _ => {}
        }
    }
    Err(named(&Status::internal("the speech ended without an end")))
}

/// The audio itself. A failure breaks the body off, so that it does not look like the end.
fn bytes(
    events: impl Stream<Item = Result<Option<Event>, Status>>,
) -> impl Stream<Item = Result<Bytes, Status>> {
    events.filter_map(|event| {
        let piece = match event {
            Ok(Some(Event::Audio(audio))) => Some(Ok(audio.data)),
            Ok(_) => None,
            Err(status) => Some(Err(status)),
        };
        std::future::ready(piece)
    })
}

/// The audio in events, and one at the end.
fn told(
    events: impl Stream<Item = Result<Option<Event>, Status>>,
) -> impl Stream<Item = Result<String, std::convert::Infallible>> {
    events.filter_map(|event| {
        let event = match event {
            Ok(Some(Event::Audio(audio))) => {
                Some(json!({"type": "speech.audio.delta", "audio": BASE64.encode(&audio.data)}))
            }
            Ok(Some(Event::Done(done))) => Some(json!({"type": "speech.audio.done", "usage": usage(&done)})),
            Ok(_) => None,
            Err(status) => Some(json!({"type": "speech.audio.error", "error": named(&status).json()})),
        };
        std::future::ready(event.map(|event| Ok(format!("data: {event}\n\n"))))
    })
}

fn usage(done: &v1::UtteranceDone) -> Value {
    let usage = done
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.usage)
        .unwrap_or_default();
    let (input, output) = (usage.input_text_tokens, usage.output_audio_tokens);
    json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output})
}
