//! The standard gRPC reflection service: the services of a server.

use tonic::{Code, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::credentials::Transport;

pub(crate) async fn services(transport: Transport) -> Result<Vec<String>, Status> {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = tokio_stream::once(request);
    let mut service = ServerReflectionClient::new(transport);
    let mut answers = service.server_reflection_info(requests).await?.into_inner();
    let answer = answers.message().await?;
    match answer.and_then(|answer| answer.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            Ok(list.service.into_iter().map(|service| service.name).collect())
        }
        Some(MessageResponse::ErrorResponse(error)) => {
            Err(Status::new(Code::from_i32(error.error_code), error.error_message))
        }
        _ => Err(Status::internal("reflection did not answer the question")),
    }
}
