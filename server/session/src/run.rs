//! Speech sessions: text in, audio and its end out, one utterance after the other.

mod commands;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use omni_core::error::ServeError;
use omni_core::id::SessionId;
use omni_core::orchestrator::Orchestrator;
use omni_engine::Stamp;
use omni_pipeline::clock::Clock;
use omni_telemetry::TraceParent;
use tokio_util::sync::CancellationToken;

use super::event_channel::EventSender;
use super::limits::SessionLimits;
use super::names::Names;
use super::outbox::Outbox;
use super::pacer::PlayoutPacer;
use super::pipeline::Progress;
use super::protocol::{Command, Event, EventBody};
use super::record::RecordSink;
use super::registry::SessionHandle;
use super::session_loop::{self, Input, SessionBody, SessionCore, Wants};
use super::settings::{FIELD_IGNORED, Settings};
use super::timeouts::{Due, READING};
use super::utterance::Utterance;

/// Dependencies of every session.
#[derive(Clone, derive_more::Debug)]
#[debug("SessionDeps {{ limits: {:?}, .. }}", self.limits)]
pub struct SessionDeps {
    /// Admission and the model.
    pub orchestrator: Orchestrator,
    /// The time.
    pub clock: Clock,
    /// Bounds.
    pub limits: SessionLimits,
    /// Receiver of records.
    pub records: Arc<dyn RecordSink>,
    /// Cancelled when everything must end at once.
    pub stop: CancellationToken,
}

/// One session, not yet running.
#[derive(Debug)]
pub struct Session {
    core: SessionCore,
    holds_back: bool,
    uncut: bool,
    whole: bool,
}

impl Session {
    /// Creates a session that must have ended by `deadline`.
    pub fn new(deps: SessionDeps, deadline: Option<Stamp>) -> Self {
        Self {
            core: SessionCore::new(deps, deadline),
            holds_back: false,
            uncut: false,
            whole: false,
        }
    }

    /// Protocol without a cancel: skips the alignment unless word times are requested.
    #[must_use]
    pub fn uncut(mut self) -> Self {
        self.uncut = true;
        self
    }

    /// Speaks one text, which is all that the caller requests: text with nothing to speak is an error, unless it has
    /// no letters.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self.uncut = true;
        self
    }

    /// Sets the parent of its utterances' traces, if there is one.
    #[must_use]
    pub fn called_by(mut self, caller: Option<TraceParent>) -> Self {
        self.core.caller = caller;
        self
    }

    /// Stops reading commands while the most permitted text waits. For protocols that cannot report "too much", and
    /// whose callers only send text: a cancel would not be read either.
    #[must_use]
    pub fn holding_back(mut self) -> Self {
        self.holds_back = true;
        self.uncut = true;
        self
    }

    /// Sets its caller and its entry in the registry.
    #[must_use]
    pub fn with_handle(mut self, handle: SessionHandle) -> Self {
        self.core.handle = handle;
        self
    }

    pub fn id(&self) -> SessionId {
        self.core.id()
    }

    /// Runs to the end, see `session_loop`.
    pub async fn run<S>(self, commands: S, events: EventSender<Event>)
    where
        S: Stream<Item = Result<Command, ServeError>> + Unpin,
    {
        let run = Run {
            core: self.core,
            holds_back: self.holds_back,
            uncut: self.uncut,
            whole: self.whole,
            blank: false,
            settings: None,
            queue: VecDeque::new(),
            names: Names::default(),
            outbox: Outbox::default(),
            ready: VecDeque::new(),
            opened: 0,
            pacer: PlayoutPacer::default(),
            listening: true,
            alarm: None,
        };
        session_loop::run(run, commands, events).await;
    }
}

