//! The talker stage: text tokens in, codec frames out, one [`ArEngine`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use omni_engine::{
    AddError, AddOptions, ArConfig, ArEngine, ArEvent, ArReport, CodecFrame, FinishReason, SeqId, Stamp,
};
use tokio::sync::oneshot;

use super::backend::{BackendError, SpeechBackend, TalkerRequest};
use super::flow::{End, Inlet, Outlet, Taken};
use super::progress::StageProgress;
use super::wake::{CancelFlag, Wake};
use super::worker::{Core, StageBody, StageHandle, stage};
use crate::clock::Clock;

const NAME: &str = "talker";

/// One sequence to speak.
pub struct TalkerJob {
    /// Its id, the same in every stage.
    pub seq: SeqId,
    /// Voice and sampling.
    pub request: TalkerRequest,
    /// Text tokens. The sequence waits for them; it ends some time after their end.
    pub tokens: Box<dyn Inlet<Vec<u32>>>,
    /// Most frames to make.
    pub max_frames: u32,
    /// Where frames go.
    pub frames: Box<dyn Outlet<CodecFrame>>,
    /// Drop it.
    pub cancel: CancelFlag,
    /// Where its progress is kept.
    pub progress: StageProgress,
    /// Resolves (by being sent or dropped) when the talker has done with it.
    pub finished: oneshot::Sender<()>,
}

impl fmt::Debug for TalkerJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TalkerJob")
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

/// Bounds of the stage.
#[derive(Debug, Clone, Copy)]
pub struct TalkerLimits {
    /// Jobs that may wait to be taken.
    pub mailbox: usize,
    /// Of the engine.
    pub engine: ArConfig,
}

/// A talker stage and the body of its thread. `wake` must be the bell that the jobs' inlets and outlets ring.
pub fn talker_stage<B: SpeechBackend>(
    backend: Arc<B>,
    limits: TalkerLimits,
    wake: Wake,
    clock: Clock,
) -> (StageHandle<TalkerJob>, StageBody) {
    let core = Talker {
        backend,
        config: limits.engine,
        clock,
        engine: None,
        live: HashMap::new(),
    };
    stage(NAME, core, wake, limits.mailbox, clock)
}

struct Talker<B: SpeechBackend> {
    backend: Arc<B>,
    config: ArConfig,
    clock: Clock,
    engine: Option<ArEngine<B::Talker>>,
    live: HashMap<SeqId, Live>,
}

/// A sequence in the engine. Dropping it closes its outlet and resolves `finished`.
struct Live {
    tokens: Option<Box<dyn Inlet<Vec<u32>>>>,
    frames: Box<dyn Outlet<CodecFrame>>,
    paused: bool,
    cancel: CancelFlag,
    progress: StageProgress,
    _finished: oneshot::Sender<()>,
}

impl<B: SpeechBackend> Core for Talker<B> {
    type Job = TalkerJob;

    fn load(&mut self) -> Result<(), BackendError> {
        self.engine = Some(ArEngine::new(self.backend.talker()?, self.config));
        Ok(())
    }

    fn accept(&mut self, job: TalkerJob) {
        if job.cancel.is_set() {
            return;
        }
        let Some(engine) = &mut self.engine else {
            return job.frames.end(failed("there is no model"));
        };
        let options = AddOptions {
            needs_rows: true,
            max_outputs: job.max_frames,
        };
        let request = self.backend.talker_request(job.request);
        if let Err(error) = engine.add(job.seq, request, options, self.clock.now()) {
            return job.frames.end(refusal(&error));
        }
        let live = Live {
            tokens: Some(job.tokens),
            frames: job.frames,
            paused: false,
            cancel: job.cancel,
            progress: job.progress,
            _finished: job.finished,
        };
        self.live.insert(job.seq, live);
    }

    fn tend(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        self.live.retain(|&seq, live| {
            let keep = !live.cancel.is_set() && live.feed(seq, engine);
            if !keep {
                engine.abort(seq);
            }
            keep
        });
    }

    fn has_work(&self) -> bool {
        self.engine.as_ref().is_some_and(ArEngine::has_work)
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let from = self.clock.now();
        let report = engine.step(from);
        self.deliver(from, report);
    }

    fn fail_all(&mut self, message: &str) {
        for (_, live) in self.live.drain() {
            live.frames.end(failed(message));
        }
        self.engine = None;
    }
}

impl<B: SpeechBackend> Talker<B> {
    fn deliver(&mut self, from: Stamp, report: ArReport<CodecFrame>) {
        let until = self.clock.now();
        for event in report.events {
            match event {
                ArEvent::Output { seq, item } => self.output(seq, item, from, until),
                ArEvent::Finished { seq, reason } => self.finished(seq, reason),
                ArEvent::Scheduled { .. } | ArEvent::Preempted { .. } => {}
            }
        }
    }

    fn output(&mut self, seq: SeqId, frame: CodecFrame, from: Stamp, until: Stamp) {
        let (Some(live), Some(engine)) = (self.live.get_mut(&seq), &mut self.engine) else {
            return;
        };
        live.progress.step(from, until, 1);
        live.frames.put(frame, 1);
        if !live.frames.has_room() {
            live.paused = true;
            engine.set_paused(seq, true);
        }
    }

    fn finished(&mut self, seq: SeqId, reason: FinishReason) {
        if let Some(live) = self.live.remove(&seq) {
            live.frames.end(match reason {
                FinishReason::Stop => End::Stop,
                FinishReason::Length => End::Length,
                FinishReason::Error(message) => failed(&message),
            });
        }
    }
}

impl Live {
    /// Moves tokens in and lets a paused sequence go on; false if its tokens were withdrawn.
    fn feed<M>(&mut self, seq: SeqId, engine: &mut ArEngine<M>) -> bool
    where
        M: omni_engine::ArModel<Row = u32, Output = CodecFrame>,
    {
        if self.paused && self.frames.has_room() {
            self.paused = false;
            engine.set_paused(seq, false);
        }
        while let Some(tokens) = &mut self.tokens {
            match tokens.take() {
                Taken::Item(rows) => engine.push(seq, rows, false),
                Taken::Empty => break,
                Taken::End(_) => {
                    engine.push(seq, Vec::new(), true);
                    self.tokens = None;
                }
                Taken::Gone => return false,
            }
        }
        true
    }
}

fn failed(message: &str) -> End {
    End::Failed {
        stage: NAME,
        message: message.to_owned(),
    }
}

fn refusal(error: &AddError) -> End {
    match error {
        AddError::QueueFull { .. } => End::Overloaded(error.to_string()),
        AddError::TooLong { .. } | AddError::Model(omni_engine::ModelError::Rejected(_)) => {
            End::Rejected(error.to_string())
        }
        AddError::Duplicate(_) | AddError::NoOutputs(_) | AddError::Model(_) => failed(&error.to_string()),
    }
}
