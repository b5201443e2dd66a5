//! One session, without its socket: events of the client and of the answering session become events for the client
//! and commands.
//!
//! Its caller passes an event of the client only while the session does not [settle](Session::settles), so that an
//! event always meets a conversation that is complete.

mod items;
mod responses;
mod speech;
mod transcripts;

use omni_audio::{SampleRate, SpeechDetector};
use omni_core::error::ServeError;
use omni_services::ChatModel;
use omni_session::{AudioOut, ChatCommand, ChatEvent, ChatEventBody, ChatSettings, FIELD_IGNORED};
use omni_telemetry::RequestResult;
use serde_json::{Value, json};

use self::transcripts::Transcripts;
use super::conversation::Conversation;
use super::events::{ClientEvent, Head};
use super::formats::AudioFormat;
use super::ids::Ids;
use super::input::InputBuffer;
use super::response::{Response, Writing};
use super::settings::{Settings, SettingsPatch};
use super::told::ToldEvents;
use crate::error::ApiError;

/// Notice for a user who speaks to a model without audio input; once.
pub(super) const CANNOT_HEAR: &str = "I cannot hear you. This model only reads text. Please write to me.";

/// Effects of a session's event, for its caller to carry out.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Events for the client, without their ids.
    pub(super) out: ToldEvents,
    /// Commands for the session that answers.
    pub(super) commands: Vec<ChatCommand>,
    /// Responses that have ended.
    pub(super) ended: Vec<RequestResult>,
    /// Settings with which to speak [`CANNOT_HEAR`].
    pub(super) notice: Option<Box<ChatSettings>>,
    /// `true` to stop the notice.
    pub(super) silence: bool,
    /// `true` to drop audio that has not left.
    pub(super) interrupted: bool,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    model: ChatModel,
    settings: Settings,
    conversation: Conversation,
    ids: Ids,
    input: InputBuffer,
    /// Id of the item that the user's speech in progress will be.
    speech: Option<String>,
    /// Item of a turn that was detected while a response was active: it is answered next.
    unanswered: Option<String>,
    /// Settings of the last requested answer, whose characters are paid.
    paid: Settings,
    active: Option<Active>,
    /// Answer that the answering session can still cut: ids of the response and of its item.
    last: Option<(String, String)>,
    /// Samples per second of its audio.
    last_hz: u32,
    /// Item that is being cut, and its new length in milliseconds.
    cutting: Option<(String, u64)>,
    /// `true` once the notice about missing audio input was given.
    said_deaf: bool,
    transcripts: Transcripts,
    effects: Effects,
}

/// A response in progress.
#[derive(Debug)]
struct Active {
    response: Response,
    /// `true` for the notice about missing audio input, which is not the model's.
    notice: bool,
    /// Cut of its item that cancelled it, in milliseconds.
    cut: Option<u64>,
}

impl Session {
    /// Creates the session of a client that named this model.
    ///
    /// # Errors
    /// If it is not served.
    pub(super) fn new(named_model: &str, model: ChatModel) -> Result<Self, ServeError> {
        let settings = Settings::new(named_model, &model)?;
        let ids = Ids::random();
        let hearing = model.chat.hearing;
        let rate = SampleRate::new(SpeechDetector::RATE).unwrap_or(model.speech.sample_rate);
        let input = InputBuffer::new(rate, hearing, settings.input, settings.turns);
        let mut session = Self {
            conversation: Conversation::new(ids.conversation(), hearing),
            model,
            paid: settings.clone(),
            settings,
            ids,
            input,
            speech: None,
            unanswered: None,
            active: None,
            last: None,
            last_hz: 0,
            cutting: None,
            said_deaf: false,
            transcripts: Transcripts::default(),
            effects: Effects::default(),
        };
        session.effects.commands.push(ChatCommand::Configure {
            settings: Box::new(session.settings.checked.clone()),
            history: Vec::new(),
            cut: 0,
        });
        session.tell_session("session.created");
        Ok(session)
    }

