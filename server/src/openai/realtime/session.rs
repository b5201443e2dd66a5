//! One session, without its socket: what clients say and what the answering session tells become events for the client and commands.
//!
//! Its caller hands over what a client says only while it does not [settle](Session::settles), so that what a client asks for always
//! meets a conversation that is complete.

mod items;
mod responses;
mod transcripts;

use omni_audio::{SampleRate, SpeechDetector};
use omni_telemetry::RequestResult;
use serde_json::{Value, json};

use self::transcripts::Transcripts;
use super::conversation::Conversation;
use super::events::{ClientEvent, Head};
use super::ids::Ids;
use super::input::{InputBuffer, InputChange};
use super::items::Item;
use super::response::{Response, ResponseEnd, Writing};
use super::settings::{Settings, SettingsPatch};
use crate::error::ServeError;
use crate::model::Part;
use crate::openai::error::ApiError;
use crate::service::ChatModel;
use crate::session::{AudioOut, ChatCommand, ChatEvent, ChatEventBody, ChatSettings, Outcome};

/// What is said once to a user who speaks to a model that cannot hear.
pub(super) const CANNOT_HEAR: &str = "I cannot hear you. This model only reads text. Please write to me.";

/// What is to be done for a session.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Events for the client, without their names.
    pub(super) out: Vec<Value>,
    /// For the session that answers.
    pub(super) commands: Vec<ChatCommand>,
    /// Responses that have ended.
    pub(super) ended: Vec<RequestResult>,
    /// Speak [`CANNOT_HEAR`] like this.
    pub(super) notice: Option<Box<ChatSettings>>,
    /// The notice is not to be spoken any more.
    pub(super) silence: bool,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    model: ChatModel,
    settings: Settings,
    conversation: Conversation,
    ids: Ids,
    input: InputBuffer,
    /// The name of the item that the user's speech in progress will be.
    speech: Option<String>,
    active: Option<Active>,
    /// The answer that the answering session can still cut: names of the response and of its item.
    last: Option<(String, String)>,
    /// Samples per second of its audio.
    last_hz: u32,
    /// An item that is being cut, and to how many milliseconds.
    cutting: Option<(String, u64)>,
    /// It was said that the model cannot hear.
    said_deaf: bool,
    transcripts: Transcripts,
    effects: Effects,
}

/// A response in progress.
#[derive(Debug)]
struct Active {
    response: Response,
    /// It is not the model's: it says that the model cannot hear.
    notice: bool,
    /// It was cancelled by this cut of its item, in milliseconds.
    cut: Option<u64>,
}

