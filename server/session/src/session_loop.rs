//! The loop of every session: waits for the caller, the work, the reader and the clock at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::future::Either;
use futures::{FutureExt as _, Stream, StreamExt as _};
use omni_core::caller::Caller;
use omni_core::drain::ShutdownError;
use omni_core::error::ServeError;
use omni_core::id::SessionId;
use omni_engine::Stamp;
use omni_pipeline::orchestrator::StageError;
use omni_telemetry::TraceParent;
use tokio::sync::mpsc;

use super::alternate::{Alternate, when};
use super::error::{CallerGone, SessionTimeout};
use super::event_channel::EventSender;
use super::record::SessionChange;
use super::registry::SessionHandle;
use super::run::SessionDeps;
use super::timeouts::{Due, SessionTimeouts};

/// State of every session besides its work.
#[derive(Debug)]
pub(super) struct SessionCore {
    pub(super) deps: SessionDeps,
    pub(super) caller: Option<TraceParent>,
    pub(super) handle: SessionHandle,
    pub(super) timeouts: SessionTimeouts,
    /// `true` once the caller sends no more commands.
    pub(super) hung_up: bool,
    /// `true` once an utterance or an answer was begun.
    pub(super) began: bool,
    /// Set when no new work is begun; the session ends with this error.
    pub(super) closing: Option<ServeError>,
}

impl SessionCore {
    /// Creates the state of a session that must have ended by `deadline`.
    pub(super) fn new(deps: SessionDeps, deadline: Option<Stamp>) -> Self {
        let now = deps.clock.now();
        Self {
            caller: None,
            handle: SessionHandle::new("", Caller::default(), now),
            timeouts: SessionTimeouts::new(deps.limits, deadline, now),
            deps,
            hung_up: false,
            began: false,
            closing: None,
        }
    }

    pub(super) fn id(&self) -> SessionId {
        self.handle.id()
    }

    pub(super) fn now(&self) -> Stamp {
        self.deps.clock.now()
    }
}

/// Conditions that a session waits for when all possible work is done.
#[derive(Debug)]
pub(super) struct Wants {
    /// `true` while work is in progress.
    pub(super) active: bool,
    /// `true` if no event is queued for the reader.
    pub(super) sent: bool,
    /// `true` if there is an event that the reader may take now.
    pub(super) sends: bool,
    /// `true` if a command is read now.
    pub(super) listens: bool,
    /// Time at which the work must be polled again.
    pub(super) alarm: Option<Stamp>,
}

/// Input of a session's loop.
#[derive(Debug)]
pub(super) enum Input<C, P> {
    Command(C),
    /// There are no more commands.
    HangUp,
    Progress(P),
    /// The alarm that was wanted.
    Alarm,
    /// The session has reached a timeout or its age limit.
    Expired(Due),
    /// The server drains: open work is finished. The reason is sent to the caller.
    Drain(&'static str),
    /// The session has ended with this error; records of interrupted work are written.
    End(ServeError),
}

/// The work of a session.
pub(super) trait SessionBody: Send {
    type Command: Send;
    type Event: Send;
    type Progress: Send;

    fn core(&mut self) -> &mut SessionCore;

    /// Does everything that is possible now.
    fn advance(&mut self, now: Stamp) -> Wants;

    /// Waits for the work, if there is room for its output. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Self::Progress> + Send;

    /// Handles an input; an error ends the session.
    fn take(&mut self, input: Input<Self::Command, Self::Progress>, now: Stamp) -> Result<(), ServeError>;

