//! Stages: pools of replicas, each a thread that drives one engine.
//!
//! A [`StagePool`] binds an utterance to one of its replicas. A replica takes jobs from a bounded mailbox, steps its engine, and passes outputs on through the [`Outlet`] that came with
//! the job. It never waits for whoever reads them: an outlet that is full pauses its own sequence and nobody else. Between
//! steps it looks at cancellations, at outlets that have room again and at inlets that have more; with nothing to do it
//! sleeps without using the processor. What lies behind inlets and outlets, and who asked, is not known here.

mod backend;
mod backoff;
mod chat;
mod code2wav;
mod desk;
mod encoder;
mod flow;
mod handle;
mod let_go;
mod news;
mod place;
mod pool;
mod progress;
mod replica;
mod route;
mod seat;
mod sides;
mod stall;
mod talker;
mod term;
mod thinker;
mod wake;
mod worker;

pub use backend::{
    BackendError, DeviceFigures, Encode, ModelInfo, PromptError, Sampling, SpeechBackend, SpeechInfo, Talk,
    TalkerRequest, Terms, Think, Vocode, VoiceInfo,
};
pub use chat::{
    ChatInfo, ChatMessage, Clip, ContextRow, Detokenizer, DetokenizerMaker, Hearing, Part, Prompt,
    PromptBuilder, PromptPiece, ReplyToken, Role, TOOL_CALL, ThinkerRequest, ToolPart, Voicing,
};
pub use code2wav::{AudioPiece, Code2WavJob, Code2WavLimits, code2wav_stage};
pub use encoder::{AudioRows, EncoderJob, EncoderLimits, encoder_stage};
pub use flow::{ChunkStamps, End, Inlet, Outlet, STAGE_NAMES, Taken};
pub use handle::{JobRefused, StageHandle};
pub use let_go::{LetGo, TellLetGo};
pub use news::{
    CacheFigures, EndReason, EngineNews, EngineSink, IgnoreEngines, KvFormat, KvPosition, Listen, Refusal,
    SeqEnd, SeqTaken, StepFigures,
};
pub use pool::{
    Lease, MakeReplica, NoReplica, PoolControl, PoolError, PoolParts, ReplicaView, StagePool, StartThread,
    StepLimits,
};
pub use progress::{StageProgress, StageSnapshot};
pub use replica::{Changes, ReplicaId, ReplicaState, ReplicaStats};
pub use seat::Seat;
pub use talker::{TalkerJob, TalkerLimits, talker_stage};
pub use term::TurnTimeouts;
pub use thinker::{ThinkerJob, ThinkerLimits, thinker_stage};
pub(crate) use wake::WakeLine;
pub use wake::{CancelFlag, Wake};
pub use worker::StageBody;
pub(crate) use worker::{Core, StageParts, stage_of};
