//! `POST /v1/audio/speech`.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::{Stream, StreamExt as _, stream};
use omni_audio::Samples;
use omni_config::Scope;
use omni_core::call::CallContext;
use omni_core::error::{ServeError, excerpt};
use omni_pipeline::orchestrator::StageError;
use omni_services::SpeechRequest;
use omni_services::delivery::OutputRequest;
use omni_services::settings::SamplingRequest;
use omni_services::voices::{Imitation, RECORDING_BYTES};
use omni_session::{Done, Event, EventBody, FIELD_IGNORED, Outcome, Session};
use serde::Deserialize;
use serde_json::{Value, json};

use super::OpenAi;
use super::error::ApiError;
use super::lean::{Seed, scalar};
use super::notes::Notes;
use super::request_body::BodyRules;
use super::sound::{AudioFormat, Voice, voice_name};
use super::voices::recording;

/// The rate of the samples that are sent, per second.
const SAMPLE_RATE: HeaderName = HeaderName::from_static("x-sample-rate");

/// Longest body, in bytes: far more than the text that is spoken.
const MAX_BODY: usize = 1 << 20;
/// Longest body where a recording may be in it, in base64.
const MAX_RECORDED: usize = RECORDING_BYTES / 3 * 4 + MAX_BODY;

/// Default format, as of OpenAI.
const DEFAULT_FORMAT: &str = "mp3";

/// Prefixes of fields in the service's messages, and their names here.
pub(super) const NAMES: [(&str, &str); 11] = [
    ("config.clone.transcript", "ref_text"),
    ("config.clone", "ref_audio"),
    ("config.model", "model"),
    ("config.voice", "voice"),
    ("config.language", "language"),
    ("config.speed", "speed"),
    ("config.style_instructions", "instructions"),
    ("config.non_streaming_mode", "non_streaming_mode"),
    ("config.output.format.sample_rate_hz", "sample_rate"),
    ("config.output.format", "response_format"),
    ("text", "input"),
];

/// Longest WAV file, in bytes, that is completed before it is sent.
pub(super) const MAX_WHOLE: usize = 4 << 20;

/// Body of OpenAI's clients; `language`, `sample_rate`, `seed` and `stream` are additions that others know too;
/// fields that begin with `ref_` or end with `_mode` are vLLM-Omni's.
#[derive(Debug, Deserialize)]
pub(super) struct SpeechBody {
    model: Option<String>,
    input: Option<String>,
    voice: Option<Voice>,
    instructions: Option<String>,
    response_format: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    sample_rate: Option<u32>,
    #[serde(default, deserialize_with = "scalar")]
    speed: Option<f64>,
    stream_format: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    stream: Option<bool>,
    language: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    seed: Option<Seed>,
    ref_audio: Option<String>,
    ref_text: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    x_vector_only_mode: Option<bool>,
    #[serde(default, deserialize_with = "scalar")]
    non_streaming_mode: Option<bool>,
}

/// Transport of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// The bytes themselves, as they are made.
    Audio,
    /// The bytes in one piece: the header before them has true sizes.
    Whole,
    /// Server-sent events with the bytes in base64.
    Events,
}

impl SpeechBody {
    /// Format and transport. A WAV header has the length, which is not known before the end: unless a stream is
    /// requested, the file is sent when it is complete.
    pub(super) fn sound(&self) -> Result<(AudioFormat, Carrier), ApiError> {
        let name = self.response_format.as_deref().unwrap_or(DEFAULT_FORMAT);
        let sound = AudioFormat::named(name, "response_format")?;
        let stream_format = self.stream_format.as_deref().map(str::to_ascii_lowercase);
        let carrier = match stream_format.as_deref() {
            Some("sse") => Carrier::Events,
            Some("audio") => Carrier::Audio,
            None if sound == AudioFormat::Wav && self.stream != Some(true) => Carrier::Whole,
            None => Carrier::Audio,
            Some(other) => {
                let problem = format!(
                    "unsupported stream_format '{}'; expected audio or sse",
                    excerpt(other)
                );
                return Err(ApiError::invalid(Some("stream_format"), problem));
            }
        };
        Ok((sound, carrier))
    }