impl Session {
    /// Of a client that asked for a model of that name.
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
            settings,
            ids,
            input,
            speech: None,
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
        });
        session.tell_session("session.created");
        Ok(session)
    }

    /// What is to be done; once.
    pub(super) fn effects(&mut self) -> Effects {
        if !self.hears_more() {
            self.transcribe_next();
        }
        std::mem::take(&mut self.effects)
    }

    /// Whether there is something to be told.
    pub(super) fn has_news(&self) -> bool {
        !self.effects.out.is_empty()
    }

    /// The name of the next event.
    pub(super) fn event_id(&mut self) -> String {
        self.ids.event()
    }

    /// Whether nothing else is to be asked of it before the answering session has spoken.
    pub(super) fn settles(&self) -> bool {
        let cancelled = |active: &Active| active.response.cancelled.is_some();
        self.cutting.is_some() || self.transcripts.settles() || self.active.as_ref().is_some_and(cancelled)
    }

    /// Whether a response is in progress.
    pub(super) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    fn tell(&mut self, event: Value) {
        self.effects.out.push(event);
    }

    fn tell_session(&mut self, kind: &str) {
        let session = self.settings.json(&self.ids.session(), &self.model);
        self.tell(json!({"type": kind, "session": session}));
    }

    /// Tells an error that an event caused.
    pub(super) fn refuse(&mut self, error: &ApiError, event_id: Option<&str>) {
        let mut told = error.json();
        told["event_id"] = json!(event_id);
        self.tell(json!({"type": "error", "error": told}));
    }

    /// A client said this.
    pub(super) fn client(&mut self, text: &str) {
        let (Head { event_id, .. }, event) = ClientEvent::parse(text);
        if let Err(error) = event.and_then(|event| self.obey(event)) {
            self.refuse(&error, event_id.as_deref());
        }
    }

    fn obey(&mut self, event: ClientEvent) -> Result<(), ApiError> {
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
            ClientEvent::CreateResponse { response, settings } => self.create_response(*response, *settings),
            ClientEvent::CancelResponse { response } => self.cancel_response(response.as_deref()),
        }
    }

    fn update(&mut self, patch: SettingsPatch) -> Result<(), ApiError> {
        self.settings = self.settings.patched(patch, &self.model)?;
        self.input.configure(self.settings.input, self.settings.turns);
        if self.settings.turns.is_none() {
            self.speech = None;
        }
        self.tell_session("session.updated");
        Ok(())
    }

    /// Whether there is audio that was not looked at.
    pub(super) fn hears_more(&self) -> bool {
        self.input.is_waiting()
    }

    /// Looks at the audio that has come, until something happens in it.
    pub(super) fn hear(&mut self) {
        match self.input.advance() {
            None => {}
            Some(InputChange::Started { at_ms }) => {
                let item = self.ids.item();
                self.tell(json!({
                    "type": "input_audio_buffer.speech_started", "audio_start_ms": at_ms, "item_id": item,
                }));
                self.speech = Some(item);
                if self.settings.turns.is_some_and(|turns| turns.interrupts) {
                    self.interrupt("turn_detected", None);
                }
            }
            Some(InputChange::Stopped { at_ms }) => {
                let item = self.speech.take().unwrap_or_else(|| self.ids.item());
                self.tell(json!({
                    "type": "input_audio_buffer.speech_stopped", "audio_end_ms": at_ms, "item_id": item,
                }));
                let recording = self.input.take();
                let creates = self.settings.turns.is_some_and(|turns| turns.creates);
                let done = self.committed(&item, recording).and_then(|()| match creates {
                    true => self.respond(),
                    false => Ok(()),
                });
                if let Err(error) = done {
                    self.refuse(&error, None);
                }
            }
        }
    }

    /// The user has said something.
    fn committed(&mut self, id: &str, recording: Option<Part>) -> Result<(), ApiError> {
        let item = Item::recording(id.to_owned(), recording.clone());
        let told = item.told.clone();
        let previous = self.conversation.insert(item, None)?;
        self.tell(json!({
            "type": "input_audio_buffer.committed", "previous_item_id": previous, "item_id": id,
        }));
        self.tell_item(&told, previous.as_deref());
        if self.settings.transcription.is_some() {
            self.transcribe(id, recording);
        }
        self.trim();
        Ok(())
    }

    fn tell_item(&mut self, told: &Value, previous: Option<&str>) {
        for kind in ["conversation.item.added", "conversation.item.done"] {
            self.tell(json!({"type": kind, "previous_item_id": previous, "item": told}));
        }
    }

    /// Takes out what is more than is remembered.
    fn trim(&mut self) {
        for id in self.conversation.trim() {
            self.tell(json!({"type": "conversation.item.deleted", "item_id": id}));
        }
    }

    /// The answering session says this.
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
            // Settings are told when they are asked for.
            ChatEventBody::Ready(_) | ChatEventBody::MessageAdded { .. } => {}
            ChatEventBody::Warning { reason, message } => {
                tracing::debug!(reason, message, "warning in a conversation");
            }
        }
    }

    /// Audio of the response.
    pub(super) fn spoke(&mut self, audio: &AudioOut) {
        self.with_response(|response, to| response.audio(audio, to));
    }

    fn with_response(&mut self, then: impl FnOnce(&mut Response, &mut Writing<'_>)) {
        if let Some(active) = &mut self.active {
            let mut to = Writing {
                conversation: &mut self.conversation,
                ids: &mut self.ids,
                out: &mut self.effects.out,
            };
            then(&mut active.response, &mut to);
        }
    }

    /// The notice was spoken, or could not be.
    pub(super) fn ended_notice(&mut self, failed: Option<&ServeError>) {
        if let Some(error) = failed {
            tracing::info!(%error, "a notice was written only");
        }
        if self.active.as_ref().is_some_and(|active| active.notice) {
            self.end(&ResponseEnd {
                outcome: Outcome::Stop,
                error: None,
                kept: None,
                usage: Value::Null,
            });
        }
    }

    fn end(&mut self, end: &ResponseEnd) {
        let Some(mut active) = self.active.take() else {
            return;
        };
        // It was complete before it could be cut: then it is cut now.
        let whole = matches!(end.outcome, Outcome::Stop | Outcome::Length | Outcome::Repetition);
        self.effects.ended.push(match end.outcome {
            Outcome::Interrupted => RequestResult::Cancelled,
            Outcome::Error | Outcome::Aborted => RequestResult::Error,
            _ => RequestResult::Ok,
        });
        let mut to = Writing {
            conversation: &mut self.conversation,
            ids: &mut self.ids,
            out: &mut self.effects.out,
        };
        let item = active.response.end(end, &mut to);
        match (&item, active.cut) {
            (Some(item), Some(heard_ms)) if whole => self.cutting = Some((item.clone(), heard_ms)),
            (Some(item), Some(heard_ms)) => self.tell(truncated(item, heard_ms)),
            _ => {}
        }
        // Quotas here are of characters and seconds of audio, and this event knows requests and tokens only.
        self.tell(json!({"type": "rate_limits.updated", "rate_limits": []}));
        if active.response.keeps {
            self.last = item
                .filter(|_| !active.notice)
                .map(|item| (active.response.id, item));
        }
        self.trim();
    }

    /// Only so much of an item was heard.
    fn cut(&mut self, item: &str, text: &str, heard_ms: u64) {
        self.conversation.change(item, |item| item.cut(text, heard_ms));
        self.tell(truncated(item, heard_ms));
    }
}

fn truncated(item: &str, heard_ms: u64) -> Value {
    json!({
        "type": "conversation.item.truncated", "item_id": item, "content_index": 0, "audio_end_ms": heard_ms,
    })
}
