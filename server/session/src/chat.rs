//! One conversation: turns in, answers out, written and spoken while they are being generated.
//!
//! In: a stream of [`ChatCommand`]s (checked and free of wire types). Out: [`ChatEvent`]s through a small bounded
//! channel, and one [`TurnRecord`] per answer. The model's tokens become text; the text goes to the reader and, if
//! the answer is to be heard, to an utterance of the same kind that speaks typed text. Events that a reader does not
//! take stay in an outbox, behind which first the vocoder and then the model pause; an interruption is received all
//! the same.

mod cut;
mod figures;
mod fit;
mod hearing;
mod history;
mod names;
mod outbox;
mod protocol;
mod record;
mod run;
mod settings;
mod turn;
mod voice;
mod writing;

pub use cut::shortened;
pub use protocol::{
    ChatCommand, ChatEvent, ChatEventBody, ChatReady, GivenConversation, NewMessage, Respond, ResponseDone,
    Said,
};
pub use record::{TokenIntervals, TurnRecord, TurnTimings, TurnUsage};
pub use run::ChatSession;
pub use settings::{ChatLimits, ChatSettings, Modalities};
