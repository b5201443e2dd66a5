//! Reason why a voice cannot be made, kept or spoken with.

use std::time::Duration;

use omni_audio::DecodeError;
use omni_core::error::{ErrorKind, ServeError, excerpt, seconds};
use omni_family::VoiceSource;

/// See the module's text. Messages name the accepted values.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum VoiceError {
    #[error(
        "the name {got:?} of a voice is not usable, expected 1 to 64 letters, digits, spaces and any of - _ . ', at least one of them a letter or a digit"
    )]
    Name { got: String },
    #[error("there is no voice {name:?} of this caller")]
    NotFound { name: String },
    #[error("there is a voice {name:?} already, delete it first or take another name")]
    Exists { name: String },
    #[error("the voice {name:?} is shared by all callers: only the operator of the server removes it")]
    SharedByAll { name: String },
    #[error("{held} of at most {limit} {unit} are kept here, delete one first")]
    Full {
        held: u64,
        limit: u64,
        unit: &'static str,
    },
    #[error("the voice could not be stored: {0}")]
    Store(String),
    #[error("voice {name:?} cannot be spoken with here: {problem}")]
    Misfit { name: String, problem: String },
    #[error("not a file of a voice: {0}")]
    File(String),
    #[error("this model makes no voices of {of}: {possible}")]
    NotPossible {
        of: &'static str,
        possible: &'static str,
    },
    #[error(
        "the speaker's consent is missing: state in words that, and how, the speaker agreed to this voice"
    )]
    ConsentMissing,
    #[error("the description of the voice is empty, expected words that say how it sounds")]
    DescriptionMissing,
    #[error(
        "the transcript is missing: send the words of the recording, or request the speaker's vector alone (x_vector_only)"
    )]
    TranscriptMissing,
    #[error("the transcript cannot be read by the model: {0}")]
    Transcript(String),
    #[error("{field} has {got} bytes, expected at most {limit}")]
    TextTooLong {
        field: &'static str,
        got: usize,
        limit: usize,
    },
    #[error("the recording {0}")]
    Decode(DecodeError),
    #[error(
        "unsupported format of the recording, expected WAV, FLAC or Ogg Opus, or bare samples whose format is stated"
    )]
    UnknownFormat,
    #[error("the recording is silent: nothing in it is louder than {limit:.0} dBFS")]
    Silent { limit: f32 },
    #[error(
        "the recording is clipped: {percent:.1} % of its samples are at full scale, expected at most {limit} %; record it more softly"
    )]
    Clipped { percent: f32, limit: f32 },
    #[error("no speech was found in the recording: {why}")]
    NoSpeech { why: &'static str },
    #[error(
        "the recording has {:.1} s without the silence around it, expected at least {}", found.as_secs_f32(), seconds(least)
    )]
    TooShort { found: Duration, least: Duration },
    #[error(
        "the recording has {} without the silence around it, expected at most {}",
        seconds(found),
        seconds(most)
    )]
    TooLong { found: Duration, most: Duration },
    #[error("the recording has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("{field} has control characters, expected text")]
    ControlCharacters { field: &'static str },
    #[error("{limit} recordings wait to be encoded, no more are accepted now")]
    Busy { limit: usize },
    #[error("the recording could not be encoded: {0}")]
    Encode(String),
}

impl VoiceError {
    pub(super) fn not_found(name: &str) -> Self {
        let name = excerpt(name);
        Self::NotFound { name }
    }

    pub(super) fn not_possible(of: &'static str, source: VoiceSource) -> Self {
        let possible = match source {
            VoiceSource::Names => {
                "the model speaks with voices of its own only. Base checkpoints of Qwen3-TTS take recordings, VoiceDesign \
                 checkpoints take descriptions"
            }
            VoiceSource::Recordings => {
                "a Base checkpoint takes recordings. VoiceDesign checkpoints of Qwen3-TTS take descriptions"
            }
            VoiceSource::Descriptions => {
                "a VoiceDesign checkpoint takes descriptions. Base checkpoints of Qwen3-TTS take recordings"
            }
        };
        Self::NotPossible { of, possible }
    }

    /// Kind, stable reason, and the field at fault.
    fn classes(&self) -> (ErrorKind, &'static str, Option<&'static str>) {
        use ErrorKind as K;
        let recording = |reason| (K::InvalidArgument, reason, Some("recording"));
        match self {
            Self::Name { .. } => (K::InvalidArgument, "VOICE_NAME_INVALID", Some("name")),
            Self::NotFound { .. } => (K::NotFound, "VOICE_NOT_FOUND", Some("name")),
            Self::Exists { .. } => (K::FailedPrecondition, "VOICE_EXISTS", Some("name")),
            Self::SharedByAll { .. } => (K::PermissionDenied, "VOICE_NOT_OWNED", Some("name")),
            Self::Full { .. } => (K::LimitReached, "VOICES_FULL", None),
            Self::Store(_) => (K::Unavailable, "VOICE_NOT_STORED", None),
            Self::Misfit { .. } => (K::FailedPrecondition, "VOICE_OF_ANOTHER_MODEL", None),
            Self::File(_) => (K::InvalidArgument, "VOICE_FILE_INVALID", Some("data")),
            Self::NotPossible { .. } => (K::NotSupported, "VOICES_NOT_SUPPORTED", None),
            Self::ConsentMissing => (K::InvalidArgument, "CONSENT_MISSING", Some("consent")),
            Self::DescriptionMissing => (K::InvalidArgument, "DESCRIPTION_MISSING", Some("design")),
            Self::TranscriptMissing => (K::InvalidArgument, "TRANSCRIPT_MISSING", Some("transcript")),
            Self::Transcript(_) => (K::InvalidArgument, "TRANSCRIPT_INVALID", Some("transcript")),
            Self::TextTooLong { field, .. } => (K::InvalidArgument, "TEXT_TOO_LONG", Some(field)),
            Self::ControlCharacters { field } => (K::InvalidArgument, "INVALID_FIELD", Some(field)),
            Self::Decode(_) => recording("RECORDING_UNREADABLE"),
            Self::UnknownFormat => recording("RECORDING_FORMAT_UNKNOWN"),
            Self::Silent { .. } => recording("RECORDING_SILENT"),
            Self::Clipped { .. } => recording("RECORDING_CLIPPED"),
            Self::NoSpeech { .. } => recording("RECORDING_WITHOUT_SPEECH"),
            Self::TooShort { .. } => recording("RECORDING_TOO_SHORT"),
            Self::TooLong { .. } | Self::TooLarge { .. } => recording("RECORDING_TOO_LONG"),
            Self::Busy { .. } => (K::Overloaded, "VOICES_BUSY", None),
            Self::Encode(_) => (K::Internal, "VOICE_ENCODING_FAILED", None),
        }
    }
}

impl From<VoiceError> for ServeError {
    fn from(error: VoiceError) -> Self {
        let (kind, reason, field) = error.classes();
        let told = Self::new(kind, reason, error.to_string());
        let told = match field {
            Some(field) => told.at(field),
            None => told,
        };
        match error {
            VoiceError::Busy { .. } => told.retry_in(Duration::from_secs(5)),
            VoiceError::Full { limit, .. } => told.with("limit", limit.to_string()),
            _ => told,
        }
    }
}
