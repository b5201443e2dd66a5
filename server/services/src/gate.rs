//! Gate of every call with a session of its own: a bounded number at once over all services, and per caller as many
//! as its quotas allow.

use std::sync::Arc;

use omni_core::call::CallContext;
use omni_core::caller::{Caller, StreamPlace};
use omni_core::error::{ServeError, TooManySessions};
use omni_core::id::{current_request, in_request};
use omni_core::tasks::Tasks;
use omni_engine::Stamp;
use omni_pipeline::clock::Clock;
use omni_session::{
    EventSender, RecordSink, Registry, RegistryGuard, SessionChange, SessionDeps, SessionHandle,
    event_channel,
};
use tokio_stream::wrappers::ReceiverStream;
use tracing::Instrument as _;

use super::limiter::{FairLimiter, FairPermit};

/// Capacity of the channel between a session and the transport. Small: events in it count as sent.
const EVENTS: usize = 2;

/// A session that has begun; dropping it records the end, for any cause.
struct OpenSession {
    records: Arc<dyn RecordSink>,
    clock: Clock,
    began: Stamp,
    _listed: RegistryGuard,
}

impl OpenSession {
    fn new(deps: &SessionDeps, listed: RegistryGuard) -> Self {
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

/// Permit for a session, held until that ends.
#[derive(Debug)]
pub struct CallPermit {
    method: &'static str,
    caller: Caller,
    _share: FairPermit,
    _stream: Option<StreamPlace>,
}

/// State that services share. Clones share the gate.
#[derive(Debug, Clone)]
pub struct CallGate {
    pub(super) deps: SessionDeps,
    tasks: Arc<Tasks>,
    sessions: FairLimiter,
    registry: Registry,
}

impl CallGate {
    /// Creates a gate for at most `max_sessions` calls at once, the last of them shared among tenants; they are
    /// listed in `registry`.
    pub fn new(deps: SessionDeps, tasks: Arc<Tasks>, registry: Registry, max_sessions: usize) -> Self {
        Self {
            deps,
            tasks,
            sessions: FairLimiter::new(max_sessions),
            registry,
        }
    }

    /// Admits a call of `method`.
    pub(super) fn enter(&self, method: &'static str, caller: Caller) -> Result<CallPermit, ServeError> {
        let permit = self.try_enter(method, caller);
        permit.inspect_err(|error| self.deps.records.refused(error))
    }

    fn try_enter(&self, method: &'static str, caller: Caller) -> Result<CallPermit, ServeError> {
        let share = self.sessions.take(caller.tenant());
        Ok(CallPermit {
            _share: share.map_err(|limit| TooManySessions { limit })?,
            _stream: caller.open(self.deps.clock.now())?,
            method,
            caller,
        })
    }

    /// Passes on the part of the model that a call needs; a call that fails for want of it is recorded.
    pub(super) fn ready<T>(&self, needed: Result<T, ServeError>) -> Result<T, ServeError> {
        let records = &self.deps.records;
        needed.inspect_err(|error| records.session(SessionChange::NothingBegan(error)))
    }

    /// Deadline of a call, if its caller sets one.
    pub(super) fn deadline(&self, context: &CallContext) -> Option<Stamp> {
        context.timeout.map(|time| self.deps.clock.now() + time)
    }

    /// Runs a session as a task that holds its permit to the end; returns its events.
    pub(super) fn run<E, F>(
        &self,
        permit: CallPermit,
        session: impl FnOnce(SessionDeps, SessionHandle, EventSender<E>) -> F,
    ) -> ReceiverStream<Result<E, ServeError>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, events) = event_channel(EVENTS);
        let mut deps = self.deps.clone();
        deps.orchestrator = deps.orchestrator.on_behalf_of(permit.caller.tenant());
        let caller = permit.caller.clone();
        let listed = self.registry.open(permit.method, caller, deps.clock.now());
        let session = session(deps, listed.handle(), sender);
        let open = OpenSession::new(&self.deps, listed);
        let session = async move {
            session.await;
            drop(open);
            drop(permit);
        };
        // Log lines and figures of the session name the request that opened it.
        let session = session.in_current_span();
        match current_request() {
            Some(name) => self.tasks.spawn(in_request(name, session)),
            None => self.tasks.spawn(session),
        };
        ReceiverStream::new(events)
    }
}
