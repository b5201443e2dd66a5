//! `ChatService`: opens conversations and sends their events.

mod audio;
mod commands;
mod messages;
mod reply;
mod settings;

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use omni_core::call::CallContext;
use omni_family::{ChatInfo, SpeechInfo};
use omni_proto::v1;
use omni_proto::v1::chat_service_server;
use omni_services::{ChatModel, ChatService};
use omni_session::SessionLimits;
use tonic::{Request, Response, Status, Streaming};

use super::speech::caller;
use super::status::status;

type Reply<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Converts the messages of a call to a model with these properties; for tests.
pub(super) fn take(
    requests: impl Iterator<Item = v1::ConverseRequest>,
    speech: &Arc<SpeechInfo>,
    chat: &Arc<ChatInfo>,
) {
    let model = ChatModel {
        speech: Arc::clone(speech),
        chat: Arc::clone(chat),
        limits: SessionLimits::default(),
    };
    commands::take(requests, &model);
}

/// The service.
#[derive(Debug)]
pub struct GrpcChat {
    service: ChatService,
    /// Largest request message in bytes, for errors.
    max_message: usize,
}

impl GrpcChat {
    pub fn new(service: ChatService, max_message: usize) -> Self {
        Self { service, max_message }
    }
}

#[tonic::async_trait]
impl chat_service_server::ChatService for GrpcChat {
    type ConverseStream = Reply<v1::ConverseResponse>;
    type GenerateStream = Reply<v1::GenerateResponse>;

    async fn converse(
        &self,
        request: Request<Streaming<v1::ConverseRequest>>,
    ) -> Result<Response<Self::ConverseStream>, Status> {
        let (metadata, extensions, requests) = request.into_parts();
        let admitted = self.service.admit("ChatService/Converse", caller(&extensions));
        let (model, permit) = admitted.map_err(|error| status(&error))?;
        let commands = commands::conversation(requests, model.clone(), self.max_message);
        let context = CallContext::from_headers(metadata.as_ref());
        let mut seq = 0;
        let replies = self.service.open(context, commands, permit);
        let replies = replies.map(move |event| {
            seq += 1;
            event
                .map(|event| reply::converse(event, seq, &model))
                .map_err(|error| status(&error))
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn generate(
        &self,
        request: Request<v1::GenerateRequest>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        // The extensions hold the count of its body until the session has it.
        let (metadata, extensions, request) = request.into_parts();
        let context = CallContext::from_headers(metadata.as_ref());
        let request = commands::generate(request);
        let opened = self.service.generate(context, caller(&extensions), request);
        let (model, replies) = opened.await.map_err(|error| status(&error))?;
        let replies = replies.filter_map(move |event| {
            let reply = match event {
                Ok(event) => reply::generate(event, &model),
                Err(error) => Some(Err(status(&error))),
            };
            std::future::ready(reply)
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
