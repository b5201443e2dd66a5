//! Model limits as errors for callers.

use omni_family::AudioInputError;

use super::{ErrorKind, ServeError};

impl From<AudioInputError> for ServeError {
    fn from(error: AudioInputError) -> Self {
        use AudioInputError as E;
        let new = |reason| Self::new(ErrorKind::InvalidArgument, reason, error.to_string());
        match error {
            E::NotSupported { field } => new("AUDIO_INPUT_NOT_SUPPORTED").about(field),
            E::TooShort { field, .. } => new("AUDIO_TOO_SHORT").about(field),
            E::TooLong { .. } => new("AUDIO_TOO_LONG"),
        }
    }
}
