//! The loop of a conversation: listens to the caller, to the model, to the reader and to the clock, all at once.

mod said;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::future::Either;
use futures::{FutureExt as _, Stream, StreamExt as _};
use omni_audio::Samples;
use omni_engine::{CacheSalt, Stamp};
use omni_telemetry::TraceParent;
use tokio::sync::mpsc;

use super::history::{History, assistant};
use super::names::Names;
use super::outbox::Outbox;
use super::protocol::{ChatCommand, ChatEvent, ChatEventBody, Respond};
use super::settings::{ChatLimits, ChatSettings};
use super::turn::{Last, Question, Turn, TurnEvent};
use crate::caller::Caller;
use crate::drain::ShutdownError;
use crate::error::{InvalidField, ServeError};
use crate::id::{MessageId, SessionId, random_seed};
use crate::session::error::{CallerGone, ProtocolError};
use crate::session::patience::{Due, Patience, READING};
use crate::session::registry::Visit;
use crate::session::run::{STATUS_PATIENCE, SessionDeps, panicked};
use crate::session::turns::{Turns, when};

type Events = mpsc::Sender<Result<ChatEvent, ServeError>>;

/// One conversation, not yet running.
#[derive(Debug)]
pub struct ChatSession {
    id: SessionId,
    deps: SessionDeps,
    deadline: Option<Stamp>,
    caller: Option<TraceParent>,
    visit: Visit,
}

impl ChatSession {
    /// A conversation that must be over by `deadline`.
    #[must_use]
    pub fn new(deps: SessionDeps, deadline: Option<Stamp>) -> Self {
        let visit = Visit::new("", Caller::default(), deps.clock.now());
        Self {
            id: visit.id(),
            deps,
            deadline,
            caller: None,
            visit,
        }
    }

    /// Who it serves, and where it tells what it does.
    #[must_use]
    pub fn visited_by(mut self, visit: Visit) -> Self {
        self.id = visit.id();
        self.visit = visit;
        self
    }

    /// Its answers are parts of what `caller` does, if that says so.
    #[must_use]
    pub fn called_by(mut self, caller: Option<TraceParent>) -> Self {
        self.caller = caller;
        self
    }

    /// Runs to the end: of the commands and the answer they asked for, or of the reader's interest. An error among the commands
    /// ends the conversation with it, as the last thing sent; so does a panic, which is nothing that a caller may take for an
    /// end.
    pub async fn run<S>(self, commands: S, events: Events)
    where
        S: Stream<Item = Result<ChatCommand, ServeError>> + Unpin,
    {
        let now = self.deps.clock.now();
        let hearing = self
            .deps
            .orchestrator
            .chat()
            .ok()
            .and_then(|chat| chat.info.hearing);
        let mut run = Run {
            id: self.id,
            patience: Patience::new(self.deps.limits, self.deadline, now),
            salt: self.deps.orchestrator.next_salt(),
            deps: self.deps,
            caller: self.caller,
            visit: self.visit,
            limits: ChatLimits::default(),
            settings: None,
            history: History::new(hearing),
            names: Names::default(),
            audio: Vec::new(),
            characters: 0,
            turn: None,
            last: None,
            outbox: Outbox::default(),
            hung_up: false,
            refused: false,
            began: false,
            closing: None,
        };
        let served = AssertUnwindSafe(run.serve(commands, &events))
            .catch_unwind()
            .await;
        let result = served.unwrap_or_else(|_| Err(panicked(self.id)));
        if catch_unwind(AssertUnwindSafe(|| run.abort(result.as_ref().err()))).is_err() {
            panicked(self.id);
        }
        if let Err(error) = result {
            // A reader that is gone needs no status, and one that does not even take it is given up.
            let _ = tokio::time::timeout(STATUS_PATIENCE, events.send(Err(error))).await;
        }
    }
}

struct Run {
    id: SessionId,
    deps: SessionDeps,
    caller: Option<TraceParent>,
    visit: Visit,
    patience: Patience,
    limits: ChatLimits,
    /// Keeps what the thinker computes for this conversation apart from others'.
    salt: CacheSalt,
    settings: Option<Arc<ChatSettings>>,
    history: History,
    names: Names,
    /// What the user is saying.
    audio: Vec<f32>,
    /// Characters that have come since an answer was last begun.
    characters: usize,
    turn: Option<Turn>,
    /// The answer that was done last, while it may still be cut.
    last: Option<Last>,
    outbox: Outbox,
    /// The caller sends no more commands.
    hung_up: bool,
    /// An answer was asked for that is not begun any more: nothing else is listened to.
    refused: bool,
    /// An answer was begun.
    began: bool,
    /// Set when no new answer is begun; the session ends with it.
    closing: Option<ServeError>,
}

