//! Loop shared by all stages: takes sequences in, steps their engine, drops them, and reports each to observers.

use std::cell::Cell;
use std::collections::HashMap;

use omni_engine::{
    ArConfig, ArEngine, ArModel, ChunkEngine, ChunkModel, ChunkOutput, FinishReason, ModelError,
    OneShotEngine, OneShotModel, SeqEvent, SeqId, SeqRecord, Stamp, StepReport,
};

use super::events::{EngineEvent, KvPosition, SeqTimeline, cache};
use super::family::BackendError;
use super::flow::End;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::refused::{EngineError, Refused};
use super::residency::Residency;
use super::sides::{Sink, failed, finished, lost};
use super::status::ReplicaStatus;
use crate::clock::Clock;
use crate::item::{Item, ItemKind};

/// Sequence that warms an engine up; never a caller's.
pub(super) const WARM_UP: SeqId = SeqId(u64::MAX);

/// An engine, as its driver steps it.
pub(super) trait StageEngine {
    /// Output of a sequence.
    type Output;

    /// Returns true if a step at `now` would do anything.
    fn has_work(&self, now: Stamp) -> bool;

    /// Number of steps begun, if one can be begun before another has ended.
    fn steps(&self) -> u64 {
        0
    }

    /// Runs one step. `room` returns the units for which the consumer of a sequence has room.
    fn step(&mut self, clock: Clock, room: &mut dyn FnMut(SeqId) -> u32) -> StepReport<Self::Output>;

    /// Pauses a sequence whose consumer is full, or resumes it.
    fn set_paused(&mut self, _seq: SeqId, _paused: bool) {}

    /// Aborts a sequence. Returns true if it was there: then the next step reports its end.
    fn abort(&mut self, seq: SeqId) -> bool;

    /// Reason why this process can do no further step, if it cannot.
    fn lost(&self) -> Option<&str>;
}

impl<M: ArModel> StageEngine for ArEngine<M> {
    type Output = M::Output;

    fn has_work(&self, _now: Stamp) -> bool {
        Self::has_work(self)
    }

    fn steps(&self) -> u64 {
        Self::steps(self)
    }

    /// Gives a model that works on a device the next step before this one is waited for, so that the device goes on
    /// while results are passed on and other sequences are looked at.
    fn step(&mut self, clock: Clock, room: &mut dyn FnMut(SeqId) -> u32) -> StepReport<M::Output> {
        if !self.is_under_way() {
            self.begin_step(clock.now());
        }
        // For the output of this step and that of the next.
        self.begin_step_ahead(clock.now(), &mut |seq| room(seq) >= 2);
        self.end_step(|| clock.now())
    }

    fn set_paused(&mut self, seq: SeqId, paused: bool) {
        Self::set_paused(self, seq, paused);
    }

    fn abort(&mut self, seq: SeqId) -> bool {
        Self::abort(self, seq)
    }

    fn lost(&self) -> Option<&str> {
        Self::lost(self)
    }
}

impl<M: ChunkModel> StageEngine for ChunkEngine<M> {
    type Output = ChunkOutput<M::Sample>;

    fn has_work(&self, now: Stamp) -> bool {
        Self::has_work(self, now)
    }

    fn step(&mut self, clock: Clock, _room: &mut dyn FnMut(SeqId) -> u32) -> StepReport<Self::Output> {
        self.step_with(|| clock.now())
    }

    fn set_paused(&mut self, seq: SeqId, paused: bool) {
        Self::set_paused(self, seq, paused);
    }

    fn abort(&mut self, seq: SeqId) -> bool {
        Self::abort(self, seq)
    }

    fn lost(&self) -> Option<&str> {
        Self::lost(self)
    }
}

impl<M: OneShotModel> StageEngine for OneShotEngine<M> {
    type Output = M::Output;

    fn has_work(&self, _now: Stamp) -> bool {
        Self::has_work(self)
    }

    fn step(&mut self, clock: Clock, room: &mut dyn FnMut(SeqId) -> u32) -> StepReport<M::Output> {
        self.step_with(|| clock.now(), room)
    }

    fn set_paused(&mut self, seq: SeqId, paused: bool) {
        Self::set_paused(self, seq, paused);
    }

    fn abort(&mut self, seq: SeqId) -> bool {
        Self::abort(self, seq)
    }

    fn lost(&self) -> Option<&str> {
        Self::lost(self)
    }
}

