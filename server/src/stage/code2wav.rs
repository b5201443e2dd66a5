//! The code2wav stage: codec frames in, samples out, one [`ChunkEngine`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{
    ChunkConfig, ChunkEngine, ChunkModel, ChunkOutput, CodecFrame, FinishReason, OpenError, SeqId, Stamp,
    StreamOptions,
};

use super::backend::{BackendError, Vocode};
use super::driver::{Admission, Course, Driver, StageOutput, Verdict, WARM_UP};
use super::events::EngineEvent;
use super::flow::{EdgeReceiver, EdgeSender, End};
use super::handle::StageHandle;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::sides::{Next, Sink, Source};
use super::status::ReplicaStatus;
use super::worker::{Core, StageBody, stage};
use crate::clock::Clock;

/// Frames that warm it up; their audio is not heard.
const WARM_UP_FRAMES: usize = 8;

/// A piece of audio as the vocoder made it.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioPiece {
    /// Mono samples in `[-1, 1]`; may be empty.
    pub samples: Vec<f32>,
    /// Codec frames they were decoded from.
    pub frames: u32,
}

/// One stream to decode.
pub struct Code2WavJob {
    /// Its id, the same in every stage.
    pub seq: SeqId,
    /// Frames to decode first, unheard: what follows goes on from them.
    pub lead: Arc<[CodecFrame]>,
    /// Where frames come from.
    pub frames: Box<dyn EdgeReceiver<CodecFrame>>,
    /// Where audio goes. A piece weighs its frames.
    pub audio: Box<dyn EdgeSender<AudioPiece>>,
    /// Drop it.
    pub cancel: CancelFlag,
    /// Where its progress is kept.
    pub progress: StageProgress,
}

impl fmt::Debug for Code2WavJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code2WavJob")
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

/// Bounds of the stage.
#[derive(Debug, Clone)]
pub struct Code2WavLimits {
    /// Jobs that may wait to be taken.
    pub mailbox: usize,
    /// Of the engine.
    pub engine: ChunkConfig,
    /// How long the stage that feeds it may deliver nothing.
    pub upstream_stall: Duration,
}

/// A code2wav replica and the body of its thread.
pub fn code2wav_stage<B: Vocode>(
    backend: Arc<B>,
    limits: Code2WavLimits,
    status: ReplicaStatus,
    clock: Clock,
) -> (StageHandle<Code2WavJob>, StageBody) {
    let queue = limits
        .engine
        .ramp
        .iter()
        .max()
        .map_or(1, |most| 2 * *most as usize);
    let graph = backend.graph();
    let upstream = graph.upstream(status.stage());
    let options = StreamOptions {
        unplayed_items: backend.info().leading_silence_frames,
        look_ahead: upstream.map_or(0, |edge| edge.delivery.look_ahead()),
    };
    let upstream = upstream.and_then(|edge| edge.from.stage()).unwrap_or("session");
    let samples_per_frame = backend.info().samples_per_frame.0.get();
    let core = Code2Wav {
        backend,
        config: limits.engine,
        options,
        samples_per_frame,
        queue,
        upstream: (upstream, limits.upstream_stall),
        clock,
        driver: Driver::new(status.clone(), clock),
    };
    stage(core, status, limits.mailbox, clock)
}

struct Code2Wav<B: Vocode> {
    backend: Arc<B>,
    config: ChunkConfig,
    options: StreamOptions,
    samples_per_frame: u32,
    /// Frames of one stream taken from its edge ahead of decoding; the rest waits in the edge, where it is bounded.
    queue: usize,
    /// The stage that feeds it, and how long that may deliver nothing.
    upstream: (&'static str, Duration),
    clock: Clock,
    driver: Driver<ChunkEngine<B::Vocoder>, AudioPiece, Feed>,
}

/// The frames of a stream.
struct Feed {
    frames: Source<CodecFrame>,
    /// Frames of its lead that are not decoded yet, and samples of it that are to be dropped.
    lead: u32,
    lead_samples: u64,
    /// How upstream ended; the stream ends the same way when all is decoded.
    end: End,
}

impl Course<AudioPiece> for Feed {
    /// What of a piece lies behind the lead.
    fn passed_on(&mut self, mut piece: AudioPiece) -> Option<AudioPiece> {
        if self.lead == 0 && self.lead_samples == 0 {
            return Some(piece);
        }
        let frames = piece.frames.min(self.lead);
        self.lead -= frames;
        piece.frames -= frames;
        let dropped =
            usize::try_from(self.lead_samples).map_or(piece.samples.len(), |n| n.min(piece.samples.len()));
        self.lead_samples -= dropped as u64;
        piece.samples.drain(..dropped);
        (piece.frames > 0 || !piece.samples.is_empty()).then_some(piece)
    }

