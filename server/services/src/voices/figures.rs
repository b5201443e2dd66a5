//! Metrics of voices. No figure identifies a voice.

use std::sync::Arc;
use std::time::Duration;

use omni_core::error::{ErrorKind, ServeError};
use omni_family::VoiceContent;
use omni_pipeline::request::VoicePrompt;
use omni_telemetry::{
    VoiceCreation, VoiceDeletion, VoiceInstruments, VoiceKind, VoiceMaterial, VoiceProvenance,
};
use parking_lot::Mutex;

use super::VoiceOrigin;
use super::error::VoiceError;
use super::store::VoiceStore;
use super::voice::Content;

/// The instruments. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    instruments: Arc<VoiceInstruments>,
    /// Held while the store is read and reported, so that the last report is of the latest state.
    telling: Arc<Mutex<()>>,
}

/// A request for a voice; it counts as cancelled if it is dropped before it has ended.
#[derive(Debug)]
pub(super) struct Creation {
    instruments: Arc<VoiceInstruments>,
    of: VoiceMaterial,
    result: VoiceCreation,
}

/// A recording that is encoded or waits for it.
#[derive(Debug)]
pub(super) struct Encoding(Arc<VoiceInstruments>);

impl Figures {
    pub(super) fn new(instruments: Arc<VoiceInstruments>) -> Self {
        Self {
            instruments,
            telling: Arc::default(),
        }
    }

    /// Reports the size of the store.
    pub(super) fn held(&self, store: &VoiceStore) {
        let _telling = self.telling.lock();
        let voices = store.all();
        let count = |kind| {
            voices
                .iter()
                .filter(|voice| self::kind(&voice.content) == kind)
                .count()
        };
        self.instruments.kept(count, store.held().bytes);
    }

    pub(super) fn creation(&self, of: VoiceMaterial) -> Creation {
        Creation {
            instruments: Arc::clone(&self.instruments),
            of,
            result: VoiceCreation::Cancelled,
        }
    }

    pub(super) fn deleted(&self, result: &Result<(), VoiceError>) {
        self.instruments.deleted(match result {
            Ok(()) => VoiceDeletion::Deleted,
            Err(VoiceError::SharedByAll { .. }) => VoiceDeletion::NotOwned,
            Err(VoiceError::NotFound { .. }) => VoiceDeletion::NotFound,
            Err(_) => VoiceDeletion::NotStored,
        });
    }

    /// Counts a request with a kept voice.
    pub(super) fn asked_for(&self, content: &VoiceContent) {
        let kind = match content {
            VoiceContent::Prompt(prompt) => of_prompt(prompt),
            VoiceContent::Description(_) => VoiceKind::Description,
        };
        self.instruments.requested(VoiceProvenance::Kept, kind);
    }

    /// Counts a request with a recording of its own.
    pub(super) fn imitated(&self, prompt: &VoicePrompt) {
        let kind = of_prompt(prompt);
        self.instruments.requested(VoiceProvenance::Request, kind);
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.instruments.encoding_began();
        Encoding(Arc::clone(&self.instruments))
    }

    pub(super) fn looked_up(&self, found: bool) {
        self.instruments.looked_up(found);
    }

    pub(super) fn evicted(&self) {
        self.instruments.evicted();
    }
}

impl Creation {
    pub(super) fn ended<T>(mut self, result: &Result<T, ServeError>) {
        self.result = match result {
            Ok(_) => VoiceCreation::Kept,
            Err(error) => refused(error),
        };
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        self.instruments.created(self.of, self.result);
    }
}

impl Encoding {
    /// Counts a recording that was encoded, with its time.
    pub(super) fn encoded(&self, prompt: &VoicePrompt, took: Duration) {
        self.0.encoded(of_prompt(prompt), took);
    }
}

impl Drop for Encoding {
    fn drop(&mut self) {
        self.0.encoding_ended();
    }
}

pub(super) fn material(origin: &VoiceOrigin) -> VoiceMaterial {
    match origin {
        VoiceOrigin::Recording { .. } => VoiceMaterial::Recording,
        VoiceOrigin::Description(_) => VoiceMaterial::Description,
    }
}

fn kind(content: &Content) -> VoiceKind {
    match content {
        Content::Prompt(prompt) => of_prompt(prompt),
        Content::Description(_) => VoiceKind::Description,
    }
}

fn of_prompt(prompt: &VoicePrompt) -> VoiceKind {
    match prompt.reference {
        Some(_) => VoiceKind::InContext,
        None => VoiceKind::XVector,
    }
}

/// Outcome for the stable reason that callers read, too.
fn refused(error: &ServeError) -> VoiceCreation {
    use VoiceCreation as C;
    match error.reason() {
        "RECORDING_SILENT" => C::Silent,
        "RECORDING_CLIPPED" => C::Clipped,
        "RECORDING_WITHOUT_SPEECH" => C::NoSpeech,
        "RECORDING_TOO_SHORT" => C::TooShort,
        "RECORDING_TOO_LONG" => C::TooLong,
        "RECORDING_UNREADABLE" | "RECORDING_FORMAT_UNKNOWN" => C::Unreadable,
        "VOICE_EXISTS" => C::Exists,
        "VOICES_FULL" => C::Full,
        "VOICES_BUSY" => C::Busy,
        "VOICES_NOT_SUPPORTED" => C::NotSupported,
        "VOICE_OF_ANOTHER_MODEL" => C::OtherModel,
        "VOICE_NOT_STORED" => C::NotStored,
        _ => match error.kind() {
            ErrorKind::InvalidArgument => C::Invalid,
            ErrorKind::Internal => C::Failed,
            _ => C::NotAdmitted,
        },
    }
}

#[cfg(test)]
mod tests {
    use omni_audio::DecodeError;

    use super::*;
    use omni_family::VoiceSource;

    #[test]
    fn every_cause_that_callers_are_told_is_counted_as_such() {
        use VoiceCreation as C;
        let name = String::new;
        let long = Duration::ZERO;
        for (error, expected) in [
            (VoiceError::Silent { limit: 0.0 }, C::Silent),
            (
                VoiceError::Clipped {
                    percent: 1.0,
                    limit: 0.5,
                },
                C::Clipped,
            ),
            (VoiceError::NoSpeech { why: "" }, C::NoSpeech),
            (
                VoiceError::TooShort {
                    found: long,
                    least: long,
                },
                C::TooShort,
            ),
            (
                VoiceError::TooLong {
                    found: long,
                    most: long,
                },
                C::TooLong,
            ),
            (VoiceError::TooLarge { limit: 1 }, C::TooLong),
            (VoiceError::Decode(DecodeError::Empty), C::Unreadable),
            (VoiceError::UnknownFormat, C::Unreadable),
            (VoiceError::Exists { name: name() }, C::Exists),
            (
                VoiceError::Full {
                    held: 1,
                    limit: 1,
                    unit: "",
                },
                C::Full,
            ),
            (VoiceError::Busy { limit: 1 }, C::Busy),
            (VoiceError::not_possible("", VoiceSource::Names), C::NotSupported),
            (
                VoiceError::Misfit {
                    name: name(),
                    problem: name(),
                },
                C::OtherModel,
            ),
            (VoiceError::Store(name()), C::NotStored),
            (VoiceError::Encode(name()), C::Failed),
            (VoiceError::ConsentMissing, C::Invalid),
            (VoiceError::File(name()), C::Invalid),
        ] {
            let told = ServeError::from(error);
            assert_eq!(refused(&told), expected, "{told:?}");
        }
    }
}
