//! One sequence's place in its life, and what it may do next.
//!
//! ```text
//!            place                    blocks lost
//! Waiting ----------> Running -------------------------> Preempted
//!    |                 |   ^------------- place -------------|
//!    '-----------------+---> Finished <----------------------'
//! ```
//!
//! Whether it could run is a second question, answered by rows and consumer: [`Hold`]. A held sequence stays in its
//! phase.

use crate::ar::AddOptions;
use crate::ar::repetition::Tail;
use crate::content::Chain;
use crate::ids::{BlockId, SeqId, Stamp};
use crate::order::Arrival;
use crate::step::SeqRecord;

/// State of a live sequence. One that has finished is forgotten; its end is a
/// [`SeqEvent::Finished`](crate::SeqEvent::Finished).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeqState {
    /// Has never run and could: waits for a place or for KV blocks.
    Waiting,
    /// Has a place and takes part in steps.
    Running,
    /// Has lost its place, could run, and waits to be recomputed.
    Preempted,
    /// Lacks the row for its next output. It keeps its place, if it has one, until another needs it.
    WaitingForUpstream,
    /// Its consumer is full ([`set_paused`](crate::ArEngine::set_paused)). It keeps its place likewise.
    Paused,
}

/// Life cycle of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Has never had a place.
    Waiting,
    /// Has a place, and blocks.
    Running,
    /// Had a place, lost its blocks.
    Preempted,
    /// Over.
    Finished,
}

/// Reason why a sequence cannot run, with or without a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Its next output needs a row that has not come.
    Upstream,
    /// Its consumer is full.
    Consumer,
}

/// Content of a sequence as the prefix cache knows it.
#[derive(Debug)]
pub(super) enum Content {
    /// Not asked yet.
    Unknown,
    /// It never shares.
    Private,
    /// Hashes of its full blocks.
    Shared(Chain),
}

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: SeqId,
    pub(super) arrival: Arrival,
    pub(super) options: AddOptions,
    phase: Phase,
    /// `true` while it is queued for a place.
    pub(super) queued: bool,
    /// Step in which it was found unable to run, if it cannot and has a place.
    pub(super) held_since: Option<u64>,
    /// Number of its last decode turn; the order in which turns were taken.
    pub(super) served: u64,
    pub(super) waiting_since: Stamp,
    pub(super) blocks: Vec<BlockId>,
    pub(super) content: Content,
    /// Leading blocks that were shared or offered for sharing.
    pub(super) published: u32,
    /// Positions whose KV rows are in `blocks`, or will be when the steps in flight have ended.
    pub(super) computed: u32,
    /// Positions that can be computed: the prompt, and one per output.
    pub(super) known: u32,
    /// Outputs that its request brought.
    prior: u32,
    /// Outputs requested that have not come yet: one for each step in flight in which it is sampled.
    pub(super) asked: u32,
    pub(super) record: SeqRecord,
    pub(super) tail: Option<Tail>,
    paused: bool,
    rows: u32,
    rows_closed: bool,
}

impl Sequence {
    pub(super) fn new(
        id: SeqId,
        (prompt, prior): (u32, u32),
        options: AddOptions,
        arrival: Arrival,
        now: Stamp,
    ) -> Self {
        let record = SeqRecord {
            queued: now,
            prompt_tokens: prompt,
            ..SeqRecord::default()
        };
        Self {
            id,
            arrival,
            options,
            phase: Phase::Waiting,
            queued: false,
            held_since: None,
            served: 0,
            waiting_since: now,
            blocks: Vec::new(),
            content: Content::Unknown,
            published: 0,
            computed: 0,
            known: prompt + prior,
            prior,
            asked: 0,
            record,
            tail: options.repetition.map(Tail::new),
            paused: false,
            rows: 0,
            rows_closed: false,
        }
    }

