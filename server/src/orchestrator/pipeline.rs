//! The stages of the speech path, and binding an utterance to a replica of each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::Stamp;

use super::reply::ChatPath;
use crate::clock::Clock;
use crate::compute::Compute;
use crate::config::deploy::Handover;
use crate::connector::EdgeSink;
use crate::error::ServeError;
use crate::stage::{
    BackendError, CancelTimer, Changes, Code2WavJob, End, Lease, NoReplica, OnReleased, PoolControl,
    Sampling, SpeechInfo, StageError, StagePool, TalkerJob, VoiceEncoderSource,
};

/// Turns text into token ids.
pub type TextEncoder = Arc<dyn Fn(&str) -> Result<Vec<u32>, BackendError> + Send + Sync>;

/// Bounds of the edges of one sequence.
#[derive(Debug, Clone, Copy)]
pub struct EdgeLimits {
    /// Batches of text tokens on their way to the talker.
    pub token_batches: u32,
    /// Codec frames between talker and code2wav.
    pub frames: u32,
    /// Audio that may wait for its reader.
    pub audio: Duration,
}

/// A model that is loaded and the stages that run it.
pub struct Pipeline {
    /// What the model is.
    pub info: Arc<SpeechInfo>,
    /// How outputs are drawn where neither a caller nor, for what is `None`, the operator says.
    pub sampling: Sampling,
    /// Its tokenizer.
    pub encode: TextEncoder,
    /// What makes voices of recordings for it.
    pub voice_encoder: VoiceEncoderSource,
    /// Its conversations, or why it holds none.
    pub chat: Result<ChatPath, String>,
    /// The first stage.
    pub talker: StagePool<TalkerJob>,
    /// The second stage.
    pub code2wav: StagePool<Code2WavJob>,
    /// Rings when the state of any replica changes.
    pub changes: Changes,
    /// What happens to the work of a replica that dies.
    pub handover: Handover,
    /// Bounds of the edges.
    pub edges: EdgeLimits,
    /// Where the edges' figures go.
    pub edge_sink: Arc<dyn EdgeSink>,
    /// What is told when all stages have let go of what a caller gave up.
    pub let_go: OnReleased,
    /// Where sessions compute.
    pub compute: Compute,
    /// The time.
    pub clock: Clock,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// One replica of every stage, bound when an utterance is admitted. Its sequences all go there. Copies are the same binding;
/// when the last one is dropped, the replicas have one utterance less in flight.
#[derive(Debug, Clone)]
pub struct Binding(Arc<Bound>);

#[derive(Debug)]
struct Bound {
    talker: Lease<TalkerJob>,
    code2wav: Lease<Code2WavJob>,
}

impl Binding {
    /// Whether none of its replicas has died since.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.talker.is_alive() && self.0.code2wav.is_alive()
    }

    /// Waits until one of its replicas hangs, of which nothing more comes; of the talker only if it `speaks` still.
    pub(super) async fn lost(&self, speaks: bool) -> End {
        let (talker, code2wav) = (&self.0.talker, &self.0.code2wav);
        let (stage, message) = tokio::select! {
            message = talker.lost(), if speaks => (talker.stage(), message),
            message = code2wav.lost() => (code2wav.stage(), message),
        };
        End::Lost { stage, message }
    }

    pub(super) fn talker(&self) -> &Lease<TalkerJob> {
        &self.0.talker
    }

    pub(super) fn code2wav(&self) -> &Lease<Code2WavJob> {
        &self.0.code2wav
    }
}

/// A stage in which no replica takes work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unbound {
    stage: &'static str,
    why: NoReplica,
}

impl Unbound {
    /// Whether it is worth waiting.
    pub(super) fn may_pass(&self) -> bool {
        self.why.may_pass()
    }
}

impl From<Unbound> for StageError {
    fn from(Unbound { stage, why }: Unbound) -> Self {
        let unavailable = |message| Self::Unavailable { stage, message };
        match why {
            NoReplica::Loading => Self::Loading,
            NoReplica::Restarting(message) => unavailable(format!("it is being restarted after: {message}")),
            NoReplica::Closed => unavailable("all its replicas are cordoned or removed".to_owned()),
            NoReplica::Failed(message) => Self::Failed { stage, message },
        }
    }
}

