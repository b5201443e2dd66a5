//! The encoder stage: recordings in, what the thinker hears of each out, one [`OneShotEngine`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_audio::Samples;
use omni_engine::{
    FinishReason, ModelError, OneShotConfig, OneShotEngine, OneShotError, OneShotEvent, OneShotOptions,
    OneShotReport, SeqId, SeqRecord, Stamp,
};

use super::backend::{BackendError, Encode};
use super::chat::Clip;
use super::events::{EndReason, EngineEvent, Refusal, SeqTimeline, StepFigures};
use super::flow::{End, Outlet};
use super::handle::StageHandle;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::sides::{Sink, failed, finished, lost};
use super::status::ReplicaStatus;
use super::worker::{Core, StageBody, stage};
use crate::clock::Clock;

/// What warms it up: silence of this length that nobody sent.
const WARM_UP: Duration = Duration::from_secs(1);
const WARM_UP_SEQ: SeqId = SeqId(u64::MAX);

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
    pub rows: Box<dyn Outlet<AudioRows>>,
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
        status: status.clone(),
        engine: None,
        live: HashMap::new(),
    };
    stage(core, status, limits.mailbox, clock)
}

struct Encoder<B: Encode> {
    backend: Arc<B>,
    config: OneShotConfig,
    clock: Clock,
    status: ReplicaStatus,
    engine: Option<OneShotEngine<B::Encoder>>,
    live: HashMap<SeqId, Live>,
}

/// A recording in the engine. Dropping it closes its edge.
struct Live {
    rows: Sink<AudioRows>,
    cancel: CancelFlag,
    progress: StageProgress,
    timeline: SeqTimeline,
}

impl<B: Encode> Core for Encoder<B> {
    type Job = EncoderJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let mut engine = OneShotEngine::new(self.backend.encoder(self.status.id())?, self.config);
        let hearing = self.backend.chat().map_err(BackendError)?.hearing;
        let hearing = hearing.ok_or_else(|| BackendError("the model does not hear".to_owned()))?;
        let Samples(samples) = hearing.sample_rate.samples(WARM_UP.min(hearing.max_audio));
        let silence: Arc<[f32]> = vec![0.0; usize::try_from(samples).unwrap_or(0)].into();
        let now = self.clock.now();
        engine
            .add(WARM_UP_SEQ, silence, OneShotOptions::default(), now)
            .map_err(|error| BackendError(format!("the warm-up is refused: {error}")))?;
        self.engine = Some(engine);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        let Some(engine) = &mut self.engine else {
            return Ok(false);
        };
        for event in engine.step(self.clock.now()).events {
            if let OneShotEvent::Finished {
                reason: FinishReason::Error(message),
                ..
            } = event
            {
                return Err(BackendError(message));
            }
        }
        Ok(engine.has_work())
    }

    fn accept(&mut self, job: EncoderJob) {
        if job.cancel.is_set() {
            return;
        }
        let Some(engine) = &mut self.engine else {
            return job.rows.end(lost(self.status.stage()));
        };
        let now = self.clock.now();
        let timeline = SeqTimeline::new(job.seq, &job.progress, Some(1), now);
        if let Err(error) = engine.add(job.seq, job.clip.shared(), OneShotOptions::default(), now) {
            if let Some(refusal) = refused(&error) {
                self.status.tell(&EngineEvent::Refused(refusal));
            }
            return job.rows.end(refusal(self.status.stage(), &error));
        }
        self.status.took(job.seq, timeline);
        let live = Live {
            rows: Sink::new(job.rows),
            cancel: job.cancel,
            progress: job.progress,
            timeline,
        };
        self.live.insert(job.seq, live);
    }

    fn tend(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        // Whoever is in a step cannot be stopped; all others wait still.
        self.live.retain(|&seq, live| {
            let keep = !live.cancel.is_set();
            if !keep {
                engine.abort(seq);
                let end = live.timeline.end(EndReason::Abort, None, self.clock.now());
                self.status.done(seq, end);
            }
            keep
        });
    }

    fn has_work(&self) -> bool {
        self.engine.as_ref().is_some_and(OneShotEngine::has_work)
    }

    fn wake_at(&self) -> Option<Stamp> {
        None
    }

    fn step(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let clock = self.clock;
        let report = engine.step_with(|| clock.now());
        // Others have been told that it is lost.
        if self.status.is_given_up() {
            return;
        }
        self.status
            .tell(&EngineEvent::Step(StepFigures::one_shot(&report)));
        self.deliver(report);
    }

    fn settle(&mut self) {
        if self.live.is_empty() {
            self.status.tell(&EngineEvent::Idle);
        }
    }

    fn end_all(&mut self, end: &End) {
        let now = self.clock.now();
        for (seq, live) in self.live.drain() {
            self.status
                .done(seq, live.timeline.end(EndReason::Error, None, now));
            live.rows.end(end.clone());
        }
        drop(self.engine.take());
    }
}

impl<B: Encode> Encoder<B> {
    fn deliver(&mut self, report: OneShotReport<Arc<[f32]>>) {
        let (from, until) = (report.began, report.ended);
        for event in report.events {
            if let OneShotEvent::Finished {
                seq,
                output,
                reason,
                record,
            } = event
                && let Some(live) = self.live.remove(&seq)
            {
                self.finish(seq, live, (output, reason, record), from, until);
            }
        }
    }

    fn finish(
        &self,
        seq: SeqId,
        mut live: Live,
        (output, reason, record): (Option<Arc<[f32]>>, FinishReason, SeqRecord),
        from: Stamp,
        until: Stamp,
    ) {
        live.progress.step(from, until, u32::from(output.is_some()));
        if let Some(rows) = output {
            self.status.tell(&live.timeline.output(until));
            // There is room for one, and nothing follows that would have to wait.
            let _ = live.rows.put(AudioRows(rows), 1);
        }
        let end = live.timeline.end(EndReason::from(&reason), Some(record), until);
        self.status.done(seq, end);
        live.rows.end(finished(self.status.stage(), reason));
    }
}

fn refused(error: &OneShotError) -> Option<Refusal> {
    match error {
        OneShotError::QueueFull { .. } => Some(Refusal::Sequences),
        OneShotError::QueueCost { .. } => Some(Refusal::Positions),
        _ => None,
    }
}

fn refusal(stage: &'static str, error: &OneShotError) -> End {
    match error {
        OneShotError::QueueFull { .. } | OneShotError::QueueCost { .. } => End::Overloaded(error.to_string()),
        OneShotError::TooLarge { .. } | OneShotError::Model(ModelError::Rejected(_)) => {
            End::Rejected(error.to_string())
        }
        OneShotError::Duplicate(_) | OneShotError::Model(_) => failed(stage, error.to_string()),
    }
}
