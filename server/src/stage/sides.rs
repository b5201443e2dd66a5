//! The two sides of a sequence in an engine: what it takes in, what it gives out, and how it ends. The same in every stage.

use std::time::Duration;

use omni_engine::{AddError, FinishReason, ModelError, Stamp};

use super::flow::{End, Inlet, Outlet, Taken};
use super::starvation::{StarvationTimer, stall};

/// Where the items of a sequence come from.
pub(super) struct Source<T> {
    /// None after the end.
    inlet: Option<Box<dyn Inlet<T>>>,
    starvation: StarvationTimer,
}

/// What came of looking into a [`Source`].
pub(super) enum Next<T> {
    Item(T),
    /// There is nothing now; after the end, ever.
    Nothing,
    /// No more items will come. Said once.
    End(End),
    /// Whoever made the items has dropped the work.
    Gone,
}

/// Whether a sequence lacks items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// It has something to work on, or nothing more to expect.
    Nothing,
    /// A caller has not said more.
    Excused,
    /// The stage before it should have delivered, and this is when that began.
    Begins,
    /// The stage before it should have delivered for some time.
    Lasts,
}

impl<T> Source<T> {
    pub(super) fn new(inlet: Box<dyn Inlet<T>>) -> Self {
        Self {
            inlet: Some(inlet),
            starvation: StarvationTimer::default(),
        }
    }

    pub(super) fn next(&mut self) -> Next<T> {
        let Some(inlet) = &mut self.inlet else {
            return Next::Nothing;
        };
        match inlet.take() {
            Taken::Item(item) => Next::Item(item),
            Taken::Empty => Next::Nothing,
            Taken::Gone => Next::Gone,
            Taken::End(end) => {
                self.inlet = None;
                Next::End(end)
            }
        }
    }

    /// Notes whether the sequence lacks items; `idle` says that it could go on if there were one.
    pub(super) fn observe(&mut self, idle: bool, now: Stamp) -> Want {
        let waits = self.inlet.as_ref().filter(|_| idle);
        let excused = waits.is_some_and(|inlet| inlet.upstream_waits());
        let dry = waits.is_some() && !excused;
        let begins = self.starvation.observe(dry, now);
        match (dry, excused) {
            (true, _) if begins => Want::Begins,
            (true, _) => Want::Lasts,
            (false, true) => Want::Excused,
            (false, false) => Want::Nothing,
        }
    }

    /// When it has lacked items for `patience`, if none comes before.
    pub(super) fn stalls_at(&self, patience: Duration) -> Option<Stamp> {
        self.starvation.over_at(patience)
    }

    /// How a sequence of `stage` ends that has lacked items for `patience`, if this one has.
    pub(super) fn stalled(
        &self,
        upstream: &'static str,
        stage: &'static str,
        patience: Duration,
        now: Stamp,
    ) -> Option<End> {
        let over = self.stalls_at(patience).is_some_and(|at| at <= now);
        over.then(|| stall(upstream, stage, patience))
    }
}

/// Where the outputs of a sequence go. Dropping it closes the edge.
pub(super) struct Sink<T> {
    outlet: Box<dyn Outlet<T>>,
    paused: bool,
}

impl<T> Sink<T> {
    pub(super) fn new(outlet: Box<dyn Outlet<T>>) -> Self {
        Self {
            outlet,
            paused: false,
        }
    }

    /// Passes on an output. True if there is no room for another: the sequence has to pause.
    #[must_use]
    pub(super) fn put(&mut self, item: T, units: u32) -> bool {
        self.outlet.put(item, units);
        let full = !self.outlet.has_room();
        self.paused |= full;
        full
    }

    /// Whether there is room for two outputs that weigh one unit each.
    pub(super) fn has_room_for_two(&self) -> bool {
        self.outlet.room() >= 2
    }

    /// True if the sequence paused and may go on.
    #[must_use]
    pub(super) fn resumes(&mut self) -> bool {
        let resumes = self.paused && self.outlet.has_room();
        self.paused &= !resumes;
        resumes
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Says whether silence is a caller's ([`Outlet::set_waiting`]).
    pub(super) fn set_waiting(&mut self, waiting: bool) {
        self.outlet.set_waiting(waiting);
    }

    pub(super) fn end(self, end: End) {
        self.outlet.end(end);
    }
}

/// The end of a job for a replica whose model has died.
pub(super) fn lost(stage: &'static str) -> End {
    End::Lost {
        stage,
        message: "its model is being built anew".to_owned(),
    }
}

/// The end of a sequence that failed in `stage`.
pub(super) fn failed(stage: &'static str, message: impl Into<String>) -> End {
    End::Failed {
        stage,
        message: message.into(),
    }
}

/// The end of a sequence that an AR engine has finished.
pub(super) fn finished(stage: &'static str, reason: FinishReason) -> End {
    match reason {
        FinishReason::Stop => End::Stop,
        FinishReason::Repetition => End::Repetition,
        FinishReason::Length => End::Length,
        FinishReason::Abort => failed(stage, "the sequence was given up"),
        FinishReason::Error(message) => failed(stage, message),
    }
}

/// The end of a job that an AR engine does not take.
pub(super) fn refusal(stage: &'static str, error: &AddError) -> End {
    match error {
        AddError::QueueFull { .. } | AddError::QueueTokens { .. } => End::Overloaded(error.to_string()),
        AddError::TooLong { .. } | AddError::Model(ModelError::Rejected(_)) => {
            End::Rejected(error.to_string())
        }
        AddError::Duplicate(_) | AddError::NoOutputs(_) | AddError::Repetition(_) | AddError::Model(_) => {
            failed(stage, error.to_string())
        }
    }
}
