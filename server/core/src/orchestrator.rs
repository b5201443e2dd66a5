//! Work for sessions: admission by tenant, the model, and the pipeline that runs it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_engine::{CacheSalt, Stamp};
use omni_family::{
    AudioInputError, ChatInfo, DetokenizerMaker, PromptBuilder, SpeechInfo, VoiceEncoderSource,
};
use omni_pipeline::orchestrator::{
    Admission, AdmissionError, AdmissionLimits, Binding, Pipeline, Reply, ReplySpec, Segment, SegmentSpec,
    StageError, UtterancePermit,
};
use omni_pipeline::request::{Clip, Sampling};
use omni_pipeline::stage::{BackendError, CancelTimer, StagePool, StageSnapshot};
use omni_pipeline::tenant::Tenant;
use tokio_util::sync::CancellationToken;

use crate::compute::Compute;
use crate::drain::ShutdownError;
use crate::error::{ErrorKind, ServeError};

/// Turns text into token ids.
pub type TextEncoder = Arc<dyn Fn(&str) -> Result<Vec<u32>, BackendError> + Send + Sync>;

/// Gives the recording of a voice of the model, where its graph encodes that.
pub type VoiceRecordings = Arc<dyn Fn(&str) -> Option<Clip> + Send + Sync>;

/// A served model: its public description, and the pipeline of its stages.
#[derive(derive_more::Debug)]
#[debug("Model {{ info: {:?}, .. }}", self.info)]
pub struct Model {
    /// Its description.
    pub info: Arc<SpeechInfo>,
    /// Default sampling; of what is `None`, the checkpoint's own.
    pub sampling: Sampling,
    /// Its tokenizer.
    pub encode: TextEncoder,
    /// Makes voices of recordings for it.
    pub voice_encoder: VoiceEncoderSource,
    /// Recordings of its own voices.
    pub voice_recordings: VoiceRecordings,
    /// Its conversations, or why it holds none.
    pub chat: Result<ChatPath, String>,
    /// The threads on which sessions compute.
    pub compute: Compute,
    /// Its stages.
    pub pipeline: Arc<Pipeline>,
}

/// The part of a model that converses.
#[derive(derive_more::Debug)]
#[debug("ChatPath {{ info: {:?}, .. }}", self.info)]
pub struct ChatPath {
    /// Its description.
    pub info: Arc<ChatInfo>,
    /// Its template and tokenizer.
    pub prompt: PromptBuilder,
    /// The way back from tokens to text.
    pub detokenizer: DetokenizerMaker,
    /// An answer that has begun fails when its stage gives nothing more for this long.
    pub stall: Duration,
    /// True if conversations share what was computed for common beginnings.
    pub shared_prefixes: bool,
}

/// The model does not converse, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("chat is not supported by this model: {0}")]
pub struct ChatNotSupported(pub String);

impl From<ChatNotSupported> for ServeError {
    fn from(error: ChatNotSupported) -> Self {
        Self::new(ErrorKind::NotSupported, "CHAT_NOT_SUPPORTED", error.to_string())
    }
}

/// Exists before the model is loaded, and fails requests until then. Clones share it.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    shared: Arc<Shared>,
    /// The tenant that works with this copy of it.
    tenant: Tenant,
}

#[derive(Debug)]
struct Shared {
    model: OnceLock<Model>,
    admission: Admission,
    draining: CancellationToken,
    /// Number of conversations so far.
    salts: AtomicU64,
}

impl Orchestrator {
    /// Without a model yet. When `draining` is cancelled no new work is taken.
    pub fn new(limits: AdmissionLimits, draining: CancellationToken) -> Self {
        Self {
            shared: Arc::new(Shared {
                model: OnceLock::new(),
                admission: Admission::new(limits),
                draining,
                salts: AtomicU64::new(0),
            }),
            tenant: Tenant::Unknown,
        }
    }

