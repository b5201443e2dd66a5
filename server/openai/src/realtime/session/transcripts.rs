//! Transcripts of the user's recordings: if a client requests them, a model with audio input is asked to write them.
//!
//! It is asked while no response is in progress, one recording after the other. A requested response goes first: the
//! text until then is dropped, and the recording is asked about again.

use std::collections::VecDeque;
use std::sync::Arc;

use omni_family::{ChatMessage, Part, Role};
use omni_session::{ChatEventBody, GivenConversation, Modalities, Outcome, ResponseDone};
use serde_json::{Value, json};

use super::Session;
use super::responses::deaf;
use crate::error::ApiError;
use crate::realtime::events::ResponseRequest;
use crate::realtime::settings::named;

/// Capacity of the queue; beyond it the oldest recordings are dropped.
const WAITING: usize = 8;
/// Prompt of the model.
const QUESTION: &str = "Transcribe the audio into text. Write nothing but the words that are said.";

/// Queue of recordings to transcribe.
#[derive(Debug, Default)]
pub(super) struct Transcripts {
    waiting: VecDeque<Recording>,
    current: Option<Current>,
    /// A response that waits for the current one to stop.
    next: Option<Box<Deferred>>,
}

#[derive(Debug)]
struct Deferred {
    asked: ResponseRequest,
    /// The client's id of the event that requested it.
    event_id: Option<String>,
}

#[derive(Debug)]
struct Recording {
    item: String,
    audio: Part,
}

#[derive(Debug)]
struct Current {
    recording: Recording,
    /// Id of the answer.
    response: String,
    text: String,
    /// `true` once its item was deleted.
    forgotten: bool,
}

impl Transcripts {
    /// Returns true if a response waits.
    pub(super) fn settles(&self) -> bool {
        self.next.is_some()
    }

    /// Drops all of them. Returns true if a response waited.
    pub(super) fn abandon(&mut self) -> bool {
        std::mem::take(self).settles()
    }
}

impl Session {
    /// Queues a recording that is to be transcribed.
    pub(super) fn transcribe(&mut self, item: &str, recording: Option<Part>) {
        let Some(audio) = recording else {
            return self.untranscribed(item, &deaf());
        };
        let item = item.to_owned();
        self.transcripts.waiting.push_back(Recording { item, audio });
        if self.transcripts.waiting.len() > WAITING
            && let Some(oldest) = self.transcripts.waiting.pop_front()
        {
            let problem = "more recordings wait to be written down than are kept";
            self.untranscribed(
                &oldest.item,
                &ApiError::coded("too_many_recordings", None, problem),
            );
        }
    }

    fn untranscribed(&mut self, item: &str, error: &ApiError) {
        self.tell(json!({
            "type": "conversation.item.input_audio_transcription.failed", "item_id": item, "content_index": 0,
            "error": error.json(),
        }));
    }

    /// Asks about the next recording, if no response is in progress.
    pub(super) fn transcribe_next(&mut self) {
        if self.active.is_some() || self.transcripts.current.is_some() || self.cutting.is_some() {
            return;
        }
        let Some(recording) = self.transcripts.waiting.pop_front() else {
            return;
        };
        let mut settings = self.settings.checked.clone();
        settings.modalities = Modalities {
            text: true,
            audio: false,
        };
        let message = ChatMessage {
            role: Role::User,
            parts: vec![recording.audio.clone(), Part::Text(QUESTION.into())],
        };
        let response = self.ids.response();
        let given = GivenConversation {
            settings: Arc::new(settings),
            messages: vec![message],
            characters: 0,
            own_characters: 0,
            beside: true,
        };
        self.ask(&response, given);
        self.transcripts.current = Some(Current {
            recording,
            response,
            text: String::new(),
            forgotten: false,
        });
    }

    /// Queues a response that has to wait; returns it if it has not.
    pub(super) fn waits_for_transcript(
        &mut self,
        asked: ResponseRequest,
        event_id: Option<&str>,
    ) -> Option<ResponseRequest> {
        let Some(current) = &self.transcripts.current else {
            return Some(asked);
        };
        let response = current.response.clone();
        self.stop(response, None);
        let event_id = event_id.map(str::to_owned);
        self.transcripts.next = Some(Box::new(Deferred { asked, event_id }));
        None
    }

    /// Drops the recording of a deleted item.
    pub(super) fn forget_recording(&mut self, item: &str) {
        self.transcripts
            .waiting
            .retain(|recording| recording.item != item);
        let current = self.transcripts.current.as_mut();
        if let Some(current) = current.filter(|current| current.recording.item == item) {
            // Another item may get the same id before the answering session has stopped.
            current.forgotten = true;
            let response = current.response.clone();
            self.stop(response, None);
        }
    }

    /// Takes an event of the answering session, if it belongs to a transcript.
    pub(super) fn wrote_down(&mut self, event: ChatEventBody) -> Option<ChatEventBody> {
        let Some(current) = &mut self.transcripts.current else {
            return Some(event);
        };
        match event {
            ChatEventBody::Text(text) => current.text.push_str(&text),
            ChatEventBody::Done(done) => self.wrote_all(&done),
            // It belongs to the answer before.
            cut @ ChatEventBody::Cut(_) => return Some(cut),
            _ => {}
        }
        None
    }

    fn wrote_all(&mut self, done: &ResponseDone) {
        let Some(current) = self.transcripts.current.take() else {
            return;
        };
        let item = &current.recording.item;
        match (done.outcome, &done.error) {
            _ if current.forgotten => {}
            (Outcome::Interrupted, _) => self.transcripts.waiting.push_front(current.recording),
            (Outcome::Error | Outcome::Aborted, Some(error)) => self.untranscribed(item, &named(error)),
            _ => {
                let text = current.text.trim();
                self.conversation.change(item, |item| {
                    if let Some(part) = item.told.pointer_mut("/content/0") {
                        part["transcript"] = json!(text);
                    }
                });
                self.tell(transcribed(item, text, done));
            }
        }
        if let Some(next) = self.transcripts.next.take() {
            let Deferred { asked, event_id } = *next;
            if let Err(error) = self.create_response(asked, event_id.as_deref()) {
                self.refuse(&error, event_id.as_deref());
            }
        }
    }
}

fn transcribed(item: &str, text: &str, done: &ResponseDone) -> Value {
    let usage = done.usage;
    let input = usage.prompt_tokens + usage.prompt_audio;
    json!({
        "type": "conversation.item.input_audio_transcription.completed", "item_id": item, "content_index": 0, "transcript": text,
        "usage": {
            "type": "tokens",
            "input_tokens": input,
            "output_tokens": usage.reply_tokens,
            "total_tokens": input + usage.reply_tokens,
            "input_token_details": {"text_tokens": usage.prompt_tokens, "audio_tokens": usage.prompt_audio},
        },
    })
}
