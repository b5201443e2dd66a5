//! Speech sessions: text in while it is being written, audio out as it is produced.

mod events;
mod rules;
mod sender;
mod settings;

use omni_proto::v1;

use crate::call::{Call, Hearing};
use crate::checker::Checker;
use crate::endpoint::Endpoint;
use crate::error::ClientError;
use crate::stream::Events;
pub use events::{Limits, Ready, SpeechEvent, TimedText, UtteranceId, Warning};
use rules::{SpeechRules, from_speak, from_synthesize};
pub use sender::SpeechSender;
pub use settings::{Buffering, SpeechSettings};

/// The receiving half of a session. Dropping it ends the call: the server stops speaking at once.
#[derive(Debug)]
pub struct SpeechEvents(Events<SpeechRules>);

impl SpeechEvents {
    pub(crate) fn speak(endpoint: Endpoint, call: Call<v1::SpeakResponse>, hearing: Hearing) -> Self {
        let checker = Checker::session(SpeechRules::default());
        Self(Events::new(endpoint, call, from_speak, checker, Some(hearing)))
    }

    pub(crate) fn synthesize(endpoint: Endpoint, call: Call<v1::SynthesizeResponse>) -> Self {
        let checker = Checker::single(SpeechRules::default());
        Self(Events::new(endpoint, call, from_synthesize, checker, None))
    }

    /// The next event; `None` when the session has ended well. May be dropped and called again without losing events.
    ///
    /// # Errors
    /// Reason why the session has ended.
    pub async fn next(&mut self) -> Result<Option<SpeechEvent>, ClientError> {
        self.0.next().await
    }
}

/// Events of the messages of a session, up to the first that breaks the protocol.
pub(crate) fn passed(messages: impl Iterator<Item = v1::SpeakResponse>) -> Vec<SpeechEvent> {
    Checker::session(SpeechRules::default()).passed(messages.map(from_speak))
}
