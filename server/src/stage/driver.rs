//! What every stage with an [`ArEngine`] does: takes sequences in, steps them, gives them up, and tells observers of each.

use std::collections::HashMap;

use omni_engine::{
    AddOptions, ArConfig, ArEngine, ArEvent, ArModel, ArReport, FinishReason, SeqId, SeqRecord, Stamp,
};

use super::backend::BackendError;
use super::events::{EndReason, EngineEvent, KvPosition, Refusal, SeqTimeline, StepFigures, cache};
use super::flow::End;
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use super::replica::ReplicaId;
use super::residency::Residency;
use super::sides::{finished, lost, refusal};
use super::status::ReplicaStatus;
use crate::clock::Clock;

/// The sequence that warms the engine up: none that callers have.
const WARM_UP: SeqId = SeqId(u64::MAX);

/// What is kept of a sequence in every such stage.
pub(super) struct SeqContext {
    pub(super) progress: StageProgress,
    cancel: CancelFlag,
    residency: Residency,
    timeline: SeqTimeline,
}

/// A sequence in the engine, with its edges. Dropping it closes them.
pub(super) trait Sequence {
    /// What is passed on of it.
    type Output;

    fn context(&mut self) -> &mut SeqContext;

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
pub(super) struct ArDriver<M: ArModel, S> {
    config: ArConfig,
    clock: Clock,
    status: ReplicaStatus,
    engine: Option<ArEngine<M>>,
    /// Pieces of the model's preparation that were done; `None` if it is over.
    prepared: Option<u32>,
    /// Steps begun.
    steps: u64,
    /// Until when the time is counted that it was busy.
    counted: Stamp,
    live: HashMap<SeqId, S>,
    /// Those given up of which the engine has not told the end yet.
    leaving: HashMap<SeqId, SeqTimeline>,
}

/// What a look at the sequences between two steps may use.
pub(super) struct Turn<'a, M: ArModel> {
    pub(super) engine: &'a mut ArEngine<M>,
    pub(super) status: &'a ReplicaStatus,
    steps: u64,
}

impl<M: ArModel> Turn<'_, M> {
    /// Whether the sequence has no place in the engine, with too many others.
    pub(super) fn is_placeless(&self, seq: SeqId, context: &SeqContext) -> bool {
        context.residency.is_missed(self.engine.state(seq), self.steps)
    }
}

impl<M, S> ArDriver<M, S>
where
    S: Sequence,
    M: ArModel<Output: Into<S::Output>>,
{
    pub(super) fn stage(&self) -> &'static str {
        self.status.stage()
    }

    pub(super) fn replica(&self) -> ReplicaId {
        self.status.id()
    }

    pub(super) fn new(config: ArConfig, status: ReplicaStatus, clock: Clock) -> Self {
        Self {
            config,
            clock,
            status,
            engine: None,
            prepared: None,
            steps: 0,
            counted: Stamp::default(),
            live: HashMap::new(),
            leaving: HashMap::new(),
        }
    }

    pub(super) fn load(&mut self, model: M, position: Option<KvPosition>) {
        self.status.tell(&cache(&model, &self.config, position));
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
    ) -> Result<SeqContext, End> {
        let Some(engine) = &mut self.engine else {
            return Err(lost(self.stage()));
        };
        let now = self.clock.now();
        let timeline = SeqTimeline::new(seq, &progress, Some(options.max_outputs), now);
        if let Err(error) = engine.add(seq, request, options, now) {
            if let Some(refusal) = Refusal::of(&error) {
                self.status.tell(&EngineEvent::Refused(refusal));
            }
            return Err(refusal(self.status.stage(), &error));
        }
        self.status.took(seq, timeline);
        Ok(SeqContext {
            progress,
            cancel,
            residency: Residency::new(self.steps),
            timeline,
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
            status: &self.status,
            steps: self.steps,
        };
        self.live.retain(|&seq, sequence| {
            let keep = !sequence.context().cancel.is_set() && look(seq, sequence, &mut turn);
            if !keep && turn.engine.abort(seq) {
                leaving.insert(seq, sequence.context().timeline);
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
        if self.status.is_given_up() {
            return;
        }
        // A step begun ahead begins before the one in front of it has ended.
        let busy = report.ended.since(report.began.max(self.counted));
        self.counted = report.ended;
        self.status
            .tell(&EngineEvent::Step(StepFigures::ar(&report, busy)));
        self.deliver(report);
    }

    pub(super) fn settle(&self) {
        // Only what was aborted since the last step makes a difference, and only the end of all of it can be told here.
        if self.live.is_empty() {
            self.status.tell(&EngineEvent::Idle);
        }
    }

    pub(super) fn end_all(&mut self, end: &End) {
        let now = self.clock.now();
        for (seq, timeline) in self.leaving.drain() {
            self.status.done(seq, timeline.end(EndReason::Abort, None, now));
        }
        for (seq, mut sequence) in self.live.drain() {
            let timeline = sequence.context().timeline;
            self.status.done(seq, timeline.end(EndReason::Error, None, now));
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
                        sequence.context().residency.lost();
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
        let context = sequence.context();
        self.status.tell(&context.timeline.output(until));
        context.progress.step(from, until, 1);
        context.residency.worked();
        if sequence.put(output) {
            engine.set_paused(seq, true);
        }
    }

    fn finished(&mut self, seq: SeqId, reason: FinishReason, record: SeqRecord) {
        let mut sequence = self.live.remove(&seq);
        let timeline = match &mut sequence {
            Some(sequence) => Some(sequence.context().timeline),
            None => self.leaving.remove(&seq),
        };
        if let Some(timeline) = timeline {
            let now = self.clock.now();
            let end = timeline.end(EndReason::from(&reason), Some(record), now);
            self.status.done(seq, end);
        }
        if let Some(sequence) = sequence {
            sequence.end(finished(self.stage(), reason));
        }
    }
}
