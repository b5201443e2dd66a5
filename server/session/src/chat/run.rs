//! Conversation sessions: messages in, one answer at a time out.

mod said;

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use omni_audio::Samples;
use omni_core::error::{InvalidField, ServeError};
use omni_core::id::{MessageId, random_seed};
use omni_engine::{CacheSalt, Stamp};
use omni_telemetry::TraceParent;

use super::history::{self, History, assistant};
use super::names::Names;
use super::outbox::Outbox;
use super::protocol::{ChatCommand, ChatEvent, ChatEventBody, Respond};
use super::settings::{ChatLimits, ChatSettings};
use super::turn::{Last, Question, Turn, TurnEvent};
use crate::EventSender;
use crate::error::ProtocolError;
use crate::registry::SessionHandle;
use crate::run::SessionDeps;
use crate::session_loop::{self, Input, SessionBody, SessionCore, Wants};
use crate::timeouts::{Due, READING};

/// One conversation, not yet running.
#[derive(Debug)]
pub struct ChatSession(SessionCore);

impl ChatSession {
    /// Creates a conversation that must have ended by `deadline`.
    pub fn new(deps: SessionDeps, deadline: Option<Stamp>) -> Self {
        Self(SessionCore::new(deps, deadline))
    }

    /// Sets its caller and its entry in the registry.
    #[must_use]
    pub fn with_handle(mut self, handle: SessionHandle) -> Self {
        self.0.handle = handle;
        self
    }

    /// Sets the parent of its answers' traces, if there is one.
    #[must_use]
    pub fn called_by(mut self, caller: Option<TraceParent>) -> Self {
        self.0.caller = caller;
        self
    }

    /// Runs to the end, see `session_loop`.
    pub async fn run<S>(self, commands: S, events: EventSender<ChatEvent>)
    where
        S: Stream<Item = Result<ChatCommand, ServeError>> + Unpin,
    {
        let orchestrator = &self.0.deps.orchestrator;
        let hearing = orchestrator.chat().ok().and_then(|chat| chat.info.hearing);
        let run = Run {
            salt: orchestrator.next_salt(),
            core: self.0,
            limits: ChatLimits::default(),
            settings: None,
            history: History::new(hearing),
            names: Names::default(),
            audio: Vec::new(),
            characters: 0,
            turn: None,
            remembers: true,
            beside: false,
            last: None,
            outbox: Outbox::default(),
            refused: false,
            stalls: false,
        };
        session_loop::run(run, commands, events).await;
    }
}

struct Run {
    core: SessionCore,
    limits: ChatLimits,
    /// Keeps the model's cache entries for this conversation apart from those of others.
    salt: CacheSalt,
    settings: Option<Arc<ChatSettings>>,
    history: History,
    names: Names,
    /// Audio of the user's message in progress.
    audio: Vec<f32>,
    /// Characters that came since the last answer began.
    characters: usize,
    turn: Option<Turn>,
    /// `true` if the answer in progress is to the session's own history, and will be added to it.
    remembers: bool,
    /// `true` if it is a side conversation.
    beside: bool,
    /// Last finished answer, while it may still be cut.
    last: Option<Last>,
    outbox: Outbox,
    /// `true` if a requested answer will not begin any more: no commands are read.
    refused: bool,
    /// `true` if the alarm is for a model that gives nothing, and not for audio that is held back.
    stalls: bool,
}

impl SessionBody for Run {
    type Command = ChatCommand;
    type Event = ChatEvent;
    type Progress = TurnEvent;

    fn core(&mut self) -> &mut SessionCore {
        &mut self.core
    }

    /// Advances the answer, and ends it when it is done.
    fn advance(&mut self, now: Stamp) -> Wants {
        if let Some(turn) = &mut self.turn
            && turn.advance(&mut self.outbox, now)
            && let Some(turn) = self.turn.take()
        {
            self.end(turn, now);
        }
        let takes_text = self.outbox.takes_text();
        let turn = self.turn.as_mut();
        let stall = turn.and_then(|turn| turn.stalls_at(takes_text, now));
        let held = self.held_until(now);
        self.stalls = stall.is_some_and(|stall| held.is_none_or(|held| stall <= held));
        Wants {
            active: self.turn.is_some(),
            sent: self.outbox.is_empty(),
            sends: self.outbox.has_next(held.is_some()),
            listens: !self.core.hung_up && !self.refused && self.outbox.takes_commands(),
            alarm: stall.into_iter().chain(held).min(),
        }
    }

