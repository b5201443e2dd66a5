//! The two sides of a sequence in an engine: its inputs, its outputs, and its end. The same in every stage.

use std::time::Duration;

use omni_engine::{FinishReason, Stamp};

use super::flow::{EdgeFull, EdgeReceiver, EdgeSender, End, Recv};
use super::starvation::{StarvationTimer, stall};

/// Source of a sequence's items.
pub(super) struct Source<T> {
    /// None after the end.
    receiver: Option<Box<dyn EdgeReceiver<T>>>,
    starvation: StarvationTimer,
}

/// Demand of a sequence for items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// It has something to work on, or nothing more to expect.
    Nothing,
    /// It waits for a caller.
    Idle,
    /// The stage before it should have delivered; that begins now.
    Begins,
    /// The stage before it should have delivered, and still has not.
    Lasts,
}

impl<T> Source<T> {
    pub(super) fn new(receiver: Box<dyn EdgeReceiver<T>>) -> Self {
        Self {
            receiver: Some(receiver),
            starvation: StarvationTimer::default(),
        }
    }

    /// Takes the next item. After the end, which is returned once, it is always empty.
    pub(super) fn next(&mut self) -> Recv<T> {
        let Some(receiver) = &mut self.receiver else {
            return Recv::Empty;
        };
        let taken = receiver.take();
        if matches!(taken, Recv::End(_)) {
            self.receiver = None;
        }
        taken
    }

    /// Records if the sequence lacks items; `idle` if another item would let it continue.
    pub(super) fn observe(&mut self, idle: bool, now: Stamp) -> Want {
        let waits = self.receiver.as_ref().filter(|_| idle);
        let excused = waits.is_some_and(|receiver| receiver.is_upstream_idle());
        let dry = waits.is_some() && !excused;
        let begins = self.starvation.observe(dry, now);
        match (dry, excused) {
            (true, _) if begins => Want::Begins,
            (true, _) => Want::Lasts,
            (false, true) => Want::Idle,
            (false, false) => Want::Nothing,
        }
    }

    /// Time at which it will have lacked items for `patience`, if none comes before.
    pub(super) fn stalls_at(&self, patience: Duration) -> Option<Stamp> {
        self.starvation.over_at(patience)
    }

    /// End of a sequence of `stage` that has lacked items for `patience`; `None` if it has not.
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

/// Destination of a sequence's outputs. Dropping it closes the edge.
pub(super) struct Sink<T> {
    sender: Box<dyn EdgeSender<T>>,
    paused: bool,
    /// Set when an output was put without room, and is lost.
    overflowed: Option<EdgeFull<()>>,
}

impl<T> Sink<T> {
    pub(super) fn new(sender: Box<dyn EdgeSender<T>>) -> Self {
        Self {
            sender,
            paused: false,
            overflowed: None,
        }
    }

    /// Passes on an output. Returns true if there is no room for another: the sequence has to pause.
    pub(super) fn put(&mut self, item: T, units: u32) -> bool {
        if let Err(EdgeFull(_)) = self.sender.put(item, units) {
            self.overflowed = Some(EdgeFull(()));
        }
        let full = self.sender.room() == 0;
        self.paused |= full;
        full
    }

    /// Overflow that lost an output, so that the sequence cannot go on.
    pub(super) fn overflowed(&self) -> Option<&EdgeFull<()>> {
        self.overflowed.as_ref()
    }

    /// Units for which there is room.
    pub(super) fn room(&self) -> u32 {
        self.sender.room()
    }

    /// Returns true if the sequence was paused and may resume.
    pub(super) fn resumes(&mut self) -> bool {
        let resumes = self.paused && self.sender.room() > 0;
        self.paused &= !resumes;
        resumes
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Sets if the sequence waits for a caller ([`EdgeSender::set_idle`]).
    pub(super) fn set_idle(&mut self, waiting: bool) {
        self.sender.set_idle(waiting);
    }

    pub(super) fn end(self, end: End) {
        self.sender.end(end);
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

/// The end of a sequence of `stage` that its engine has ended.
pub(super) fn finished(stage: &'static str, reason: &FinishReason) -> End {
    match reason {
        FinishReason::Stop => End::Stop,
        FinishReason::Repetition => End::Repetition,
        FinishReason::Length => End::Length,
        FinishReason::Abort => failed(stage, "the sequence was given up"),
        FinishReason::Error(message) => failed(stage, message.clone()),
    }
}

/// Reason reported to observers for a sequence with such an end.
impl From<&End> for FinishReason {
    fn from(end: &End) -> Self {
        match end {
            End::Stop => Self::Stop,
            End::Length => Self::Length,
            End::Repetition => Self::Repetition,
            End::Rejected(message)
            | End::Overloaded(message)
            | End::Failed { message, .. }
            | End::Lost { message, .. }
            | End::Severed { message, .. } => Self::Error(message.clone()),
        }
    }
}