    pub(super) fn receive(&mut self, rows: u32, last: bool) {
        debug_assert!(!self.rows_closed || rows == 0, "rows after the last");
        self.rows += rows;
        self.rows_closed |= last;
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Outputs so far, those that its request brought included.
    pub(super) fn outputs(&self) -> u32 {
        self.prior + self.record.outputs
    }

    /// Returns true once it has given `max_outputs` outputs.
    pub(super) fn is_full(&self) -> bool {
        self.outputs() >= self.options.max_outputs
    }

    /// Records one output: the next position becomes known.
    pub(super) fn emitted(&mut self, at: Stamp) {
        self.record.outputs += 1;
        self.record.first_output.get_or_insert(at);
        self.record.last_output = Some(at);
        self.known += 1;
    }

    /// Returns true if the next output needs a row that upstream has not sent yet.
    pub(super) fn lacks_row(&self) -> bool {
        self.lacks_row_for(self.outputs())
    }

    /// Output `n` (from 0) consumes row `n`.
    fn lacks_row_for(&self, output: u32) -> bool {
        let read = self.options.prompt_rows.saturating_add(output);
        self.options.needs_rows && !self.rows_closed && self.rows <= read
    }

    /// Returns true if it can go on after the outputs requested so far, unless one of them ends it.
    pub(super) fn goes_on(&self) -> bool {
        let next = self.outputs() + self.asked;
        next < self.options.max_outputs && !self.lacks_row_for(next)
    }

    /// Reason why it cannot be computed now, even with a place and blocks; `None` if it can.
    pub(super) fn hold(&self) -> Option<Hold> {
        match (self.lacks_row(), self.paused) {
            (true, _) => Some(Hold::Upstream),
            (false, true) => Some(Hold::Consumer),
            (false, false) => None,
        }
    }

    pub(super) fn is_runnable(&self) -> bool {
        self.hold().is_none()
    }

    pub(super) fn has_place(&self) -> bool {
        self.phase == Phase::Running
    }

    pub(super) fn has_run(&self) -> bool {
        self.record.scheduled.is_some()
    }

    pub(super) fn state(&self) -> SeqState {
        match (self.hold(), self.phase) {
            (Some(Hold::Upstream), _) => SeqState::WaitingForUpstream,
            (Some(Hold::Consumer), _) => SeqState::Paused,
            (None, Phase::Waiting) => SeqState::Waiting,
            (None, Phase::Running) => SeqState::Running,
            (None, Phase::Preempted) => SeqState::Preempted,
            (None, Phase::Finished) => unreachable!("finished sequences are forgotten"),
        }
    }

    pub(super) fn pending(&self) -> u32 {
        self.known - self.computed
    }

    /// Returns true if the next positions are a prompt (or its recomputation, or outputs that came with it) rather
    /// than a single decode.
    pub(super) fn in_prefill(&self) -> bool {
        self.pending() > 1 || self.record.outputs == 0
    }

    /// Takes a place; `cached` leading positions are in its blocks already.
    pub(super) fn start(&mut self, cached: u32, now: Stamp) {
        self.enter(Phase::Running);
        assert!(cached < self.known, "{:?} has nothing left to compute", self.id);
        self.computed = cached;
        self.record.scheduled.get_or_insert(now);
    }

    /// Loses its place; its blocks have been released.
    pub(super) fn preempt(&mut self, now: Stamp) {
        self.enter(Phase::Preempted);
        assert_eq!(self.asked, 0, "{:?} lost its place in a step", self.id);
        assert!(
            self.blocks.is_empty(),
            "{:?} lost its place but kept blocks",
            self.id
        );
        self.computed = 0;
        self.held_since = None;
        self.waiting_since = now;
        self.record.preemptions += 1;
    }

    /// Ends; its blocks have been released.
    pub(super) fn finish(&mut self, now: Stamp) {
        self.enter(Phase::Finished);
        assert!(self.blocks.is_empty(), "{:?} ended but kept blocks", self.id);
        self.record.finished = now;
    }

    /// Checks and makes every change of phase.
    fn enter(&mut self, next: Phase) {
        let allowed = match self.phase {
            Phase::Waiting | Phase::Preempted => matches!(next, Phase::Running | Phase::Finished),
            Phase::Running => matches!(next, Phase::Preempted | Phase::Finished),
            Phase::Finished => false,
        };
        assert!(
            allowed,
            "{:?} cannot go from {:?} to {next:?}",
            self.id, self.phase
        );
        assert!(!self.queued, "{:?} changes to {next:?} inside the queue", self.id);
        self.phase = next;
    }
}
