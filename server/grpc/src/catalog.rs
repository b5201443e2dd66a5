//! `CatalogService`: models and voices of this server.

use omni_core::caller::Caller;
use omni_core::error::ServeError;
use omni_proto::v1;
use omni_proto::v1::catalog_service_server::CatalogService;
use omni_services::settings::invalid;
use omni_services::{Catalog, ModelDescription, VoiceDescription};
use tonic::{Request, Response, Status};

use super::speech::caller;
use super::status::status;

/// Default page size.
const PAGE: usize = 100;
/// Most entries of a page.
const MAX_PAGE: usize = 1000;

/// The service.
#[derive(Debug)]
pub struct GrpcCatalog(Catalog);

impl GrpcCatalog {
    pub fn new(catalog: Catalog) -> Self {
        Self(catalog)
    }

    fn models(&self, request: &v1::ListModelsRequest) -> Result<v1::ListModelsResponse, ServeError> {
        let models = self.0.models()?.into_iter().map(model).collect();
        let (models, next_page_token) = page(models, request.page_size, &request.page_token)?;
        Ok(v1::ListModelsResponse {
            models,
            next_page_token,
        })
    }

    fn voices(
        &self,
        caller: &Caller,
        request: &v1::ListVoicesRequest,
    ) -> Result<v1::ListVoicesResponse, ServeError> {
        let voices = self.0.voices(caller, &request.model, &request.language)?;
        let voices = voices.into_iter().map(voice).collect();
        let (voices, next_page_token) = page(voices, request.page_size, &request.page_token)?;
        Ok(v1::ListVoicesResponse {
            voices,
            next_page_token,
        })
    }
}

#[tonic::async_trait]
impl CatalogService for GrpcCatalog {
    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        let models = self.models(&request.into_inner());
        models.map(Response::new).map_err(|error| status(&error))
    }

    async fn list_voices(
        &self,
        request: Request<v1::ListVoicesRequest>,
    ) -> Result<Response<v1::ListVoicesResponse>, Status> {
        let caller = caller(request.extensions());
        let voices = self.voices(&caller, &request.into_inner());
        voices.map(Response::new).map_err(|error| status(&error))
    }
}

fn model(model: ModelDescription) -> v1::Model {
    v1::Model {
        id: model.id,
        display_name: model.display_name,
        capabilities: model.capabilities.into_iter().map(str::to_owned).collect(),
        languages: model.languages,
        native_output: Some(v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: model.sample_rate.hz(),
            channels: 1,
        }),
        max_context_tokens: model.max_context_tokens,
        ready: model.ready,
        description: model.description,
        aliases: model.aliases,
        alignment_languages: model.alignment_languages,
    }
}

fn voice(voice: VoiceDescription) -> v1::Voice {
    v1::Voice {
        id: voice.id,
        display_name: voice.display_name,
        languages: voice.languages,
        description: voice.description,
        models: vec![voice.model],
        aliases: voice.aliases,
        is_default: voice.is_default,
    }
}

/// One page of `entries`, and the token of the next one.
pub(super) fn page<T>(entries: Vec<T>, size: i32, token: &str) -> Result<(Vec<T>, String), ServeError> {
    let size = match usize::try_from(size) {
        Ok(0) => PAGE,
        Ok(size) => size.min(MAX_PAGE),
        Err(_) => return Err(invalid("page_size", "is negative, expected 0 or more")),
    };
    let start: usize = match token {
        "" => 0,
        token => token
            .parse()
            .map_err(|_| invalid("page_token", "is not one that this server gave"))?,
    };
    let total = entries.len();
    let end = total.min(start.saturating_add(size));
    let next = if end < total {
        end.to_string()
    } else {
        String::new()
    };
    Ok((entries.into_iter().skip(start).take(size).collect(), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_loss() {
        let mut token = String::new();
        let mut seen = Vec::new();
        loop {
            let (entries, next) = page((0..7).collect(), 3, &token).unwrap();
            seen.extend(entries);
            if next.is_empty() {
                break;
            }
            token = next;
        }
        assert_eq!(seen, (0..7).collect::<Vec<_>>());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(page(vec![1], -1, "").is_err());
        assert!(page(vec![1], 0, "abc").is_err());
        assert_eq!(page(vec![1], 0, "99").unwrap(), (vec![], String::new()));
        let last = usize::MAX.to_string();
        assert_eq!(page(vec![1], 0, &last).unwrap(), (vec![], String::new()));
    }
}
