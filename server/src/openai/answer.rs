//! An answer as `POST /v1/chat/completions` gives it: whole, or in chunks.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use omni_proto::v1;
use serde_json::{Value, json};

/// What all messages of an answer say of it.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    id: String,
    model: String,
    created: u64,
    spoken: bool,
}

/// The whole of an answer.
#[derive(Debug, Default)]
pub(super) struct Whole {
    pub(super) text: String,
    pub(super) audio: Vec<u8>,
}

impl Answer {
    /// Of the session called `id`.
    pub(super) fn new(id: &str, model: String, spoken: bool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: format!("chatcmpl-{id}"),
            model,
            created: now.as_secs(),
            spoken,
        }
    }

    fn audio_id(&self) -> String {
        format!("audio_{}", self.id)
    }

    /// All at once. What is heard is written in the transcript, as OpenAI does it.
    pub(super) fn whole(&self, whole: &Whole, done: &v1::ResponseDone) -> Value {
        let mut message = json!({"role": "assistant", "content": whole.text, "refusal": null});
        if self.spoken {
            message["content"] = Value::Null;
            message["audio"] = json!({
                "id": self.audio_id(),
                "data": BASE64.encode(&whole.audio),
                // Nothing is kept.
                "expires_at": self.created,
                "transcript": whole.text,
            });
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason(done)}],
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

    pub(super) fn text(&self, text: &str) -> Value {
        match self.spoken {
            true => self.chunk(
                &json!({"audio": {"id": self.audio_id(), "transcript": text}}),
                None,
            ),
            false => self.chunk(&json!({"content": text}), None),
        }
    }

    pub(super) fn audio(&self, data: &[u8]) -> Value {
        let audio = json!({"id": self.audio_id(), "data": BASE64.encode(data)});
        self.chunk(&json!({"audio": audio}), None)
    }

    /// The last chunk that is about the answer.
    pub(super) fn end(&self, done: &v1::ResponseDone) -> Value {
        self.chunk(&json!({}), Some(reason(done)))
    }

    /// The chunk about what was used.
    pub(super) fn used(&self, done: &v1::ResponseDone) -> Value {
        let mut chunk = self.chunk(&json!({}), None);
        chunk["choices"] = json!([]);
        chunk["usage"] = usage(done);
        chunk
    }
}

fn reason(done: &v1::ResponseDone) -> &'static str {
    let reason = done.outcome.as_ref().map(v1::Outcome::finish_reason);
    match reason {
        Some(v1::FinishReason::Length | v1::FinishReason::Repetition) => "length",
        _ => "stop",
    }
}

fn usage(done: &v1::ResponseDone) -> Value {
    let usage = done
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.usage)
        .unwrap_or_default();
    let prompt = usage.input_text_tokens + usage.input_audio_tokens;
    let completion = usage.output_text_tokens + usage.output_audio_tokens;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"audio_tokens": usage.input_audio_tokens, "text_tokens": usage.input_text_tokens},
        "completion_tokens_details": {"audio_tokens": usage.output_audio_tokens, "text_tokens": usage.output_text_tokens},
    })
}
