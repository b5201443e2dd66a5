//! One response: events of an answer become items and the events about them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_session::{AudioOut, Outcome};
use serde_json::{Value, json};

use super::conversation::Conversation;
use super::ids::Ids;
use super::items::Item;
use super::session::noted;
use super::settings::Settings;
use super::told::ToldEvents;
use crate::calls::{Call, Calls, Piece};
use crate::error::ApiError;

/// Most function calls of one answer.
const CALLS: usize = 128;

/// Destination of a response: the conversation, and events for the client.
pub(super) struct Writing<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) ids: &'a mut Ids,
    pub(super) out: &'a mut ToldEvents,
}

/// End of a response.
pub(super) struct ResponseEnd {
    pub(super) outcome: Outcome,
    pub(super) error: Option<ApiError>,
    /// The rest of its text after an interruption.
    pub(super) kept: Option<String>,
    /// Playing time of its audio that was heard, if the client has reported it.
    pub(super) heard_ms: Option<u64>,
    pub(super) usage: Value,
}

impl ResponseEnd {
    pub(super) fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            error: None,
            kept: None,
            heard_ms: None,
            usage: Value::Null,
        }
    }

    pub(super) fn failed(error: ApiError) -> Self {
        Self {
            error: Some(error),
            ..Self::of(Outcome::Error)
        }
    }

    pub(super) fn interrupted(kept: String) -> Self {
        Self {
            kept: Some(kept),
            ..Self::of(Outcome::Interrupted)
        }
    }

    /// Returns true if the response was not cut short.
    pub(super) fn is_whole(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Stop | Outcome::Length | Outcome::Repetition
        )
    }
}

/// A response that is requested or in progress.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) id: String,
    /// `true` if its items are added to the conversation.
    pub(super) keeps: bool,
    /// `true` once clients were told of it.
    begun: bool,
    metadata: Option<BTreeMap<String, String>>,
    spoken: bool,
    /// Samples of audio per second.
    hz: u32,
    modalities: Value,
    sound: Value,
    most_tokens: Value,
    /// Finished items, by their index.
    output: Vec<Value>,
    message: Option<Message>,
    calls: Option<Calls>,
    /// Ignored settings of it.
    ignored: Vec<String>,
    /// Reasons of warnings about its speech.
    warnings: Vec<String>,
    /// Reason of its cancellation, as clients are told.
    pub(super) cancelled: Option<&'static str>,
}

/// The message of a response.
#[derive(Debug)]
struct Message {
    id: String,
    index: usize,
    text: String,
    samples: u64,
}

