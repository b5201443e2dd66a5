//! Turn detection by the server, in clients' notation.

use std::time::Duration;

use omni_core::error::excerpt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::hints::Hints;
use crate::error::ApiError;
use crate::lean::scalar;

/// Bounds of the settings of speech detection.
const MAX_PADDING: u32 = 5_000;
const MAX_SILENCE: u32 = 60_000;

/// Turn detection as a client asks for it.
#[derive(Debug, Deserialize)]
pub(super) struct TurnDetectionPatch {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    threshold: Option<f32>,
    #[serde(default, deserialize_with = "scalar")]
    prefix_padding_ms: Option<u32>,
    #[serde(default, deserialize_with = "scalar")]
    silence_duration_ms: Option<u32>,
    #[serde(default, deserialize_with = "scalar")]
    create_response: Option<bool>,
    #[serde(default, deserialize_with = "scalar")]
    interrupt_response: Option<bool>,
}

/// Turn detection by the server.
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
/// The only supported kind of turn detection.
const SERVER_VAD: &str = "server_vad";

impl TurnDetectionPatch {
    /// Returns true if it disables turn detection, as clients of the earlier API do.
    pub(super) fn is_none(&self) -> bool {
        self.kind.as_deref() == Some("none")
    }
}

impl ServerVad {
    /// Applies a patch. Silence is detected for any requested kind: clients send `semantic_vad` by default.
    pub(super) fn patched(self, patch: &TurnDetectionPatch, hints: &mut Hints) -> Result<Self, ApiError> {
        let refuse = |field: &str, problem: String| {
            let param = format!("{TURNS}.{field}");
            Err(ApiError::invalid(Some(&param), format!("{param} {problem}")))
        };
        if let Some(other) = patch.kind.as_deref().filter(|kind| *kind != SERVER_VAD) {
            hints.ignore(&format!("{TURNS}.type"), &excerpt(other), SERVER_VAD)?;
        }
        let threshold = patch.threshold.unwrap_or(self.threshold);
        if !(0.0..=1.0).contains(&threshold) {
            return refuse("threshold", format!("is {threshold}; expected 0 to 1"));
        }
        for (field, got, most) in [
            ("prefix_padding_ms", patch.prefix_padding_ms, MAX_PADDING),
            ("silence_duration_ms", patch.silence_duration_ms, MAX_SILENCE),
        ] {
            if let Some(got) = got.filter(|got| *got > most) {
                return refuse(field, format!("is {got}; expected at most {most}"));
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
            "type": SERVER_VAD,
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix.as_millis() as u64,
            "silence_duration_ms": self.silence.as_millis() as u64,
            "idle_timeout_ms": null,
            "create_response": self.creates,
            "interrupt_response": self.interrupts,
        })
    }
}