    async fn next(&mut self) -> TurnEvent {
        let text = self.outbox.takes_text();
        let audio = self.outbox.takes_audio();
        match &mut self.turn {
            Some(turn) => turn.next(text, audio).await,
            None => std::future::pending().await,
        }
    }

    fn take(&mut self, input: Input<ChatCommand, TurnEvent>, now: Stamp) -> Result<(), ServeError> {
        match input {
            Input::Command(command) => self.command(command)?,
            Input::HangUp => {}
            Input::Progress(event) => self.progress(event, now),
            // Audio that was held back is checked again in any case.
            Input::Alarm => {
                if self.stalls
                    && let Some(turn) = &mut self.turn
                {
                    turn.stalled(now);
                }
            }
            Input::Expired(due) => self.expired(due, now)?,
            // Nothing comes before `ready`. A session without settings ends at once, with the same reason.
            Input::Drain(_) if self.settings.is_none() => {}
            // Everything that this caller requested is done; only the reader is behind.
            Input::Drain(_) if self.core.hung_up && self.turn.is_none() => {}
            Input::Drain(reason) => {
                let message =
                    "the server is shutting down: the answer in progress is finished, no other is begun";
                let message = message.to_owned();
                self.outbox.push(None, ChatEventBody::Warning { reason, message });
            }
            Input::End(cause) => self.close(cause, now),
        }
        Ok(())
    }

    fn send(&mut self, now: Stamp) -> Option<(ChatEvent, Duration)> {
        let held = self.held_until(now).is_some();
        let event = self.outbox.pop(held)?;
        if let Some(turn) = &mut self.turn {
            match &event.body {
                ChatEventBody::Text(text) => turn.text_sent(text.len(), now),
                ChatEventBody::Audio(audio) => {
                    let packet = turn.audio_sent(audio, now);
                    packet.inspect(|packet| self.core.deps.records.packet(packet));
                }
                _ => {}
            }
        }
        let worth = match &event.body {
            ChatEventBody::Audio(audio) => {
                self.core.handle.sent(audio.time, now);
                audio.time
            }
            _ => READING,
        };
        Some((event, worth))
    }
}

impl Run {
    fn close(&mut self, cause: ServeError, now: Stamp) {
        if let Some(turn) = self.turn.take() {
            let closed = turn.close(self.core.id(), Some(cause), now);
            self.core
                .deps
                .records
                .ended(&closed.record, closed.track.as_ref());
        }
    }

    fn progress(&mut self, event: TurnEvent, now: Stamp) {
        if let Some(turn) = &mut self.turn {
            turn.take(event, &mut self.outbox, now);
            // Nothing is added while an answer is in progress: the numbers are still those of the history.
            if self.remembers {
                self.history.forget(turn.take_forgotten());
            }
        }
    }

    fn end(&mut self, turn: Turn, now: Stamp) {
        let id = turn.id().clone();
        let closed = turn.close(self.core.id(), None, now);
        self.core
            .deps
            .records
            .ended(&closed.record, closed.track.as_ref());
        if self.remembers && !closed.done.said.text.is_empty() {
            self.remember(id.clone(), assistant(&closed.done.said.text));
        }
        if !self.beside {
            self.last = Some(closed.last);
        }
        self.outbox
            .push(Some(&id), ChatEventBody::Done(Box::new(closed.done)));
    }

    fn expired(&mut self, due: Due, now: Stamp) -> Result<(), ServeError> {
        let error = self.core.timeouts.over(due);
        match (due, &mut self.turn) {
            (Due::Age, _) => self.core.closing = Some(error.into()),
            // Admission has a limit of its own for the wait.
            (Due::Idle, Some(turn)) if turn.waits() => self.core.timeouts.active(now),
            // The answer gives nothing, and that is not the caller's fault.
            (Due::Idle, Some(turn)) => {
                turn.give_up(self.core.deps.limits.idle_timeout);
                self.core.timeouts.active(now);
            }
            (Due::Deadline | Due::Idle | Due::Stall, _) => return Err(error.into()),
        }
        Ok(())
    }

