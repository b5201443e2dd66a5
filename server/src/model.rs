//! What a model is to its callers: voices, languages, conversations, prompts. How its stages are run is `omni-pipeline`'s.

mod chat;
mod speech;
mod voice;

pub use chat::{
    AudioInputError, ChatInfo, ChatMessage, Detokenizer, DetokenizerMaker, Hearing, Part, Prompt,
    PromptBuilder, Role, TOOL_CALL, ToolPart, Voicing,
};
pub use speech::{Converse, DeviceFigures, ModelInfo, PromptError, SpeechInfo, Terms, VoiceInfo};
pub use voice::{
    EncodeVoice, KeptVoices, VoiceContent, VoiceEncoderSource, VoiceShape, VoiceSource, VoiceSupport,
};
