//! Stages: pools of replicas, each a thread that drives one engine.
//!
//! A [`StagePool`] binds an utterance to one of its replicas. A replica takes jobs from a bounded mailbox, steps its engine, and passes outputs on through the [`EdgeSender`] that came with
//! the job. It never waits for a reader: a sender that is full pauses its own sequence and no other. Between
//! steps it looks at cancellations, at senders that have room again and at receivers that have more; with nothing to do it
//! sleeps without using the processor. What lies behind receivers and senders is not known here.

mod backend;
mod backoff;
mod cancel_timer;
mod chat;
mod code2wav;
mod driver;
mod encoder;
mod error;
mod events;
mod flow;
mod generation;
mod handle;
mod notifier;
mod pool;
mod progress;
mod refused;
mod replica;
mod residency;
mod route;
mod sides;
mod starvation;
mod status;
mod talker;
mod thinker;
mod voice;
mod worker;

pub use backend::{
    BackendError, DeviceFigures, Encode, ModelInfo, PromptError, Sampling, SpeechBackend, SpeechInfo, Talk,
    TalkerRequest, Terms, Think, Vocode, VoiceInfo,
};
pub use cancel_timer::{CancelTimer, OnReleased};
pub use chat::{
    AudioInputError, ChatInfo, ChatMessage, Clip, ContextRow, Detokenizer, DetokenizerMaker, Hearing, Part,
    Prompt, PromptBuilder, PromptPiece, ReplyToken, Role, TOOL_CALL, ThinkerRequest, ToolPart, Voicing,
};
pub use code2wav::{AudioPiece, Code2WavJob, Code2WavLimits, code2wav_stage};
pub use encoder::{AudioRows, EncoderJob, EncoderLimits, encoder_stage};
pub use error::StageError;
pub use events::{
    CacheFigures, EngineEvent, EngineSink, IgnoreEngines, KvFormat, KvPosition, Listen, Refusal, SeqEnd,
    SeqTaken,
};
pub use flow::{EdgeReceiver, EdgeSender, End, Recv, TransferStamps};
pub use generation::TurnTimeouts;
pub use handle::{JobRefused, StageHandle};
pub(crate) use notifier::NotifierFd;
pub use notifier::{CancelFlag, Notifier};
pub use pool::{
    Lease, MakeReplica, NoReplica, PoolControl, PoolError, PoolParts, ReplicaView, StagePool, StartThread,
    StepLimits,
};
pub use progress::{StageProgress, StageSnapshot};
pub use replica::{Changes, ReplicaId, ReplicaState, ReplicaStats};
pub use status::ReplicaStatus;
pub use talker::{TalkerJob, TalkerLimits, talker_stage};
pub use thinker::{ThinkerJob, ThinkerLimits, thinker_stage};
pub use voice::{
    EncodeVoice, KeptVoices, VoiceContent, VoiceEncoderSource, VoicePrompt, VoiceReference, VoiceShape,
    VoiceSource, VoiceSupport, prompt_rows,
};
pub use worker::StageBody;
pub(crate) use worker::{Core, StageParts, stage_of};
