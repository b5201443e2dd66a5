//! What a client is told that asks what there is.

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::error::ServeError;
use crate::service::{Catalog, VoiceDescription};

const NAME: &str = "omni";

/// The data of `info`.
pub(super) fn info(catalog: &Catalog, caller: &Caller) -> Result<Value, ServeError> {
    catalog.speaks()?;
    let voices = catalog.voices(caller, "", "")?;
    let models = catalog.models()?;
    let model = models.first();
    let program = json!({
        "name": NAME,
        "attribution": attribution(),
        "installed": true,
        "description": model.map_or(NAME, |model| model.display_name.as_str()),
        "version": env!("CARGO_PKG_VERSION"),
        "voices": voices.iter().map(voice).collect::<Vec<_>>(),
        "supports_synthesize_streaming": true,
    });
    Ok(json!({
        "tts": [program],
        "asr": [], "handle": [], "intent": [], "wake": [], "mic": [], "snd": [],
    }))
}

fn attribution() -> Value {
    json!({"name": "Omni", "url": env!("CARGO_PKG_REPOSITORY")})
}

fn voice(voice: &VoiceDescription) -> Value {
    let description = match voice.description.is_empty() {
        true => &voice.display_name,
        false => &voice.description,
    };
    json!({
        "name": voice.id,
        "attribution": attribution(),
        "installed": true,
        "description": description,
        "version": null,
        "languages": voice.languages,
        "speakers": null,
    })
}
