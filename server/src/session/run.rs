//! The session's loop: listens to the caller, to the pipeline, to its reader and to the clock, all at once.

mod commands;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::future::Either;
use futures::{FutureExt as _, Stream, StreamExt as _};
use omni_engine::Stamp;
use omni_telemetry::TraceParent;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::error::CallerGone;
use super::limits::SessionLimits;
use super::names::Names;
use super::outbox::Outbox;
use super::pace::Pace;
use super::patience::{Due, Patience, READING};
use super::protocol::{Command, Event, EventBody};
use super::record::RecordSink;
use super::registry::Visit;
use super::settings::Settings;
use super::turns::{Turns, when};
use super::utterance::{Progress, Utterance};
use crate::caller::Caller;
use crate::clock::Clock;
use crate::drain::ShutdownError;
use crate::error::ServeError;
use crate::id::SessionId;
use crate::orchestrator::Orchestrator;
use crate::stage::StageError;

/// How long the final status may wait for a reader that is behind.
pub(super) const STATUS_PATIENCE: Duration = Duration::from_secs(1);

/// What every session works with.
#[derive(Clone)]
pub struct SessionDeps {
    /// Where work is done.
    pub orchestrator: Orchestrator,
    /// The time.
    pub clock: Clock,
    /// Bounds.
    pub limits: SessionLimits,
    /// Where records go.
    pub records: Arc<dyn RecordSink>,
    /// Cancelled when everything must end at once.
    pub stop: CancellationToken,
}

impl std::fmt::Debug for SessionDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionDeps")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// One session, not yet running.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    deps: SessionDeps,
    deadline: Option<Stamp>,
    caller: Option<TraceParent>,
    holds_back: bool,
    uncut: bool,
    visit: Visit,
}

impl Session {
    /// A session that must be over by `deadline`.
    #[must_use]
    pub fn new(deps: SessionDeps, deadline: Option<Stamp>) -> Self {
        let visit = Visit::new("", Caller::default(), deps.clock.now());
        Self {
            id: visit.id(),
            deps,
            deadline,
            caller: None,
            holds_back: false,
            uncut: false,
            visit,
        }
    }

    /// Its caller has no word to cut an utterance short: nobody asks what was heard.
    #[must_use]
    pub fn uncut(mut self) -> Self {
        self.uncut = true;
        self
    }

    /// Its utterances are parts of what `caller` does, if that says so.
    #[must_use]
    pub fn called_by(mut self, caller: Option<TraceParent>) -> Self {
        self.caller = caller;
        self
    }

    /// Its caller is not listened to while as much waits as may wait. For protocols that have no word for "too much", and whose callers
    /// have nothing to say but what is to be spoken: a cancel would not be heard either.
    #[must_use]
    pub fn holding_back(mut self) -> Self {
        self.holds_back = true;
        self.uncut = true;
        self
    }

    /// Who it serves, and where it tells what it does.
    #[must_use]
    pub fn visited_by(mut self, visit: Visit) -> Self {
        self.id = visit.id();
        self.visit = visit;
        self
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Runs to the end: of the commands and the work they caused, or of the reader's interest. An error among the commands
    /// ends the session with it, as the last thing sent; so does a panic, which is nothing that a caller may take for an end.
    pub async fn run<S>(self, commands: S, events: mpsc::Sender<Result<Event, ServeError>>)
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin,
    {
        let now = self.deps.clock.now();
        let mut run = Run {
            id: self.id,
            patience: Patience::new(self.deps.limits, self.deadline, now),
            deps: self.deps,
            caller: self.caller,
            holds_back: self.holds_back,
            uncut: self.uncut,
            blank: false,
            visit: self.visit,
            settings: None,
            queue: VecDeque::new(),
            names: Names::default(),
            outbox: Outbox::default(),
            ready: VecDeque::new(),
            opened: 0,
            pace: Pace::default(),
            listening: true,
            hung_up: false,
            closing: None,
        };
        let served = AssertUnwindSafe(run.serve(commands, &events))
            .catch_unwind()
            .await;
        let result = served.unwrap_or_else(|_| Err(panicked(self.id)));
        if catch_unwind(AssertUnwindSafe(|| run.close_all(result.as_ref().err()))).is_err() {
            panicked(self.id);
        }
        if let Err(error) = result {
            // A reader that is gone needs no status, and one that does not even take it is given up.
            let _ = tokio::time::timeout(STATUS_PATIENCE, events.send(Err(error))).await;
        }
    }
}

/// The message of the panic is for the panic hook: it may hold what the caller sent.
pub(super) fn panicked(session: SessionId) -> ServeError {
    tracing::error!(%session, "panic in a session");
    StageError::panicked("session").into()
}

/// Answers to `config` that may wait for utterances before no further command is read.
const MAX_READY: usize = 8;

struct Run {
    id: SessionId,
    deps: SessionDeps,
    caller: Option<TraceParent>,
    holds_back: bool,
    uncut: bool,
    /// Text without a character came, and no utterance is open.
    blank: bool,
    visit: Visit,
    patience: Patience,
    settings: Option<Arc<Settings>>,
    /// The first is being spoken, the last may be open.
    queue: VecDeque<Utterance>,
    names: Names,
    outbox: Outbox,
    /// Answers to `config`, each with the number of utterances that were opened before it.
    ready: VecDeque<(u64, Event)>,
    /// Utterances that were opened.
    opened: u64,
    pace: Pace,
    /// Commands are taken.
    listening: bool,
    /// The caller sends no more commands.
    hung_up: bool,
    /// Set when no new utterance is taken; the session ends with it.
    closing: Option<ServeError>,
}

/// Something that is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Session(Due),
    Flush,
    Pause,
    /// What was held back is due.
    Pace,
}

