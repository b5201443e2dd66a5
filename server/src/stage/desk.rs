//! What every stage with an [`ArEngine`] does: takes sequences in, steps them, gives them up, and tells observers of each.

use std::collections::HashMap;

use omni_engine::{
    AddOptions, ArConfig, ArEngine, ArEvent, ArModel, ArReport, FinishReason, SeqId, SeqRecord, Stamp,
};

use super::backend::BackendError;
use super::flow::End;
use super::news::{Course, EndReason, EngineNews, KvPosition, Refusal, StepFigures, cache};
use super::place::Place;
use super::progress::StageProgress;
use super::replica::{ReplicaId, ReplicaStats};
use super::seat::Seat;
use super::sides::{finished, lost, refusal};
use super::wake::CancelFlag;
use crate::clock::Clock;

/// The sequence that warms the engine up: none that callers have.
const WARM_UP: SeqId = SeqId(u64::MAX);

/// What is kept of a sequence in every such stage.
pub(super) struct Part {
    pub(super) progress: StageProgress,
    cancel: CancelFlag,
    place: Place,
    course: Course,
}

/// A sequence in the engine, with its edges. Dropping it closes them.
pub(super) trait Sequence {
    /// What is passed on of it.
    type Output;

    fn part(&mut self) -> &mut Part;

    /// It is worked on for the first time, or again, in a step from `step` on.
    fn scheduled(&mut self, _step: Stamp) {}

    /// When the work on an output began that came of a step from `step` on.
    fn began(&mut self, step: Stamp) -> Stamp {
        step
    }

    /// Whether there is room for two outputs.
    fn has_room_for_two(&self) -> bool;

    /// Passes on an output. True if there is no room for another: it has to pause.
    #[must_use]
    fn put(&mut self, output: Self::Output) -> bool;

    /// Ends what it gives out.
    fn end(self, end: End);
}

/// An engine and its sequences.
pub(super) struct Desk<M: ArModel, S> {
    stage: &'static str,
    config: ArConfig,
    clock: Clock,
    seat: Seat,
    engine: Option<ArEngine<M>>,
    /// Pieces of the model's preparation that were done; `None` if it is over.
    prepared: Option<u32>,
    /// Steps begun.
    steps: u64,
    /// Until when the time is counted that it was busy.
    counted: Stamp,
    live: HashMap<SeqId, S>,
    /// Those given up of which the engine has not told the end yet.
    leaving: HashMap<SeqId, Course>,
}

/// What a look at the sequences between two steps may use.
pub(super) struct Turn<'a, M: ArModel> {
    pub(super) engine: &'a mut ArEngine<M>,
    pub(super) seat: &'a Seat,
    steps: u64,
}

impl<M: ArModel> Turn<'_, M> {
    /// Whether the sequence has no place in the engine, with too many others.
    pub(super) fn is_placeless(&self, seq: SeqId, part: &Part) -> bool {
        part.place.is_missed(self.engine.state(seq), self.steps)
    }
}

