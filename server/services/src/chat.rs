//! Chat: conversation sessions.

pub mod audio;
mod messages;
mod other;
mod settings;

use std::sync::Arc;

use futures::{Stream, stream};
use omni_core::call::CallContext;
use omni_core::caller::Caller;
use omni_core::error::ServeError;
use omni_family::{ChatInfo, Role, SpeechInfo};
use omni_pipeline::orchestrator::StageError;
use omni_session::{
    ChatCommand, ChatEvent, ChatLimits, ChatSession, ChatSettings, Modalities, NewMessage, RecordSink,
    Respond, SessionLimits,
};
use tokio_stream::wrappers::ReceiverStream;

use super::delivery::OutputRequest;
use super::gate::{CallGate, CallPermit};
use super::settings::{SamplingRequest, invalid};

use self::audio::InputRequest;
pub use self::messages::{MESSAGE_PARTS, ROLE};
pub use self::messages::{MessageRequest, PartRequest};
pub use self::other::OtherPart;
pub use self::settings::DELIVERY;

type Events = ReceiverStream<Result<ChatEvent, ServeError>>;

/// Most bytes of recordings that are decoded on the threads of sessions.
const SHORT: usize = 32 << 10;

/// Model and limits against which requests are checked. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ChatModel {
    pub speech: Arc<SpeechInfo>,
    pub chat: Arc<ChatInfo>,
    pub limits: SessionLimits,
}

/// Settings that a caller requests for a conversation; an empty or unset field is left to the model or the server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    pub model: String,
    pub instructions: String,
    pub modalities: Option<Modalities>,
    pub voice: String,
    pub language: String,
    /// Set if the caller states the format of the audio that it will send.
    pub input: Option<InputRequest>,
    pub output: OutputRequest,
    pub text_sampling: SamplingRequest,
    pub speech_sampling: SamplingRequest,
    pub stop: Vec<String>,
    /// The conversation so far, oldest first.
    pub history: Vec<MessageRequest>,
}

impl ChatModel {
    /// Builds the command for a request's settings; `field` is the name of its history in errors.
    ///
    /// # Errors
    /// The field that cannot be honoured.
    pub fn configure(
        &self,
        mut request: ChatRequest,
        field: &'static str,
    ) -> Result<ChatCommand, ServeError> {
        let history = std::mem::take(&mut request.history);
        let most = ChatLimits::default().max_messages;
        if history.len() > most {
            return Err(invalid(
                field,
                format!("has {} messages, expected at most {most}", history.len()),
            ));
        }
        let mut settings = settings::settings(&request, self)?;
        let mut said = Vec::with_capacity(history.len());
        let is_users =
            |one: &MessageRequest| one.role == Role::User && !one.parts.iter().any(PartRequest::is_result);
        let newest = history.iter().rposition(is_users);
        let mut cut = 0;
        for (at, mut one) in history.into_iter().enumerate() {
            let ignored = &mut settings.speech.ignored;
            if !messages::without_tools(&mut one, self, ignored)? {
                continue;
            }
            if !self.speech.terms.strict {
                cut += messages::shorten(&mut one, self.limits.max_text_bytes);
            }
            if Some(at) == newest {
                said.push(messages::message(one, self)?);
            } else {
                said.extend(messages::earlier(one, self, ignored)?);
            }
        }
        Ok(ChatCommand::Configure {
            settings: Box::new(settings),
            history: said,
            cut,
        })
    }

    /// Checks the settings of a request; its history is not looked at.
    ///
    /// # Errors
    /// The field that cannot be honoured.
    pub fn settings(&self, request: &ChatRequest) -> Result<ChatSettings, ServeError> {
        settings::settings(request, self)
    }

    /// Checks a message; the session adds it to the conversation.
    ///
    /// # Errors
    /// The part that cannot be honoured.
    pub fn message(&self, message: MessageRequest) -> Result<NewMessage, ServeError> {
        messages::message(message, self)
    }

