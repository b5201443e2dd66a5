//! `SpeechService`: opens sessions and sends their events.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use omni_core::call::CallContext;
use omni_core::caller::Caller;
use omni_proto::v1;
use omni_proto::v1::speech_service_server;
use omni_services::SpeechService;
use omni_session::Session;
use tonic::{Extensions, Request, Response, Status, Streaming};

use super::status::status;
use super::{commands, explained, reply, settings};

type Reply<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Caller found by the authentication layer.
pub(super) fn caller(extensions: &Extensions) -> Caller {
    extensions.get::<Caller>().cloned().unwrap_or_default()
}

/// The service.
#[derive(Debug)]
pub struct GrpcSpeech {
    service: SpeechService,
    /// Largest request message in bytes, for errors.
    max_message: usize,
}

impl GrpcSpeech {
    pub fn new(service: SpeechService, max_message: usize) -> Self {
        Self { service, max_message }
    }
}

#[tonic::async_trait]
impl speech_service_server::SpeechService for GrpcSpeech {
    type SpeakStream = Reply<v1::SpeakResponse>;
    type SynthesizeStream = Reply<v1::SynthesizeResponse>;

    async fn speak(
        &self,
        request: Request<Streaming<v1::SpeakRequest>>,
    ) -> Result<Response<Self::SpeakStream>, Status> {
        let (metadata, extensions, requests) = request.into_parts();
        let caller = caller(&extensions);
        let tenant = caller.tenant();
        let admitted = self.service.admit("SpeechService/Speak", caller);
        let (info, permit) = admitted.map_err(|error| status(&error))?;
        let commands = commands::spoken(
            requests,
            Arc::clone(&info),
            (self.service.clone(), tenant),
            self.max_message,
        );
        let context = CallContext::from_headers(metadata.as_ref());
        let mut seq = 0;
        let replies = self.service.open(context, commands, permit, |session| session);
        let replies = replies.map(move |event| {
            seq += 1;
            event
                .map(|event| reply::speak(event, seq, &info))
                .map_err(|error| status(&error))
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = settings::request(request.config.unwrap_or_default());
        let asked = asked.map_err(|error| status(&error))?;
        let explained = self
            .service
            .explain(caller(&extensions), asked, request.text)
            .await;
        let (info, explained) = explained.map_err(|error| status(&error))?;
        Ok(Response::new(explained::response(&info.id, explained)))
    }

    async fn synthesize(
        &self,
        request: Request<v1::SynthesizeRequest>,
    ) -> Result<Response<Self::SynthesizeStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let context = CallContext::from_headers(metadata.as_ref());
        let asked = settings::request(request.config.unwrap_or_default());
        let opened = self
            .service
            .synthesize(context, caller(&extensions), asked, request.text, Session::whole)
            .await;
        let (info, replies) = opened.map_err(|error| status(&error))?;
        let replies = replies.filter_map(move |event| {
            let reply = match event {
                Ok(event) => reply::synthesize(event, &info),
                Err(error) => Some(Err(status(&error))),
            };
            std::future::ready(reply)
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
