//! Answer of `POST /v1/chat/completions`: whole, or in chunks.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_session::{Outcome, ResponseDone};
use serde_json::{Value, json};

use super::calls::{Call, Piece};

/// Fields that all messages of an answer share.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    id: String,
    model: String,
    created: u64,
    spoken: bool,
    /// `true` once the name of its audio was sent: clients join the strings of chunks.
    named: bool,
    /// Number of function calls.
    calls: usize,
}

/// A whole answer.
#[derive(Debug, Default)]
pub(super) struct Whole {
    pub(super) text: String,
    pub(super) audio: Vec<u8>,
    calls: Vec<Call>,
}

impl Whole {
    /// Adds pieces.
    pub(super) fn add(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.text.push_str(&text),
                Piece::Call(call) => self.calls.push(call),
            }
        }
    }
}

impl Answer {
    /// Creates the answer of the session `id`.
    pub(super) fn new(id: &str, model: String, spoken: bool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: format!("chatcmpl-{id}"),
            model,
            created: now.as_secs(),
            spoken,
            named: false,
            calls: 0,
        }
    }

    fn audio_id(&self) -> String {
        format!("audio_{}", self.id)
    }

    /// The whole response. Spoken text is in the transcript, as of OpenAI.
    pub(super) fn whole(&self, whole: &Whole, done: &ResponseDone) -> Value {
        let mut message = json!({"role": "assistant", "content": whole.text, "refusal": null});
        if !whole.calls.is_empty() {
            if whole.text.is_empty() {
                message["content"] = Value::Null;
            }
            let calls = whole.calls.iter().enumerate();
            message["tool_calls"] = calls.map(|(index, call)| self.called(index, call)).collect();
        }
        // An answer that only calls functions has no audio.
        if self.spoken && (whole.calls.is_empty() || !whole.audio.is_empty()) {
            message["content"] = Value::Null;
            message["audio"] = json!({
                "id": self.audio_id(),
                "data": BASE64.encode(&whole.audio),
                // The audio is not kept.
                "expires_at": self.created,
                "transcript": whole.text,
            });
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason(done, whole.calls.len())}],
            "usage": usage(done),
        })
    }

    fn chunk(&self, delta: &Value, reason: Option<&str>) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}],
        })
    }

    /// The first chunk.
    pub(super) fn begin(&self) -> Value {
        self.chunk(
            &json!({"role": "assistant", "content": if self.spoken { Value::Null } else { json!("") }}),
            None,
        )
    }

    pub(super) fn text(&mut self, text: &str) -> Value {
        if self.spoken {
            self.heard(json!({"transcript": text}))
        } else {
            self.chunk(&json!({"content": text}), None)
        }
    }

    pub(super) fn audio(&mut self, data: &[u8]) -> Value {
        self.heard(json!({"data": BASE64.encode(data)}))
    }

    /// Chunk of a whole function call.
    pub(super) fn call(&mut self, call: &Call) -> Value {
        let index = self.calls;
        self.calls += 1;
        let mut called = self.called(index, call);
        called["index"] = json!(index);
        self.chunk(&json!({"tool_calls": [called]}), None)
    }

    fn called(&self, index: usize, call: &Call) -> Value {
        json!({
            "id": format!("call_{}_{index}", self.id),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        })
    }

    /// Chunk of audio; the first one has its id.
    fn heard(&mut self, mut audio: Value) -> Value {
        if !std::mem::replace(&mut self.named, true) {
            audio["id"] = json!(self.audio_id());
        }
        self.chunk(&json!({"audio": audio}), None)
    }

    /// Last chunk of the answer.
    pub(super) fn end(&self, done: &ResponseDone) -> Value {
        self.chunk(&json!({}), Some(reason(done, self.calls)))
    }

    /// Chunk with the usage.
    pub(super) fn used(&self, done: &ResponseDone) -> Value {
        let mut chunk = self.chunk(&json!({}), None);
        chunk["choices"] = json!([]);
        chunk["usage"] = usage(done);
        chunk
    }
}

fn reason(done: &ResponseDone, calls: usize) -> &'static str {
    match done.outcome {
        Outcome::Length | Outcome::Repetition => "length",
        _ if calls > 0 => "tool_calls",
        _ => "stop",
    }
}

fn usage(done: &ResponseDone) -> Value {
    let usage = done.usage;
    let prompt = usage.prompt_tokens + usage.prompt_audio;
    let completion = usage.reply_tokens + usage.frames;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"audio_tokens": usage.prompt_audio, "text_tokens": usage.prompt_tokens},
        "completion_tokens_details": {"audio_tokens": usage.frames, "text_tokens": usage.reply_tokens},
    })
}
