//! Catalogue of models and voices.

use omni_audio::SampleRate;
use omni_core::caller::Caller;
use omni_core::error::ServeError;
use omni_core::orchestrator::Orchestrator;
use omni_family::{SpeechInfo, VoiceSource};

use super::aliases;
use super::language;
use super::settings::model as check_model;
use super::voices::Voices;

/// A model that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDescription {
    pub id: String,
    pub display_name: String,
    pub description: String,
    pub aliases: Vec<String>,
    pub capabilities: Vec<&'static str>,
    pub languages: Vec<String>,
    /// Languages among these that have word times.
    pub alignment_languages: Vec<String>,
    /// Rate of its own audio.
    pub sample_rate: SampleRate,
    pub max_context_tokens: u32,
    /// `true` if it accepts work now.
    pub ready: bool,
}

/// A voice of the model; `aliases` are OpenAI's names for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceDescription {
    pub id: String,
    pub display_name: String,
    pub description: String,
    pub languages: Vec<String>,
    pub model: String,
    pub aliases: Vec<String>,
    pub is_default: bool,
}

/// Describes what an orchestrator has loaded.
#[derive(Debug, Clone)]
pub struct Catalog {
    orchestrator: Orchestrator,
    voices: Voices,
}

impl Catalog {
    pub fn new(orchestrator: Orchestrator, voices: Voices) -> Self {
        Self { orchestrator, voices }
    }

    /// Checks that speech can be requested now.
    ///
    /// # Errors
    /// The reason why not.
    pub fn speaks(&self) -> Result<(), ServeError> {
        self.orchestrator.available().map(drop)
    }

    /// Checks that an answer can be requested now.
    ///
    /// # Errors
    /// The reason why not.
    pub fn converses(&self) -> Result<(), ServeError> {
        self.orchestrator.chat_available().map(drop)
    }

    /// Models that are served.
    ///
    /// # Errors
    /// If none is loaded yet.
    pub fn models(&self) -> Result<Vec<ModelDescription>, ServeError> {
        let pipeline = self.orchestrator.model()?;
        let info = &pipeline.info;
        let chat = pipeline.chat.as_ref().ok();
        let hears = chat.is_some_and(|chat| chat.info.hearing.is_some());
        let support = &info.voice_support;
        let capabilities = [
            (true, "speech"),
            (chat.is_some(), "chat"),
            (hears, "audio_input"),
            (support.shape.is_some(), "voice_cloning"),
            (support.source == VoiceSource::Descriptions, "voice_design"),
        ];
        let capabilities = capabilities.into_iter().filter(|(has, _)| *has);
        Ok(vec![ModelDescription {
            id: info.id.clone(),
            display_name: info.display_name.clone(),
            description: info.description.clone(),
            aliases: aliases::listed(&info.terms).cloned().collect(),
            capabilities: capabilities.map(|(_, name)| name).collect(),
            languages: info.languages.clone(),
            alignment_languages: language::aligned_of(&info.languages),
            sample_rate: info.sample_rate,
            max_context_tokens: chat.map_or(info.max_context, |chat| chat.info.max_context),
            ready: self.orchestrator.available().is_ok(),
        }])
    }

    /// Returns true if requests for a model of this name are for the one that is served.
    ///
    /// # Errors
    /// If none is loaded yet.
    pub fn is_served(&self, name: &str) -> Result<bool, ServeError> {
        Ok(aliases::is_model(name, &self.orchestrator.model()?.info))
    }

    /// Voices of `model` that speak `language`, then those that the caller keeps; empty texts match all.
    ///
    /// # Errors
    /// If there is no such model, or none is loaded yet.
    pub fn voices(
        &self,
        caller: &Caller,
        model: &str,
        language: &str,
    ) -> Result<Vec<VoiceDescription>, ServeError> {
        let info = &self.orchestrator.model()?.info;
        check_model(model, info)?;
        let mut spoken = info.languages.iter();
        if language.is_empty() || spoken.any(|spoken| language::same(language, spoken)) {
            let kept = self.voices.list(caller);
            let kept: Vec<_> = kept.iter().filter(|kept| kept.problem.is_none()).collect();
            // If the model has none, kept voices take OpenAI's names.
            let places = if info.voices.is_empty() { kept.len() } else { 0 };
            let kept = kept.iter().enumerate().map(|(index, kept)| VoiceDescription {
                id: kept.voice.name.to_string(),
                display_name: kept.voice.name.to_string(),
                description: kept.voice.description.clone(),
                languages: info.languages.clone(),
                model: info.id.clone(),
                aliases: aliases::of(index, places),
                is_default: places > 0 && index == 0,
            });
            Ok(voices(info).into_iter().chain(kept).collect())
        } else {
            Ok(Vec::new())
        }
    }
}

fn voices(info: &SpeechInfo) -> Vec<VoiceDescription> {
    let voices = info.voices.iter().enumerate();
    let voices = voices.map(|(index, voice)| VoiceDescription {
        id: voice.id.clone(),
        display_name: voice.display_name.clone(),
        description: voice.description.clone(),
        languages: info.languages.clone(),
        model: info.id.clone(),
        aliases: aliases::of(index, info.voices.len()),
        is_default: index == 0,
    });
    voices.collect()
}
