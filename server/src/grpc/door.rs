//! Where every call with a session of its own comes in: a bounded number at once, whatever the service, and of every caller as
//! many as its quotas allow.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use omni_engine::Stamp;
use omni_telemetry::TraceParent;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Extensions;
use tonic::metadata::MetadataMap;
use tracing::Instrument as _;

use super::deadline::timeout;
use super::shares::{Share, Shares};
use crate::caller::{Caller, StreamPlace};
use crate::clock::Clock;
use crate::error::{ErrorKind, ServeError};
use crate::session::{
    Command, Event, RecordSink, Registered, Registry, Session, SessionChange, SessionDeps, Visit,
};
use crate::stage::SpeechInfo;
use crate::tasks::Tasks;

/// Events between a session and the transport. Small: what is in it counts as handed over.
const EVENTS: usize = 2;

/// When a caller may try again for whom there is no session.
const RETRY: Duration = Duration::from_secs(1);

/// The server takes no more sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} sessions are open, no more are accepted now")]
pub(super) struct TooManySessions {
    pub(super) limit: usize,
}

impl From<TooManySessions> for ServeError {
    fn from(error: TooManySessions) -> Self {
        Self::new(ErrorKind::TooManySessions, "CONCURRENCY_LIMIT", error.to_string())
            .with_limit(error.limit)
            .retry_in(RETRY)
    }
}

/// A session that has begun; its end is told however it comes.
struct OpenSession {
    records: Arc<dyn RecordSink>,
    clock: Clock,
    began: Stamp,
    _listed: Registered,
}

impl OpenSession {
    fn new(deps: &SessionDeps, listed: Registered) -> Self {
        deps.records.session(SessionChange::Opened);
        Self {
            records: Arc::clone(&deps.records),
            clock: deps.clock,
            began: deps.clock.now(),
            _listed: listed,
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let after = self.clock.since(self.began);
        self.records.session(SessionChange::Closed { after });
    }
}

/// The right to a session, held until it is over.
#[derive(Debug)]
pub(super) struct Place {
    method: &'static str,
    caller: Caller,
    _share: Share,
    _stream: Option<StreamPlace>,
}

/// What services share. Copies are the same door.
#[derive(Debug, Clone)]
pub struct Door {
    pub(super) deps: SessionDeps,
    /// Largest request message in bytes, for whoever is told.
    pub(super) max_message: usize,
    tasks: Arc<Tasks>,
    sessions: Shares,
    registry: Registry,
}

impl Door {
    /// Lets in at most `max_sessions` calls at once, the last of them shared among parties, and keeps them in `registry`. `max_message` is what the transport lets
    /// through.
    #[must_use]
    pub fn new(
        deps: SessionDeps,
        tasks: Arc<Tasks>,
        registry: Registry,
        max_sessions: usize,
        max_message: usize,
    ) -> Self {
        Self {
            deps,
            max_message,
            tasks,
            sessions: Shares::new(max_sessions),
            registry,
        }
    }

    /// A place for a call of `method`, made by the caller that is named in its `extensions`.
    pub(super) fn enter(&self, method: &'static str, extensions: &Extensions) -> Result<Place, ServeError> {
        let place = self.try_enter(method, extensions);
        place.inspect_err(|error| self.deps.records.refused(error))
    }

    fn try_enter(&self, method: &'static str, extensions: &Extensions) -> Result<Place, ServeError> {
        let caller = extensions.get::<Caller>().cloned().unwrap_or_default();
        let share = self.sessions.take(caller.party());
        Ok(Place {
            _share: share.map_err(|limit| TooManySessions { limit })?,
            _stream: caller.open(self.deps.clock.now())?,
            method,
            caller,
        })
    }

    /// A place for a call that will be spoken to, and what it is spoken with.
    pub(super) fn admit_speech(
        &self,
        method: &'static str,
        extensions: &Extensions,
    ) -> Result<(Arc<SpeechInfo>, Place), ServeError> {
        let pipeline = self.deps.orchestrator.available()?;
        Ok((Arc::clone(&pipeline.info), self.enter(method, extensions)?))
    }

    /// Opens a session that speaks as `commands` say; gives its events.
    pub(super) fn speak<S>(
        &self,
        metadata: &MetadataMap,
        commands: S,
        place: Place,
    ) -> ReceiverStream<Result<Event, ServeError>>
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin + Send + 'static,
    {
        self.speak_as(metadata, commands, place, |session| session)
    }

    /// The same with a session that `settle` makes of one as it comes.
    pub(super) fn speak_as<S>(
        &self,
        metadata: &MetadataMap,
        commands: S,
        place: Place,
        settle: impl FnOnce(Session) -> Session,
    ) -> ReceiverStream<Result<Event, ServeError>>
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin + Send + 'static,
    {
        let (deadline, trace) = (self.deadline(metadata), self.trace(metadata));
        self.run(place, |deps, visit, events| {
            let session = Session::new(deps, deadline).called_by(trace).visited_by(visit);
            settle(session).run(commands, events)
        })
    }

    /// When a call must be over, if its caller says.
    pub(super) fn deadline(&self, metadata: &MetadataMap) -> Option<Stamp> {
        timeout(metadata).map(|time| self.deps.clock.now() + time)
    }

    /// Where the call comes from, if its caller says. Headers that cannot be read count as absent, as the standard has it.
    pub(super) fn trace(&self, metadata: &MetadataMap) -> Option<TraceParent> {
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
        place: Place,
        session: impl FnOnce(SessionDeps, Visit, mpsc::Sender<Result<E, ServeError>>) -> F,
    ) -> ReceiverStream<Result<E, ServeError>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, events) = mpsc::channel(EVENTS);
        let mut deps = self.deps.clone();
        deps.orchestrator = deps.orchestrator.on_behalf_of(place.caller.party());
        let caller = place.caller.clone();
        let listed = self.registry.open(place.method, caller, deps.clock.now());
        let session = session(deps, listed.visit(), sender);
        let open = OpenSession::new(&self.deps, listed);
        let session = async move {
            session.await;
            drop(open);
            drop(place);
        };
        // Log lines of the session name the request that opened it.
        self.tasks.spawn(session.in_current_span());
        ReceiverStream::new(events)
    }
}