impl Run {
    async fn serve<S>(
        &mut self,
        mut commands: S,
        events: &mpsc::Sender<Result<Event, ServeError>>,
    ) -> Result<(), ServeError>
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin,
    {
        let draining = self.deps.orchestrator.draining().clone();
        let (stop, visit) = (self.deps.stop.clone(), self.visit.clone());
        let mut turns = Turns::default();
        loop {
            self.advance();
            if self.queue.is_empty() && self.outbox.is_empty() {
                if self.hung_up {
                    return Ok(());
                }
                if let Some(error) = self.closing.take() {
                    return Err(error);
                }
            }
            let (at, alarm) = self.next_alarm();
            let alarm_in = at.since(self.deps.clock.now());
            let (listens, takes_audio) = (self.listens(), self.outbox.takes_audio());
            let sends = !self.outbox.is_empty() && self.held_until().is_none();
            tokio::select! {
                biased;
                () = events.closed() => return Err(CallerGone.into()),
                () = stop.cancelled() => return Err(ShutdownError::Stopped.into()),
                cancelled = visit.cancelled() => return Err(cancelled.into()),
                () = draining.cancelled(), if self.closing.is_none() => self.drain(),
                () = tokio::time::sleep(alarm_in) => self.ring(alarm)?,
                slot = events.reserve(), if sends => match slot {
                    Ok(slot) => self.send(slot),
                    Err(_closed) => return Err(CallerGone.into()),
                },
                next = turns.next(
                    when(listens, commands.next()),
                    when(takes_audio, next_progress(&mut self.queue)),
                ) => match next {
                    Either::Left(Some(command)) => self.command(command?)?,
                    Either::Left(None) => self.hang_up(),
                    Either::Right(progress) => {
                        let now = self.deps.clock.now();
                        self.patience.active(now);
                        if let Some(front) = self.queue.front_mut() {
                            front.take(progress, &mut self.outbox, now);
                        }
                    }
                },
            }
        }
    }

    /// Whether a command is taken now.
    fn listens(&self) -> bool {
        let answers = self.ready.len() < MAX_READY;
        self.listening && answers && self.outbox.has_room() && (!self.holds_back || self.has_room())
    }

    /// Whether the longest text that may come can wait here.
    fn has_room(&self) -> bool {
        let limits = &self.deps.limits;
        let open = self.open().is_some();
        let waiting: usize = self.queue.iter().map(Utterance::waiting_bytes).sum();
        let text = waiting + limits.max_text_bytes <= limits.max_buffered_text_bytes;
        // What an utterance has gathered is not spoken before its flush comes: nothing else can make room then.
        let alone = self.queue.is_empty() || (open && self.queue.len() == 1);
        (text || alone) && (open || self.queue.len() < limits.max_utterances)
    }

    /// Lets the first utterance do what it can, and the next ones after it when it is done.
    fn advance(&mut self) {
        let now = self.deps.clock.now();
        self.announce();
        while self.outbox.has_room()
            && let Some(front) = self.queue.front_mut()
            && front.advance(&mut self.outbox, now)
        {
            // A failed utterance goes on swallowing its text until the caller ends it; its `done` does not wait for that.
            let front = self.queue.pop_front().expect("it was there");
            self.names.ended(front.id(), front.is_open());
            let utterance = Some(front.id().clone());
            let (done, record) = front.close(self.id, None, now);
            self.deps.records.utterance(&record);
            let body = EventBody::Done(Box::new(done));
            self.outbox.push(Event { utterance, body });
            self.announce();
        }
        // What is held back is not the reader's to take.
        let offers = !self.outbox.is_empty() && self.held_until().is_none();
        self.patience.offer(offers, now);
        self.visit.set_active(!self.queue.is_empty(), now);
    }

