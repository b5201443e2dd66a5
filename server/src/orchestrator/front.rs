//! Where sessions come for work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use omni_engine::{CacheSalt, SeqId};
use tokio_util::sync::CancellationToken;

use super::admission::{Admission, AdmissionError, AdmissionLimits, UtterancePermit};
use super::pipeline::{Binding, Pipeline};
use super::reply::{ChatNotSupported, ChatPath, Reply, ReplySpec};
use super::segment::{Segment, SegmentSpec};
use crate::caller::Tenant;
use crate::drain::ShutdownError;
use crate::error::ServeError;
use crate::id::SeqIds;
use crate::stage::{PoolControl, StageError};

/// Exists before the model is loaded and says so until then. Copies are the same one.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    shared: Arc<Shared>,
    /// The tenant that works with this copy of it.
    tenant: Tenant,
}

#[derive(Debug)]
struct Shared {
    pipeline: OnceLock<Arc<Pipeline>>,
    admission: Admission,
    draining: CancellationToken,
    seqs: Arc<SeqIds>,
    /// Conversations so far.
    salts: AtomicU64,
}

impl Orchestrator {
    /// Without a model yet. When `draining` is cancelled no new work is taken.
    #[must_use]
    pub fn new(limits: AdmissionLimits, draining: CancellationToken) -> Self {
        Self {
            shared: Arc::new(Shared {
                pipeline: OnceLock::new(),
                admission: Admission::new(limits),
                draining,
                seqs: Arc::default(),
                salts: AtomicU64::new(0),
            }),
            tenant: Tenant::Unknown,
        }
    }

    /// The same one for `tenant`.
    #[must_use]
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
    pub fn install(&self, pipeline: Pipeline) {
        assert!(
            self.shared.pipeline.set(Arc::new(pipeline)).is_ok(),
            "the model is installed once"
        );
    }

    /// The model, if new work can be taken now: every stage has a replica that takes it.
    ///
    /// # Errors
    /// [`ShutdownError::Draining`] or a [`StageError`].
    pub fn available(&self) -> Result<&Pipeline, ServeError> {
        if self.shared.draining.is_cancelled() {
            return Err(ShutdownError::Draining.into());
        }
        let pipeline = self.model()?;
        pipeline.check()?;
        Ok(pipeline)
    }

    /// The model, also while draining.
    ///
    /// # Errors
    /// [`StageError::Loading`].
    pub fn model(&self) -> Result<&Pipeline, ServeError> {
        self.installed().map(|pipeline| &**pipeline)
    }

    fn installed(&self) -> Result<&Arc<Pipeline>, ServeError> {
        self.shared
            .pipeline
            .get()
            .ok_or_else(|| StageError::Loading.into())
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
    pub fn chat_available(&self) -> Result<(&Pipeline, &ChatPath), ServeError> {
        let pipeline = self.available()?;
        let chat = self.chat()?;
        chat.check()?;
        Ok((pipeline, chat))
    }

    /// Whether recordings can be heard now, if the model hears.
    ///
    /// # Errors
    /// [`ChatNotSupported`] or a [`StageError`].
    pub fn hearing_available(&self) -> Result<(), ServeError> {
        Ok(self.chat()?.check_hearing()?)
    }

    /// A number that no other conversation has, and never that of those that share.
    #[must_use]
    pub fn next_salt(&self) -> CacheSalt {
        CacheSalt(self.shared.salts.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Admission of utterances.
    #[must_use]
    pub fn admission(&self) -> &Admission {
        &self.shared.admission
    }

    /// Cancelled when no new work is taken any more.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.shared.draining
    }

    /// The id of another sequence.
    pub(super) fn next_seq(&self) -> SeqId {
        self.shared.seqs.next()
    }

    /// The pool of a stage: its replicas can be looked at, cordoned, removed and added to at any time.
    #[must_use]
    pub fn pool(&self, stage: &str) -> Option<&dyn PoolControl> {
        let pools = self.shared.pipeline.get()?.pools();
        pools.into_iter().find(|pool| pool.stage() == stage)
    }

    /// Asks the stages to stop after the step in progress.
    pub fn stop_stages(&self) {
        if let Some(pipeline) = self.shared.pipeline.get() {
            for pool in pipeline.pools() {
                pool.stop();
            }
        }
    }

    /// Starts a sequence in every stage. Never waits: if all replicas of a stage are being restarted, the sequence does.
    ///
    /// All sequences of an utterance go to the same replicas: those in `binding`, which is filled by the first, and anew when
    /// one of them has died.
    ///
    /// # Errors
    /// A [`StageError`] if a stage does not take it.
    pub fn start(&self, mut spec: SegmentSpec, binding: &mut Option<Binding>) -> Result<Segment, ServeError> {
        let pipeline = self.installed()?;
        spec.request.sampling = spec.request.sampling.or(pipeline.sampling);
        if !binding.as_ref().is_some_and(Binding::is_alive) {
            *binding = match pipeline.bind() {
                Ok(bound) => Some(bound),
                Err(unbound) if unbound.may_pass() => None,
                Err(unbound) => return Err(unbound.into()),
            };
        }
        let mut segment = Segment::new(Arc::clone(pipeline), Arc::clone(&self.shared.seqs), spec);
        if let Some(binding) = binding {
            segment.submit(binding.clone())?;
        }
        Ok(segment)
    }

    /// Starts an answer in the thinker. Never waits: if all replicas are being restarted, the answer does.
    ///
    /// # Errors
    /// [`ChatNotSupported`], or a [`StageError`] if the stage does not take it.
    pub fn answer(&self, spec: ReplySpec) -> Result<Reply, ServeError> {
        self.chat()?;
        Reply::start(Arc::clone(self.installed()?), Arc::clone(&self.shared.seqs), spec)
    }
}
