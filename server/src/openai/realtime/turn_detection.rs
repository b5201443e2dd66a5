//! When the server decides that the user has spoken, as clients say it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::excerpt;
use crate::openai::error::ApiError;

/// Bounds of what speech detection may be told.
const MAX_PADDING: u32 = 5_000;
const MAX_SILENCE: u32 = 60_000;

/// Turn detection as a client asks for it.
#[derive(Debug, Deserialize)]
pub(super) struct TurnDetectionPatch {
    #[serde(rename = "type")]
    kind: Option<String>,
    threshold: Option<f32>,
    prefix_padding_ms: Option<u32>,
    silence_duration_ms: Option<u32>,
    idle_timeout_ms: Option<u32>,
    create_response: Option<bool>,
    interrupt_response: Option<bool>,
}

/// When the server decides that the user has spoken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ServerVad {
    pub(super) threshold: f32,
    /// Audio kept from before the speech.
    pub(super) prefix: Duration,
    pub(super) silence: Duration,
    pub(super) creates: bool,
    pub(super) interrupts: bool,
}

impl Default for ServerVad {
    fn default() -> Self {
        Self {
            threshold: 0.5,
            prefix: Duration::from_millis(300),
            silence: Duration::from_millis(500),
            creates: true,
            interrupts: true,
        }
    }
}

const TURNS: &str = "session.audio.input.turn_detection";

impl ServerVad {
    /// Applies a patch.
    pub(super) fn patched(self, patch: &TurnDetectionPatch) -> Result<Self, ApiError> {
        let refuse = |field: &str, problem: String| {
            let param = format!("{TURNS}.{field}");
            Err(ApiError::invalid(Some(&param), format!("{param} {problem}")))
        };
        match patch.kind.as_deref() {
            Some("server_vad") | None => {}
            Some(other) => {
                let expected = "expected server_vad, or null in the place of turn_detection";
                return refuse("type", format!("is {:?}, {expected}", excerpt(other)));
            }
        }
        if patch.idle_timeout_ms.is_some() {
            return refuse("idle_timeout_ms", "is not offered, expected null".to_owned());
        }
        let threshold = patch.threshold.unwrap_or(self.threshold);
        if !(0.0..=1.0).contains(&threshold) {
            return refuse("threshold", format!("is {threshold}, expected 0 to 1"));
        }
        for (field, got, most) in [
            ("prefix_padding_ms", patch.prefix_padding_ms, MAX_PADDING),
            ("silence_duration_ms", patch.silence_duration_ms, MAX_SILENCE),
        ] {
            if let Some(got) = got.filter(|got| *got > most) {
                return refuse(field, format!("is {got}, expected at most {most}"));
            }
        }
        let millis = |ms: Option<u32>, before| ms.map_or(before, |ms| Duration::from_millis(ms.into()));
        Ok(Self {
            threshold,
            prefix: millis(patch.prefix_padding_ms, self.prefix),
            silence: millis(patch.silence_duration_ms, self.silence),
            creates: patch.create_response.unwrap_or(self.creates),
            interrupts: patch.interrupt_response.unwrap_or(self.interrupts),
        })
    }

    pub(super) fn json(self) -> Value {
        json!({
            "type": "server_vad",
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix.as_millis() as u64,
            "silence_duration_ms": self.silence.as_millis() as u64,
            "idle_timeout_ms": null,
            "create_response": self.creates,
            "interrupt_response": self.interrupts,
        })
    }
}
