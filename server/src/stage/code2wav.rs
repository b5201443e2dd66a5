//! The code2wav stage: codec frames in, samples out, one [`ChunkEngine`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{
    ChunkConfig, ChunkEngine, ChunkEvent, ChunkModel, ChunkReport, CodecFrame, ModelError, OpenError, SeqId,
    SeqRecord, Stamp, StreamOptions,
};

use super::backend::{BackendError, Vocode};
use super::events::{EndReason, EngineEvent, Refusal, SeqEnd, SeqTimeline, StepFigures};
use super::flow::{End, Inlet, Outlet};
use super::handle::StageHandle;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::sides::{Next, Sink, Source, failed, lost};
use super::status::ReplicaStatus;
use super::worker::{Core, StageBody, stage};
use crate::clock::Clock;

/// The stream that warms it up: none that callers have. Its frames are decoded, unheard.
const WARM_UP: SeqId = SeqId(u64::MAX);
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
    pub frames: Box<dyn Inlet<CodecFrame>>,
    /// Where audio goes. A piece weighs its frames.
    pub audio: Box<dyn Outlet<AudioPiece>>,
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
        status: status.clone(),
        engine: None,
        prepared: None,
        live: HashMap::new(),
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
    status: ReplicaStatus,
    engine: Option<ChunkEngine<B::Vocoder>>,
    /// Pieces of the model's preparation that were done; `None` if it is over.
    prepared: Option<u32>,
    live: HashMap<SeqId, Live>,
}

/// A stream in the engine. Dropping it closes both its edges.
struct Live {
    frames: Source<CodecFrame>,
    audio: Sink<AudioPiece>,
    /// Frames of its lead that are not decoded yet, and samples of it that are to be dropped.
    lead: u32,
    lead_samples: u64,
    /// How upstream ended; the stream ends the same way when all is decoded.
    end: End,
    cancel: CancelFlag,
    progress: StageProgress,
    timeline: SeqTimeline,
    record: SeqRecord,
}

impl<B: Vocode> Core for Code2Wav<B> {
    type Job = Code2WavJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let mut engine = ChunkEngine::new(self.backend.vocoder(self.status.id())?, self.config.clone());
        engine
            .add(WARM_UP, self.options)
            .map_err(|error| BackendError(format!("the warm-up is refused: {error}")))?;
        let frame = self.backend.any_frame();
        engine.push(WARM_UP, std::iter::repeat_n(frame, WARM_UP_FRAMES), true);
        self.engine = Some(engine);
        self.prepared = Some(0);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        let Some(engine) = &mut self.engine else {
            return Ok(false);
        };
        if let Some(nth) = self.prepared {
            let more = engine.prepare(nth).map_err(|e| BackendError(e.to_string()))?;
            self.prepared = more.then_some(nth + 1);
            if more {
                return Ok(true);
            }
        }
        for event in engine.step(self.clock.now()).events {
            if let ChunkEvent::Failed { message, .. } = event {
                return Err(BackendError(message));
            }
        }
        Ok(!engine.is_empty())
    }

    fn accept(&mut self, job: Code2WavJob) {
        if job.cancel.is_set() {
            return;
        }
        let Some(engine) = &mut self.engine else {
            return job.audio.end(lost(self.status.stage()));
        };
        let lead = u32::try_from(job.lead.len()).unwrap_or(u32::MAX);
        let options = StreamOptions {
            unplayed_items: self.options.unplayed_items.saturating_add(lead),
            ..self.options
        };
        if let Err(error) = engine.add(job.seq, options) {
            if matches!(error, OpenError::Full { .. }) {
                self.status.tell(&EngineEvent::Refused(Refusal::Sequences));
            }
            return job.audio.end(refusal(self.status.stage(), &error));
        }
        engine.push(job.seq, job.lead.iter().cloned(), false);
        let now = self.clock.now();
        let timeline = SeqTimeline::new(job.seq, &job.progress, None, now);
        self.status.took(job.seq, timeline);
        let live = Live {
            frames: Source::new(job.frames),
            audio: Sink::new(job.audio),
            lead,
            lead_samples: u64::from(lead) * u64::from(self.samples_per_frame),
            end: End::Stop,
            cancel: job.cancel,
            timeline,
            record: SeqRecord {
                queued: now,
                ..SeqRecord::default()
            },
            progress: job.progress,
        };
        self.live.insert(job.seq, live);
    }

    fn tend(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let (queue, now, upstream) = (self.queue, self.clock.now(), self.upstream);
        let status = &self.status;
        let mut broken = Vec::new();
        self.live.retain(|&seq, live| {
            let verdict = match live.cancel.is_set() {
                true => Fed::Drop,
                false => live.feed(seq, engine, queue),
            };
            let verdict = live.miss(verdict, engine.queued(seq), now, (upstream, status.stage()));
            match verdict {
                Fed::Keep => return true,
                Fed::Drop => {}
                Fed::Broken => broken.push(seq),
            }
            engine.abort(seq);
            let is_broken = matches!(verdict, Fed::Broken);
            let reason = match is_broken {
                true => EndReason::Error,
                false => EndReason::Abort,
            };
            status.done(seq, live.ended(reason, now));
            is_broken
        });
        for seq in broken {
            if let Some(live) = self.live.remove(&seq) {
                live.audio.end(live.end);
            }
        }
    }

    fn has_work(&self) -> bool {
        self.engine
            .as_ref()
            .is_some_and(|engine| engine.has_work(self.clock.now()))
    }

    fn wake_at(&self) -> Option<Stamp> {
        let sources = self.live.values().map(|live| &live.frames);
        let stalled = sources.filter_map(|frames| frames.stalls_at(self.upstream.1));
        let due = self.engine.as_ref().and_then(ChunkEngine::wake_at);
        stalled.chain(due).min()
    }

    fn step(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let from = self.clock.now();
        let report = engine.step(from);
        // Others have been told that it is lost.
        if self.status.is_given_up() {
            return;
        }
        let until = self.clock.now();
        self.status
            .tell(&EngineEvent::Step(StepFigures::chunk(&report.stats, from, until)));
        self.deliver(from, until, report);
    }

    fn settle(&mut self) {
        let streams = self.live.len() as u32;
        if streams == 0 {
            self.status.tell(&EngineEvent::Idle);
        } else if self.status.stats().running != streams {
            self.status.tell(&EngineEvent::Running(streams));
        }
    }

    fn end_all(&mut self, end: &End) {
        let now = self.clock.now();
        for (seq, live) in self.live.drain() {
            self.status.done(seq, live.ended(EndReason::Error, now));
            live.audio.end(end.clone());
        }
        drop(self.engine.take());
    }
}