struct Run {
    core: SessionCore,
    holds_back: bool,
    uncut: bool,
    whole: bool,
    /// `true` if text without a character came, and no utterance is open.
    blank: bool,
    settings: Option<Arc<Settings>>,
    /// Utterances: the first is being spoken, the last may be open.
    queue: VecDeque<Utterance>,
    names: Names,
    outbox: Outbox,
    /// Answers to `config`, each with the number of utterances that were opened before it.
    ready: VecDeque<(u64, Event)>,
    /// Number of utterances opened.
    opened: u64,
    pacer: PlayoutPacer,
    /// `true` while commands are read.
    listening: bool,
    /// Next alarm.
    alarm: Option<(Stamp, Alarm)>,
}

/// Work that is due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Flush,
    Pause,
    /// Audio that was held back is due.
    PlayoutPacer,
}

impl SessionBody for Run {
    type Command = Command;
    type Event = Event;
    type Progress = Progress;

    fn core(&mut self) -> &mut SessionCore {
        &mut self.core
    }

    /// Advances the first utterance, and the next ones after it when it is done.
    fn advance(&mut self, now: Stamp) -> Wants {
        self.announce();
        while self.outbox.has_room()
            && let Some(front) = self.queue.front_mut()
            && front.advance(&mut self.outbox, now)
        {
            // A failed utterance goes on dropping its text until the caller ends it; its `done` does not wait for
            // that.
            let front = self.queue.pop_front().expect("it was there");
            self.names.ended(front.id(), front.is_open());
            let utterance = Some(front.id().clone());
            let (done, record, track) = front.close(self.core.id(), None, now);
            self.core.deps.records.ended(&record, track.as_ref());
            let body = EventBody::Done(Box::new(done));
            self.outbox.push(Event { utterance, body });
            self.announce();
        }
        let held = self.held_until(now);
        self.alarm = self.next_alarm(held);
        Wants {
            active: !self.queue.is_empty(),
            sent: self.outbox.is_empty(),
            sends: !self.outbox.is_empty() && held.is_none(),
            listens: self.listens(),
            alarm: self.alarm.map(|(at, _)| at),
        }
    }

    async fn next(&mut self) -> Progress {
        match self.queue.front_mut() {
            Some(front) if self.outbox.takes_audio() => front.next().await,
            _ => std::future::pending().await,
        }
    }

    fn take(&mut self, input: Input<Command, Progress>, now: Stamp) -> Result<(), ServeError> {
        match input {
            Input::Command(command) => self.command(command)?,
            Input::HangUp => self.hang_up(),
            Input::Progress(progress) => {
                if let Some(front) = self.queue.front_mut() {
                    front.take(progress, &mut self.outbox, now);
                }
            }
            Input::Alarm => self.ring(now),
            Input::Expired(due) => self.expired(due, now)?,
            // Nothing comes before `ready`. A session without settings ends at once, with the same reason.
            Input::Drain(_) if self.settings.is_none() => {}
            // Everything that this caller requested is done; only the reader is behind.
            Input::Drain(_) if self.core.hung_up && self.queue.is_empty() => {}
            Input::Drain(reason) => {
                let message =
                    "the server is shutting down: open utterances are finished, new ones are refused";
                self.warn(reason, message.to_owned());
            }
            Input::End(cause) => self.close(&cause, now),
        }
        Ok(())
    }

    fn send(&mut self, now: Stamp) -> Option<(Event, Duration)> {
        let event = self.outbox.pop()?;
        let mut worth = READING;
        if let EventBody::Audio(audio) = &event.body {
            worth = audio.time;
            self.pacer.sent(audio.time, now);
            if let Some(front) = self.queue.front_mut() {
                let packet = front.handed_over(audio, now);
                packet.inspect(|packet| self.core.deps.records.packet(packet));
            }
            self.core.handle.sent(audio.time, now);
        }
        Some((event, worth))
    }
}

impl Run {
    fn close(&mut self, cause: &ServeError, now: Stamp) {
        for utterance in self.queue.drain(..) {
            let (_, record, track) = utterance.close(self.core.id(), Some(cause.clone()), now);
            self.core.deps.records.ended(&record, track.as_ref());
        }
    }

    /// Returns true if a command is read now.
    fn listens(&self) -> bool {
        self.listening && self.outbox.has_room() && (!self.holds_back || self.has_room())
    }

