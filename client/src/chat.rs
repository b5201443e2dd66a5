//! Conversations: messages and speech in, text and speech out, turn by turn.

mod events;
mod message;
mod protocol;
mod sender;
mod settings;

pub(crate) use events::take;
pub use events::{ChatDone, ChatEvent, ChatEvents, ChatLimits, ChatReady, MessageAdded, ResponseId};
pub use message::{Clip, ClipFormat, Message, Part, Role};
pub use sender::{ChatSender, ResponseRequest};
pub use settings::{ChatSettings, InputAudio, Outputs, Sampling};
