//! The sending half of a conversation.

use omni_audio::Samples;
use omni_proto::v1;
use omni_proto::v1::converse_request::Event;
use prost::bytes::Bytes;
use tokio::sync::mpsc;

use super::events::ResponseId;
use super::message::Message;
use super::settings::{ChatSettings, Outputs};
use crate::call::SessionClosed;

/// Most audio in one message; a multiple of every frame size. Longer audio is sent in several.
const MAX_AUDIO_BYTES: usize = 16 * 1024;

/// Asks for one response. The default asks as the settings say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseRequest {
    /// Its name, unused before in the conversation; absent: the server names it.
    pub id: Option<ResponseId>,
    /// Forms of this answer, in place of those in the settings.
    pub outputs: Option<Outputs>,
    /// Instructions for this answer, in place of those in the settings unless empty.
    pub instructions: String,
}

/// Sends messages, speech and commands. Every method waits when the server is slower than the caller, so read the
/// conversation's events at the same time. Dropping the last clone lets the response in progress end and closes the
/// sending side.
///
/// While a response is in progress, from the request for it until its [`crate::ChatEvent::Done`], only
/// [`Self::audio`] and [`Self::interrupt`] may be used, and behind the interruption everything.
#[derive(Debug, Clone)]
pub struct ChatSender {
    requests: mpsc::Sender<v1::ConverseRequest>,
}

impl ChatSender {
    pub(crate) fn new(requests: mpsc::Sender<v1::ConverseRequest>) -> Self {
        Self { requests }
    }

    /// A sender without a call, to replace one whose conversation shall be closed.
    pub fn closed() -> Self {
        Self::new(mpsc::channel(1).0)
    }

    /// The user says `text`, and wants an answer.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn say(&self, text: &str) -> Result<(), SessionClosed> {
        self.message(&Message::user(text)).await?;
        self.respond(&ResponseRequest::default()).await
    }

    /// Adds to the conversation. Answered by [`crate::ChatEvent::MessageAdded`].
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn message(&self, message: &Message) -> Result<(), SessionClosed> {
        self.send(Event::Message(message.to_proto())).await
    }

    /// More of what the user is saying, in the format of [`ChatSettings::input`]: whole samples.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn audio(&self, pcm: impl Into<Bytes>) -> Result<(), SessionClosed> {
        let mut rest: Bytes = pcm.into();
        while !rest.is_empty() {
            let data = rest.split_to(rest.len().min(MAX_AUDIO_BYTES));
            self.send(Event::InputAudio(v1::InputAudio { data })).await?;
        }
        Ok(())
    }

    /// Ends the user's turn: the audio since the last one becomes a message, answered by
    /// [`crate::ChatEvent::MessageAdded`]. There must be some. With `respond` it also asks for an answer.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn commit(&self, respond: bool) -> Result<(), SessionClosed> {
        self.send(Event::Commit(v1::CommitInput { respond })).await
    }

    /// Asks for an answer to the conversation as it stands.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn respond(&self, request: &ResponseRequest) -> Result<(), SessionClosed> {
        let id = request.id.as_ref().map(|id| id.0.clone());
        self.send(Event::Respond(v1::CreateResponse {
            response_id: id.unwrap_or_default(),
            output_modalities: request.outputs.map(Outputs::to_proto).unwrap_or_default(),
            instructions: request.instructions.clone(),
        }))
        .await
    }

    /// Stop answering, and keep in the conversation only what was heard: `played` samples of the response, or all that
    /// was sent if absent (as it must be if the response is only written). `None` means the response in progress, else
    /// the last one.
    ///
    /// A response in progress ends with its one [`crate::ChatEvent::Done`]; one that was done before is cut, and
    /// [`crate::ChatEvent::MessageCut`] says what is left if `played` was given.
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn interrupt(
        &self,
        response: Option<&ResponseId>,
        played: Option<Samples>,
    ) -> Result<(), SessionClosed> {
        self.send(Event::Interrupt(v1::Interrupt {
            response_id: response.map(|id| id.0.clone()).unwrap_or_default(),
            played_samples: played.map(|played| played.0),
        }))
        .await
    }

    /// New settings from the next response on; their `history` is not sent, the conversation goes on. Answered by
    /// [`crate::ChatEvent::Ready`].
    ///
    /// # Errors
    /// [`SessionClosed`].
    pub async fn configure(&self, settings: &ChatSettings) -> Result<(), SessionClosed> {
        self.send(Event::Config(settings.without_history())).await
    }

    async fn send(&self, event: Event) -> Result<(), SessionClosed> {
        let request = v1::ConverseRequest { event: Some(event) };
        self.requests.send(request).await.map_err(|_| SessionClosed)
    }
}
