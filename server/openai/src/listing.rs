//! `/v1/models`, `/v1/audio/models` and `/v1/audio/voices`.

use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::Response;
use omni_core::error::ServeError;
use omni_services::ModelDescription;
use serde_json::{Value, json};

use super::error::ApiError;
use super::voices::kept;
use super::{OpenAi, body};

/// The models for a caller with a good key.
pub(super) fn listed(openai: &OpenAi, head: &Parts) -> Result<Vec<ModelDescription>, ApiError> {
    openai.allow(head, None)?;
    described(openai.catalog.models())
}

fn described<T>(listed: Result<T, ServeError>) -> Result<T, ApiError> {
    listed.map_err(|error| ApiError::new(&error, &[]))
}

/// A model and, as entries of their own, its aliases: clients look for the name that they will send.
fn entries(model: &ModelDescription) -> Vec<Value> {
    let mut own = entry(&model.id);
    own["aliases"] = json!(model.aliases);
    let aliases = model.aliases.iter().map(|name| alias(name, model));
    std::iter::once(own).chain(aliases).collect()
}

fn entry(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": "omni"})
}

fn alias(name: &str, model: &ModelDescription) -> Value {
    let mut entry = entry(name);
    entry["alias_of"] = json!(model.id);
    entry
}

pub(super) async fn models(State(openai): State<OpenAi>, head: Parts) -> Result<Response, ApiError> {
    let models = listed(&openai, &head)?;
    let models: Vec<_> = models.iter().flat_map(entries).collect();
    Ok(body(&json!({"object": "list", "data": models})))
}

pub(super) async fn model(
    State(openai): State<OpenAi>,
    Path(id): Path<String>,
    head: Parts,
) -> Result<Response, ApiError> {
    let models = listed(&openai, &head)?;
    let same = |entry: &Value| {
        entry["id"]
            .as_str()
            .is_some_and(|name| name.eq_ignore_ascii_case(&id))
    };
    let entries: Vec<_> = models.iter().flat_map(entries).collect();
    if let Some(entry) = entries.iter().find(|entry| same(entry)) {
        return Ok(body(entry));
    }
    // A name that only a pattern matches.
    if let Some(model) = models.first()
        && described(openai.catalog.is_served(&id))?
    {
        return Ok(body(&alias(&id, model)));
    }
    let served: Vec<_> = entries.iter().filter_map(|entry| entry["id"].as_str()).collect();
    Err(ApiError::no_such_model(&id, &served))
}

/// The models that speak, as Open WebUI reads them. It sends no key with this.
pub(super) async fn speech_models(State(openai): State<OpenAi>, head: Parts) -> Result<Response, ApiError> {
    openai.allow_listing(&head)?;
    let models = described(openai.catalog.models())?;
    let models: Vec<_> = models
        .iter()
        .map(|model| json!({"id": model.id, "name": model.display_name, "aliases": model.aliases}))
        .collect();
    Ok(body(&json!({"models": models})))
}

/// Voices, as Open WebUI reads them. It sends no key with this. `names` has the same for clients that expect strings,
/// and `uploaded_voices` details of the kept ones, for clients of vLLM-Omni.
pub(super) async fn voices(State(openai): State<OpenAi>, head: Parts) -> Result<Response, ApiError> {
    let caller = openai.allow_listing(&head)?;
    let voices = described(openai.catalog.voices(&caller.clone().unwrap_or_default(), "", ""))?;
    let listed: Vec<_> = voices
        .iter()
        .map(|voice| {
            json!({
                "id": voice.id,
                "name": voice.display_name,
                "description": voice.description,
                "aliases": voice.aliases,
            })
        })
        .collect();
    let names: Vec<_> = voices.iter().map(|voice| voice.id.as_str()).collect();
    let aliases = voices.iter().flat_map(|voice| {
        let id = &voice.id;
        voice.aliases.iter().map(move |alias| (alias.clone(), json!(id)))
    });
    let aliases: serde_json::Map<_, _> = aliases.collect();
    // Callers without a key are not told the voices of others.
    let known = caller
        .map(|caller| openai.voices.list(&caller))
        .unwrap_or_default();
    let kept: Vec<_> = known.iter().map(kept).collect();
    Ok(body(
        &json!({"voices": listed, "names": names, "aliases": aliases, "uploaded_voices": kept}),
    ))
}
