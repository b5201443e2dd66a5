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

#[cfg(test)]
mod tests {
    use super::super::flow::{Recv, TransferStamps};
    use super::*;

    /// An edge of which nothing comes.
    struct Silent;

    impl EdgeReceiver<CodecFrame> for Silent {
        fn take(&mut self) -> Recv<CodecFrame> {
            Recv::Empty
        }

        fn take_timed(&mut self) -> (Recv<CodecFrame>, Option<Stamp>) {
            (Recv::Empty, None)
        }

        fn transferred(&mut self, _passage: &TransferStamps) {}

        fn is_upstream_idle(&self) -> bool {
            true
        }
    }

    const PER_FRAME: u64 = 4;

    /// What is passed on of pieces with so many frames each, behind a lead of `lead` frames. Samples are numbered from the first of
    /// the lead.
    fn heard(lead: u32, pieces: &[u32]) -> Vec<AudioPiece> {
        let mut feed = Feed {
            frames: Source::new(Box::new(Silent)),
            lead,
            lead_samples: u64::from(lead) * PER_FRAME,
            end: End::Stop,
        };
        let mut made = 0;
        let pieces = pieces.iter().filter_map(|&frames| {
            let from = made;
            made += u64::from(frames) * PER_FRAME;
            let samples = (from..made).map(|n| n as f32).collect();
            feed.passed_on(AudioPiece { samples, frames })
        });
        pieces.collect()
    }

    #[test]
    fn nothing_of_the_lead_is_heard_and_all_that_follows_is() {
        for pieces in [&[10][..], &[1; 10], &[3, 3, 4], &[2, 8], &[4, 6], &[9, 1]] {
            let passed = heard(4, pieces);
            let samples: Vec<f32> = passed.iter().flat_map(|piece| piece.samples.clone()).collect();
            let expected: Vec<f32> = (16..40).map(|n| n as f32).collect();
            assert_eq!(samples, expected, "{pieces:?}");
            assert_eq!(
                passed.iter().map(|piece| piece.frames).sum::<u32>(),
                6,
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn a_piece_of_the_lead_alone_is_not_passed_on() {
        assert!(heard(4, &[1, 3]).is_empty());
        assert!(heard(4, &[4]).is_empty());
        assert_eq!(heard(4, &[4, 1]).len(), 1);
    }

    #[test]
    fn without_a_lead_every_piece_is_passed_on_as_it_is() {
        let passed = heard(0, &[1, 0, 2]);
        let frames: Vec<u32> = passed.iter().map(|piece| piece.frames).collect();
        assert_eq!(frames, [1, 0, 2]);
        assert_eq!(passed[2].samples, [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn the_end_of_a_recording_may_be_the_whole_of_it() {
        let passed = heard(25, &[20, 20]);
        assert_eq!((passed.len(), passed[0].frames), (1, 15));
        assert_eq!(passed[0].samples.first(), Some(&100.0));
    }
}
