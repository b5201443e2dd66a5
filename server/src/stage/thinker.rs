//! The thinker stage: conversations in, text tokens out, one [`ArEngine`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use omni_engine::{
    AddOptions, ArConfig, ArEngine, ArEvent, ArReport, FinishReason, RepetitionLimit, SeqId, SeqRecord, Stamp,
};

use super::backend::{BackendError, SpeechBackend};
use super::chat::{ReplyToken, ThinkerRequest};
use super::flow::{End, Outlet};
use super::handle::StageHandle;
use super::news::{Course, EndReason, EngineNews, Refusal, StepFigures, cache};
use super::place::Place;
use super::progress::StageProgress;
use super::replica::{ReplicaStats, Seat};
use super::sides::{Sink, finished, lost, refusal};
use super::wake::CancelFlag;
use super::worker::{Core, StageBody, stage};
use crate::clock::Clock;

const NAME: &str = "thinker";

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
pub fn thinker_stage<B: SpeechBackend>(
    backend: Arc<B>,
    limits: ThinkerLimits,
    seat: Seat,
    clock: Clock,
) -> (StageHandle<ThinkerJob>, StageBody) {
    let core = Thinker {
        backend,
        config: limits.engine,
        repetition: limits.repetition,
        clock,
        seat: seat.clone(),
        engine: None,
        steps: 0,
        live: HashMap::new(),
        leaving: HashMap::new(),
    };
    stage(NAME, core, seat, limits.mailbox, clock)
}

struct Thinker<B: SpeechBackend> {
    backend: Arc<B>,
    config: ArConfig,
    repetition: Option<RepetitionLimit>,
    clock: Clock,
    seat: Seat,
    engine: Option<ArEngine<B::Thinker>>,
    steps: u64,
    live: HashMap<SeqId, Live>,
    /// Those given up of which the engine has not told the end yet.
    leaving: HashMap<SeqId, Course>,
}

/// A sequence in the engine. Dropping it closes its outlet.
struct Live {
    tokens: Sink<ReplyToken>,
    place: Place,
    cancel: CancelFlag,
    progress: StageProgress,
    course: Course,
    /// Start of the step that first computed its prompt, until that gave a token.
    reading: Option<Stamp>,
}

impl<B: SpeechBackend> Core for Thinker<B> {
    type Job = ThinkerJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.thinker()?;
        let position = self.backend.kv_position(NAME);
        self.seat.tell(&cache(&model, &self.config, position));
        self.engine = Some(ArEngine::new(model, self.config));
        Ok(())
    }

    fn accept(&mut self, job: ThinkerJob) {
        if job.cancel.is_set() {
            return;
        }
        let Some(engine) = &mut self.engine else {
            return job.tokens.end(lost(NAME));
        };
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
        let now = self.clock.now();
        if let Err(error) = engine.add(job.seq, request, options, now) {
            if let Some(refusal) = Refusal::of(&error) {
                self.seat.tell(&EngineNews::Refused(refusal));
            }
            return job.tokens.end(refusal(NAME, &error));
        }
        let live = Live {
            tokens: Sink::new(job.tokens),
            place: Place::new(self.steps),
            cancel: job.cancel,
            course: Course::new(&job.progress, Some(job.max_tokens), now),
            progress: job.progress,
            reading: None,
        };
        self.live.insert(job.seq, live);
    }

    fn tend(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let (steps, leaving) = (self.steps, &mut self.leaving);
        self.live.retain(|&seq, live| {
            live.tokens
                .set_waiting(live.place.is_missed(engine.state(seq), steps));
            let keep = !live.cancel.is_set();
            if !keep {
                if engine.abort(seq) {
                    leaving.insert(seq, live.course);
                }
            } else if live.tokens.resumes() {
                engine.set_paused(seq, false);
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
        let clock = self.clock;
        self.steps += 1;
        let report = engine.step_with(|| clock.now());
        let (stats, from) = (report.stats, report.began);
        self.seat.tell(&EngineNews::Step(StepFigures::ar(&report)));
        self.deliver(report);
        let busy = self.clock.since(from);
        self.seat.count(|now| now.ar_step(&stats, busy));
    }

    fn settle(&mut self) {
        // Only what was aborted since the last step makes a difference, and only the end of all of it can be told here.
        if self.live.is_empty() {
            self.seat.count(ReplicaStats::idle);
            self.seat.tell(&EngineNews::Idle);
        }
    }

    fn end_all(&mut self, end: &End) {
        let now = self.clock.now();
        for course in self.leaving.drain().map(|(_, course)| course) {
            self.seat.tell(&course.end(EndReason::Abort, None, now));
        }
        for live in self.live.drain().map(|(_, live)| live) {
            self.seat.tell(&live.course.end(EndReason::Error, None, now));
            live.tokens.end(end.clone());
        }
        drop(self.engine.take());
    }
}

type Output<B> = <<B as SpeechBackend>::Thinker as omni_engine::ArModel>::Output;

impl<B: SpeechBackend> Thinker<B> {
    fn deliver(&mut self, report: ArReport<Output<B>>) {
        let (from, until) = (report.began, report.ended);
        for event in report.events {
            match event {
                ArEvent::Output { seq, item } => self.output(seq, item.into(), from, until),
                ArEvent::Finished { seq, reason, record } => self.finished(seq, reason, record),
                ArEvent::Scheduled { seq, .. } => self.scheduled(seq, from),
                ArEvent::Preempted { seq, .. } => {
                    if let Some(live) = self.live.get_mut(&seq) {
                        live.place.lost();
                    }
                }
                ArEvent::Queued { .. } => {}
            }
        }
    }

    fn scheduled(&mut self, seq: SeqId, from: Stamp) {
        if let Some(live) = self.live.get_mut(&seq) {
            live.reading.get_or_insert(from);
        }
    }

    fn output(&mut self, seq: SeqId, token: ReplyToken, from: Stamp, until: Stamp) {
        let (Some(live), Some(engine)) = (self.live.get_mut(&seq), &mut self.engine) else {
            return;
        };
        self.seat.tell(&live.course.output(until));
        // A prompt may take several steps; the first token ends them all.
        let from = live.reading.take().unwrap_or(from);
        live.progress.step(from, until, 1);
        live.place.worked();
        if live.tokens.put(token, 1) {
            engine.set_paused(seq, true);
        }
    }

    fn finished(&mut self, seq: SeqId, reason: FinishReason, record: SeqRecord) {
        let live = self.live.remove(&seq);
        let course = live
            .as_ref()
            .map(|live| live.course)
            .or_else(|| self.leaving.remove(&seq));
        if let Some(course) = course {
            let now = self.clock.now();
            self.seat
                .tell(&course.end(EndReason::from(&reason), Some(record), now));
        }
        if let Some(live) = live {
            live.tokens.end(finished(NAME, reason));
        }
    }
}
