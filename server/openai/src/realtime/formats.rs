//! Formats of audio by their names in this protocol.

use std::time::Duration;

use omni_audio::{Encoding, InputEncoding, InputFormat, SampleRate};
use omni_core::error::excerpt;
use omni_services::delivery::OutputRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::lean::scalar;

/// Format in a client's notation.
#[derive(Debug, Deserialize)]
pub(super) struct FormatPatch {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "scalar")]
    rate: Option<u32>,
}

/// A layout of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AudioFormat {
    /// 16-bit samples at 24 kHz.
    Pcm,
    /// G.711, 8 kHz.
    Mulaw,
    Alaw,
}

impl AudioFormat {
    /// Samples per second.
    pub(super) fn hz(self) -> u32 {
        match self {
            Self::Pcm => 24_000,
            Self::Mulaw | Self::Alaw => 8_000,
        }
    }

    /// Bytes of one sample.
    pub(super) fn sample_bytes(self) -> usize {
        match self {
            Self::Pcm => 2,
            Self::Mulaw | Self::Alaw => 1,
        }
    }

    /// Playing time of `bytes` bytes.
    pub(super) fn playing(self, bytes: usize) -> Duration {
        let samples = (bytes / self.sample_bytes()) as u64;
        Duration::from_nanos(samples.saturating_mul(1_000_000_000) / u64::from(self.hz()))
    }

    pub(super) fn of(patch: &FormatPatch, param: &str) -> Result<Self, ApiError> {
        let format = match patch.kind.as_deref() {
            Some("audio/pcm") | None => Self::Pcm,
            Some("audio/pcmu") => Self::Mulaw,
            Some("audio/pcma") => Self::Alaw,
            Some(other) => {
                let other = excerpt(other);
                let problem = format!(
                    "unsupported {param}.type '{other}'; expected audio/pcm, audio/pcmu or audio/pcma"
                );
                return Err(ApiError::invalid(Some(&format!("{param}.type")), problem));
            }
        };
        match patch.rate {
            Some(rate) if rate != format.hz() => {
                let problem = format!("{param}.rate is {rate}; expected {}", format.hz());
                Err(ApiError::invalid(Some(&format!("{param}.rate")), problem))
            }
            _ => Ok(format),
        }
    }

    /// The same as an input format.
    pub(super) fn input(self) -> Option<InputFormat> {
        Some(InputFormat {
            encoding: match self {
                Self::Pcm => InputEncoding::Pcm16,
                Self::Mulaw => InputEncoding::Mulaw,
                Self::Alaw => InputEncoding::Alaw,
            },
            rate: SampleRate::new(self.hz()).ok()?,
            channels: 1,
        })
    }

    pub(super) fn output(self) -> OutputRequest {
        OutputRequest {
            encoding: match self {
                Self::Pcm => Encoding::Pcm16,
                Self::Mulaw => Encoding::Mulaw,
                Self::Alaw => Encoding::Alaw,
            },
            sample_rate_hz: self.hz(),
            channels: 1,
            ..OutputRequest::default()
        }
    }

    pub(super) fn json(self) -> Value {
        match self {
            Self::Pcm => json!({"type": "audio/pcm", "rate": self.hz()}),
            Self::Mulaw => json!({"type": "audio/pcmu"}),
            Self::Alaw => json!({"type": "audio/pcma"}),
        }
    }
}
