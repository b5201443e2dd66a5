//! The talker stage: text tokens in, codec frames out, one [`ArEngine`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use omni_engine::{
    AddOptions, ArConfig, ArEngine, ArEvent, ArReport, CodecFrame, FinishReason, SeqId, SeqRecord, Stamp,
};
use tokio::sync::oneshot;

use super::backend::{BackendError, SpeechBackend, TalkerRequest};
use super::flow::{End, Inlet, Outlet};
use super::handle::StageHandle;
use super::news::{Course, EndReason, EngineNews, Refusal, StepFigures, cache};
use super::place::Place;
use super::progress::StageProgress;
use super::replica::{ReplicaStats, Seat};
use super::sides::{Next, Sink, Source, Want, finished, lost, refusal};
use super::wake::CancelFlag;
use super::worker::{Core, StageBody, stage};
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

/// A talker replica and the body of its thread.
pub fn talker_stage<B: SpeechBackend>(
    backend: Arc<B>,
    limits: TalkerLimits,
    seat: Seat,
    clock: Clock,
) -> (StageHandle<TalkerJob>, StageBody) {
    let core = Talker {
        backend,
        config: limits.engine,
        clock,
        seat: seat.clone(),
        engine: None,
        steps: 0,
        live: HashMap::new(),
        leaving: HashMap::new(),
    };
    stage(NAME, core, seat, limits.mailbox, clock)
}

struct Talker<B: SpeechBackend> {
    backend: Arc<B>,
    config: ArConfig,
    clock: Clock,
    seat: Seat,
    engine: Option<ArEngine<B::Talker>>,
    steps: u64,
    live: HashMap<SeqId, Live>,
    /// Those given up of which the engine has not told the end yet.
    leaving: HashMap<SeqId, Course>,
}

/// A sequence in the engine. Dropping it closes its outlet and resolves `finished`.
struct Live {
    tokens: Source<Vec<u32>>,
    frames: Sink<CodecFrame>,
    /// Rows received and frames made: with as many of one as of the other it waits for a row.
    rows: u32,
    made: u32,
    /// Its rows come from the thinker.
    thought: bool,
    starved: bool,
    place: Place,
    cancel: CancelFlag,
    progress: StageProgress,
    course: Course,
    _finished: oneshot::Sender<()>,
}

impl<B: SpeechBackend> Core for Talker<B> {
    type Job = TalkerJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let model = self.backend.talker()?;
        let position = self.backend.kv_position(NAME);
        self.seat.tell(&cache(&model, &self.config, position));
        self.engine = Some(ArEngine::new(model, self.config));
        Ok(())
    }

    fn accept(&mut self, job: TalkerJob) {
        if job.cancel.is_set() {
            return;
        }
        let Some(engine) = &mut self.engine else {
            return job.frames.end(lost(NAME));
        };
        let options = AddOptions {
            needs_rows: true,
            max_outputs: job.max_frames,
            ..AddOptions::default()
        };
        let thought = job.request.thought;
        let request = self.backend.talker_request(job.request);
        let now = self.clock.now();
        if let Err(error) = engine.add(job.seq, request, options, now) {
            if let Some(refusal) = Refusal::of(&error) {
                self.seat.tell(&EngineNews::Refused(refusal));
            }
            return job.frames.end(refusal(NAME, &error));
        }
        let live = Live {
            tokens: Source::new(job.tokens),
            frames: Sink::new(job.frames),
            rows: 0,
            made: 0,
            thought,
            starved: false,
            place: Place::new(self.steps),
            cancel: job.cancel,
            course: Course::new(&job.progress, Some(job.max_frames), now),
            progress: job.progress,
            _finished: job.finished,
        };
        self.live.insert(job.seq, live);
    }

    fn tend(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let (seat, steps, now) = (&self.seat, self.steps, self.clock.now());
        let leaving = &mut self.leaving;
        self.live.retain(|&seq, live| {
            if live.cancel.is_set() || !live.feed(seq, engine) {
                if engine.abort(seq) {
                    leaving.insert(seq, live.course);
                }
                return false;
            }
            if live.is_starved(live.place.is_missed(engine.state(seq), steps), now) {
                seat.count(|stats| stats.starved += 1);
                seat.tell(&EngineNews::Starved);
                live.progress.starve();
            }
            true
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
            live.frames.end(end.clone());
        }
        drop(self.engine.take());
    }
}

impl<B: SpeechBackend> Talker<B> {
    fn deliver(&mut self, report: ArReport<CodecFrame>) {
        let (from, until) = (report.began, report.ended);
        for event in report.events {
            match event {
                ArEvent::Output { seq, item } => self.output(seq, item, from, until),
                ArEvent::Finished { seq, reason, record } => self.finished(seq, reason, record),
                ArEvent::Preempted { seq, .. } => {
                    if let Some(live) = self.live.get_mut(&seq) {
                        live.place.lost();
                    }
                }
                ArEvent::Queued { .. } | ArEvent::Scheduled { .. } => {}
            }
        }
    }

    fn output(&mut self, seq: SeqId, frame: CodecFrame, from: Stamp, until: Stamp) {
        let (Some(live), Some(engine)) = (self.live.get_mut(&seq), &mut self.engine) else {
            return;
        };
        live.progress.step(from, until, 1);
        self.seat.tell(&live.course.output(until));
        live.made += 1;
        live.place.worked();
        if live.frames.put(frame, 1) {
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
            live.frames.end(finished(NAME, reason));
        }
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
        let idle = !self.frames.is_paused() && self.rows <= self.made;
        let want = self.tokens.observe(idle, now);
        self.frames.set_waiting(want == Want::Excused || placeless);
        let starved = want != Want::Nothing && self.thought && self.rows > 0;
        let begins = starved && !self.starved;
        self.starved = starved;
        begins
    }
}