impl<B: Vocode> Code2Wav<B> {
    fn deliver(&mut self, from: Stamp, until: Stamp, report: ChunkReport<f32>) {
        for event in report.events {
            match event {
                ChunkEvent::Chunk { seq, samples, items } => {
                    self.output(
                        seq,
                        AudioPiece {
                            samples,
                            frames: items,
                        },
                        from,
                        until,
                    );
                }
                ChunkEvent::Finished { seq } => {
                    if let Some(live) = self.live.remove(&seq) {
                        let reason = match live.end {
                            End::Length => EndReason::Length,
                            End::Repetition => EndReason::Repetition,
                            _ => EndReason::Stop,
                        };
                        self.status.done(seq, live.ended(reason, until));
                        live.audio.end(live.end);
                    }
                }
                ChunkEvent::Failed { seq, message } => {
                    if let Some(live) = self.live.remove(&seq) {
                        self.status.done(seq, live.ended(EndReason::Error, until));
                        live.audio.end(failed(self.status.stage(), message));
                    }
                }
            }
        }
    }

    fn output(&mut self, seq: SeqId, piece: AudioPiece, from: Stamp, until: Stamp) {
        let (Some(live), Some(engine)) = (self.live.get_mut(&seq), &mut self.engine) else {
            return;
        };
        let Some(piece) = live.behind_the_lead(piece) else {
            return;
        };
        live.progress.step(from, until, piece.frames);
        live.decoded(from, until, piece.frames);
        self.status.tell(&live.timeline.output(until));
        // The rest of a stream has no frames of its own, and takes room all the same.
        let units = piece.frames.max(1);
        if live.audio.put(piece, units) {
            engine.set_paused(seq, true);
        }
    }
}

#[derive(Clone, Copy)]
enum Fed {
    Keep,
    /// The work was cancelled.
    Drop,
    /// Upstream failed; what it sent before is not worth hearing.
    Broken,
}

impl Live {
    /// A chunk of it was decoded.
    fn decoded(&mut self, from: Stamp, until: Stamp, frames: u32) {
        self.record.scheduled.get_or_insert(from);
        self.record.first_output.get_or_insert(until);
        self.record.last_output = Some(until);
        self.record.outputs += frames;
    }

    /// What of a piece is heard; none if all of it is the lead.
    fn behind_the_lead(&mut self, mut piece: AudioPiece) -> Option<AudioPiece> {
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

    /// The engine is done with it.
    fn ended(&self, reason: EndReason, now: Stamp) -> SeqEnd {
        let finished = now;
        let record = SeqRecord {
            finished,
            ..self.record
        };
        self.timeline.end(reason, Some(record), now)
    }

    /// Moves frames in and lets a paused stream go on.
    fn feed<M>(&mut self, seq: SeqId, engine: &mut ChunkEngine<M>, queue: usize) -> Fed
    where
        M: ChunkModel<Item = CodecFrame, Sample = f32>,
    {
        if self.audio.resumes() {
            engine.set_paused(seq, false);
        }
        while engine.queued(seq) < queue {
            match self.frames.next() {
                Next::Item(frame) => engine.push(seq, [frame], false),
                Next::Nothing => break,
                Next::Gone => return Fed::Drop,
                Next::End(end) => {
                    self.end = end;
                    if !matches!(self.end, End::Stop | End::Length | End::Repetition) {
                        return Fed::Broken;
                    }
                    engine.push(seq, [], true);
                }
            }
        }
        Fed::Keep
    }

    /// Breaks a stream of `stage` if upstream has delivered nothing for too long, with `queued` frames to go on with.
    fn miss(
        &mut self,
        fed: Fed,
        queued: usize,
        now: Stamp,
        ((upstream, patience), stage): ((&'static str, Duration), &'static str),
    ) -> Fed {
        self.frames.observe(queued == 0 && !self.audio.is_paused(), now);
        match (fed, self.frames.stalled(upstream, stage, patience, now)) {
            (Fed::Keep, Some(end)) => {
                self.end = end;
                Fed::Broken
            }
            _ => fed,
        }
    }
}

fn refusal(stage: &'static str, error: &OpenError) -> End {
    match error {
        OpenError::Full { .. } => End::Overloaded(error.to_string()),
        OpenError::Model(ModelError::Rejected(_)) => End::Rejected(error.to_string()),
        OpenError::Duplicate(_) | OpenError::Model(_) => failed(stage, error.to_string()),
    }
}