    /// Time until which audio is held back, because its listener has enough.
    fn held_until(&self, now: Stamp) -> Option<Stamp> {
        self.turn.as_ref()?.due(self.outbox.next_audio()?, now)
    }

    fn command(&mut self, command: ChatCommand) -> Result<(), ServeError> {
        let now = self.core.now();
        // A caller that is only present must not keep alive an answer that gives nothing.
        if self.turn.is_none() || !matches!(command, ChatCommand::Present) {
            self.core.timeouts.active(now);
        }
        match command {
            ChatCommand::Interrupt { response, played } if self.settings.is_some() => {
                self.interrupt(&response, played)
            }
            ChatCommand::Audio(samples) if self.settings.is_some() => self.hear(samples),
            ChatCommand::Present => Ok(()),
            ChatCommand::Configure {
                settings,
                history,
                cut,
            } if self.turn.is_none() => {
                self.configure(*settings, history)?;
                self.tell_cut(cut);
                Ok(())
            }
            _ if self.settings.is_none() => Err(ProtocolError::NO_CONFIG.into()),
            _ if self.turn.is_some() => Err(ProtocolError::ResponseInProgress.into()),
            ChatCommand::Message(message) => self.message(message),
            ChatCommand::Commit { respond } => {
                self.commit()?;
                if respond {
                    self.respond(&Respond::default(), now)
                } else {
                    Ok(())
                }
            }
            ChatCommand::Respond(respond) => self.respond(&respond, now),
            ChatCommand::Configure { .. } | ChatCommand::Interrupt { .. } | ChatCommand::Audio(_) => {
                Err(ProtocolError::ResponseInProgress.into())
            }
        }
    }

    fn respond(&mut self, respond: &Respond, now: Stamp) -> Result<(), ServeError> {
        let given = respond.given.as_deref();
        let settings = given.map_or_else(
            || self.settings.clone(),
            |given| Some(Arc::clone(&given.settings)),
        );
        let Some(settings) = settings else {
            return Err(ProtocolError::NO_CONFIG.into());
        };
        if self.core.closing.is_some() {
            self.refused = true;
            return Ok(());
        }
        let instructions = respond.instructions.as_ref().or(settings.instructions.as_ref());
        let question = Question {
            id: self.names.take(&respond.id)?,
            modalities: respond.modalities.unwrap_or(settings.modalities),
            conversation: match given {
                Some(given) => history::given(&given.messages),
                None => self.history.conversation(instructions),
            },
            seed: settings.seed.unwrap_or_else(random_seed),
            salt: self.salt,
            trace: self.core.deps.records.begins(self.core.caller.as_ref(), now),
            settings,
        };
        self.beside = given.is_some_and(|given| given.beside);
        if !self.beside {
            self.last = None;
        }
        let orchestrator = &self.core.deps.orchestrator;
        let limits = &self.core.deps.limits;
        let mut turn = Turn::new(question, orchestrator, limits, self.core.deps.clock, now)?;
        self.remembers = given.is_none();
        self.characters += given.map_or(0, |given| given.characters);
        // Characters that were not charged yet are charged to the answer that reads them.
        let read = if self.beside { 0 } else { self.characters };
        let own = given.map_or(0, |given| given.own_characters)
            + respond.instructions.as_deref().map_or(0, characters);
        match self.core.handle.begin(read + own, now) {
            Ok(()) => self.characters -= read,
            Err(over) => {
                let over = ServeError::from(over);
                self.core.deps.records.refused(&over);
                turn.fail(over);
            }
        }
        self.core.began = true;
        self.turn = Some(turn);
        Ok(())
    }

    fn interrupt(&mut self, response: &str, played: Option<Samples>) -> Result<(), ServeError> {
        let silent = || {
            let problem = "is set for a response that was not to be spoken; expected unset";
            Err(InvalidField::new("interrupt.played_samples", problem).into())
        };
        let named = |id: &MessageId| response.is_empty() || id.as_str() == response;
        if let Some(turn) = self.turn.as_mut().filter(|turn| named(turn.id())) {
            if played.is_some() && !turn.is_spoken() {
                return silent();
            }
            turn.interrupt(played);
        } else if (self.turn.is_none() || self.beside)
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
}

fn characters(text: &str) -> usize {
    text.chars().count()
}
