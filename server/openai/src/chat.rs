//! `POST /v1/chat/completions`.

use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::{Stream, StreamExt as _, stream};
use omni_audio::Samples;
use omni_config::Scope;
use omni_core::call::CallContext;
use omni_core::error::ServeError;
use omni_pipeline::orchestrator::StageError;
use omni_services::ChatRequest;
use omni_session::{ChatEvent, ChatEventBody, FIELD_IGNORED, Outcome, ResponseDone};
use serde_json::{Value, json};

use super::answer::{Answer, Whole};
use super::calls::{Calls, Piece};
use super::error::ApiError;
use super::notes::Notes;
use super::question::ChatBody;
use super::request_body::BodyRules;
use super::sound::AudioFormat;
use super::{OpenAi, body};

/// Longest body: some minutes of speech. Fields that only concern OpenAI's storage, billing or scheduling are not
/// named as ignored, nor names and types that clients write into messages and tools.
const RULES: BodyRules = BodyRules {
    longest: 16 << 20,
    silent: &[
        "messages",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "tool_choice",
        "tools",
        "user",
    ],
};
/// Longest audio of an answer that is sent whole, in bytes.
const MAX_WHOLE: usize = 8 << 20;

/// Prefixes of fields in the service's messages, and their names here.
const NAMES: [(&str, &str); 16] = [
    ("config.model", "model"),
    ("config.voice", "audio.voice"),
    ("config.output_audio.format", "audio.format"),
    ("config.text_sampling.temperature", "temperature"),
    ("config.text_sampling.top_p", "top_p"),
    ("config.text_sampling.top_k", "top_k"),
    ("config.text_sampling.repetition_penalty", "repetition_penalty"),
    ("config.text_sampling.min_p", "min_p"),
    ("config.text_sampling.presence_penalty", "presence_penalty"),
    ("config.text_sampling.frequency_penalty", "frequency_penalty"),
    ("config.text_sampling.max_tokens", "max_completion_tokens"),
    ("config.stop", "stop"),
    ("config.history", "messages"),
    ("message.parts.tool_", "messages"),
    ("message.parts.tool", "tools"),
    ("message", "messages"),
];
/// Names here of message parts that were left out.
const LEFT_OUT: [(&str, &str); 4] = [
    ("message.parts.image", "messages.image_url"),
    ("message.parts.video", "messages.video_url"),
    ("message.parts.file", "messages.file"),
    ("message.parts.audio", "messages.input_audio"),
];

pub(super) async fn create(
    State(openai): State<OpenAi>,
    head: Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = openai.allow(&head, Some(Scope::Chat))?;
    let strict = openai.sites.strict;
    let asked = move |question| Asked::of(question, strict);
    let (asked, mut notes) = openai.json(&head, body, RULES, asked).await?;
    let Asked {
        sound,
        streams,
        wants_usage,
        question,
        ignored,
        most_calls,
    } = asked;
    notes.dropped(ignored);
    let slot = (!streams).then(|| openai.buffered.reserve()).transpose();
    let slot = slot.inspect_err(|error| openai.chat.records().refused(error));
    let slot = slot.map_err(|error| named(&error))?;
    let context = CallContext::from_headers(&head.headers);
    let opened = openai.chat.generate(context, caller, Ok(question)).await;
    // The session has read the body: it is no longer counted.
    drop(head);
    let (model, events) = opened.map_err(|error| named(&error))?;
    let mut events = events.map(|event| event.and_then(succeeded));
    let mut session = String::new();
    // The first event decides the status of the answer: text, audio, or an error.
    let first = loop {
        match events.next().await.transpose().map_err(|error| named(&error))? {
            Some(event @ (ChatEventBody::Text(_) | ChatEventBody::Audio(_) | ChatEventBody::Done(_))) => {
                break event;
            }
            Some(event) => {
                note(&mut notes, &event);
                if let ChatEventBody::Ready(ready) = &event {
                    session = ready.session.to_string();
                }
            }
            None => return Err(named(&unended())),
        }
    };
    let answer = Answer::new(&session, model.speech.id.clone(), sound.is_some());
    let calls = most_calls.map(Calls::new);
    let events = stream::once(std::future::ready(Ok(first))).chain(events);
    if let Some(slot) = slot {
        let mut answer = whole(&answer, sound, calls, &mut notes, events).await?;
        notes.tell(&mut answer);
        return Ok(answer.map(|body| Body::new(openai.buffered.wrap(body, slot))));
    }
    let mut response = Response::new(Body::from_stream(chunks(answer, calls, wants_usage, events)));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    notes.tell(&mut response);
    Ok(response)
}

/// Request for an answer, and the form of the answer.
struct Asked {
    sound: Option<AudioFormat>,
    streams: bool,
    wants_usage: bool,
    question: ChatRequest,
    /// Ignored fields.
    ignored: Vec<&'static str>,
    /// Most function calls of the answer, if it is offered any.
    most_calls: Option<usize>,
}

