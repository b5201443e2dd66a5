//! The stages of the speech path, and starting a sequence in them.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::admission::{Admission, AdmissionLimits};
use super::segment::{CancelGuard, Segment, SegmentSpec};
use crate::connector::edge;
use crate::error::ServeError;
use crate::id::SeqIds;
use crate::stage::{
    BackendError, CancelFlag, Code2WavJob, End, JobRefused, Outlet as _, Sampling, SpeechInfo, StageHandle,
    StageProgress, StageState, TalkerJob,
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
    /// The first stage.
    pub talker: StageHandle<TalkerJob>,
    /// The second stage.
    pub code2wav: StageHandle<Code2WavJob>,
    /// Bounds of the edges.
    pub edges: EdgeLimits,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// Where sessions come for work. Exists before the model is loaded and says so until then. Copies are the same one.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pipeline: OnceLock<Pipeline>,
    admission: Admission,
    draining: CancellationToken,
    seqs: SeqIds,
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
                seqs: SeqIds::default(),
            }),
        }
    }

    /// Gives it its model, once.
    ///
    /// # Panics
    /// If it has one.
    pub fn install(&self, pipeline: Pipeline) {
        assert!(
            self.shared.pipeline.set(pipeline).is_ok(),
            "the model is installed once"
        );
    }

    /// The model, if new work can be taken now.
    ///
    /// # Errors
    /// [`ServeError::Draining`], [`ServeError::ModelLoading`] or [`ServeError::StageFailed`].
    pub fn available(&self) -> Result<&Pipeline, ServeError> {
        if self.shared.draining.is_cancelled() {
            return Err(ServeError::Draining);
        }
        let pipeline = self.model()?;
        check("talker", &pipeline.talker.state().borrow())?;
        check("code2wav", &pipeline.code2wav.state().borrow())?;
        Ok(pipeline)
    }

    /// The model, also while draining.
    ///
    /// # Errors
    /// [`ServeError::ModelLoading`].
    pub fn model(&self) -> Result<&Pipeline, ServeError> {
        self.shared.pipeline.get().ok_or(ServeError::ModelLoading)
    }

    /// Who may work.
    #[must_use]
    pub fn admission(&self) -> &Admission {
        &self.shared.admission
    }

    /// Cancelled when no new work is taken any more.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.shared.draining
    }

    /// Asks the stages to stop after the step in progress.
    pub fn stop_stages(&self) {
        if let Some(pipeline) = self.shared.pipeline.get() {
            pipeline.talker.stop();
            pipeline.code2wav.stop();
        }
    }

    /// Starts a sequence in every stage. Never waits.
    ///
    /// # Errors
    /// [`ServeError::Overloaded`] or [`ServeError::StageFailed`] if a stage does not take it.
    pub fn start(&self, mut spec: SegmentSpec) -> Result<Segment, ServeError> {
        let pipeline = self.model()?;
        spec.request.sampling = spec.request.sampling.or(pipeline.sampling);
        let (talker_bell, code2wav_bell) = (pipeline.talker.wake(), pipeline.code2wav.wake());
        let seq = self.shared.seqs.next();
        let cancel = CancelFlag::default();
        let guard = CancelGuard {
            flag: cancel.clone(),
            bells: [talker_bell.clone(), code2wav_bell.clone()],
        };

        let limits = pipeline.edges;
        let (mut tokens_in, tokens_out) = edge(limits.token_batches, None, Some(talker_bell.clone()));
        let (frames_in, frames_out) = edge(
            limits.frames,
            Some(talker_bell.clone()),
            Some(code2wav_bell.clone()),
        );
        let (audio_in, audio_out) = edge(pipeline.audio_capacity(), Some(code2wav_bell.clone()), None);
        let (finished, talker_done) = oneshot::channel();
        let (talker, code2wav) = (StageProgress::default(), StageProgress::default());

        let pushed = spec.tokens.len() as u32;
        tokens_in.put(spec.tokens, 1);
        let mut tokens = Some(Box::new(tokens_in));
        if !spec.open
            && let Some(whole) = tokens.take()
        {
            whole.end(End::Stop);
        }

        let decode = Code2WavJob {
            seq,
            frames: Box::new(frames_out),
            audio: Box::new(audio_in),
            cancel: cancel.clone(),
            progress: code2wav.clone(),
        };
        let speak = TalkerJob {
            seq,
            request: spec.request,
            tokens: Box::new(tokens_out),
            max_frames: spec.max_frames,
            frames: Box::new(frames_in),
            cancel,
            progress: talker.clone(),
            finished,
        };
        // The reader first, so that frames find it open.
        pipeline
            .code2wav
            .submit(decode)
            .map_err(|error| refused(&error))?;
        pipeline.talker.submit(speak).map_err(|error| refused(&error))?;
        Ok(Segment {
            tokens,
            audio: audio_out,
            talker_done: Some(talker_done),
            talker,
            code2wav,
            pushed,
            _cancel: guard,
        })
    }
}

impl Pipeline {
    /// Frames of audio that may wait for their reader; at least two, so that one can be made while one is read.
    fn audio_capacity(&self) -> u32 {
        let frame = self.info.frame_duration().as_secs_f64();
        let frames = (self.edges.audio.as_secs_f64() / frame).ceil();
        (frames as u32).max(2)
    }
}

fn check(stage: &'static str, state: &StageState) -> Result<(), ServeError> {
    match state {
        StageState::Ready => Ok(()),
        StageState::Loading => Err(ServeError::ModelLoading),
        StageState::Stopped => Err(ServeError::Stopped),
        StageState::Failed(message) => Err(ServeError::StageFailed {
            stage,
            message: message.clone(),
        }),
    }
}

fn refused(error: &JobRefused) -> ServeError {
    match error {
        JobRefused::Full { .. } => ServeError::Overloaded(error.to_string()),
        JobRefused::Ended { stage } => ServeError::StageFailed {
            stage,
            message: "it is not running".to_owned(),
        },
    }
}
