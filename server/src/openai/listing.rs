//! `/v1/models` and `/v1/audio/voices`.

use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::response::Response;
use omni_proto::v1;
use omni_proto::v1::catalog_service_server::CatalogService as _;
use serde_json::{Value, json};

use super::error::ApiError;
use super::{OpenAi, body, request};

async fn listed(openai: &OpenAi, head: Parts) -> Result<Vec<Value>, ApiError> {
    let caller = openai.allow(&head, None)?;
    let answer = openai
        .catalog
        .list_models(request(caller, head.headers, v1::ListModelsRequest::default()));
    let models = answer
        .await
        .map_err(|status| ApiError::new(&status, &[]))?
        .into_inner()
        .models;
    let model =
        |model: v1::Model| json!({"id": model.id, "object": "model", "created": 0, "owned_by": "omni"});
    Ok(models.into_iter().map(model).collect())
}

pub(super) async fn models(State(openai): State<OpenAi>, head: Parts) -> Result<Response, ApiError> {
    let models = listed(&openai, head).await?;
    Ok(body(&json!({"object": "list", "data": models})))
}

pub(super) async fn model(
    State(openai): State<OpenAi>,
    Path(id): Path<String>,
    head: Parts,
) -> Result<Response, ApiError> {
    let models = listed(&openai, head).await?;
    let model = models.iter().find(|model| model["id"] == id);
    model.map(body).ok_or_else(ApiError::no_such_model)
}

pub(super) async fn voices(State(openai): State<OpenAi>, head: Parts) -> Result<Response, ApiError> {
    let caller = openai.allow(&head, None)?;
    let answer = openai
        .catalog
        .list_voices(request(caller, head.headers, v1::ListVoicesRequest::default()));
    let voices = answer
        .await
        .map_err(|status| ApiError::new(&status, &[]))?
        .into_inner()
        .voices;
    let names: Vec<_> = voices.iter().map(|voice| voice.id.as_str()).collect();
    let aliases = voices.iter().flat_map(|voice| {
        let id = &voice.id;
        voice.aliases.iter().map(move |alias| (alias.clone(), json!(id)))
    });
    let aliases: serde_json::Map<_, _> = aliases.collect();
    Ok(body(&json!({"voices": names, "aliases": aliases})))
}
