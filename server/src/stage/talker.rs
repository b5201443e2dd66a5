//! The talker stage: text tokens in, codec frames out, one [`ArEngine`].

use std::fmt;
use std::sync::Arc;

use omni_engine::{AddOptions, ArConfig, ArEngine, ArModel, CodecFrame, SeqId, Stamp};
use tokio::sync::oneshot;

use super::backend::{BackendError, Sampling, Talk, TalkerRequest};
use super::driver::{Admission, Course, Driver, Sequence, StageOutput, Verdict, WARM_UP};
use super::events::EngineEvent;
use super::flow::{EdgeReceiver, EdgeSender, End};
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
    pub tokens: Box<dyn EdgeReceiver<Vec<u32>>>,
    /// Most frames to make.
    pub max_frames: u32,
    /// Where frames go.
    pub frames: Box<dyn EdgeSender<CodecFrame>>,
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
        config: limits.engine,
        clock,
        driver: Driver::new(status.clone(), clock),
    };
    stage(core, status, limits.mailbox, clock)
}

struct Talker<B: Talk> {
    backend: Arc<B>,
    config: ArConfig,
    clock: Clock,
    driver: Driver<ArEngine<B::Talker>, CodecFrame, Reading>,
}

/// The text of a sequence. Dropping it resolves `finished`.
struct Reading {
    tokens: Source<Vec<u32>>,
    /// Rows that its prompt takes besides the first one.
    prompt_rows: u32,
    /// Rows received: with as many frames made it waits for a row.
    rows: u32,
    /// Its rows come from the thinker.
    thought: bool,
    starved: bool,
    _finished: oneshot::Sender<()>,
}

impl Course<CodecFrame> for Reading {}

impl StageOutput for CodecFrame {}

impl<B: Talk> Core for Talker<B> {
    type Job = TalkerJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.talker(self.driver.replica())?;
        let position = self.backend.kv_position(self.driver.stage());
        let mut engine = self.driver.ar_engine(model, self.config, position);
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
        let options = options(WARM_UP_FRAMES);
        engine
            .add(WARM_UP, request, options, self.clock.now())
            .map_err(BackendError::warm_up)?;
        engine.push(WARM_UP, tokens, true);
        self.driver.load(engine, ArEngine::prepare);
        Ok(())
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
        let admission = Admission {
            seq: job.seq,
            sink: Sink::new(job.frames),
            cancel: job.cancel,
            progress: job.progress,
            max_outputs: Some(job.max_frames),
            course: Reading {
                tokens: Source::new(job.tokens),
                prompt_rows,
                rows: 0,
                thought: job.request.thought,
                starved: false,
                _finished: job.finished,
            },
        };
        let request = self.backend.talker_request(job.request);
        self.driver.admit(admission, |engine, now| {
            engine.add(job.seq, request, options, now)
        });
    }

    fn tend(&mut self) {
        let now = self.clock.now();
        self.driver.tend(|seq, sequence, turn| {
            if !sequence.course.feed(seq, turn.engine) {
                return Verdict::Drop;
            }
            let placeless = turn.is_placeless(seq, sequence);
            if is_starved(sequence, placeless, now) {
                turn.status.tell(&EngineEvent::Starved);
                sequence.progress.starve();
            }
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

fn options(max_frames: u32) -> AddOptions {
    AddOptions {
        needs_rows: true,
        max_outputs: max_frames,
        ..AddOptions::default()
    }
}

impl Reading {
    /// Moves tokens in; false if they were withdrawn.
    fn feed<M>(&mut self, seq: SeqId, engine: &mut ArEngine<M>) -> bool
    where
        M: ArModel<Row = u32>,
    {
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
}

/// Whether a sequence begins to wait for a row that the thinker should have delivered. The stage behind is told why nothing comes:
/// the text is awaited, for which its writer answers, or the sequence is `placeless` here, with too many others.
fn is_starved(sequence: &mut Sequence<CodecFrame, Reading>, placeless: bool, now: Stamp) -> bool {
    let (sink, reading) = (&mut sequence.sink, &mut sequence.course);
    let idle = !sink.is_paused() && reading.rows <= sequence.outputs.saturating_add(reading.prompt_rows);
    let want = reading.tokens.observe(idle, now);
    sink.set_idle(want == Want::Idle || placeless);
    let starved = want != Want::Nothing && reading.thought && reading.rows > 0;
    let begins = starved && !reading.starved;
    reading.starved = starved;
    begins
}
