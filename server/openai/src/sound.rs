//! Formats of audio by OpenAI's names, and voices.

use omni_audio::{Encoding, SampleRate, Samples, WAV_HEADER_LEN, WavHeader};
use omni_core::error::excerpt;
use omni_services::delivery::OutputRequest;
use serde::Deserialize;

use super::error::ApiError;
use super::lean::TextOr;

/// Rate of OpenAI's `pcm` and `pcm16`, in Hz.
const PCM_RATE: u32 = 24_000;

/// A voice: its name, or an object with it.
pub(super) type Voice = TextOr<VoiceObject>;

#[derive(Debug, Deserialize)]
pub(super) struct VoiceObject {
    id: String,
}

pub(super) fn voice_name(voice: Voice) -> String {
    match voice {
        TextOr::Text(name) | TextOr::Other(VoiceObject { id: name }) => name,
    }
}

/// A format of audio that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AudioFormat {
    Pcm,
    Wav,
    Opus,
    Flac,
    Mp3,
    Aac,
    /// G.711, as on telephone lines.
    Mulaw,
    Alaw,
}

impl AudioFormat {
    /// Format of this name in `param`, in any case.
    pub(super) fn named(name: &str, param: &str) -> Result<Self, ApiError> {
        match name.trim().to_ascii_lowercase().as_str() {
            "pcm" | "pcm16" => Ok(Self::Pcm),
            "wav" => Ok(Self::Wav),
            "opus" => Ok(Self::Opus),
            "flac" => Ok(Self::Flac),
            "mp3" => Ok(Self::Mp3),
            "aac" => Ok(Self::Aac),
            "g711_ulaw" | "g711_mulaw" | "mulaw" | "ulaw" | "pcmu" | "audio/pcmu" => Ok(Self::Mulaw),
            "g711_alaw" | "alaw" | "pcma" | "audio/pcma" => Ok(Self::Alaw),
            _ => Err(ApiError::invalid(
                Some(param),
                format!(
                    "unsupported {param} '{}'; expected mp3, opus, aac, flac, wav, pcm, g711_ulaw or g711_alaw",
                    excerpt(name)
                ),
            )),
        }
    }

    /// Writes the sizes into the header of a whole file, if the format has them there.
    pub(super) fn finish(self, file: &mut [u8], samples: Samples) {
        if self != Self::Wav {
            return;
        }
        let Some(header) = file.first_chunk_mut::<WAV_HEADER_LEN>() else {
            return;
        };
        let rate = u32::from_le_bytes([header[24], header[25], header[26], header[27]]);
        if let Ok(rate) = SampleRate::new(rate) {
            *header = WavHeader::mono(rate).finished(samples);
        }
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pcm => "pcm",
            Self::Wav => "wav",
            Self::Opus => "opus",
            Self::Flac => "flac",
            Self::Mp3 => "mp3",
            Self::Aac => "aac",
            Self::Mulaw => "g711_ulaw",
            Self::Alaw => "g711_alaw",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Pcm => "audio/pcm",
            Self::Wav => "audio/wav",
            Self::Opus => "audio/ogg; codecs=opus",
            Self::Flac => "audio/flac",
            Self::Mp3 => "audio/mpeg",
            Self::Aac => "audio/aac",
            Self::Mulaw => "audio/pcmu",
            Self::Alaw => "audio/pcma",
        }
    }

    /// The same as a request to the services.
    pub(super) fn output(self) -> OutputRequest {
        let (encoding, sample_rate_hz) = match self {
            Self::Pcm => (Encoding::Pcm16, PCM_RATE),
            Self::Wav => (Encoding::Wav, 0),
            Self::Opus => (Encoding::OggOpus, 0),
            Self::Flac => (Encoding::Flac, 0),
            Self::Mp3 => (Encoding::Mp3, 0),
            Self::Aac => (Encoding::Aac, 0),
            Self::Mulaw => (Encoding::Mulaw, 0),
            Self::Alaw => (Encoding::Alaw, 0),
        };
        OutputRequest {
            encoding,
            sample_rate_hz,
            channels: 1,
            ..OutputRequest::default()
        }
    }
}