impl From<Unbound> for ServeError {
    fn from(unbound: Unbound) -> Self {
        StageError::from(unbound).into()
    }
}

impl From<Unbound> for End {
    fn from(unbound: Unbound) -> Self {
        let stage = unbound.stage;
        match StageError::from(unbound) {
            StageError::Failed { stage, message } => Self::Failed { stage, message },
            StageError::Unavailable { stage, message } => Self::Lost { stage, message },
            other => Self::Failed {
                stage,
                message: other.to_string(),
            },
        }
    }
}

impl Pipeline {
    /// The pools of all stages: those that an answer passes, upstream first, and the one that hears.
    #[must_use]
    pub fn pools(&self) -> Vec<&dyn PoolControl> {
        let chat = self.chat.as_ref().ok();
        let thinker = chat.map(|chat| &chat.thinker as &dyn PoolControl);
        let encoder = chat.and_then(|chat| chat.encoder.as_ref());
        let encoder = encoder.map(|pool| pool as &dyn PoolControl);
        let speech: [&dyn PoolControl; 2] = [&self.talker, &self.code2wav];
        thinker.into_iter().chain(speech).chain(encoder).collect()
    }

    /// For a new request.
    #[must_use]
    pub fn request(&self) -> Arc<CancelTimer> {
        Arc::new(CancelTimer::new(self.clock, Arc::clone(&self.let_go)))
    }

    /// Looks after threads that hang in a step, in every stage, for as long as it runs.
    pub async fn watch(&self) {
        let clock = self.clock;
        let chat = async {
            let Ok(chat) = &self.chat else { return };
            let hearing = async {
                if let Some(encoder) = &chat.encoder {
                    encoder.watch(clock).await;
                }
            };
            tokio::join!(chat.thinker.watch(clock), hearing);
        };
        tokio::join!(self.talker.watch(clock), self.code2wav.watch(clock), chat);
    }

    /// What `bind` gives as soon as there are replicas, in the time that a hand-over may take from `since` on.
    pub(super) async fn bound<T>(
        &self,
        since: Stamp,
        bind: impl Fn() -> Result<T, Unbound>,
    ) -> Result<T, Unbound> {
        let mut changes = self.changes.follow();
        loop {
            let unbound = match bind() {
                Ok(bound) => return Ok(bound),
                Err(unbound) => unbound,
            };
            let left = self.handover.wait.saturating_sub(self.clock.since(since));
            if !unbound.may_pass() || left.is_zero() {
                return Err(unbound);
            }
            // Either way it looks again.
            let _ = tokio::time::timeout(left, changes.changed()).await;
        }
    }

    /// Binds a replica of every stage.
    pub(super) fn bind(&self) -> Result<Binding, Unbound> {
        let talker = bind(&self.talker)?;
        let code2wav = bind(&self.code2wav)?;
        Ok(Binding(Arc::new(Bound { talker, code2wav })))
    }

    /// Whether every stage of the speech path has a replica that takes work.
    pub(super) fn check(&self) -> Result<(), Unbound> {
        check(&self.talker)?;
        check(&self.code2wav)
    }

    /// Frames of audio that may wait for their reader; at least two, so that one can be made while one is read.
    pub(super) fn audio_capacity(&self) -> u32 {
        let frame = self.info.frame_duration().as_secs_f64();
        let frames = (self.edges.audio.as_secs_f64() / frame).ceil();
        (frames as u32).max(2)
    }
}

/// A replica of a stage.
pub(super) fn bind<J: Send + 'static>(pool: &StagePool<J>) -> Result<Lease<J>, Unbound> {
    let stage = pool.stage();
    pool.bind().map_err(|why| Unbound { stage, why })
}

/// Whether a stage has a replica that takes work.
pub(super) fn check<J: Send + 'static>(pool: &StagePool<J>) -> Result<(), Unbound> {
    let stage = pool.stage();
    pool.check().map_err(|why| Unbound { stage, why })
}
