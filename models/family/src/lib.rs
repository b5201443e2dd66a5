//! Model families: a model as its callers see it (voices, languages, conversations, prompts), and the model of each
//! stage of its graph.
//!
//! Networks are in `omni-models`, and running stages in `omni-pipeline`. A family joins the two: it converts requests
//! to its networks' form and their outputs to the pipeline's. A server knows a [`Family`] with its
//! abilities ([`Speak`], [`Converse`]), and none by name.

mod chat;
mod compute;
mod identity;
mod loaded;
mod qwen;
mod source;
mod speech;
mod voice;

pub use chat::{
    AudioInputError, ChatInfo, ChatMessage, Detokenizer, DetokenizerMaker, Hearing, Part, Prompt,
    PromptBuilder, Role, TOOL_CALL, ToolPart, Voicing,
};
pub use compute::{ComputePlan, Device, FamilyError, KvCache, ProcessRole, StageCompute};
pub use identity::model_identity;
pub use loaded::{Family, SilentModel, load};
pub use omni_models::{DType, VoiceSource, Weights};
pub use source::{ModelSource, embedded_checkpoint};
pub use speech::{Converse, DeviceFigures, PromptError, Speak, SpeechInfo, Terms, VoiceInfo};
pub use voice::{EncodeVoice, KeptVoices, VoiceContent, VoiceEncoderSource, VoiceShape, VoiceSupport};
