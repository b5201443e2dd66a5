//! The voices of a caller, for the checks of requests.

use std::sync::Arc;

use omni_family::{KeptVoices, SpeechInfo, VoiceContent};

use super::figures::Figures;
use super::store::VoiceStore;
use super::voice::Owner;

/// Voices that one caller may use.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) store: Arc<VoiceStore>,
    pub(super) owner: Owner,
    pub(super) info: Arc<SpeechInfo>,
    pub(super) figures: Figures,
}

impl KeptVoices for Seen {
    fn find(&self, name: &str) -> Option<Result<(String, VoiceContent), String>> {
        let voice = self.store.find(&self.owner, name)?;
        Some(match voice.misfit(&self.info) {
            Some(problem) => Err(problem),
            None => {
                let content = voice.content.to_speech();
                self.figures.asked_for(&content);
                Ok((voice.name.to_string(), content))
            }
        })
    }

    fn names(&self) -> Vec<String> {
        let voices = self.store.list(&self.owner);
        let fit = voices.iter().filter(|voice| voice.misfit(&self.info).is_none());
        fit.map(|voice| voice.name.to_string()).collect()
    }
}
