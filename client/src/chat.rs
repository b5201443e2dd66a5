//! Conversations: messages and speech in, text and speech out, turn by turn.

mod events;
mod message;
mod rules;
mod sender;
mod settings;

use omni_proto::v1;

use crate::call::{Call, Hearing};
use crate::checker::Checker;
use crate::endpoint::Endpoint;
use crate::error::ClientError;
use crate::stream::Events;
pub use events::{ChatDone, ChatEvent, ChatLimits, ChatReady, MessageAdded, ResponseId};
pub use message::{Clip, ClipFormat, Message, Part, Role};
use rules::{ChatRules, from_converse, from_generate};
pub use sender::{ChatSender, ResponseRequest};
pub use settings::{ChatSettings, InputAudio, Outputs};

/// The receiving half of a conversation. Dropping it ends the call: the server stops answering at once.
#[derive(Debug)]
pub struct ChatEvents(Events<ChatRules>);

impl ChatEvents {
    pub(crate) fn converse(endpoint: Endpoint, call: Call<v1::ConverseResponse>, hearing: Hearing) -> Self {
        let checker = Checker::session(ChatRules);
        Self(Events::new(endpoint, call, from_converse, checker, Some(hearing)))
    }

    pub(crate) fn generate(endpoint: Endpoint, call: Call<v1::GenerateResponse>) -> Self {
        let checker = Checker::single(ChatRules);
        Self(Events::new(endpoint, call, from_generate, checker, None))
    }

    /// The next event; `None` when the conversation has ended well. May be dropped and called again without losing
    /// events.
    ///
    /// # Errors
    /// Reason why the conversation has ended.
    pub async fn next(&mut self) -> Result<Option<ChatEvent>, ClientError> {
        self.0.next().await
    }
}

/// Events of the messages of a conversation, up to the first that breaks the protocol.
pub(crate) fn passed(messages: impl Iterator<Item = v1::ConverseResponse>) -> Vec<ChatEvent> {
    Checker::session(ChatRules).passed(messages.map(from_converse))
}
