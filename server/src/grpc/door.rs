//! Where every call with a session of its own comes in: a bounded number at once, whatever the service.

use std::sync::Arc;

use futures::Stream;
use omni_engine::Stamp;
use omni_telemetry::TraceParent;
use tokio::sync::mpsc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;

use super::deadline::timeout;
use crate::clock::Clock;
use crate::error::ServeError;
use crate::session::{Command, Event, RecordSink, Session, SessionChange, SessionDeps};
use crate::stage::SpeechInfo;
use crate::tasks::Tasks;

/// Events between a session and the transport. Small: what is in it counts as handed over.
const EVENTS: usize = 2;

/// A session that has begun; its end is told however it comes.
struct OpenSession {
    records: Arc<dyn RecordSink>,
    clock: Clock,
    began: Stamp,
}

impl OpenSession {
    fn new(deps: &SessionDeps) -> Self {
        deps.records.session(SessionChange::Opened);
        Self {
            records: Arc::clone(&deps.records),
            clock: deps.clock,
            began: deps.clock.now(),
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let after = self.clock.since(self.began);
        self.records.session(SessionChange::Closed { after });
    }
}

/// What services share. Copies are the same door.
#[derive(Debug, Clone)]
pub struct Door {
    pub(super) deps: SessionDeps,
    /// Largest request message in bytes, for whoever is told.
    pub(super) max_message: usize,
    tasks: Arc<Tasks>,
    sessions: Arc<Semaphore>,
    max_sessions: usize,
}

impl Door {
    /// Lets in at most `max_sessions` calls at once. `max_message` is what the transport lets through.
    #[must_use]
    pub fn new(deps: SessionDeps, tasks: Arc<Tasks>, max_sessions: usize, max_message: usize) -> Self {
        Self {
            deps,
            max_message,
            tasks,
            sessions: Arc::new(Semaphore::new(max_sessions)),
            max_sessions,
        }
    }

    /// A place for a call.
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, ServeError> {
        Arc::clone(&self.sessions)
            .try_acquire_owned()
            .map_err(|_| ServeError::TooManySessions {
                limit: self.max_sessions,
            })
    }

    /// A place for a call that will be spoken to, and what it is spoken with.
    pub(super) fn admit_speech(&self) -> Result<(Arc<SpeechInfo>, OwnedSemaphorePermit), ServeError> {
        let pipeline = self.deps.orchestrator.available()?;
        Ok((Arc::clone(&pipeline.info), self.enter()?))
    }

    /// A session for a call.
    pub(super) fn session(&self, metadata: &MetadataMap) -> Session {
        Session::new(self.deps.clone(), self.deadline(metadata)).called_by(self.caller(metadata))
    }

    /// Opens a session that speaks as `commands` say; gives its events.
    pub(super) fn speak<S>(
        &self,
        metadata: &MetadataMap,
        commands: S,
        place: OwnedSemaphorePermit,
    ) -> ReceiverStream<Result<Event, ServeError>>
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin + Send + 'static,
    {
        let session = self.session(metadata);
        self.run(place, |events| session.run(commands, events))
    }

    /// When a call must be over, if its caller says.
    pub(super) fn deadline(&self, metadata: &MetadataMap) -> Option<Stamp> {
        timeout(metadata).map(|time| self.deps.clock.now() + time)
    }

    /// Where the call comes from, if its caller says. Headers that cannot be read count as absent, as the standard has it.
    pub(super) fn caller(&self, metadata: &MetadataMap) -> Option<TraceParent> {
        let mut parents = metadata.get_all("traceparent").iter();
        let parent = TraceParent::parse(parents.next()?.to_str().ok()?)?;
        if parents.next().is_some() {
            return None;
        }
        let states = metadata.get_all("tracestate").iter();
        let states: Vec<_> = states.filter_map(|state| state.to_str().ok()).collect();
        Some(parent.with_state(&states.join(",")))
    }

    /// Runs a session as a task that holds its place to the end; gives its events.
    pub(super) fn run<E, F>(
        &self,
        place: OwnedSemaphorePermit,
        session: impl FnOnce(mpsc::Sender<Result<E, ServeError>>) -> F,
    ) -> ReceiverStream<Result<E, ServeError>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, events) = mpsc::channel(EVENTS);
        let session = session(sender);
        let open = OpenSession::new(&self.deps);
        self.tasks.spawn(async move {
            session.await;
            drop(open);
            drop(place);
        });
        ReceiverStream::new(events)
    }
}