    /// Returns true if the answer to another `config` can be queued here. Each utterance may have a config of its
    /// own.
    fn has_room_for_config(&self) -> bool {
        self.ready.len() < self.core.deps.limits.max_utterances
    }

    /// Returns true if the longest permitted text can be queued here.
    fn has_room(&self) -> bool {
        let limits = &self.core.deps.limits;
        let open = self.open().is_some();
        let waiting: usize = self.queue.iter().map(Utterance::waiting_bytes).sum();
        let text = waiting + limits.max_text_bytes <= limits.max_buffered_text_bytes;
        // Gathered text of an utterance is not spoken before its flush comes: nothing else can make room then.
        let alone = self.queue.is_empty() || (open && self.queue.len() == 1);
        let utterances = open || self.queue.len() < limits.max_utterances;
        (text || alone) && utterances && self.has_room_for_config()
    }

    /// Sends `ready` behind all utterances that were opened before its `config`: their audio has the old format.
    fn announce(&mut self) {
        let ended = self.opened - self.queue.len() as u64;
        while let Some((_, event)) = self.ready.pop_front_if(|(before, _)| *before <= ended) {
            let ignored = match &event.body {
                EventBody::Ready(ready) => ready.settings.ignored.clone(),
                _ => Vec::new(),
            };
            self.outbox.push(event);
            for ignored in ignored {
                let reason = FIELD_IGNORED;
                let message = ignored.to_string();
                self.warn(reason, message);
            }
        }
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.outbox.push(Event {
            utterance: None,
            body: EventBody::Warning { reason, message },
        });
    }

    /// Time until which the next event is held back, because its listener has enough.
    fn held_until(&self, now: Stamp) -> Option<Stamp> {
        let time = self.outbox.next_audio()?;
        self.pacer.due(self.queue.front()?.max_lead(), time, now)
    }

    /// Ends the session for its age. Open work is finished as it is, for a caller that kept it open would keep the
    /// session; further text for it is dropped.
    fn grow_old(&mut self, error: ServeError) {
        if let Some(open) = self.open() {
            let now = self.core.now();
            self.queue[open].finish(now);
            let utterance = Some(self.queue[open].id().clone());
            self.names.ended(self.queue[open].id(), true);
            let message = format!("{error}: the open utterance is finished without what comes from now on");
            let reason = error.reason();
            let body = EventBody::Warning { reason, message };
            self.outbox.push(Event { utterance, body });
        }
        self.core.closing = Some(error);
    }

    fn next_alarm(&self, held: Option<Stamp>) -> Option<(Stamp, Alarm)> {
        let flush = self.open().and_then(|open| self.queue[open].flush_due());
        let pause = self.queue.front().and_then(Utterance::pause_due);
        let alarms = [
            (flush, Alarm::Flush),
            (pause, Alarm::Pause),
            (held, Alarm::PlayoutPacer),
        ];
        alarms
            .into_iter()
            .filter_map(|(at, alarm)| Some((at?, alarm)))
            .min()
    }

    fn ring(&mut self, now: Stamp) {
        match self.alarm.map(|(_, alarm)| alarm) {
            // It is checked again in any case.
            None | Some(Alarm::PlayoutPacer) => {}
            Some(Alarm::Pause) => {
                if let Some(front) = self.queue.front_mut() {
                    front.pause(now);
                }
            }
            Some(Alarm::Flush) => {
                if let Some(open) = self.open() {
                    self.queue[open].flush(now);
                }
            }
        }
    }

    fn expired(&mut self, due: Due, now: Stamp) -> Result<(), ServeError> {
        let error = self.core.timeouts.over(due);
        match due {
            Due::Age => self.grow_old(error.into()),
            // Admission has a limit of its own for the wait, and stages for theirs.
            Due::Idle if self.queue.front().is_some_and(Utterance::is_busy) => self.core.timeouts.active(now),
            Due::Deadline | Due::Idle | Due::Stall => return Err(error.into()),
        }
        Ok(())
    }
}
