//! State of a conversation: its settings, its messages, and the user's message in progress.

use std::sync::Arc;

use omni_audio::Samples;
use omni_core::error::{InvalidField, ServeError};
use omni_core::id::MessageId;
use omni_family::{AudioInputError, ChatMessage, Part, Role};
use omni_pipeline::request::Clip;

use super::{Run, characters};
use crate::chat::cut::PROMPT_TRIMMED;
use crate::chat::protocol::{ChatEventBody, ChatReady, NewMessage};
use crate::chat::settings::ChatSettings;
use crate::error::ProtocolError;
use crate::settings::FIELD_IGNORED;

impl Run {
    pub(super) fn configure(
        &mut self,
        settings: ChatSettings,
        history: Vec<NewMessage>,
    ) -> Result<(), ServeError> {
        if self.settings.is_some() && !history.is_empty() {
            return Err(InvalidField::new(
                "config.history",
                "is given; expected none after the first config",
            )
            .into());
        }
        if settings.instructions.is_some() && self.history.has_system() {
            return Err(InvalidField::new(
                "config.instructions",
                "are given, but the conversation begins with a system message",
            )
            .into());
        }
        self.characters += settings.instructions.as_deref().map_or(0, characters);
        self.settings = Some(Arc::new(settings.clone()));
        for NewMessage { id, message } in history {
            self.check_system(&message, "config.history.role")?;
            self.count(&message);
            let id = self.names.take(&id)?;
            self.history.add(id, message);
        }
        self.trim();
        let ready = ChatReady {
            session: self.core.id(),
            settings,
            limits: self.core.deps.limits,
        };
        let ignored = ready.settings.speech.ignored.clone();
        self.outbox.push(None, ChatEventBody::Ready(Box::new(ready)));
        for ignored in ignored {
            let reason = FIELD_IGNORED;
            let message = ignored.to_string();
            self.outbox.push(None, ChatEventBody::Warning { reason, message });
        }
        Ok(())
    }

    /// Warns of messages that were shortened by `cut` characters.
    pub(super) fn tell_cut(&mut self, cut: usize) {
        if cut > 0 {
            let message = format!(
                "messages have more text than is taken: {cut} characters of their middle are left out"
            );
            let reason = PROMPT_TRIMMED;
            self.outbox.push(None, ChatEventBody::Warning { reason, message });
        }
    }

    /// Checks that a system message comes first and without instructions, or not at all.
    fn check_system(&self, message: &ChatMessage, field: &'static str) -> Result<(), ServeError> {
        let instructed = self
            .settings
            .as_ref()
            .is_some_and(|settings| settings.instructions.is_some());
        match message.role {
            Role::System if instructed => {
                Err(InvalidField::new(field, "is ROLE_SYSTEM, but config.instructions are given").into())
            }
            Role::System if !self.history.is_empty() => {
                Err(InvalidField::new(field, "is ROLE_SYSTEM, which only the first message may be").into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn message(&mut self, NewMessage { id, message }: NewMessage) -> Result<(), ServeError> {
        self.check_system(&message, "message.role")?;
        self.count(&message);
        let id = self.names.take(&id)?;
        self.add(id, message)
    }

    /// Adds a message and reports it to the caller.
    fn add(&mut self, id: MessageId, message: ChatMessage) -> Result<(), ServeError> {
        let audio: usize = message.parts.iter().map(samples).sum();
        let rate = self
            .core
            .deps
            .orchestrator
            .chat()?
            .info
            .hearing
            .map(|hearing| hearing.sample_rate);
        let body = ChatEventBody::MessageAdded {
            id: id.clone(),
            role: message.role,
            audio: rate
                .filter(|_| audio > 0)
                .map(|rate| rate.duration(Samples(audio as u64))),
        };
        self.last = None;
        self.outbox.push(None, body);
        self.remember(id, message);
        Ok(())
    }

    /// Counts the characters of the caller.
    fn count(&mut self, message: &ChatMessage) {
        let written = message.parts.iter().map(|part| match part {
            Part::Text(text) => characters(text),
            Part::Tool(tool) => tool.characters(),
            Part::Audio(_) => 0,
        });
        self.characters += written.sum::<usize>();
    }

    pub(super) fn remember(&mut self, id: MessageId, message: ChatMessage) {
        self.history.add(id, message);
        self.trim();
    }

    /// Drops the messages beyond the limits of the history.
    fn trim(&mut self) {
        let forgotten = self.history.trim(&self.limits);
        if forgotten > 0 {
            let message = format!(
                "the conversation is longer than is remembered: its oldest {forgotten} messages are forgotten"
            );
            let reason = "HISTORY_TRIMMED";
            self.outbox.push(None, ChatEventBody::Warning { reason, message });
        }
    }

    /// Adds audio of the user's message in progress.
    pub(super) fn hear(&mut self, samples: Vec<f32>) -> Result<(), ServeError> {
        let field = "input_audio";
        let hearing = self.core.deps.orchestrator.chat()?.info.hearing;
        let hearing = hearing.ok_or(AudioInputError::NotSupported { field })?;
        let limit = hearing.sample_rate.samples(hearing.max_audio).len();
        if self.audio.len() + samples.len() > limit {
            let limit = hearing.max_audio;
            return Err(AudioInputError::TooLong { limit }.into());
        }
        self.audio.extend(samples);
        Ok(())
    }

    /// Ends the user's message.
    pub(super) fn commit(&mut self) -> Result<(), ServeError> {
        if self.audio.is_empty() {
            return Err(ProtocolError::NoInputAudio.into());
        }
        if let Some(hearing) = self.core.deps.orchestrator.chat()?.info.hearing {
            hearing.check_short(self.audio.len(), "input_audio")?;
        }
        let message = ChatMessage {
            role: Role::User,
            parts: vec![Part::Audio(Clip::new(std::mem::take(&mut self.audio)))],
        };
        let id = self.names.take("")?;
        self.add(id, message)
    }
}

fn samples(part: &Part) -> usize {
    match part {
        Part::Text(_) | Part::Tool(_) => 0,
        Part::Audio(clip) => clip.samples().len(),
    }
}
