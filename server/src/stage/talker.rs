//! The talker stage: text tokens in, codec frames out, one [`ArEngine`].

use std::fmt;
use std::sync::Arc;

use omni_engine::{AddOptions, ArConfig, ArEngine, CodecFrame, SeqId, Stamp};
use tokio::sync::oneshot;

use super::backend::{BackendError, Sampling, Talk, TalkerRequest};
use super::driver::{ArDriver, SeqContext, Sequence};
use super::events::EngineEvent;
use super::flow::{End, Inlet, Outlet};
use super::handle::StageHandle;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::sides::{Next, Sink, Source, Want};
use super::status::ReplicaStatus;
use super::voice::prompt_rows;
use super::worker::{Core, StageBody, stage};
use crate::clock::Clock;

/// What warms it up: spoken, unheard.
const WARM_UP_TEXT: &str = "hello.";
/// Frames of it, most.
const WARM_UP_FRAMES: u32 = 8;

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

/// A talker replica and the body of its thread.
pub fn talker_stage<B: Talk>(
    backend: Arc<B>,
    limits: TalkerLimits,
    status: ReplicaStatus,
    clock: Clock,
) -> (StageHandle<TalkerJob>, StageBody) {
    let core = Talker {
        backend,
        clock,
        driver: ArDriver::new(limits.engine, status.clone(), clock),
    };
    stage(core, status, limits.mailbox, clock)
}

struct Talker<B: Talk> {
    backend: Arc<B>,
    clock: Clock,
    driver: ArDriver<B::Talker, Live>,
}

/// A sequence in the engine. Dropping it closes its outlet and resolves `finished`.
struct Live {
    context: SeqContext,
    tokens: Source<Vec<u32>>,
    frames: Sink<CodecFrame>,
    /// Rows that its prompt takes besides the first one.
    prompt_rows: u32,
    /// Rows received and frames made: with as many of one as of the other it waits for a row.
    rows: u32,
    made: u32,
    /// Its rows come from the thinker.
    thought: bool,
    starved: bool,
    _finished: oneshot::Sender<()>,
}

impl Sequence for Live {
    type Output = CodecFrame;

    fn context(&mut self) -> &mut SeqContext {
        &mut self.context
    }

    fn has_room_for_two(&self) -> bool {
        self.frames.has_room_for_two()
    }

    fn put(&mut self, frame: CodecFrame) -> bool {
        self.made += 1;
        self.frames.put(frame, 1)
    }

    fn end(self, end: End) {
        self.frames.end(end);
    }
}

impl<B: Talk> Core for Talker<B> {
    type Job = TalkerJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.talker(self.driver.replica())?;
        self.driver
            .load(model, self.backend.kv_position(self.driver.stage()));
        let info = self.backend.info();
        let request = TalkerRequest {
            voice: info
                .voices
                .first()
                .map(|voice| voice.id.clone())
                .unwrap_or_default(),
            voice_prompt: None,
            language: info.languages.first().cloned(),
            instructions: None,
            sampling: Sampling::default(),
            seed: 0,
            context: None,
            thought: false,
        };
        let tokens = self.backend.encode(WARM_UP_TEXT)?;
        let request = self.backend.talker_request(request);
        self.driver.warm(request, options(WARM_UP_FRAMES), tokens)
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.driver.warm_up()
    }

    fn accept(&mut self, job: TalkerJob) {
        if job.cancel.is_set() {
            return;
        }
        let prompt_rows = prompt_rows(job.request.voice_prompt.as_deref());
        let options = AddOptions {
            prompt_rows,
            ..options(job.max_frames)
        };
        let thought = job.request.thought;
        let request = self.backend.talker_request(job.request);
        match self
            .driver
            .admit(job.seq, request, options, job.cancel, job.progress)
        {
            Ok(context) => {
                let live = Live {
                    context,
                    tokens: Source::new(job.tokens),
                    frames: Sink::new(job.frames),
                    prompt_rows,
                    rows: 0,
                    made: 0,
                    thought,
                    starved: false,
                    _finished: job.finished,
                };
                self.driver.keep(job.seq, live);
            }
            Err(end) => job.frames.end(end),
        }
    }

    fn tend(&mut self) {
        let now = self.clock.now();
        self.driver.tend(|seq, live, turn| {
            if !live.feed(seq, turn.engine) {
                return false;
            }
            if live.is_starved(turn.is_placeless(seq, &live.context), now) {
                turn.status.tell(&EngineEvent::Starved);
                live.context.progress.starve();
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

fn options(max_frames: u32) -> AddOptions {
    AddOptions {
        needs_rows: true,
        max_outputs: max_frames,
        ..AddOptions::default()
    }
}

impl Live {
    /// Moves tokens in and lets a paused sequence go on; false if its tokens were withdrawn.
    fn feed<M>(&mut self, seq: SeqId, engine: &mut ArEngine<M>) -> bool
    where
        M: omni_engine::ArModel<Row = u32, Output = CodecFrame>,
    {
        if self.frames.resumes() {
            engine.set_paused(seq, false);
        }
        loop {
            match self.tokens.next() {
                Next::Item(rows) => {
                    self.rows += rows.len() as u32;
                    engine.push(seq, rows, false);
                }
                Next::End(_) => {
                    engine.push(seq, Vec::new(), true);
                }
                Next::Nothing => return true,
                Next::Gone => return false,
            }
        }
    }

    /// Whether it begins to wait for a row that the thinker should have delivered. The stage behind is told why nothing comes:
    /// the text is awaited, which is for whoever writes it to answer for, or it is `placeless` here, with too many others.
    fn is_starved(&mut self, placeless: bool, now: Stamp) -> bool {
        let idle = !self.frames.is_paused() && self.rows <= self.made.saturating_add(self.prompt_rows);
        let want = self.tokens.observe(idle, now);
        self.frames.set_waiting(want == Want::Excused || placeless);
        let starved = want != Want::Nothing && self.thought && self.rows > 0;
        let begins = starved && !self.starved;
        self.starved = starved;
        begins
    }
}
