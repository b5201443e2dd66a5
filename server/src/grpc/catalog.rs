//! `CatalogService`: what this server speaks with.

use omni_proto::v1;
use omni_proto::v1::catalog_service_server::CatalogService;
use tonic::{Request, Response, Status};

use super::aliases;
use super::settings::{invalid, model as named, same_language};
use super::status::status;
use crate::error::ServeError;
use crate::orchestrator::{Orchestrator, Pipeline};
use crate::stage::SpeechInfo;

/// Entries of a page if the caller does not say.
const PAGE: usize = 100;
/// Most entries of a page.
const MAX_PAGE: usize = 1000;

/// The service.
#[derive(Debug)]
pub struct Catalog {
    orchestrator: Orchestrator,
}

impl Catalog {
    /// Answers from what `orchestrator` has loaded.
    #[must_use]
    pub fn new(orchestrator: Orchestrator) -> Self {
        Self { orchestrator }
    }

    /// Whether speech can be asked for now.
    ///
    /// # Errors
    /// Why not.
    pub fn speaks(&self) -> Result<(), ServeError> {
        self.orchestrator.available().map(drop)
    }

    /// Whether an answer can be asked for now.
    ///
    /// # Errors
    /// Why not.
    pub fn converses(&self) -> Result<(), ServeError> {
        self.orchestrator.chat_available().map(drop)
    }

    fn models(&self, request: &v1::ListModelsRequest) -> Result<v1::ListModelsResponse, ServeError> {
        let pipeline = self.orchestrator.model()?;
        let model = model(pipeline, self.orchestrator.available().is_ok());
        let (models, next_page_token) = page(vec![model], request.page_size, &request.page_token)?;
        Ok(v1::ListModelsResponse {
            models,
            next_page_token,
        })
    }

    fn voices(&self, request: &v1::ListVoicesRequest) -> Result<v1::ListVoicesResponse, ServeError> {
        let info = &self.orchestrator.model()?.info;
        named(&request.model, info)?;
        let speaks = |language: &str| {
            info.languages
                .iter()
                .any(|spoken| same_language(language, spoken))
        };
        let voices = match request.language.is_empty() || speaks(&request.language) {
            true => voices(info),
            false => Vec::new(),
        };
        let (voices, next_page_token) = page(voices, request.page_size, &request.page_token)?;
        Ok(v1::ListVoicesResponse {
            voices,
            next_page_token,
        })
    }
}

#[tonic::async_trait]
impl CatalogService for Catalog {
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
        let voices = self.voices(&request.into_inner());
        voices.map(Response::new).map_err(|error| status(&error))
    }
}

fn model(pipeline: &Pipeline, ready: bool) -> v1::Model {
    let info = &pipeline.info;
    let chat = pipeline.chat.as_ref().ok();
    let mut capabilities = vec!["speech".to_owned()];
    capabilities.extend(chat.map(|_| "chat".to_owned()));
    capabilities.extend(
        chat.filter(|chat| chat.info.hearing.is_some())
            .map(|_| "audio_input".to_owned()),
    );
    v1::Model {
        id: info.id.clone(),
        display_name: info.display_name.clone(),
        capabilities,
        languages: info.languages.clone(),
        native_output: Some(v1::AudioFormat {
            encoding: v1::AudioEncoding::PcmS16le.into(),
            sample_rate_hz: info.sample_rate.hz(),
            channels: 1,
        }),
        max_context_tokens: chat.map_or(info.max_context, |chat| chat.info.max_context),
        ready,
        description: info.description.clone(),
        aliases: info.terms.aliases.clone(),
    }
}

fn voices(info: &SpeechInfo) -> Vec<v1::Voice> {
    let voices = info.voices.iter().enumerate();
    let voice = voices.map(|(index, voice)| v1::Voice {
        id: voice.id.clone(),
        display_name: voice.display_name.clone(),
        languages: info.languages.clone(),
        description: voice.description.clone(),
        models: vec![info.id.clone()],
        aliases: aliases::of(index, info.voices.len()),
        is_default: index == 0,
    });
    voice.collect()
}

/// One page of `entries`, and the token of the next one.
fn page<T>(entries: Vec<T>, size: i32, token: &str) -> Result<(Vec<T>, String), ServeError> {
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