    /// Takes the next event, with the time that it takes to hear or to read.
    fn send(&mut self, now: Stamp) -> Option<(Self::Event, Duration)>;
}

/// Runs until the commands and their work have ended, or the reader is gone. An error among the commands ends the
/// session with it, as the last message; so does a panic, which a caller must not take for an end.
pub(super) async fn run<B, S>(mut body: B, commands: S, events: EventSender<B::Event>)
where
    B: SessionBody,
    S: Stream<Item = Result<B::Command, ServeError>> + Unpin,
{
    let id = body.core().id();
    let served = AssertUnwindSafe(serve(&mut body, commands, &events.events))
        .catch_unwind()
        .await;
    let result = served.unwrap_or_else(|_| Err(panicked(id)));
    let close = || {
        let core = body.core();
        if let Err(error) = &result
            && !core.began
        {
            core.deps.records.session(SessionChange::NothingBegan(error));
        }
        let cause = result.as_ref().err().cloned();
        let cause = cause.unwrap_or_else(|| ShutdownError::Stopped.into());
        let now = body.core().now();
        body.take(Input::End(cause), now)
    };
    if catch_unwind(AssertUnwindSafe(close)).is_err() {
        panicked(id);
    }
    if let Err(error) = result {
        events.fail(error);
    }
}

/// The message of the panic is left to the panic hook: it may hold data of the caller.
fn panicked(session: SessionId) -> ServeError {
    tracing::error!(%session, "session panicked");
    StageError::panicked("session").into()
}

async fn serve<B, S>(
    body: &mut B,
    mut commands: S,
    events: &mpsc::Sender<Result<B::Event, ServeError>>,
) -> Result<(), ServeError>
where
    B: SessionBody,
    S: Stream<Item = Result<B::Command, ServeError>> + Unpin,
{
    let core = body.core();
    let clock = core.deps.clock;
    let draining = core.deps.orchestrator.draining().clone();
    let stop = core.deps.stop.clone();
    let handle = core.handle.clone();
    let mut alternate = Alternate::default();
    loop {
        let now = clock.now();
        let wants = body.advance(now);
        let core = body.core();
        // Audio that is held back is not offered to the reader.
        core.timeouts.offer(wants.sends, now);
        core.handle.set_active(wants.active, now);
        if !wants.active && wants.sent {
            if core.hung_up {
                return Ok(());
            }
            if let Some(error) = core.closing.take() {
                return Err(error);
            }
        }
        let open = core.closing.is_none();
        let (at, due) = core.timeouts.next(!open);
        let now = clock.now();
        let due_in = at.since(now);
        let alarm_in = wants.alarm.map(|at| at.since(now));
        tokio::select! {
            biased;
            () = events.closed() => return Err(gone(body.core())),
            () = stop.cancelled() => return Err(ShutdownError::Stopped.into()),
            cancelled = handle.cancelled() => return Err(cancelled.into()),
            () = draining.cancelled(), if open => drain(body, clock.now())?,
            () = tokio::time::sleep(due_in) => body.take(Input::Expired(due), clock.now())?,
            () = tokio::time::sleep(alarm_in.unwrap_or_default()), if alarm_in.is_some() => {
                body.take(Input::Alarm, clock.now())?;
            }
            slot = events.reserve(), if wants.sends => match slot {
                Ok(slot) => send(body, slot, clock.now()),
                Err(_closed) => return Err(gone(body.core())),
            },
            next = alternate.next(when(wants.listens, commands.next()), body.next()) => {
                let now = clock.now();
                match next {
                    Either::Left(Some(command)) => body.take(Input::Command(command?), now)?,
                    Either::Left(None) => {
                        body.core().hung_up = true;
                        body.take(Input::HangUp, now)?;
                    }
                    Either::Right(progress) => {
                        body.core().timeouts.active(now);
                        body.take(Input::Progress(progress), now)?;
                    }
                }
            },
        }
    }
}

/// Error of a caller that went away: its deadline passed, or it did not wait for that.
fn gone(core: &SessionCore) -> ServeError {
    if core.timeouts.is_at_deadline(core.now()) {
        SessionTimeout::Deadline.into()
    } else {
        CallerGone.into()
    }
}

fn drain<B: SessionBody>(body: &mut B, now: Stamp) -> Result<(), ServeError> {
    let error = ServeError::from(ShutdownError::Draining);
    let reason = error.reason();
    body.core().closing = Some(error);
    body.take(Input::Drain(reason), now)
}

fn send<B: SessionBody>(body: &mut B, slot: mpsc::Permit<'_, Result<B::Event, ServeError>>, now: Stamp) {
    if let Some((event, worth)) = body.send(now) {
        body.core().timeouts.taken(worth, now);
        slot.send(Ok(event));
    }
}
