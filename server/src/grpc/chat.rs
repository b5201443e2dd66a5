//! `ChatService`: opens conversations and pumps their events out.

mod audio;
mod commands;
mod messages;
mod reply;
mod settings;

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use omni_proto::v1;
use omni_proto::v1::chat_service_server::ChatService;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Response, Status, Streaming};

use super::door::{Door, Place};
use super::status::status;
use crate::error::ServeError;
use crate::session::{ChatCommand, ChatEvent, ChatSession, RecordSink, SessionLimits};
use crate::stage::{ChatInfo, SpeechInfo};

type Reply<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Events = ReceiverStream<Result<ChatEvent, ServeError>>;

/// What conversions are checked against. Copies are cheap.
#[derive(Debug, Clone)]
struct Known {
    speech: Arc<SpeechInfo>,
    chat: Arc<ChatInfo>,
    limits: SessionLimits,
}

/// Takes the messages of a call to a model that has these properties, whatever comes of it.
pub(super) fn take(
    requests: impl Iterator<Item = v1::ConverseRequest>,
    speech: &Arc<SpeechInfo>,
    chat: &Arc<ChatInfo>,
) {
    let known = Known {
        speech: Arc::clone(speech),
        chat: Arc::clone(chat),
        limits: SessionLimits::default(),
    };
    commands::take(requests, &known);
}

/// The service.
#[derive(Debug)]
pub struct Chat {
    door: Door,
}

impl Chat {
    /// Serves whom `door` lets in.
    #[must_use]
    pub fn new(door: Door) -> Self {
        Self { door }
    }

    /// Who is told of what is refused.
    pub(crate) fn records(&self) -> Arc<dyn RecordSink> {
        Arc::clone(&self.door.deps.records)
    }

    /// Checks that a call can be taken.
    fn admit(&self, method: &'static str, extensions: &Extensions) -> Result<(Known, Place), ServeError> {
        let (pipeline, chat) = self.door.deps.orchestrator.chat_available()?;
        let known = Known {
            speech: Arc::clone(&pipeline.info),
            chat: Arc::clone(&chat.info),
            limits: self.door.deps.limits,
        };
        Ok((known, self.door.enter(method, extensions)?))
    }

    fn open<S>(&self, metadata: &MetadataMap, commands: S, place: Place) -> Events
    where
        S: Stream<Item = Result<ChatCommand, ServeError>> + Unpin + Send + 'static,
    {
        let (deadline, trace) = (self.door.deadline(metadata), self.door.trace(metadata));
        self.door.run(place, |deps, visit, events| {
            let session = ChatSession::new(deps, deadline)
                .called_by(trace)
                .visited_by(visit);
            session.run(commands, events)
        })
    }
}

#[tonic::async_trait]
impl ChatService for Chat {
    type ConverseStream = Reply<v1::ConverseResponse>;
    type GenerateStream = Reply<v1::GenerateResponse>;

    async fn converse(
        &self,
        request: Request<Streaming<v1::ConverseRequest>>,
    ) -> Result<Response<Self::ConverseStream>, Status> {
        let (metadata, extensions, requests) = request.into_parts();
        let admitted = self.admit("ChatService/Converse", &extensions);
        let (known, place) = admitted.map_err(|error| status(&error))?;
        let commands = commands::conversation(requests, known.clone(), self.door.max_message);
        let mut seq = 0;
        let replies = self.open(&metadata, commands, place);
        let replies = replies.flat_map(reply::with_warnings).map(move |event| {
            seq += 1;
            event
                .map(|event| reply::converse(event, seq, &known))
                .map_err(|error| status(&error))
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn generate(
        &self,
        request: Request<v1::GenerateRequest>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let admitted = self.admit("ChatService/Generate", &extensions);
        let (known, place) = admitted.map_err(|error| status(&error))?;
        let commands = commands::one_answer(request, &known, place).await;
        let (commands, place) = commands.map_err(|error| status(&error))?;
        let replies = self.open(&metadata, commands, place);
        let replies = replies.flat_map(reply::with_warnings).filter_map(move |event| {
            let reply = match event {
                Ok(event) => reply::generate(event, &known),
                Err(error) => Some(Err(status(&error))),
            };
            std::future::ready(reply)
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
