//! Models and voices of a server.

use omni_proto::v1;

/// A model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Name for [`crate::SpeechSettings::model`].
    pub id: String,
    /// For people.
    pub display_name: String,
    /// Capabilities, for example `speech`.
    pub capabilities: Vec<String>,
    /// BCP-47 tags of the languages it speaks; empty if they are not known.
    pub languages: Vec<String>,
    /// Those of them in which there are word times.
    pub alignment_languages: Vec<String>,
    /// Its own sample rate in Hz; 0 if it is not known.
    pub sample_rate_hz: u32,
    /// False until it can serve.
    pub ready: bool,
}

impl Model {
    pub(crate) fn from_proto(model: v1::Model) -> Self {
        Self {
            id: model.id,
            display_name: model.display_name,
            capabilities: model.capabilities,
            languages: model.languages,
            alignment_languages: model.alignment_languages,
            sample_rate_hz: model.native_output.unwrap_or_default().sample_rate_hz,
            ready: model.ready,
        }
    }
}

/// A voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voice {
    /// Name for [`crate::SpeechSettings::voice`].
    pub id: String,
    /// For people.
    pub display_name: String,
    /// BCP-47 tags of the languages it speaks; empty if they are not known.
    pub languages: Vec<String>,
    /// Description of its sound.
    pub description: String,
    /// Models that have it.
    pub models: Vec<String>,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// True for the voice that is used when none is named.
    pub is_default: bool,
}

impl Voice {
    pub(crate) fn from_proto(voice: v1::Voice) -> Self {
        Self {
            id: voice.id,
            display_name: voice.display_name,
            languages: voice.languages,
            description: voice.description,
            models: voice.models,
            aliases: voice.aliases,
            is_default: voice.is_default,
        }
    }
}