/// State of a sequence that only one kind of stage keeps.
pub(super) trait Course {
    /// Filters an output before it is sent downstream; `None` drops it.
    fn passed_on(&mut self, output: Item) -> Option<Item> {
        Some(output)
    }

    /// Called when the sequence is worked on for the first time, or again, in a step from `step` on.
    fn scheduled(&mut self, _step: Stamp) {}

    /// Time at which the work on an output began that came of a step from `step` on.
    fn began(&mut self, step: Stamp) -> Stamp {
        step
    }

    /// Reason reported for a sequence that its engine has ended for `reason`.
    fn outcome(&self, reason: FinishReason) -> FinishReason {
        reason
    }
}

/// A sequence in the engine, with the edge that it writes. Dropping it closes its edges.
pub(super) struct Sequence<C> {
    pub(super) sink: Sink<Item>,
    pub(super) progress: StageProgress,
    /// Outputs passed on.
    pub(super) outputs: u32,
    pub(super) course: C,
    /// Kind of the items that its edge carries.
    gives: ItemKind,
    /// An output that its edge does not carry.
    misfit: Option<PayloadError>,
    cancel: CancelFlag,
    residency: Residency,
    timeline: SeqTimeline,
}

/// Arguments of a sequence's admission.
pub(super) struct Admission<C> {
    pub(super) seq: SeqId,
    pub(super) sink: Sink<Item>,
    pub(super) cancel: CancelFlag,
    pub(super) progress: StageProgress,
    /// Most outputs, if that is bounded.
    pub(super) max_outputs: Option<u32>,
    /// Kind of the items that its edge carries.
    pub(super) gives: ItemKind,
    pub(super) course: C,
}

/// A model gives an item that the edge of its stage does not carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it gave {}, its edge carries {}", given.name(), carried.name())]
struct PayloadError {
    given: ItemKind,
    carried: ItemKind,
}

/// Decision on a sequence between two steps.
pub(super) enum Verdict {
    Keep,
    /// The work was cancelled.
    Drop,
    /// It fails.
    Fail(End),
}

/// A sequence that was aborted, whose end the engine has not reported yet.
struct Leaving {
    timeline: SeqTimeline,
    reason: FinishReason,
}

/// Runs the `nth` piece of an engine's preparation; returns false if there are no more.
type Prepare<E> = fn(&mut E, u32) -> Result<bool, ModelError>;

/// An engine and its sequences.
pub(super) struct Driver<E: StageEngine, C> {
    /// Converts an output to an item.
    item: fn(E::Output) -> Item,
    clock: Clock,
    status: ReplicaStatus,
    engine: Option<E>,
    /// Preparation of the model, and the pieces that are done; `None` once it is over.
    preparation: Option<(Prepare<E>, u32)>,
    /// Time up to which its busy time is counted.
    counted: Stamp,
    live: HashMap<SeqId, Sequence<C>>,
    leaving: HashMap<SeqId, Leaving>,
}

/// Context of the checks of sequences between two steps.
pub(super) struct Turn<'a, E> {
    pub(super) engine: &'a mut E,
    pub(super) status: &'a ReplicaStatus,
}

impl<M: ArModel> Turn<'_, ArEngine<M>> {
    /// Returns true if the sequence has no place in the engine, with too many others.
    pub(super) fn is_placeless<C>(&self, seq: SeqId, sequence: &Sequence<C>) -> bool {
        sequence
            .residency
            .is_missed(self.engine.state(seq), self.engine.steps())
    }
}

impl<E: StageEngine, C: Course> Driver<E, C> {
    pub(super) fn new(status: ReplicaStatus, item: fn(E::Output) -> Item, clock: Clock) -> Self {
        Self {
            item,
            clock,
            status,
            engine: None,
            preparation: None,
            counted: Stamp::default(),
            live: HashMap::new(),
            leaving: HashMap::new(),
        }
    }

    pub(super) fn status(&self) -> &ReplicaStatus {
        &self.status
    }

