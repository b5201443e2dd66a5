//! Responses: their requests and their ends.

use std::sync::Arc;

use omni_core::error::ServeError;
use omni_family::ChatMessage;
use omni_session::{ChatCommand, GivenConversation, Outcome, Respond, ResponseDone};
use omni_telemetry::RequestResult;
use serde_json::{Value, json};

use super::{Active, CANNOT_HEAR, Session};
use crate::error::ApiError;
use crate::realtime::conversation::{messages, no_item};
use crate::realtime::events::{InputItem, ResponseRequest};
use crate::realtime::items::Item;
use crate::realtime::response::{Response, ResponseEnd, visible};
use crate::realtime::settings::{Settings, named};

impl Session {
    /// Answers the conversation with the session's settings.
    pub(super) fn respond(&mut self) -> Result<(), ApiError> {
        self.create_response(ResponseRequest::default(), None)
    }

    /// Begins a response, which the event `event_id` requests.
    pub(super) fn create_response(
        &mut self,
        asked: ResponseRequest,
        event_id: Option<&str>,
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
        let Some(asked) = self.waits_for_transcript(asked, event_id) else {
            return Ok(());
        };
        let settings = self.settings.patched(asked.settings, &self.model);
        let (settings, ignored) = settings.map_err(|error| error.moved("session.", "response."))?;
        let ignored = ignored.iter().map(|name| match name.strip_prefix("session.") {
            Some(rest) => format!("response.{rest}"),
            None => name.clone(),
        });
        let keeps = !asked.beside;
        let notice = asked.input.is_none() && self.conversation.ends_unheard();
        let given = if notice {
            None
        } else {
            Some(self.given(&settings, asked.input, asked.beside)?)
        };
        let response = Response::new(self.ids.response(), &settings, keeps, asked.metadata);
        let response = response.ignoring(ignored.collect());
        if keeps {
            self.last = None;
            self.last_hz = settings.output.hz();
        }
        if let Some(given) = given {
            self.ask(&response.id, given);
        }
        self.active = Some(Active {
            response,
            notice,
            cut: None,
        });
        if notice {
            self.cannot_hear(&settings);
        }
        Ok(())
    }

    /// Conversation for the model to answer, with its settings.
    fn given(
        &mut self,
        settings: &Settings,
        input: Option<Vec<InputItem>>,
        beside: bool,
    ) -> Result<GivenConversation, ApiError> {
        let own_settings = settings.added(&self.settings);
        let (messages, characters, own_characters) = match input {
            Some(input) => {
                let (messages, own) = self.context(input, settings)?;
                (messages, 0, own)
            }
            None => {
                let (messages, new) = self.conversation.read(settings, &self.model)?;
                (messages, new, 0)
            }
        };
        let unpaid = self.settings.added(&self.paid);
        self.paid = self.settings.clone();
        Ok(GivenConversation {
            settings: Arc::new(settings.checked.clone()),
            messages,
            characters: characters + unpaid,
            own_characters: own_characters + own_settings,
            beside,
        })
    }

    /// Makes the answering session answer a conversation.
    pub(super) fn ask(&mut self, response: &str, given: GivenConversation) {
        self.effects.commands.push(ChatCommand::Respond(Respond {
            id: response.to_owned(),
            given: Some(Box::new(given)),
            ..Respond::default()
        }));
    }

    /// Handles speech to a model without audio input: a notice says so, once.
    fn cannot_hear(&mut self, settings: &Settings) {
        self.with_response(|response, to| response.begin(to));
        if std::mem::replace(&mut self.said_deaf, true) {
            return self.end(ResponseEnd::failed(deaf()));
        }
        self.with_response(|response, to| response.text(CANNOT_HEAR.to_owned(), to));
        if settings.spoken {
            self.effects.notice = Some(Box::new(settings.checked.clone()));
        } else {
            self.ended_notice(None);
        }
    }

    /// Input items of a response, instead of the conversation, and their characters.
    fn context(
        &self,
        input: Vec<InputItem>,
        settings: &Settings,
    ) -> Result<(Vec<ChatMessage>, usize), ApiError> {
        let items = input.into_iter().map(|item| match item {
            InputItem::Item(item) => Ok(item),
            InputItem::Reference(id) => {
                let item = self.conversation.get(&id).cloned();
                item.ok_or_else(|| no_item("item_reference_invalid_item_id", "response.input", &id))
            }
        });
        let items = items.collect::<Result<Vec<_>, ApiError>>()?;
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

    /// Handles the end of an answer.
    pub(super) fn ended_answer(&mut self, done: &ResponseDone) {
        let interrupted = done.outcome == Outcome::Interrupted;
        self.end(ResponseEnd {
            error: done.error.as_ref().map(named),
            kept: interrupted.then(|| visible(&done.said.text)),
            usage: usage(done),
            ..ResponseEnd::of(done.outcome)
        });
    }

    /// Handles the end of the notice.
    pub(in crate::realtime) fn ended_notice(&mut self, failed: Option<&ServeError>) {
        if let Some(error) = failed {
            tracing::info!(%error, "spoken notice unavailable; sent as text");
        }
        if self.active.as_ref().is_some_and(|active| active.notice) {
            self.end(ResponseEnd::of(Outcome::Stop));
        }
    }

    /// Ends the session with this error; everything that was still to come fails with it.
    pub(in crate::realtime) fn fail(&mut self, error: &ApiError) {
        self.cutting = None;
        self.unanswered = None;
        if self.transcripts.abandon() {
            self.effects.ended.push(RequestResult::Error);
        }
        self.effects.silence = true;
        self.end(ResponseEnd::failed(error.clone()));
    }

    pub(super) fn end(&mut self, mut end: ResponseEnd) {
        let (active, mut to) = self.writing();
        let Some(Active {
            mut response,
            notice,
            cut,
        }) = active.take()
        else {
            return;
        };
        let interrupted = end.outcome == Outcome::Interrupted;
        end.heard_ms = cut.filter(|_| interrupted);
        let item = response.end(&end, &mut to);
        self.effects.ended.push(match end.outcome {
            Outcome::Interrupted => RequestResult::Cancelled,
            Outcome::Error | Outcome::Aborted => RequestResult::Error,
            Outcome::Stop | Outcome::Length | Outcome::Repetition => RequestResult::Ok,
        });
        match (&item, cut) {
            // It was complete before it could be cut: it is cut now.
            (Some(item), Some(heard_ms)) if end.is_whole() => self.cutting = Some((item.clone(), heard_ms)),
            (Some(item), Some(heard_ms)) if interrupted => self.tell_truncated(item, heard_ms),
            (Some(item), Some(heard_ms)) => self.cut_in_proportion(item, heard_ms),
            _ => {}
        }
        // Quotas here are of characters and seconds of audio, and this event has only requests and tokens.
        self.tell(json!({"type": "rate_limits.updated", "rate_limits": []}));
        if response.keeps {
            // The word times of a failed answer, and of the notice, are not with the answering session.
            let cuttable = !notice && (end.is_whole() || interrupted);
            self.last = item.filter(|_| cuttable).map(|item| (response.id, item));
        }
        self.trim();
    }
}

/// Error for speech to a model without audio input.
pub(super) fn deaf() -> ApiError {
    ApiError::coded(
        "audio_input_not_supported",
        None,
        "this model takes no audio, expected text",
    )
}

fn not_active() -> ApiError {
    // Clients recognise it by these words.
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
