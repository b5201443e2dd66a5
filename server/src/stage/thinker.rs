//! The thinker stage: conversations in, text tokens out, one [`ArEngine`](omni_engine::ArEngine).

use std::fmt;
use std::sync::Arc;

use omni_engine::{AddOptions, ArConfig, CacheSalt, RepetitionLimit, SeqId, Stamp};

use super::backend::{BackendError, Sampling, Think};
use super::chat::{ChatMessage, Part as SaidPart, ReplyToken, Role, ThinkerRequest};
use super::driver::{ArDriver, SeqContext, Sequence};
use super::flow::{End, Outlet};
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
    pub tokens: Box<dyn Outlet<ReplyToken>>,
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
        repetition: limits.repetition,
        driver: ArDriver::new(limits.engine, status.clone(), clock),
    };
    stage(core, status, limits.mailbox, clock)
}

struct Thinker<B: Think> {
    backend: Arc<B>,
    repetition: Option<RepetitionLimit>,
    driver: ArDriver<B::Thinker, Live>,
}

struct Live {
    context: SeqContext,
    tokens: Sink<ReplyToken>,
    /// Start of the step that first computed its prompt, until that gave a token.
    reading: Option<Stamp>,
}

impl Sequence for Live {
    type Output = ReplyToken;

    fn context(&mut self) -> &mut SeqContext {
        &mut self.context
    }

    fn scheduled(&mut self, step: Stamp) {
        self.reading.get_or_insert(step);
    }

    /// A prompt may take several steps; the first token ends them all.
    fn began(&mut self, step: Stamp) -> Stamp {
        self.reading.take().unwrap_or(step)
    }

    fn has_room_for_two(&self) -> bool {
        self.tokens.has_room_for_two()
    }

    fn put(&mut self, token: ReplyToken) -> bool {
        self.tokens.put(token, 1)
    }

    fn end(self, end: End) {
        self.tokens.end(end);
    }
}

impl<B: Think> Core for Thinker<B> {
    type Job = ThinkerJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.thinker(self.driver.replica())?;
        self.driver
            .load(model, self.backend.kv_position(self.driver.stage()));
        let greeting = ChatMessage {
            role: Role::User,
            parts: vec![SaidPart::Text(WARM_UP_TEXT.into())],
        };
        let prompt = self.backend.prompt(&[greeting]);
        let prompt = prompt.map_err(|error| BackendError(format!("the warm-up is refused: {error}")))?;
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
        self.driver.warm(request, options, Vec::new())
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
            max_outputs: job.max_tokens,
            // What was heard comes out of computing the prompt, which a cached prefix would skip.
            reuse_prefix: !job.request.export_heard,
            salt: job.request.salt,
            repetition: self.repetition,
            ..AddOptions::default()
        };
        let request = self.backend.thinker_request(job.request);
        match self
            .driver
            .admit(job.seq, request, options, job.cancel, job.progress)
        {
            Ok(context) => {
                let live = Live {
                    context,
                    tokens: Sink::new(job.tokens),
                    reading: None,
                };
                self.driver.keep(job.seq, live);
            }
            Err(end) => job.tokens.end(end),
        }
    }

    fn tend(&mut self) {
        self.driver.tend(|seq, live, turn| {
            live.tokens.set_waiting(turn.is_placeless(seq, &live.context));
            if live.tokens.resumes() {
                turn.engine.set_paused(seq, false);
            }
            true
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