    pub(super) fn stage(&self) -> &'static str {
        self.status.stage()
    }

    pub(super) fn engine(&self) -> Option<&E> {
        self.engine.as_ref()
    }

    /// Reason why this process can compute nothing more, if it cannot.
    pub(super) fn lost(&self) -> Option<String> {
        self.engine.as_ref()?.lost().map(str::to_owned)
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Sequence<C>> {
        self.live.values()
    }

    /// Takes the engine, which holds the warm-up sequence. That sequence is not observed.
    pub(super) fn load(&mut self, engine: E, prepare: Prepare<E>) {
        self.engine = Some(engine);
        self.preparation = Some((prepare, 0));
    }

    /// A step of the warm-up ([`Core::warm_up`](super::worker::Core::warm_up)).
    pub(super) fn warm_up(&mut self) -> Result<bool, BackendError> {
        let Some(engine) = &mut self.engine else {
            return Ok(false);
        };
        if let Some((prepare, nth)) = self.preparation {
            let more = prepare(engine, nth)?;
            self.preparation = more.then_some((prepare, nth + 1));
            if more {
                return Ok(true);
            }
        }
        let mut ended = false;
        // Room for one output: no step is begun ahead.
        let events = engine.step(self.clock, &mut |_| 1).events;
        if let Some(reason) = engine.lost() {
            return Err(BackendError::Lost(reason.to_owned()));
        }
        for event in events {
            match event {
                SeqEvent::Finished {
                    reason: FinishReason::Error(message),
                    ..
                } => return Err(BackendError::Failed(message)),
                SeqEvent::Finished { .. } => ended = true,
                _ => {}
            }
        }
        Ok(!ended && engine.has_work(self.clock.now()))
    }

    /// Adds a sequence to the engine by `add`; a refused one is ended.
    pub(super) fn admit<F: EngineError>(
        &mut self,
        admission: Admission<C>,
        add: impl FnOnce(&mut E, &mut C, Stamp) -> Result<(), F>,
    ) {
        let Admission {
            seq,
            sink,
            progress,
            mut course,
            ..
        } = admission;
        let Some(engine) = &mut self.engine else {
            return sink.end(lost(self.stage()));
        };
        let now = self.clock.now();
        let timeline = SeqTimeline::new(seq, &progress, admission.max_outputs, now);
        if let Err(error) = add(engine, &mut course, now) {
            let Refused { refusal, end } = error.refused(self.status.stage());
            if let Some(refusal) = refusal {
                self.status.tell(&EngineEvent::Refused(refusal));
            }
            return sink.end(end);
        }
        self.status.took(seq, timeline);
        let sequence = Sequence {
            sink,
            progress,
            outputs: 0,
            course,
            gives: admission.gives,
            misfit: None,
            cancel: admission.cancel,
            residency: Residency::new(engine.steps()),
            timeline,
        };
        self.live.insert(seq, sequence);
    }

    /// Resumes sequences whose consumers have room again, and ends those that were cancelled or that `look` does not
    /// keep.
    pub(super) fn tend(
        &mut self,
        mut look: impl FnMut(SeqId, &mut Sequence<C>, &mut Turn<'_, E>) -> Verdict,
    ) {
        let Some(engine) = &mut self.engine else { return };
        let mut turn = Turn {
            engine,
            status: &self.status,
        };
        let given_up = Cell::new((false, None));
        let gone = self.live.extract_if(|&seq, sequence| {
            let failed = match sequence.look(seq, &mut turn, &mut look) {
                Verdict::Keep => return false,
                Verdict::Drop => None,
                Verdict::Fail(end) => Some(end),
            };
            given_up.set((turn.engine.abort(seq), failed));
            true
        });
        for (seq, sequence) in gone {
            let (told_later, failed) = given_up.take();
            let timeline = sequence.timeline;
            if told_later {
                let reason = failed.as_ref().map_or(FinishReason::Abort, FinishReason::from);
                self.leaving.insert(seq, Leaving { timeline, reason });
            }
            // At once: the next step may hang, and its loss would be reported instead of this end.
            if let Some(end) = failed {
                sequence.sink.end(end);
            }
        }
    }

    pub(super) fn has_work(&self) -> bool {
        let now = self.clock.now();
        self.engine.as_ref().is_some_and(|engine| engine.has_work(now))
    }

    pub(super) fn step(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let live = &self.live;
        let mut room = |seq| live.get(&seq).map_or(0, |of| of.sink.room());
        let report = engine.step(self.clock, &mut room);
        // Its loss was already reported.
        if self.status.is_given_up() {
            return;
        }
        // A step begun ahead begins before the one in front of it has ended.
        let busy = report.ended.since(report.began.max(self.counted));
        self.counted = report.ended;
        self.status.tell(&EngineEvent::Step {
            at: report.ended,
            busy,
            stats: report.stats,
        });
        self.deliver(report);
    }

    /// Reports that no sequence is left, which no step has reported.
    pub(super) fn settle(&self) {
        if self.live.is_empty() {
            self.status.tell(&EngineEvent::Idle);
        }
    }

    pub(super) fn end_all(&mut self, end: &End) {
        let now = self.clock.now();
        for (seq, Leaving { timeline, reason }) in self.leaving.drain() {
            self.status.done(seq, timeline.end(reason, None, now));
        }
        for (seq, sequence) in self.live.drain() {
            let timeline = sequence.timeline;
            self.status.done(seq, timeline.end(end.into(), None, now));
            sequence.sink.end(end.clone());
        }
        drop(self.engine.take());
    }

    fn deliver(&mut self, report: StepReport<E::Output>) {
        let from = report.began;
        let until = report.ended;
        for event in report.events {
            match event {
                SeqEvent::Output { seq, item } => self.output(seq, (self.item)(item), from, until),
                SeqEvent::Finished { seq, reason, record } => self.finished(seq, reason, record, until),
                SeqEvent::Scheduled { seq, .. } => {
                    if let Some(sequence) = self.live.get_mut(&seq) {
                        sequence.course.scheduled(from);
                    }
                }
                SeqEvent::Preempted { seq, .. } => {
                    if let Some(sequence) = self.live.get_mut(&seq) {
                        sequence.residency.lost();
                    }
                }
                SeqEvent::Queued { .. } => {}
            }
        }
    }

    fn output(&mut self, seq: SeqId, output: Item, from: Stamp, until: Stamp) {
        let (Some(sequence), Some(engine)) = (self.live.get_mut(&seq), &mut self.engine) else {
            return;
        };
        let Some(output) = sequence.course.passed_on(output) else {
            return;
        };
        if output.kind() != sequence.gives {
            sequence.misfit.get_or_insert(PayloadError {
                given: output.kind(),
                carried: sequence.gives,
            });
            return engine.set_paused(seq, true);
        }
        let from = sequence.course.began(from);
        let items = output.outputs();
        self.status.tell_of(seq, &sequence.timeline.output(until));
        sequence.progress.step(from, until, items);
        sequence.residency.worked();
        sequence.outputs += items;
        let units = output.units();
        if sequence.sink.put(output, units) {
            engine.set_paused(seq, true);
        }
    }

    fn finished(&mut self, seq: SeqId, reason: FinishReason, record: SeqRecord, now: Stamp) {
        if let Some(sequence) = self.live.remove(&seq) {
            let reason = match &sequence.misfit {
                Some(misfit) => FinishReason::Error(misfit.to_string()),
                None => sequence.course.outcome(reason),
            };
            let end = finished(self.stage(), &reason);
            let timeline = sequence.timeline;
            self.status.done(seq, timeline.end(reason, Some(record), now));
            sequence.sink.end(end);
        } else if let Some(Leaving { timeline, reason }) = self.leaving.remove(&seq) {
            self.status.done(seq, timeline.end(reason, Some(record), now));
        }
    }
}

impl<M: ArModel, C: Course> Driver<ArEngine<M>, C> {
    /// Creates an engine for `model`, and reports its KV cache to observers.
    pub(super) fn ar_engine(&self, model: M, config: ArConfig, position: Option<KvPosition>) -> ArEngine<M> {
        self.status.tell(&cache(&model, &config, position));
        ArEngine::new(model, config)
    }
}

impl<C> Sequence<C> {
    fn look<E: StageEngine>(
        &mut self,
        seq: SeqId,
        turn: &mut Turn<'_, E>,
        look: &mut impl FnMut(SeqId, &mut Self, &mut Turn<'_, E>) -> Verdict,
    ) -> Verdict {
        if self.cancel.is_set() {
            return Verdict::Drop;
        }
        if let Some(misfit) = &self.misfit {
            return Verdict::Fail(failed(turn.status.stage(), misfit.to_string()));
        }
        if let Some(full) = self.sink.overflowed() {
            return Verdict::Fail(failed(turn.status.stage(), full.to_string()));
        }
        if self.sink.resumes() {
            turn.engine.set_paused(seq, false);
        }
        look(seq, self, turn)
    }
}