    /// Request to the service, and the text if there is one.
    pub(super) fn request(self, sound: AudioFormat) -> Result<(SpeechRequest, Option<String>), ApiError> {
        let transcript = self.ref_text.unwrap_or_default();
        let alone = self.x_vector_only_mode.unwrap_or(transcript.trim().is_empty());
        if self.ref_audio.is_none() && !transcript.is_empty() {
            let problem = "ref_text needs ref_audio, the recording in which it is said";
            return Err(ApiError::invalid(Some("ref_text"), problem));
        }
        let clone = self.ref_audio.map(|audio| {
            Ok(Imitation {
                recording: recording(&audio)?,
                x_vector_only: alone,
                transcript,
            })
        });
        let output = sound.output().rendered(self.speed, None);
        let request = SpeechRequest {
            model: self.model.unwrap_or_default(),
            voice: self.voice.map(voice_name).unwrap_or_default(),
            language: self.language.unwrap_or_default(),
            output: OutputRequest {
                sample_rate_hz: self.sample_rate.unwrap_or(output.sample_rate_hz),
                ..output
            },
            style_instructions: self.instructions.unwrap_or_default(),
            non_streaming_mode: self.non_streaming_mode,
            clone: clone.transpose()?,
            sampling: SamplingRequest {
                seed: self.seed.map(|Seed(seed)| seed),
                ..SamplingRequest::default()
            },
            ..SpeechRequest::default()
        };
        Ok((request, self.input))
    }
}

