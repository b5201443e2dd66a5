//! The answer to a client that asks what there is.

use omni_core::caller::Caller;
use omni_core::error::ServeError;
use omni_services::{Catalog, VoiceDescription};
use serde_json::{Value, json};

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

/// Home Assistant's menu shows the description, so that it has the name, too.
fn voice(voice: &VoiceDescription) -> Value {
    let name = voice.display_name.as_str();
    let about = voice.description.as_str();
    let name = if name.is_empty() { voice.id.as_str() } else { name };
    let description = match (about.is_empty(), about.starts_with(name)) {
        (true, _) => name.to_owned(),
        (false, true) => about.to_owned(),
        (false, false) => format!("{name}: {about}"),
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
