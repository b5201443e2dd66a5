//! `SpeechService`: opens sessions and pumps their events out.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use omni_proto::v1;
use omni_proto::v1::speech_service_server::SpeechService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::deadline::timeout;
use super::status::status;
use super::{commands, reply};
use crate::error::ServeError;
use crate::session::{Command, Event, Session, SessionDeps};
use crate::stage::SpeechInfo;
use crate::tasks::Tasks;

/// Events between a session and the transport. Small: what is in it counts as handed over.
const EVENTS: usize = 2;

type Reply<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Events = ReceiverStream<Result<Event, ServeError>>;

/// The service.
#[derive(Debug)]
pub struct Speech {
    deps: SessionDeps,
    tasks: Arc<Tasks>,
    sessions: Arc<Semaphore>,
    max_sessions: usize,
    max_message: usize,
}

impl Speech {
    /// Serves at most `max_sessions` calls at once. `max_message` is what the transport lets through, for whoever is told.
    #[must_use]
    pub fn new(deps: SessionDeps, tasks: Arc<Tasks>, max_sessions: usize, max_message: usize) -> Self {
        Self {
            deps,
            tasks,
            sessions: Arc::new(Semaphore::new(max_sessions)),
            max_sessions,
            max_message,
        }
    }

    /// Checks that a call can be taken.
    fn admit(&self) -> Result<(Arc<SpeechInfo>, OwnedSemaphorePermit), ServeError> {
        let pipeline = self.deps.orchestrator.available()?;
        let permit =
            Arc::clone(&self.sessions)
                .try_acquire_owned()
                .map_err(|_| ServeError::TooManySessions {
                    limit: self.max_sessions,
                })?;
        Ok((Arc::clone(&pipeline.info), permit))
    }

    /// Runs a session as a task that holds its permit to the end.
    fn open<S>(&self, metadata: &MetadataMap, commands: S, permit: OwnedSemaphorePermit) -> Events
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin + Send + 'static,
    {
        let deadline = timeout(metadata).map(|time| self.deps.clock.now() + time);
        let session = Session::new(self.deps.clone(), deadline);
        let (sender, events) = mpsc::channel(EVENTS);
        self.tasks.spawn(async move {
            session.run(commands, sender).await;
            drop(permit);
        });
        ReceiverStream::new(events)
    }
}

#[tonic::async_trait]
impl SpeechService for Speech {
    type SpeakStream = Reply<v1::SpeakResponse>;
    type SynthesizeStream = Reply<v1::SynthesizeResponse>;

    async fn speak(
        &self,
        request: Request<Streaming<v1::SpeakRequest>>,
    ) -> Result<Response<Self::SpeakStream>, Status> {
        let (info, permit) = self.admit().map_err(|error| status(&error))?;
        let (metadata, _, requests) = request.into_parts();
        let commands = commands::spoken(requests, Arc::clone(&info), self.max_message);
        let mut seq = 0;
        let replies = self.open(&metadata, commands, permit).map(move |event| {
            seq += 1;
            event
                .map(|event| reply::speak(event, seq, &info))
                .map_err(|error| status(&error))
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn synthesize(
        &self,
        request: Request<v1::SynthesizeRequest>,
    ) -> Result<Response<Self::SynthesizeStream>, Status> {
        let (info, permit) = self.admit().map_err(|error| status(&error))?;
        let (metadata, _, request) = request.into_parts();
        let commands = commands::whole(request, &info);
        let replies = self.open(&metadata, commands, permit).filter_map(move |event| {
            let reply = match event {
                Ok(event) => reply::synthesize(event, &info),
                Err(error) => Some(Err(status(&error))),
            };
            std::future::ready(reply)
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