    fn outcome(&self, reason: FinishReason) -> FinishReason {
        match reason {
            FinishReason::Stop => FinishReason::from(&self.end),
            reason => reason,
        }
    }
}

impl StageOutput for AudioPiece {
    fn items(&self) -> u32 {
        self.frames
    }
}

impl From<ChunkOutput<f32>> for AudioPiece {
    fn from(chunk: ChunkOutput<f32>) -> Self {
        Self {
            samples: chunk.samples,
            frames: chunk.items,
        }
    }
}

impl<B: Vocode> Core for Code2Wav<B> {
    type Job = Code2WavJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.vocoder(self.driver.replica())?;
        let mut engine = ChunkEngine::new(model, self.config.clone());
        engine
            .add(WARM_UP, self.options, self.clock.now())
            .map_err(BackendError::warm_up)?;
        let frame = self.backend.any_frame();
        engine.push(WARM_UP, std::iter::repeat_n(frame, WARM_UP_FRAMES), true);
        self.driver.load(engine, ChunkEngine::prepare);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.driver.warm_up()
    }

    fn accept(&mut self, job: Code2WavJob) {
        if job.cancel.is_set() {
            return;
        }
        let lead = u32::try_from(job.lead.len()).unwrap_or(u32::MAX);
        let options = StreamOptions {
            unplayed_items: self.options.unplayed_items.saturating_add(lead),
            ..self.options
        };
        let admission = Admission {
            seq: job.seq,
            sink: Sink::new(job.audio),
            cancel: job.cancel,
            progress: job.progress,
            max_outputs: None,
            course: Feed {
                frames: Source::new(job.frames),
                lead,
                lead_samples: u64::from(lead) * u64::from(self.samples_per_frame),
                end: End::Stop,
            },
        };
        self.driver.admit(admission, |engine, now| {
            engine.add(job.seq, options, now)?;
            engine.push(job.seq, job.lead.iter().cloned(), false);
            Ok::<_, OpenError>(())
        });
    }

    fn tend(&mut self) {
        let (queue, now, (upstream, patience)) = (self.queue, self.clock.now(), self.upstream);
        self.driver.tend(|seq, sequence, turn| {
            let feed = &mut sequence.course;
            let fed = feed.fill(seq, turn.engine, queue);
            let idle = turn.engine.queued(seq) == 0 && !sequence.sink.is_paused();
            feed.frames.observe(idle, now);
            if !matches!(fed, Verdict::Keep) {
                return fed;
            }
            let stage = turn.status.stage();
            match feed.frames.stalled(upstream, stage, patience, now) {
                Some(end) => Verdict::Fail(end),
                None => Verdict::Keep,
            }
        });
    }

    fn has_work(&self) -> bool {
        self.driver.has_work()
    }

    fn wake_at(&self) -> Option<Stamp> {
        let feeds = self.driver.live().map(|sequence| &sequence.course.frames);
        let stalled = feeds.filter_map(|frames| frames.stalls_at(self.upstream.1));
        let due = self.driver.engine().and_then(ChunkEngine::wake_at);
        stalled.chain(due).min()
    }

    fn step(&mut self) {
        self.driver.step();
    }

    /// A stream that was opened is there, although no step has told of it.
    fn settle(&mut self) {
        let (streams, status) = (self.driver.live().count() as u32, self.driver.status());
        if streams > 0 && status.stats().running != streams {
            status.tell(&EngineEvent::Running(streams));
        }
        self.driver.settle();
    }

    fn end_all(&mut self, end: &End) {
        self.driver.end_all(end);
    }
}

impl Feed {
    /// Moves frames in, at most until `queue` of them wait.
    fn fill<M>(&mut self, seq: SeqId, engine: &mut ChunkEngine<M>, queue: usize) -> Verdict
    where
        M: ChunkModel<Item = CodecFrame>,
    {
        while engine.queued(seq) < queue {
            match self.frames.next() {
                Next::Item(frame) => engine.push(seq, [frame], false),
                Next::Nothing => break,
                Next::Gone => return Verdict::Drop,
                Next::End(end @ (End::Stop | End::Length | End::Repetition)) => {
                    self.end = end;
                    engine.push(seq, [], true);
                }
                // What a failed stage sent before is not worth hearing.
                Next::End(end) => return Verdict::Fail(end),
            }
        }
        Verdict::Keep
    }
}