impl Run {
    async fn serve<S>(&mut self, mut commands: S, events: &Events) -> Result<(), ServeError>
    where
        S: Stream<Item = Result<ChatCommand, ServeError>> + Unpin,
    {
        let draining = self.deps.orchestrator.draining().clone();
        let (stop, visit) = (self.deps.stop.clone(), self.visit.clone());
        let mut turns = Turns::default();
        loop {
            self.advance();
            if self.turn.is_none() && self.outbox.is_empty() {
                if self.hung_up {
                    return Ok(());
                }
                if let Some(error) = self.closing.take() {
                    return Err(error);
                }
            }
            let now = self.deps.clock.now();
            let (at, due) = self.patience.next(self.closing.is_some());
            let due_in = at.since(now);
            let (takes_text, takes_audio) = (self.outbox.takes_text(), self.outbox.takes_audio());
            let stall = self
                .turn
                .as_mut()
                .and_then(|turn| turn.stalls_at(takes_text, now));
            let stall_in = stall.map(|at| at.since(now));
            let held = self.held_until(now);
            let held_in = held.map(|at| at.since(now));
            let sends = self.outbox.has_next(held.is_some());
            let listens = !self.hung_up && !self.refused && self.outbox.takes_commands();
            tokio::select! {
                biased;
                () = events.closed() => return Err(CallerGone.into()),
                () = stop.cancelled() => return Err(ShutdownError::Stopped.into()),
                cancelled = visit.cancelled() => return Err(cancelled.into()),
                () = draining.cancelled(), if self.closing.is_none() => self.drain(),
                () = tokio::time::sleep(due_in) => match due {
                    Due::Age => self.closing = Some(self.patience.over(due).into()),
                    // As for speech: admission bounds the wait for a permit, and the stages that for audio.
                    Due::Idle if self.turn.as_ref().is_some_and(Turn::waits) => self.patience.active(self.deps.clock.now()),
                    // Nothing comes of the answer, and that is not the caller's fault.
                    Due::Idle if self.turn.is_some() => self.give_up(),
                    Due::Deadline | Due::Idle | Due::Stall => return Err(self.patience.over(due).into()),
                },
                () = tokio::time::sleep(stall_in.unwrap_or_default()), if stall_in.is_some() => self.stalled(),
                // What was held back is due: it is looked at again.
                () = tokio::time::sleep(held_in.unwrap_or_default()), if held.is_some() => {}
                slot = events.reserve(), if sends => match slot {
                    Ok(slot) => self.send(slot, held.is_some()),
                    Err(_closed) => return Err(CallerGone.into()),
                },
                next = turns.next(
                    when(listens, commands.next()),
                    next_event(&mut self.turn, takes_text, takes_audio),
                ) => match next {
                    Either::Left(Some(command)) => self.command(command?)?,
                    Either::Left(None) => self.hung_up = true,
                    Either::Right(event) => self.take(event),
                },
            }
        }
    }

    fn take(&mut self, event: TurnEvent) {
        let now = self.deps.clock.now();
        self.patience.active(now);
        if let Some(turn) = &mut self.turn {
            turn.take(event, &mut self.outbox, now);
            // Nothing is added while an answer is in progress: the numbers are still those of the history.
            self.history.forget(turn.take_forgotten());
        }
    }

    /// The thinker gives no more.
    fn stalled(&mut self) {
        let now = self.deps.clock.now();
        if let Some(turn) = &mut self.turn {
            turn.stalled(now);
        }
    }

    /// Nothing has come of the answer for as long as sessions are waited for.
    fn give_up(&mut self) {
        self.patience.active(self.deps.clock.now());
        if let Some(turn) = &mut self.turn {
            turn.give_up(self.deps.limits.idle_timeout);
        }
    }

    /// Lets the answer do what it can, and ends it when it is done.
    fn advance(&mut self) {
        let now = self.deps.clock.now();
        if let Some(turn) = &mut self.turn
            && turn.advance(&mut self.outbox, now)
            && let Some(turn) = self.turn.take()
        {
            let id = turn.id().clone();
            let closed = turn.close(self.id, None, now);
            self.deps.records.turn(&closed.record);
            if !closed.done.said.text.is_empty() {
                self.remember(id.clone(), assistant(&closed.done.said.text));
            }
            self.last = Some(closed.last);
            self.outbox
                .push(Some(&id), ChatEventBody::Done(Box::new(closed.done)));
        }
        // What is held back is not the reader's to take.
        let held = self.held_until(now).is_some();
        self.patience.offer(self.outbox.has_next(held), now);
        self.visit.set_active(self.turn.is_some(), now);
    }

    /// Until when audio is held back, because its listener has enough.
    fn held_until(&self, now: Stamp) -> Option<Stamp> {
        self.turn.as_ref()?.due(self.outbox.next_audio()?, now)
    }

    fn send(&mut self, slot: mpsc::Permit<'_, Result<ChatEvent, ServeError>>, hold_audio: bool) {
        let Some(event) = self.outbox.pop(hold_audio) else {
            return;
        };
        let now = self.deps.clock.now();
        self.patience.taken(worth(&event.body), now);
        if let Some(turn) = &mut self.turn {
            match &event.body {
                ChatEventBody::Text(text) => turn.text_sent(text.len(), now),
                ChatEventBody::Audio(audio) => {
                    let packet = turn.audio_sent(audio.samples, now);
                    packet.inspect(|packet| self.deps.records.packet(packet));
                }
                _ => {}
            }
        }
        if let ChatEventBody::Audio(audio) = &event.body {
            self.visit.sent(audio.time, now);
        }
        slot.send(Ok(event));
    }

