//! What clients ask to be answered, and how answers end.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Active, CANNOT_HEAR, Session};
use crate::model::ChatMessage;
use crate::openai::error::ApiError;
use crate::openai::realtime::conversation::{messages, no_item};
use crate::openai::realtime::events::ResponseBody;
use crate::openai::realtime::items::Item;
use crate::openai::realtime::response::{Response, ResponseEnd, visible};
use crate::openai::realtime::settings::{Settings, SettingsPatch, named};
use crate::session::{ChatCommand, GivenConversation, Outcome, Respond, ResponseDone};

impl Session {
    /// Answers the conversation as the session's settings say.
    pub(super) fn respond(&mut self) -> Result<(), ApiError> {
        self.create_response(ResponseBody::default(), SettingsPatch::default())
    }

    pub(super) fn create_response(
        &mut self,
        body: ResponseBody,
        patch: SettingsPatch,
    ) -> Result<(), ApiError> {
        if let Some(active) = &self.active {
            let problem = format!(
                "the conversation already has an active response, {}: wait for its response.done or cancel it",
                active.response.id
            );
            return Err(ApiError::coded(
                "conversation_already_has_active_response",
                None,
                problem,
            ));
        }
        let Some((body, patch)) = self.waits_for_transcript(body, patch) else {
            return Ok(());
        };
        let settings = self.settings.patched(patch, &self.model);
        let settings = settings.map_err(|error| error.moved("session.", "response."))?;
        let keeps = body.conversation.as_deref() != Some("none");
        let unheard = body.input.is_none() && self.conversation.ends_unheard();
        let (messages, characters) = match body.input {
            Some(input) => self.context(input.0, &settings)?,
            None => self.conversation.read(&settings, &self.model)?,
        };
        let response = Response::new(self.ids.response(), &settings, keeps, body.metadata);
        if keeps {
            self.last = None;
            self.last_hz = settings.output.hz();
        }
        self.active = Some(Active {
            response,
            notice: unheard,
            cut: None,
        });
        match unheard {
            true => self.cannot_hear(&settings),
            false => self.ask(&settings, messages, characters),
        }
        Ok(())
    }

    fn ask(&mut self, settings: &Settings, messages: Vec<ChatMessage>, characters: usize) {
        let Some(Active { response, .. }) = &self.active else {
            return;
        };
        let given = GivenConversation {
            settings: Arc::new(settings.checked.clone()),
            messages,
            characters,
            beside: !response.keeps,
        };
        self.effects.commands.push(ChatCommand::Respond(Respond {
            id: response.id.clone(),
            given: Some(Box::new(given)),
            ..Respond::default()
        }));
    }

    /// The user has spoken, and the model cannot hear: it says so, once.
    fn cannot_hear(&mut self, settings: &Settings) {
        self.with_response(|response, to| response.begin(to));
        if std::mem::replace(&mut self.said_deaf, true) {
            let error = ApiError::coded(
                "audio_input_not_supported",
                None,
                "the model cannot hear, send text",
            );
            return self.end(&ResponseEnd {
                outcome: Outcome::Error,
                error: Some(error),
                kept: None,
                usage: Value::Null,
            });
        }
        self.with_response(|response, to| response.text(CANNOT_HEAR.to_owned(), to));
        match settings.spoken {
            true => self.effects.notice = Some(Box::new(settings.checked.clone())),
            false => self.ended_notice(None),
        }
    }

    /// Items that a response is asked for with, instead of the conversation.
    fn context(
        &mut self,
        input: Vec<crate::openai::realtime::items::ItemBody>,
        settings: &Settings,
    ) -> Result<(Vec<ChatMessage>, usize), ApiError> {
        let mut items: Vec<Item> = Vec::with_capacity(input.len());
        for body in input {
            let item = match body.reference() {
                Some(id) => {
                    let item = self.conversation.get(id).cloned();
                    item.ok_or_else(|| no_item("item_reference_invalid_item_id", "response.input", id))?
                }
                None => body.item(self.ids.item(), self.settings.input, &self.model)?,
            };
            items.push(item);
        }
        let characters = items.iter().map(Item::characters).sum();
        Ok((messages(items.iter(), settings, &self.model)?, characters))
    }

    pub(super) fn cancel_response(&mut self, named: Option<&str>) -> Result<(), ApiError> {
        let active = self.active.as_ref().map(|active| active.response.id.as_str());
        match (active, named) {
            (Some(active), Some(named)) if active != named => Err(not_active()),
            (None, _) => Err(not_active()),
            (Some(_), _) => {
                self.interrupt("client_cancelled", None);
                Ok(())
            }
        }
    }

    /// The answering session has ended an answer.
    pub(super) fn ended_answer(&mut self, done: &ResponseDone) {
        let kept = (done.outcome == Outcome::Interrupted).then(|| visible(&done.said.text));
        self.end(&ResponseEnd {
            outcome: done.outcome,
            error: done.error.as_ref().map(named),
            kept,
            usage: usage(done),
        });
    }

    pub(super) fn end_interrupted(&mut self, kept: String) {
        self.end(&ResponseEnd {
            outcome: Outcome::Interrupted,
            error: None,
            kept: Some(kept),
            usage: Value::Null,
        });
    }
}

fn not_active() -> ApiError {
    // Clients know it by these words.
    let problem = "Cancellation failed: no active response found";
    ApiError::coded("response_cancel_not_active", None, problem)
}

fn usage(done: &ResponseDone) -> Value {
    let usage = done.usage;
    let input = usage.prompt_tokens + usage.prompt_audio;
    let output = usage.reply_tokens + usage.frames;
    json!({
        "total_tokens": input + output,
        "input_tokens": input,
        "output_tokens": output,
        "input_token_details": {
            "text_tokens": usage.prompt_tokens, "audio_tokens": usage.prompt_audio, "image_tokens": 0, "cached_tokens": 0,
        },
        "output_token_details": {"text_tokens": usage.reply_tokens, "audio_tokens": usage.frames},
    })
}