pub(super) async fn create(
    State(openai): State<OpenAi>,
    head: Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = openai.allow(&head, Some(Scope::Speech))?;
    let ((speech, sound, carrier), mut notes) = openai.json(&head, body, rules(&openai), asked).await?;
    let slot = (carrier == Carrier::Whole)
        .then(|| openai.buffered.reserve())
        .transpose();
    let slot = slot.inspect_err(|error| openai.speech.records().refused(error));
    let slot = slot.map_err(|error| named(&error))?;
    let (mut request, text) = speech;
    request.output.whole = carrier == Carrier::Whole;
    let context = CallContext::from_headers(&head.headers);
    let opened = openai
        .speech
        .synthesize(context, caller, Ok(request), text, Session::whole)
        .await;
    // The session has read the body: it is no longer counted.
    drop(head);
    let (_, events) = opened.map_err(|error| named(&error))?;
    let mut events = events.map(|event| event.and_then(succeeded));
    // The first event decides the status of the answer: audio, or an error.
    let mut hz = None;
    let first = loop {
        match events.next().await.transpose().map_err(|error| named(&error))? {
            Some(event @ (EventBody::Audio(_) | EventBody::Done(_))) => break event,
            Some(event) => {
                if let EventBody::Ready(ready) = &event {
                    hz = Some(ready.settings.delivery.format.rate().hz());
                }
                note(&mut notes, &event);
            }
            None => return Err(named(&unended())),
        }
    };
    let events = stream::once(std::future::ready(Ok(first))).chain(events);
    let (kind, body) = match (carrier, slot) {
        (Carrier::Events, _) => ("text/event-stream", Body::from_stream(told(events))),
        (Carrier::Whole, Some(slot)) => {
            let body = match whole(sound, &mut notes, events).await? {
                Gathered::File(file) => Body::new(openai.buffered.wrap(Body::from(file), slot)),
                // Its session lasts as long, and has a timeout for its reader.
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
    if let Some(hz) = hz {
        headers.insert(SAMPLE_RATE, hz.into());
    }
    notes.tell(&mut response);
    Ok(response)
}

/// Request of a body with its text, and the form of the answer.
pub(super) fn asked(speech: SpeechBody) -> Result<((SpeechRequest, String), AudioFormat, Carrier), ApiError> {
    let (sound, carrier) = speech.sound()?;
    let (request, input) = speech.request(sound)?;
    let missing = || ApiError::invalid(Some("input"), "missing input; expected the text to speak");
    Ok(((request, input.ok_or_else(missing)?), sound, carrier))
}

/// Bounds of the body. Models that imitate no voices get no recordings, which are long.
pub(super) fn rules(openai: &OpenAi) -> BodyRules {
    let info = openai.speech.info();
    let imitates = info.is_ok_and(|info| info.voice_support.shape.is_some());
    BodyRules {
        longest: if imitates { MAX_RECORDED } else { MAX_BODY },
        silent: &[],
    }
}

fn note(notes: &mut Notes, event: &EventBody) {
    match event {
        EventBody::Ready(ready) => notes.ignored(&ready.settings.ignored, &NAMES),
        // Its field is named by the settings in force.
        EventBody::Warning {
            reason: FIELD_IGNORED,
            ..
        } => {}
        EventBody::Warning { reason, .. } => notes.warn(reason),
        _ => {}
    }
}

pub(super) fn named(error: &ServeError) -> ApiError {
    ApiError::new(error, &NAMES)
}

/// A failed utterance is a failed request here.
fn succeeded(event: Event) -> Result<EventBody, ServeError> {
    match event.body {
        EventBody::Done(done) => match (done.outcome, done.error) {
            (Outcome::Error, Some(error)) => Err(error),
            (_, error) => Ok(EventBody::Done(Box::new(Done { error, ..*done }))),
        },
        body => Ok(body),
    }
}

fn unended() -> ServeError {
    let stage = "session";
    let message = "the speech ended without an end".to_owned();
    StageError::Failed { stage, message }.into()
}

/// Audio that was to be one file.
enum Gathered {
    /// All of it.
    File(Vec<u8>),
    /// Longer than is gathered: the audio so far, and the rest as it comes.
    Stream(Body),
}

/// Audio with its true length in front. Audio longer than is gathered here continues as a stream.
async fn whole(
    sound: AudioFormat,
    notes: &mut Notes,
    mut events: impl Stream<Item = Result<EventBody, ServeError>> + Send + Unpin + 'static,
) -> Result<Gathered, ApiError> {
    let mut file = Vec::new();
    let mut samples = 0;
    while let Some(event) = events.next().await.transpose().map_err(|error| named(&error))? {
        match event {
            EventBody::Audio(audio) => {
                samples += audio.samples.0;
                file.extend_from_slice(&audio.data);
                if file.len() > MAX_WHOLE {
                    let begun = stream::once(std::future::ready(Ok(Bytes::from(file))));
                    return Ok(Gathered::Stream(Body::from_stream(begun.chain(bytes(events)))));
                }
            }
            EventBody::Done(_) => {
                sound.finish(&mut file, Samples(samples));
                return Ok(Gathered::File(file));
            }
            event => note(notes, &event),
        }
    }
    Err(named(&unended()))
}

/// The audio itself. A failure breaks the body off, so that it does not look like the end.
fn bytes(
    events: impl Stream<Item = Result<EventBody, ServeError>>,
) -> impl Stream<Item = Result<Bytes, ServeError>> {
    events.filter_map(|event| {
        let piece = match event {
            Ok(EventBody::Audio(audio)) => Some(Ok(audio.data)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        };
        std::future::ready(piece)
    })
}

/// The audio in events, and one at the end.
fn told(
    events: impl Stream<Item = Result<EventBody, ServeError>>,
) -> impl Stream<Item = Result<String, std::convert::Infallible>> {
    events.filter_map(|event| {
        let event = match event {
            Ok(EventBody::Audio(audio)) => {
                Some(json!({"type": "speech.audio.delta", "audio": BASE64.encode(&audio.data)}))
            }
            Ok(EventBody::Done(done)) => Some(json!({"type": "speech.audio.done", "usage": usage(&done)})),
            Ok(_) => None,
            Err(error) => Some(json!({"type": "speech.audio.error", "error": named(&error).json()})),
        };
        std::future::ready(event.map(|event| Ok(format!("data: {event}\n\n"))))
    })
}

fn usage(done: &Done) -> Value {
    let input = done.usage.text_tokens;
    let output = done.usage.frames;
    json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output})
}
