//! The encoder stage: recordings in, what the thinker hears of each out, one [`OneShotEngine`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_audio::Samples;
use omni_engine::{OneShotConfig, OneShotEngine, SeqId, Stamp};

use super::backend::{BackendError, Encode};
use super::chat::Clip;
use super::driver::{Admission, Course, Driver, StageOutput, Verdict, WARM_UP};
use super::flow::{EdgeSender, End};
use super::handle::StageHandle;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::sides::Sink;
use super::status::ReplicaStatus;
use super::worker::{Core, StageBody, stage};
use crate::clock::Clock;

/// What warms it up: silence of this length that no caller sent.
const WARM_UP_AUDIO: Duration = Duration::from_secs(1);

/// What an encoder makes of a recording: rows for the thinker, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioRows(pub Arc<[f32]>);

/// One recording to encode.
pub struct EncoderJob {
    /// Its id.
    pub seq: SeqId,
    /// The recording.
    pub clip: Clip,
    /// Where its rows go, all at once.
    pub rows: Box<dyn EdgeSender<AudioRows>>,
    /// Drop it.
    pub cancel: CancelFlag,
    /// Where its progress is kept.
    pub progress: StageProgress,
}

impl fmt::Debug for EncoderJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncoderJob")
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

/// Bounds of the stage.
#[derive(Debug, Clone, Copy)]
pub struct EncoderLimits {
    /// Jobs that may wait to be taken.
    pub mailbox: usize,
    /// Of the engine.
    pub engine: OneShotConfig,
}

/// An encoder replica and the body of its thread.
pub fn encoder_stage<B: Encode>(
    backend: Arc<B>,
    limits: EncoderLimits,
    status: ReplicaStatus,
    clock: Clock,
) -> (StageHandle<EncoderJob>, StageBody) {
    let core = Encoder {
        backend,
        config: limits.engine,
        clock,
        driver: Driver::new(status.clone(), clock),
    };
    stage(core, status, limits.mailbox, clock)
}

struct Encoder<B: Encode> {
    backend: Arc<B>,
    config: OneShotConfig,
    clock: Clock,
    driver: Driver<OneShotEngine<B::Encoder>, AudioRows, Recording>,
}

/// Nothing but the recording itself belongs to a sequence.
struct Recording;

impl Course<AudioRows> for Recording {}

impl StageOutput for AudioRows {}

impl From<Arc<[f32]>> for AudioRows {
    fn from(rows: Arc<[f32]>) -> Self {
        Self(rows)
    }
}

impl<B: Encode> Core for Encoder<B> {
    type Job = EncoderJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let mut engine = OneShotEngine::new(self.backend.encoder(self.driver.replica())?, self.config);
        let hearing = self.backend.chat().map_err(BackendError)?.hearing;
        let hearing = hearing.ok_or_else(|| BackendError("the model does not hear".to_owned()))?;
        let Samples(samples) = hearing.sample_rate.samples(WARM_UP_AUDIO.min(hearing.max_audio));
        let silence: Arc<[f32]> = vec![0.0; usize::try_from(samples).unwrap_or(0)].into();
        engine
            .add(WARM_UP, silence, self.clock.now())
            .map_err(BackendError::warm_up)?;
        self.driver.load(engine, |_, _| Ok(false));
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.driver.warm_up()
    }

    fn accept(&mut self, job: EncoderJob) {
        if job.cancel.is_set() {
            return;
        }
        let admission = Admission {
            seq: job.seq,
            // There is room for one, and nothing follows that would have to wait.
            sink: Sink::new(job.rows),
            cancel: job.cancel,
            progress: job.progress,
            max_outputs: Some(1),
            course: Recording,
        };
        let clip = job.clip.shared();
        self.driver
            .admit(admission, |engine, now| engine.add(job.seq, clip, now));
    }

    /// A request in a step cannot be stopped; all others wait still.
    fn tend(&mut self) {
        self.driver.tend(|_, _, _| Verdict::Keep);
    }

    fn has_work(&self) -> bool {
        self.driver.has_work()
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {
        self.driver.step();
    }

    fn settle(&mut self) {
        self.driver.settle();
    }

    fn end_all(&mut self, end: &End) {
        self.driver.end_all(end);
    }
}
