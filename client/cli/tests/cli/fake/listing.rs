//! Lists and health of the server.

use std::sync::atomic::Ordering;

use omni_proto::v1;
use omni_proto::v1::catalog_service_server::CatalogService;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{Seen, Service};

#[tonic::async_trait]
impl CatalogService for Service {
    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        self.admit(&request)?;
        let model = v1::Model {
            id: "fake-model".into(),
            display_name: "A model that is not there".into(),
            capabilities: vec!["speech".into()],
            ready: true,
            ..Default::default()
        };
        Ok(Response::new(v1::ListModelsResponse {
            models: vec![model],
            next_page_token: String::new(),
        }))
    }

    /// Two pages of one voice each.
    async fn list_voices(
        &self,
        request: Request<v1::ListVoicesRequest>,
    ) -> Result<Response<v1::ListVoicesResponse>, Status> {
        self.admit(&request)?;
        if self.script.voiceless {
            return Ok(Response::new(v1::ListVoicesResponse::default()));
        }
        let first = request.get_ref().page_token.is_empty();
        let voice = v1::Voice {
            id: if first { "amber" } else { "onyx" }.into(),
            description: if first { "Higher, bright" } else { "Lower, calm" }.into(),
            languages: vec!["en".into()],
            aliases: if first {
                vec!["alloy".into(), "nova".into()]
            } else {
                Vec::new()
            },
            is_default: first,
            ..Default::default()
        };
        let next_page_token = if first { "2" } else { "" }.into();
        Ok(Response::new(v1::ListVoicesResponse {
            voices: vec![voice],
            next_page_token,
        }))
    }
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = ReceiverStream<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !request.get_ref().service.is_empty() {
            return Err(Status::not_found("no such service"));
        }
        let status = if self.serving.load(Ordering::SeqCst) {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.see(Seen::Health);
        Ok(Response::new(HealthCheckResponse {
            status: status.into(),
        }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("the command line does not call this"))
    }
}