    /// Checks instructions of one answer.
    ///
    /// # Errors
    /// If they are too long.
    pub fn check_text(&self, field: &'static str, bytes: usize) -> Result<(), ServeError> {
        messages::check_text(field, bytes, self)
    }
}

/// Opens conversation sessions. Clones share the gate.
#[derive(Debug, Clone)]
pub struct ChatService {
    gate: CallGate,
}

impl ChatService {
    pub fn new(gate: CallGate) -> Self {
        Self { gate }
    }

    pub fn records(&self) -> &Arc<dyn RecordSink> {
        &self.gate.deps.records
    }

    /// Permit for a conversation call, and the model to check against.
    ///
    /// # Errors
    /// If no work is accepted, or no more of this caller.
    pub fn admit(&self, method: &'static str, caller: Caller) -> Result<(ChatModel, CallPermit), ServeError> {
        let (pipeline, chat) = self.gate.ready(self.gate.deps.orchestrator.chat_available())?;
        let model = ChatModel {
            speech: Arc::clone(&pipeline.info),
            chat: Arc::clone(&chat.info),
            limits: self.gate.deps.limits,
        };
        Ok((model, self.gate.enter(method, caller)?))
    }

    /// Opens a session that serves `commands`.
    pub fn open<S>(&self, context: CallContext, commands: S, permit: CallPermit) -> Events
    where
        S: Stream<Item = Result<ChatCommand, ServeError>> + Unpin + Send + 'static,
    {
        let deadline = self.gate.deadline(&context);
        self.gate.run(permit, |deps, handle, events| {
            let session = ChatSession::new(deps, deadline)
                .called_by(context.trace)
                .with_handle(handle);
            session.run(commands, events)
        })
    }

    /// Answers one whole conversation. A request that cannot be honoured fails in the session, which records it.
    ///
    /// # Errors
    /// As for [`admit`](Self::admit).
    pub async fn generate(
        &self,
        context: CallContext,
        caller: Caller,
        request: Result<ChatRequest, ServeError>,
    ) -> Result<(ChatModel, Events), ServeError> {
        let (model, permit) = self.admit("ChatService/Generate", caller)?;
        let (configure, permit) = read(request, &model, permit).await?;
        let commands = match configure {
            Ok(configure) => vec![Ok(configure), Ok(ChatCommand::Respond(Respond::default()))],
            Err(error) => vec![Err(error)],
        };
        Ok((model, self.open(context, stream::iter(commands), permit)))
    }
}

/// Checks a whole conversation. Long recordings are decoded on a thread of their own, off the threads of sessions;
/// `permit` moves there, too, so that a caller that goes away keeps its place until they are decoded.
async fn read<P: Send + 'static>(
    request: Result<ChatRequest, ServeError>,
    model: &ChatModel,
    permit: P,
) -> Result<(Result<ChatCommand, ServeError>, P), ServeError> {
    let recorded = request.as_ref().map_or(0, |request| {
        let parts = request.history.iter().flat_map(|message| &message.parts);
        parts.map(PartRequest::recorded).sum::<usize>()
    });
    let model = model.clone();
    let check = move || (request.and_then(|request| whole(request, &model)), permit);
    if recorded <= SHORT {
        return Ok(check());
    }
    let span = tracing::Span::current();
    let checked = tokio::task::spawn_blocking(move || span.in_scope(check)).await;
    Ok(checked.map_err(|_| StageError::panicked("session"))?)
}

fn whole(request: ChatRequest, model: &ChatModel) -> Result<ChatCommand, ServeError> {
    if request.input.is_some() {
        return Err(invalid(
            "config.input_audio",
            "is given, but nothing can be said here",
        ));
    }
    if request.history.is_empty() {
        return Err(invalid("messages", "is empty; expected a conversation"));
    }
    model.configure(request, "messages")
}