    /// The same orchestrator on behalf of `tenant`.
    pub fn on_behalf_of(&self, tenant: Tenant) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            tenant,
        }
    }

    /// Waits for the right to work, among others and within its tenant's share.
    ///
    /// # Errors
    /// If the queue is full, or the wait in it was or would be too long.
    pub fn admit(&self) -> impl Future<Output = Result<UtterancePermit, AdmissionError>> + Send + use<> {
        self.shared.admission.admit(self.tenant)
    }

    /// Gives it its model, once.
    ///
    /// # Panics
    /// If it has one.
    pub fn install(&self, model: Model) {
        assert!(
            self.shared.model.set(model).is_ok(),
            "the model is installed once"
        );
    }

    /// The model, if new work can be taken now: every stage that speech needs has a replica that takes it.
    ///
    /// # Errors
    /// [`ShutdownError::Draining`] or a [`StageError`].
    pub fn available(&self) -> Result<&Model, ServeError> {
        if self.shared.draining.is_cancelled() {
            return Err(ShutdownError::Draining.into());
        }
        let model = self.model()?;
        model.pipeline.check_speech()?;
        Ok(model)
    }

    /// The model, also while draining.
    ///
    /// # Errors
    /// [`StageError::Loading`].
    pub fn model(&self) -> Result<&Model, ServeError> {
        self.shared.model.get().ok_or_else(|| StageError::Loading.into())
    }

    /// The part of the model that converses, also while draining.
    ///
    /// # Errors
    /// [`StageError::Loading`] or [`ChatNotSupported`].
    pub fn chat(&self) -> Result<&ChatPath, ServeError> {
        let chat = self.model()?.chat.as_ref();
        chat.map_err(|why| ChatNotSupported(why.clone()).into())
    }

    /// The model and the part of it that converses, if new work can be taken now.
    ///
    /// # Errors
    /// As for [`available`](Self::available) and [`chat`](Self::chat).
    pub fn chat_available(&self) -> Result<(&Model, &ChatPath), ServeError> {
        let model = self.available()?;
        let chat = self.chat()?;
        model.pipeline.check_answers()?;
        Ok((model, chat))
    }

    /// True if recordings can be heard now; none if the model does not hear.
    ///
    /// # Errors
    /// [`ChatNotSupported`] or a [`StageError`].
    pub fn hearing_available(&self) -> Result<(), ServeError> {
        self.chat()?;
        Ok(self.model()?.pipeline.check_hearing()?)
    }

    /// A salt unique to a conversation, different from the shared one.
    pub fn next_salt(&self) -> CacheSalt {
        CacheSalt(self.shared.salts.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Admission of utterances.
    pub fn admission(&self) -> &Admission {
        &self.shared.admission
    }

    /// Cancelled when no new work is taken.
    pub fn draining(&self) -> &CancellationToken {
        &self.shared.draining
    }

    /// The pool of a stage: its replicas can be looked at, cordoned, removed and added to at any time.
    pub fn pool(&self, stage: &str) -> Option<&StagePool> {
        self.shared.model.get()?.pipeline.pool(stage)
    }

    /// Asks the stages to stop after the step in progress.
    pub fn stop_stages(&self) {
        if let Some(model) = self.shared.model.get() {
            model.pipeline.stop();
        }
    }

    /// Starts a sequence of speech ([`Pipeline::speak`]).
    ///
    /// # Errors
    /// A [`StageError`] if a stage does not take it.
    pub fn start(&self, mut spec: SegmentSpec, binding: &mut Option<Binding>) -> Result<Segment, ServeError> {
        let model = self.model()?;
        spec.request.head.sampling = spec.request.head.sampling.or(model.sampling);
        spec.recording = (model.voice_recordings)(&spec.request.head.voice);
        Ok(model.pipeline.speak(spec, binding)?)
    }

    /// Starts an answer ([`Pipeline::answer`]).
    ///
    /// # Errors
    /// [`ChatNotSupported`], or a [`StageError`] if the stage does not take it.
    pub fn answer(&self, spec: ReplySpec) -> Result<Reply, ServeError> {
        self.chat()?;
        let reply = self.model()?.pipeline.answer(spec);
        let reply = reply.ok_or_else(|| ChatNotSupported("no stage of it answers".to_owned()))?;
        Ok(reply?)
    }

    /// Has `recording` encoded, if it is not yet, for a request that arrived at the edge at `arrived` and is `held` by the stages that work
    /// on it. Dropping the future gives the work up.
    ///
    /// # Errors
    /// [`AudioInputError::NotSupported`]; [`StageError::Overloaded`] if too many wait; an invalid field if the model refuses the
    /// recording; another [`StageError`] otherwise.
    pub async fn hear(
        &self,
        recording: &Clip,
        arrived: Stamp,
        held: &Arc<CancelTimer>,
    ) -> Result<StageSnapshot, ServeError> {
        self.chat()?;
        match self.model()?.pipeline.encode(recording, arrived, held).await {
            None => Err(AudioInputError::NotSupported { field: "message" }.into()),
            Some(Ok(figures)) => Ok(figures),
            Some(Err(end)) => Err(ServeError::of_end(end, "message").unwrap_or_else(|| {
                let message = "it ended without an answer".to_owned();
                let stage = "prompt";
                StageError::Failed { stage, message }.into()
            })),
        }
    }
}