    /// Takes the effects since the last call.
    pub(super) fn effects(&mut self) -> Effects {
        self.answer_turn();
        if !self.hears_more() {
            self.transcribe_next();
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns true if there are events to send.
    pub(super) fn has_news(&self) -> bool {
        !self.effects.out.is_empty()
    }

    /// The name of the next event.
    pub(super) fn event_id(&mut self) -> String {
        self.ids.event()
    }

    /// Returns true if no further command may be sent until the answering session has spoken.
    pub(super) fn settles(&self) -> bool {
        let cancelled = |active: &Active| active.response.cancelled.is_some();
        self.cutting.is_some() || self.transcripts.settles() || self.active.as_ref().is_some_and(cancelled)
    }

    /// Number of requested responses that have not ended.
    pub(super) fn open(&self) -> usize {
        usize::from(self.active.is_some()) + usize::from(self.transcripts.settles())
    }

    /// Format of recordings in items, and the model that reads them.
    pub(super) fn reads(&self) -> (AudioFormat, ChatModel) {
        (self.settings.input, self.model.clone())
    }

    fn tell(&mut self, event: Value) {
        self.effects.out.push(event);
    }

    fn tell_session(&mut self, kind: &str) {
        let session = self.settings.json(&self.ids.session(), &self.model);
        self.tell(json!({"type": kind, "session": session}));
    }

    /// Reports an error of an event.
    pub(super) fn refuse(&mut self, error: &ApiError, event_id: Option<&str>) {
        error.log();
        let mut told = error.json();
        told["event_id"] = json!(event_id);
        self.tell(json!({"type": "error", "error": told}));
    }

    /// Handles an event of the client.
    pub(super) fn client(&mut self, (head, event): (Head, Result<ClientEvent, ApiError>)) {
        let event_id = head.event_id.as_deref();
        if let Err(error) = event.and_then(|event| self.obey(event, event_id)) {
            self.refuse(&error, event_id);
        }
    }

    fn obey(&mut self, event: ClientEvent, event_id: Option<&str>) -> Result<(), ApiError> {
        match event {
            ClientEvent::UpdateSession(patch) => self.update(*patch),
            ClientEvent::Append(audio) if audio.is_empty() => Ok(()),
            ClientEvent::Append(audio) => self.input.append(&audio),
            ClientEvent::Commit => {
                let recording = self.input.commit()?;
                let item = self.speech.take().unwrap_or_else(|| self.ids.item());
                self.committed(&item, recording)
            }
            ClientEvent::Clear => {
                self.input.clear();
                self.speech = None;
                self.tell(json!({"type": "input_audio_buffer.cleared"}));
                Ok(())
            }
            ClientEvent::CreateItem { previous, item } => self.create_item(*item, previous.as_deref()),
            ClientEvent::RetrieveItem(id) => self.retrieve_item(&id),
            ClientEvent::DeleteItem(id) => self.delete_item(&id),
            ClientEvent::TruncateItem(truncation) => self.truncate_item(truncation),
            ClientEvent::CreateResponse(asked) => self.create_response(*asked, event_id),
            ClientEvent::CancelResponse { response } => self.cancel_response(response.as_deref()),
        }
    }

    fn update(&mut self, patch: SettingsPatch) -> Result<(), ApiError> {
        let (new, ignored) = self.settings.patched(patch, &self.model)?;
        let instructions = new.instructions.as_str();
        self.conversation
            .check_system("session.instructions", instructions, None, &self.model)?;
        self.settings = new;
        self.input.configure(self.settings.input, self.settings.turns);
        self.tell_session("session.updated");
        noted(self.effects.out.last_mut(), "ignored", &ignored);
        Ok(())
    }

    fn tell_item(&mut self, told: &Value, previous: Option<&str>) {
        for kind in ["conversation.item.added", "conversation.item.done"] {
            self.tell(json!({"type": kind, "previous_item_id": previous, "item": told}));
        }
    }

    /// Removes the oldest items beyond the bounds of a conversation.
    fn trim(&mut self) {
        for id in self.conversation.trim() {
            self.gone(&id);
        }
    }

    /// Handles the removal of an item.
    fn gone(&mut self, id: &str) {
        self.forget_recording(id);
        self.tell(json!({"type": "conversation.item.deleted", "item_id": id}));
    }

    /// Handles an event of the answering session.
    pub(super) fn answered(&mut self, event: ChatEvent) {
        let Some(event) = self.wrote_down(event.body) else {
            return;
        };
        match event {
            ChatEventBody::Started => self.with_response(|response, to| response.begin(to)),
            ChatEventBody::Text(text) => self.with_response(|response, to| response.text(text, to)),
            ChatEventBody::Audio(audio) => self.spoke(&audio),
            ChatEventBody::Done(done) => self.ended_answer(&done),
            ChatEventBody::Cut(said) => {
                if let Some((item, heard_ms)) = self.cutting.take() {
                    self.cut(&item, &super::response::visible(&said.text), heard_ms);
                }
            }
            // Settings are reported when they are requested.
            ChatEventBody::Ready(_) | ChatEventBody::MessageAdded { .. } => {}
            // Its field is named by the settings in force.
            ChatEventBody::Warning {
                reason: FIELD_IGNORED,
                ..
            } => {}
            ChatEventBody::Warning { reason, .. } => self.with_response(|response, _| response.warn(reason)),
        }
    }

    /// Adds audio of the response.
    pub(super) fn spoke(&mut self, audio: &AudioOut) {
        self.with_response(|response, to| {
            // Further output of a cancelled response is dropped.
            if response.cancelled.is_none() {
                response.audio(audio, to);
            }
        });
    }

    fn with_response(&mut self, then: impl FnOnce(&mut Response, &mut Writing<'_>)) {
        let (active, mut to) = self.writing();
        if let Some(active) = active {
            then(&mut active.response, &mut to);
        }
    }

    /// The response in progress, and its destination.
    fn writing(&mut self) -> (&mut Option<Active>, Writing<'_>) {
        let to = Writing {
            conversation: &mut self.conversation,
            ids: &mut self.ids,
            out: &mut self.effects.out,
        };
        (&mut self.active, to)
    }
}

/// Adds a list of names to an event, if it is not empty.
pub(super) fn noted(event: Option<&mut Value>, name: &str, words: &[String]) {
    if let Some(event) = event.filter(|_| !words.is_empty()) {
        event[name] = json!(words);
    }
}