impl<M, S> Desk<M, S>
where
    S: Sequence,
    M: ArModel<Output: Into<S::Output>>,
{
    /// Whose it is.
    pub(super) fn replica(&self) -> ReplicaId {
        self.seat.id()
    }

    pub(super) fn new(stage: &'static str, config: ArConfig, seat: Seat, clock: Clock) -> Self {
        Self {
            stage,
            config,
            clock,
            seat,
            engine: None,
            prepared: None,
            steps: 0,
            counted: Stamp::default(),
            live: HashMap::new(),
            leaving: HashMap::new(),
        }
    }

    pub(super) fn load(&mut self, model: M, position: Option<KvPosition>) {
        self.seat.tell(&cache(&model, &self.config, position));
        self.engine = Some(ArEngine::new(model, self.config));
        self.prepared = Some(0);
    }

    /// Takes the sequence that warms the engine up. Nobody hears of it.
    pub(super) fn warm(
        &mut self,
        request: M::Request,
        options: AddOptions,
        rows: Vec<M::Row>,
    ) -> Result<(), BackendError> {
        let Some(engine) = &mut self.engine else {
            return Ok(());
        };
        engine
            .add(WARM_UP, request, options, self.clock.now())
            .map_err(|error| BackendError(format!("the warm-up is refused: {error}")))?;
        if options.needs_rows {
            engine.push(WARM_UP, rows, true);
        }
        Ok(())
    }

    /// A step of it ([`Core::warm_up`](super::worker::Core::warm_up)).
    pub(super) fn warm_up(&mut self) -> Result<bool, BackendError> {
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
        let clock = self.clock;
        let report = engine.step_with(|| clock.now());
        for event in report.events {
            if let ArEvent::Finished {
                reason: FinishReason::Error(message),
                ..
            } = event
            {
                return Err(BackendError(message));
            }
        }
        Ok(engine.has_work())
    }

    /// Takes a sequence into the engine.
    ///
    /// # Errors
    /// How it ends if it is not taken.
    pub(super) fn admit(
        &mut self,
        seq: SeqId,
        request: M::Request,
        options: AddOptions,
        cancel: CancelFlag,
        progress: StageProgress,
    ) -> Result<Part, End> {
        let Some(engine) = &mut self.engine else {
            return Err(lost(self.stage));
        };
        let now = self.clock.now();
        let course = Course::new(seq, &progress, Some(options.max_outputs), now);
        if let Err(error) = engine.add(seq, request, options, now) {
            if let Some(refusal) = Refusal::of(&error) {
                self.seat.tell(&EngineNews::Refused(refusal));
            }
            return Err(refusal(self.stage, &error));
        }
        self.seat.took(seq, course);
        Ok(Part {
            progress,
            cancel,
            place: Place::new(self.steps),
            course,
        })
    }

    /// Keeps an admitted sequence.
    pub(super) fn keep(&mut self, seq: SeqId, sequence: S) {
        self.live.insert(seq, sequence);
    }

    /// Gives up those that were cancelled and those that `look` does not keep.
    pub(super) fn tend(&mut self, mut look: impl FnMut(SeqId, &mut S, &mut Turn<'_, M>) -> bool) {
        let Some(engine) = &mut self.engine else { return };
        let leaving = &mut self.leaving;
        let mut turn = Turn {
            engine,
            seat: &self.seat,
            steps: self.steps,
        };
        self.live.retain(|&seq, sequence| {
            let keep = !sequence.part().cancel.is_set() && look(seq, sequence, &mut turn);
            if !keep && turn.engine.abort(seq) {
                leaving.insert(seq, sequence.part().course);
            }
            keep
        });
    }

    pub(super) fn has_work(&self) -> bool {
        self.engine.as_ref().is_some_and(ArEngine::has_work)
    }

    /// One step. Where the model works elsewhere it gets the next one before it is waited for, so that it goes on while its
    /// results are passed on and the others are looked at.
    pub(super) fn step(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let clock = self.clock;
        if !engine.is_under_way() {
            engine.begin_step(clock.now());
            self.steps += 1;
        }
        let live = &self.live;
        let ahead = engine.begin_step_ahead(clock.now(), |seq| {
            live.get(&seq).is_some_and(Sequence::has_room_for_two)
        });
        // It is begun only if nobody else has room.
        self.steps += u64::from(ahead);
        let report = engine.end_step(|| clock.now());
        // Others have been told that it is lost.
        if self.seat.is_given_up() {
            return;
        }
        let (stats, from) = (report.stats, report.began);
        self.seat.tell(&EngineNews::Step(StepFigures::ar(&report)));
        self.deliver(report);
        // A step begun ahead begins while what the one before it gave is passed on.
        let now = self.clock.now();
        let busy = now.since(from.max(self.counted));
        self.counted = now;
        self.seat.count(|now| now.ar_step(&stats, busy));
    }

    pub(super) fn settle(&self) {
        // Only what was aborted since the last step makes a difference, and only the end of all of it can be told here.
        if self.live.is_empty() {
            self.seat.count(ReplicaStats::idle);
            self.seat.tell(&EngineNews::Idle);
        }
    }

    pub(super) fn end_all(&mut self, end: &End) {
        let now = self.clock.now();
        for (seq, course) in self.leaving.drain() {
            self.seat.done(seq, course.end(EndReason::Abort, None, now));
        }
        for (seq, mut sequence) in self.live.drain() {
            let course = sequence.part().course;
            self.seat.done(seq, course.end(EndReason::Error, None, now));
            sequence.end(end.clone());
        }
        drop(self.engine.take());
    }

    fn deliver(&mut self, report: ArReport<M::Output>) {
        let (from, until) = (report.began, report.ended);
        for event in report.events {
            match event {
                ArEvent::Output { seq, item } => self.output(seq, item.into(), from, until),
                ArEvent::Finished { seq, reason, record } => self.finished(seq, reason, record),
                ArEvent::Scheduled { seq, .. } => {
                    if let Some(sequence) = self.live.get_mut(&seq) {
                        sequence.scheduled(from);
                    }
                }
                ArEvent::Preempted { seq, .. } => {
                    if let Some(sequence) = self.live.get_mut(&seq) {
                        sequence.part().place.lost();
                    }
                }
                ArEvent::Queued { .. } => {}
            }
        }
    }

    fn output(&mut self, seq: SeqId, output: S::Output, from: Stamp, until: Stamp) {
        let (Some(sequence), Some(engine)) = (self.live.get_mut(&seq), &mut self.engine) else {
            return;
        };
        let from = sequence.began(from);
        let part = sequence.part();
        self.seat.tell(&part.course.output(until));
        part.progress.step(from, until, 1);
        part.place.worked();
        if sequence.put(output) {
            engine.set_paused(seq, true);
        }
    }

    fn finished(&mut self, seq: SeqId, reason: FinishReason, record: SeqRecord) {
        let mut sequence = self.live.remove(&seq);
        let course = match &mut sequence {
            Some(sequence) => Some(sequence.part().course),
            None => self.leaving.remove(&seq),
        };
        if let Some(course) = course {
            let now = self.clock.now();
            let end = course.end(EndReason::from(&reason), Some(record), now);
            self.seat.done(seq, end);
        }
        if let Some(sequence) = sequence {
            sequence.end(finished(self.stage, reason));
        }
    }
}
