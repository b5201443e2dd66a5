//! The thinker stage: conversations in, text tokens out, one [`ArEngine`].

use std::fmt;
use std::sync::Arc;

use omni_engine::{AddOptions, ArConfig, ArEngine, CacheSalt, RepetitionLimit, SeqId, Stamp};

use super::backend::{BackendError, Sampling, Think};
use super::chat::{ChatMessage, Part as SaidPart, ReplyToken, Role, ThinkerRequest};
use super::driver::{Admission, Course, Driver, StageOutput, Verdict, WARM_UP};
use super::flow::{EdgeSender, End};
use super::handle::StageHandle;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::sides::Sink;
use super::status::ReplicaStatus;
use super::worker::{Core, StageBody, stage};
use crate::clock::Clock;

/// What warms it up: answered, unread.
const WARM_UP_TEXT: &str = "hello";
/// Tokens of that answer, most.
const WARM_UP_TOKENS: u32 = 2;

/// One answer to think of.
pub struct ThinkerJob {
    /// Its id.
    pub seq: SeqId,
    /// The conversation and how to answer it.
    pub request: ThinkerRequest,
    /// Most tokens to make.
    pub max_tokens: u32,
    /// Where tokens go.
    pub tokens: Box<dyn EdgeSender<ReplyToken>>,
    /// Drop it.
    pub cancel: CancelFlag,
    /// Where its progress is kept.
    pub progress: StageProgress,
}

impl fmt::Debug for ThinkerJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThinkerJob")
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

/// Bounds of the stage.
#[derive(Debug, Clone, Copy)]
pub struct ThinkerLimits {
    /// Jobs that may wait to be taken.
    pub mailbox: usize,
    /// Of the engine.
    pub engine: ArConfig,
    /// When an answer is ended because it repeats itself.
    pub repetition: Option<RepetitionLimit>,
}

/// A thinker replica and the body of its thread.
pub fn thinker_stage<B: Think>(
    backend: Arc<B>,
    limits: ThinkerLimits,
    status: ReplicaStatus,
    clock: Clock,
) -> (StageHandle<ThinkerJob>, StageBody) {
    let core = Thinker {
        backend,
        config: limits.engine,
        clock,
        repetition: limits.repetition,
        driver: Driver::new(status.clone(), clock),
    };
    stage(core, status, limits.mailbox, clock)
}

struct Thinker<B: Think> {
    backend: Arc<B>,
    config: ArConfig,
    clock: Clock,
    repetition: Option<RepetitionLimit>,
    driver: Driver<ArEngine<B::Thinker>, ReplyToken, Reading>,
}

/// The reading of a prompt, which may take several steps.
struct Reading {
    /// Start of the step that first computed it, until that gave a token.
    since: Option<Stamp>,
}

impl Course<ReplyToken> for Reading {
    fn scheduled(&mut self, step: Stamp) {
        self.since.get_or_insert(step);
    }

    /// The first token ends all steps that read the prompt.
    fn began(&mut self, step: Stamp) -> Stamp {
        self.since.take().unwrap_or(step)
    }
}

impl StageOutput for ReplyToken {}

impl<B: Think> Core for Thinker<B> {
    type Job = ThinkerJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.thinker(self.driver.replica())?;
        let position = self.backend.kv_position(self.driver.stage());
        let mut engine = self.driver.ar_engine(model, self.config, position);
        let greeting = ChatMessage {
            role: Role::User,
            parts: vec![SaidPart::Text(WARM_UP_TEXT.into())],
        };
        let prompt = self.backend.prompt(&[greeting]);
        let prompt = prompt.map_err(BackendError::warm_up)?;
        let request = ThinkerRequest {
            prompt: prompt.pieces,
            sampling: Sampling::default(),
            seed: 0,
            export_heard: false,
            salt: CacheSalt::default(),
        };
        let options = AddOptions {
            max_outputs: WARM_UP_TOKENS,
            ..AddOptions::default()
        };
        let request = self.backend.thinker_request(request);
        engine
            .add(WARM_UP, request, options, self.clock.now())
            .map_err(BackendError::warm_up)?;
        self.driver.load(engine, ArEngine::prepare);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.driver.warm_up()
    }

    fn accept(&mut self, job: ThinkerJob) {
        if job.cancel.is_set() {
            return;
        }
        let options = AddOptions {
            needs_rows: false,
            prompt_rows: 0,
            max_outputs: job.max_tokens,
            // What was heard comes out of computing the prompt, which a cached prefix would skip.
            reuse_prefix: !job.request.export_heard,
            salt: job.request.salt,
            repetition: self.repetition,
        };
        let admission = Admission {
            seq: job.seq,
            sink: Sink::new(job.tokens),
            cancel: job.cancel,
            progress: job.progress,
            max_outputs: Some(job.max_tokens),
            course: Reading { since: None },
        };
        let request = self.backend.thinker_request(job.request);
        self.driver.admit(admission, |engine, now| {
            engine.add(job.seq, request, options, now)
        });
    }

    fn tend(&mut self) {
        self.driver.tend(|seq, sequence, turn| {
            let placeless = turn.is_placeless(seq, sequence);
            sequence.sink.set_idle(placeless);
            Verdict::Keep
        });
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