    fn command(&mut self, command: ChatCommand) -> Result<(), ServeError> {
        let now = self.deps.clock.now();
        self.patience.active(now);
        match command {
            ChatCommand::Interrupt { response, played } if self.settings.is_some() => {
                self.interrupt(&response, played)
            }
            ChatCommand::Audio(samples) if self.settings.is_some() => self.hear(samples),
            ChatCommand::Configure { settings, history } if self.turn.is_none() => {
                self.configure(*settings, history)
            }
            _ if self.settings.is_none() => Err(ProtocolError::NO_CONFIG.into()),
            _ if self.turn.is_some() => Err(ProtocolError::ResponseInProgress.into()),
            ChatCommand::Message(message) => self.message(message),
            ChatCommand::Commit { respond } => {
                self.commit()?;
                match respond {
                    true => self.respond(&Respond::default(), now),
                    false => Ok(()),
                }
            }
            ChatCommand::Respond(respond) => self.respond(&respond, now),
            ChatCommand::Configure { .. } | ChatCommand::Interrupt { .. } | ChatCommand::Audio(_) => {
                Err(ProtocolError::ResponseInProgress.into())
            }
        }
    }

    fn respond(&mut self, respond: &Respond, now: Stamp) -> Result<(), ServeError> {
        let Some(settings) = self.settings.clone() else {
            return Err(ProtocolError::NO_CONFIG.into());
        };
        if self.closing.is_some() {
            self.refused = true;
            return Ok(());
        }
        let instructions = respond.instructions.as_ref().or(settings.instructions.as_ref());
        let question = Question {
            id: self.names.take(&respond.id)?,
            modalities: respond.modalities.unwrap_or(settings.modalities),
            conversation: self.history.conversation(instructions),
            seed: settings.seed.unwrap_or_else(random_seed),
            salt: self.salt,
            trace: self.deps.records.begins(self.caller.as_ref(), now),
            settings,
        };
        self.last = None;
        let (orchestrator, limits) = (&self.deps.orchestrator, &self.deps.limits);
        let mut turn = Turn::new(question, orchestrator, limits, self.deps.clock, now)?;
        let characters = self.characters + respond.instructions.as_deref().map_or(0, characters);
        match self.visit.begin(characters, now) {
            Ok(()) => self.characters = 0,
            // What was refused is still in the conversation, and to be paid for by the answer that reads it.
            Err(over) => {
                let over = ServeError::from(over);
                self.deps.records.refused(&over);
                turn.fail(over);
            }
        }
        self.began = true;
        self.turn = Some(turn);
        Ok(())
    }

    fn interrupt(&mut self, response: &str, played: Option<Samples>) -> Result<(), ServeError> {
        let silent = || {
            let problem = "is set for a response that was not to be spoken, expected unset";
            Err(InvalidField::new("interrupt.played_samples", problem).into())
        };
        let named = |id: &MessageId| response.is_empty() || id.as_str() == response;
        if let Some(turn) = self.turn.as_mut().filter(|turn| named(turn.id())) {
            if played.is_some() && !turn.is_spoken() {
                return silent();
            }
            turn.interrupt(played);
        } else if self.turn.is_none()
            && let Some(last) = self.last.as_mut().filter(|last| named(&last.said.id))
            && let Some(played) = played
        {
            if !last.is_spoken {
                return silent();
            }
            last.cut(played);
            self.history.cut(&last.said.id, &last.said.text);
            let said = last.said.clone();
            self.outbox.push(Some(&said.id.clone()), ChatEventBody::Cut(said));
        }
        Ok(())
    }

    fn drain(&mut self) {
        let draining = ServeError::from(ShutdownError::Draining);
        let message =
            "the server is shutting down: the answer in progress is finished, no other is begun".to_owned();
        let reason = draining.reason();
        self.closing = Some(draining);
        self.outbox.push(None, ChatEventBody::Warning { reason, message });
    }

    /// Accounts for what the end of the session cuts off.
    fn abort(&mut self, error: Option<&ServeError>) {
        if let Some(error) = error.filter(|_| !self.began) {
            self.deps.records.nothing_began(error);
        }
        if let Some(turn) = self.turn.take() {
            let cause = error.cloned().unwrap_or_else(|| ShutdownError::Stopped.into());
            let closed = turn.close(self.id, Some(cause), self.deps.clock.now());
            self.deps.records.turn(&closed.record);
        }
    }
}

async fn next_event(turn: &mut Option<Turn>, text: bool, audio: bool) -> TurnEvent {
    match turn {
        Some(turn) => turn.next(text, audio).await,
        None => std::future::pending().await,
    }
}

/// How long it takes to hear or to read it.
fn worth(body: &ChatEventBody) -> Duration {
    match body {
        ChatEventBody::Audio(audio) => audio.time,
        _ => READING,
    }
}

fn characters(text: &str) -> usize {
    text.chars().count()
}