impl Asked {
    fn of(question: ChatBody, strict: bool) -> Result<Self, ApiError> {
        let sound = question.sound()?;
        let streams = question.streams();
        let wants_usage = question.wants_usage();
        if streams && sound.is_some_and(|sound| sound != AudioFormat::Pcm) {
            let problem =
                "audio.format cannot be streamed in pieces of JSON; expected pcm16 where stream is true";
            return Err(ApiError::invalid(Some("audio.format"), problem));
        }
        let ignored = question.ignored(strict)?;
        let most_calls = question.most_calls();
        Ok(Self {
            sound,
            streams,
            wants_usage,
            question: question.request(sound)?,
            ignored,
            most_calls,
        })
    }
}

fn note(notes: &mut Notes, event: &ChatEventBody) {
    match event {
        ChatEventBody::Ready(ready) => {
            let names = [LEFT_OUT.as_slice(), &NAMES].concat();
            notes.ignored(&ready.settings.speech.ignored, &names);
        }
        // Its field is named by the settings in force.
        ChatEventBody::Warning {
            reason: FIELD_IGNORED,
            ..
        } => {}
        ChatEventBody::Warning { reason, .. } => notes.warn(reason),
        _ => {}
    }
}

fn named(error: &ServeError) -> ApiError {
    ApiError::new(error, &NAMES)
}

/// A failed answer is a failed request here.
fn succeeded(event: ChatEvent) -> Result<ChatEventBody, ServeError> {
    match event.body {
        ChatEventBody::Done(done) => match (done.outcome, done.error) {
            (Outcome::Error, Some(error)) => Err(error),
            (_, error) => Ok(ChatEventBody::Done(Box::new(ResponseDone { error, ..*done }))),
        },
        body => Ok(body),
    }
}

fn unended() -> ServeError {
    let stage = "session";
    let message = "the answer ended without an end".to_owned();
    StageError::Failed { stage, message }.into()
}

async fn whole(
    answer: &Answer,
    sound: Option<AudioFormat>,
    mut calls: Option<Calls>,
    notes: &mut Notes,
    mut events: impl Stream<Item = Result<ChatEventBody, ServeError>> + Unpin,
) -> Result<Response, ApiError> {
    let mut whole = Whole::default();
    let mut samples = 0;
    while let Some(event) = events.next().await.transpose().map_err(|error| named(&error))? {
        match event {
            ChatEventBody::Text(text) => whole.add(pieces(&mut calls, text)),
            ChatEventBody::Audio(chunk) => {
                samples += chunk.samples.0;
                whole.audio.extend_from_slice(&chunk.data);
                if whole.audio.len() > MAX_WHOLE {
                    let problem = format!(
                        "the answer's audio is longer than {MAX_WHOLE} bytes, stream sends it as it is made"
                    );
                    return Err(ApiError::invalid(Some("stream"), problem));
                }
            }
            ChatEventBody::Done(done) => {
                whole.add(calls.as_mut().map_or_else(Vec::new, Calls::finish));
                if let Some(sound) = sound {
                    sound.finish(&mut whole.audio, Samples(samples));
                }
                return Ok(body(&answer.whole(&whole, &done)));
            }
            event => note(notes, &event),
        }
    }
    Err(named(&unended()))
}

/// Splits text into plain text and function calls.
fn pieces(calls: &mut Option<Calls>, text: String) -> Vec<Piece> {
    match calls {
        Some(calls) => calls.push(&text),
        None => vec![Piece::Text(text)],
    }
}

fn chunks(
    mut answer: Answer,
    mut calls: Option<Calls>,
    wants_usage: bool,
    events: impl Stream<Item = Result<ChatEventBody, ServeError>>,
) -> impl Stream<Item = Result<String, std::convert::Infallible>> {
    let begin = stream::once(std::future::ready(line(&answer.begin())));
    let rest = events.flat_map(move |event| {
        let mut told = |pieces: Vec<Piece>| -> Vec<String> {
            let chunks = pieces.into_iter().map(|piece| match piece {
                Piece::Text(text) => answer.text(&text),
                Piece::Call(call) => answer.call(&call),
            });
            chunks.map(|chunk| line(&chunk)).collect()
        };
        let lines = match event {
            Ok(ChatEventBody::Text(text)) => told(pieces(&mut calls, text)),
            Ok(ChatEventBody::Audio(audio)) => vec![line(&answer.audio(&audio.data))],
            Ok(ChatEventBody::Done(done)) => {
                let mut lines = told(calls.as_mut().map_or_else(Vec::new, Calls::finish));
                lines.push(line(&answer.end(&done)));
                lines.extend(wants_usage.then(|| line(&answer.used(&done))));
                lines.push("data: [DONE]\n\n".to_owned());
                lines
            }
            Ok(_) => Vec::new(),
            Err(error) => vec![line(&json!({"error": named(&error).json()}))],
        };
        stream::iter(lines)
    });
    begin.chain(rest).map(Ok)
}

fn line(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}