impl Response {
    pub(super) fn new(
        id: String,
        settings: &Settings,
        keeps: bool,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Self {
        let offers = settings.offered().next().is_some();
        Self {
            id,
            keeps,
            begun: false,
            metadata,
            spoken: settings.spoken,
            hz: settings.output.hz(),
            modalities: settings.modalities(),
            sound: settings.sound(),
            most_tokens: settings.most_tokens(),
            output: Vec::new(),
            message: None,
            calls: offers.then(|| Calls::new(CALLS)),
            ignored: Vec::new(),
            warnings: Vec::new(),
            cancelled: None,
        }
    }

    /// Sets the ignored settings, which its client is told.
    pub(super) fn ignoring(self, ignored: Vec<String>) -> Self {
        Self { ignored, ..self }
    }

    /// Adds a warning. Each reason is reported once.
    pub(super) fn warn(&mut self, reason: &str) {
        if self.warnings.iter().all(|known| known != reason) {
            self.warnings.push(reason.to_owned());
        }
    }

    /// Id of its message, once that has begun.
    pub(super) fn item(&self) -> Option<&str> {
        self.message.as_ref().map(|message| message.id.as_str())
    }

    /// Playing time of the audio so far, in milliseconds.
    pub(super) fn spoken_ms(&self) -> Option<u64> {
        let message = self.message.as_ref().filter(|_| self.spoken)?;
        // Clients round, too.
        Some((message.samples * 1_000).div_ceil(u64::from(self.hz)))
    }

    /// Number of samples in so many milliseconds.
    pub(super) fn samples(&self, ms: u64) -> u64 {
        ms.saturating_mul(u64::from(self.hz)) / 1_000
    }

    fn json(&self, conversation: &Conversation, status: &str, details: &Value, usage: &Value) -> Value {
        json!({
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": self.output,
            "conversation_id": self.keeps.then_some(&conversation.id),
            "output_modalities": self.modalities,
            "max_output_tokens": self.most_tokens,
            "audio": {"output": self.sound},
            "usage": usage,
            "metadata": self.metadata,
        })
    }

    /// Reports its beginning.
    pub(super) fn begin(&mut self, to: &mut Writing<'_>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let response = self.json(to.conversation, "in_progress", &Value::Null, &Value::Null);
        to.out
            .push(json!({"type": "response.created", "response": response}));
        noted(to.out.last_mut(), "ignored", &self.ignored);
    }

    /// Adds text.
    pub(super) fn text(&mut self, text: String, to: &mut Writing<'_>) {
        let pieces = match &mut self.calls {
            Some(calls) => calls.push(&text),
            None => vec![Piece::Text(text)],
        };
        self.pieces(pieces, to);
    }

    fn pieces(&mut self, pieces: Vec<Piece>, to: &mut Writing<'_>) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.words(&text, to),
                Piece::Call(call) => self.call(&call, to),
            }
        }
    }

    fn words(&mut self, text: &str, to: &mut Writing<'_>) {
        let kind = if self.spoken {
            "response.output_audio_transcript.delta"
        } else {
            "response.output_text.delta"
        };
        let message = self.message(to);
        message.text.push_str(text);
        let item = message.id.clone();
        let index = message.index;
        to.out.push(json!({
            "type": kind, "response_id": self.id, "item_id": item, "output_index": index, "content_index": 0, "delta": text,
        }));
    }

    /// Adds audio.
    pub(super) fn audio(&mut self, audio: &AudioOut, to: &mut Writing<'_>) {
        let message = self.message(to);
        message.samples += audio.samples.0;
        let item = message.id.clone();
        let index = message.index;
        let event = json!({
            "type": "response.output_audio.delta", "response_id": self.id, "item_id": item, "output_index": index,
            "content_index": 0, "delta": BASE64.encode(&audio.data),
        });
        to.out.push_audio(event, audio.time);
    }

    /// Returns the message, which begins with its first text or audio.
    fn message(&mut self, to: &mut Writing<'_>) -> &mut Message {
        let message = match self.message.take() {
            Some(message) => message,
            None => self.begin_message(to),
        };
        self.message.insert(message)
    }

    fn begin_message(&mut self, to: &mut Writing<'_>) -> Message {
        let item = Item::answer(to.ids.item());
        let id = item.id.clone();
        let index = self.output.len();
        self.output.push(Value::Null);
        self.added(item, index, to);
        let part = if self.spoken {
            json!({"type": "audio", "transcript": ""})
        } else {
            json!({"type": "text", "text": ""})
        };
        to.out.push(json!({
            "type": "response.content_part.added", "response_id": self.id, "item_id": id, "output_index": index,
            "content_index": 0, "part": part,
        }));
        Message {
            id,
            index,
            text: String::new(),
            samples: 0,
        }
    }

    fn added(&self, item: Item, index: usize, to: &mut Writing<'_>) {
        let told = item.begun();
        to.out.push(json!({
            "type": "response.output_item.added", "response_id": self.id, "output_index": index, "item": told,
        }));
        if self.keeps
            && let Ok(previous) = to.conversation.insert(item, None)
        {
            to.out.push(json!({
                "type": "conversation.item.added", "previous_item_id": previous, "item": told,
            }));
        }
    }

    fn done_item(
        &mut self,
        told: &Value,
        index: usize,
        previous: Option<Option<String>>,
        to: &mut Writing<'_>,
    ) {
        to.out.push(json!({
            "type": "response.output_item.done", "response_id": self.id, "output_index": index, "item": told,
        }));
        if let Some(previous) = previous {
            to.out.push(json!({
                "type": "conversation.item.done", "previous_item_id": previous, "item": told,
            }));
        }
        if let Some(place) = self.output.get_mut(index) {
            *place = told.clone();
        }
    }

    /// Adds a function call.
    fn call(&mut self, call: &Call, to: &mut Writing<'_>) {
        let id = to.ids.item();
        let call_id = to.ids.call();
        let item = Item::asked(id.clone(), &call_id, &call.name, &call.arguments);
        let told = item.told.clone();
        let index = self.output.len();
        self.output.push(Value::Null);
        self.added(item, index, to);
        let place = json!({
            "response_id": self.id, "item_id": id, "output_index": index, "call_id": call_id,
        });
        let mut delta = place.clone();
        delta["type"] = json!("response.function_call_arguments.delta");
        delta["delta"] = json!(call.arguments);
        let mut done = place;
        done["type"] = json!("response.function_call_arguments.done");
        done["name"] = json!(call.name);
        done["arguments"] = json!(call.arguments);
        to.out.extend([delta, done]);
        let previous = self
            .keeps
            .then(|| to.conversation.change(&id, |_| {}))
            .flatten()
            .map(|(_, previous)| previous);
        self.done_item(&told, index, previous, to);
    }

    /// Reports its end. Returns the id of its message, if there was one.
    pub(super) fn end(&mut self, end: &ResponseEnd, to: &mut Writing<'_>) -> Option<String> {
        self.begin(to);
        if let Some(mut calls) = self.calls.take() {
            let pieces = match end.outcome {
                Outcome::Stop => calls.finish(),
                Outcome::Length | Outcome::Repetition => calls.cut().map(Piece::Call).into_iter().collect(),
                Outcome::Interrupted | Outcome::Error | Outcome::Aborted => Vec::new(),
            };
            self.pieces(pieces, to);
        }
        let (status, details) = self.status(end);
        let message = self.end_message(end, status, to);
        self.output.retain(|item| !item.is_null());
        let response = self.json(to.conversation, status, &details, &end.usage);
        to.out
            .push(json!({"type": "response.done", "response": response}));
        noted(to.out.last_mut(), "warnings", &self.warnings);
        message
    }

    fn status(&self, end: &ResponseEnd) -> (&'static str, Value) {
        match (end.outcome, &end.error) {
            (Outcome::Interrupted, _) => {
                let reason = self.cancelled.unwrap_or("client_cancelled");
                ("cancelled", json!({"type": "cancelled", "reason": reason}))
            }
            (Outcome::Length | Outcome::Repetition, _) => (
                "incomplete",
                json!({"type": "incomplete", "reason": "max_output_tokens"}),
            ),
            (Outcome::Error | Outcome::Aborted, error) => {
                let error = error.as_ref().map(ApiError::json);
                ("failed", json!({"type": "failed", "error": error}))
            }
            (Outcome::Stop, _) => ("completed", Value::Null),
        }
    }

    fn end_message(&mut self, end: &ResponseEnd, status: &str, to: &mut Writing<'_>) -> Option<String> {
        let spoken_ms = self
            .spoken_ms()
            .map(|all| end.heard_ms.map_or(all, |heard| heard.min(all)));
        let message = self.message.take()?;
        let text = end.kept.clone().unwrap_or(message.text);
        let place = json!({
            "response_id": self.id, "item_id": message.id, "output_index": message.index, "content_index": 0,
        });
        let event = |kind: &str, more: Value| {
            let mut event = place.clone();
            event["type"] = json!(kind);
            if let (Some(event), Some(more)) = (event.as_object_mut(), more.as_object()) {
                event.extend(more.clone());
            }
            event
        };
        to.out.extend(if self.spoken {
            vec![
                event("response.output_audio.done", json!({})),
                event(
                    "response.output_audio_transcript.done",
                    json!({"transcript": text}),
                ),
                event(
                    "response.content_part.done",
                    json!({"part": {"type": "audio", "transcript": text}}),
                ),
            ]
        } else {
            vec![
                event("response.output_text.done", json!({"text": text})),
                event(
                    "response.content_part.done",
                    json!({"part": {"type": "text", "text": text}}),
                ),
            ]
        });
        let status = if status == "completed" {
            status
        } else {
            "incomplete"
        };
        let mut alone = Item::answer(message.id.clone());
        alone.finish(&text, spoken_ms, status);
        let changed = self.keeps.then(|| {
            to.conversation
                .change(&message.id, |item| item.finish(&text, spoken_ms, status))
        });
        let previous = changed.flatten().map(|(_, previous)| previous);
        self.done_item(&alone.told, message.index, previous, to);
        Some(message.id)
    }
}

/// Text of an answer that was cut short, without calls and their beginnings.
pub(super) fn visible(written: &str) -> String {
    let pieces = Calls::new(0).push(written);
    let texts = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::Call(_) => None,
    });
    texts.collect()
}