    /// Sends `ready` behind all utterances that were opened before its `config`: their audio has the old format.
    fn announce(&mut self) {
        let ended = self.opened - self.queue.len() as u64;
        while let Some((_, event)) = self.ready.pop_front_if(|(before, _)| *before <= ended) {
            self.outbox.push(event);
        }
    }

    /// Until when the next event is held back, because its listener has enough.
    fn held_until(&self) -> Option<Stamp> {
        let time = self.outbox.next_audio()?;
        let now = self.deps.clock.now();
        self.pace.due(self.queue.front()?.max_lead(), time, now)
    }

    fn send(&mut self, slot: mpsc::Permit<'_, Result<Event, ServeError>>) {
        let Some(event) = self.outbox.pop() else { return };
        let now = self.deps.clock.now();
        let mut worth = READING;
        if let EventBody::Audio(audio) = &event.body {
            worth = audio.time;
            self.pace.sent(audio.time, now);
            if let Some(front) = self.queue.front_mut() {
                let packet = front.handed_over(audio.samples, now);
                packet.inspect(|packet| self.deps.records.packet(packet));
            }
            self.visit.sent(audio.time, now);
        }
        self.patience.taken(worth, now);
        slot.send(Ok(event));
    }

    fn drain(&mut self) {
        let draining = ServeError::from(ShutdownError::Draining);
        let message =
            "the server is shutting down: open utterances are finished, new ones are refused".to_owned();
        let reason = draining.reason();
        self.closing = Some(draining);
        self.outbox.push(Event {
            utterance: None,
            body: EventBody::Warning { reason, message },
        });
    }

    /// The session is too old. What is open is finished as it is, for whoever could keep it open could keep the session; what still
    /// comes for it is dropped.
    fn grow_old(&mut self, error: ServeError) {
        if let Some(open) = self.open() {
            let now = self.deps.clock.now();
            self.queue[open].finish(now);
            let utterance = Some(self.queue[open].id().clone());
            self.names.ended(self.queue[open].id(), true);
            let message = format!("{error}: the open utterance is finished without what comes from now on");
            let reason = error.reason();
            let body = EventBody::Warning { reason, message };
            self.outbox.push(Event { utterance, body });
        }
        self.closing = Some(error);
    }

    fn next_alarm(&self) -> (Stamp, Alarm) {
        let (at, due) = self.patience.next(self.closing.is_some());
        let flush = self.open().and_then(|open| self.queue[open].flush_due());
        let pause = self.queue.front().and_then(Utterance::pause_due);
        let flush = flush.map(|at| (at, Alarm::Flush));
        let pause = pause.map(|at| (at, Alarm::Pause));
        let pace = self.held_until().map(|at| (at, Alarm::Pace));
        let alarms = flush.into_iter().chain(pause).chain(pace);
        alarms.fold((at, Alarm::Session(due)), std::cmp::min)
    }

    fn ring(&mut self, alarm: Alarm) -> Result<(), ServeError> {
        match alarm {
            Alarm::Session(Due::Age) => self.grow_old(self.patience.over(Due::Age).into()),
            // How long a place may be waited for is decided where it is waited for, and how slow a stage may be where it is.
            Alarm::Session(Due::Idle) if self.queue.front().is_some_and(Utterance::is_busy) => {
                self.patience.active(self.deps.clock.now());
            }
            Alarm::Session(due) => return Err(self.patience.over(due).into()),
            // It is looked at again in any case.
            Alarm::Pace => {}
            Alarm::Pause => {
                if let Some(front) = self.queue.front_mut() {
                    front.pause(self.deps.clock.now());
                }
            }
            Alarm::Flush => {
                if let Some(open) = self.open() {
                    let now = self.deps.clock.now();
                    self.queue[open].flush(now);
                }
            }
        }
        Ok(())
    }

    /// Accounts for what the end of the session cuts off.
    fn close_all(&mut self, error: Option<&ServeError>) {
        if let Some(error) = error.filter(|_| self.opened == 0) {
            self.deps.records.nothing_began(error);
        }
        let now = self.deps.clock.now();
        for utterance in self.queue.drain(..) {
            let cause = error.cloned().unwrap_or_else(|| ShutdownError::Stopped.into());
            let (_, record) = utterance.close(self.id, Some(cause), now);
            self.deps.records.utterance(&record);
        }
    }
}

async fn next_progress(queue: &mut VecDeque<Utterance>) -> Progress {
    match queue.front_mut() {
        Some(front) => front.next().await,
        None => std::future::pending().await,
    }
}
