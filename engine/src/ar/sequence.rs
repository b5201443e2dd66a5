//! One sequence's place in its life: waiting, running, preempted; and what it may do next.

use crate::ar::AddOptions;
use crate::ids::{BlockId, Stamp};

/// Where a sequence is. Finished sequences are forgotten, so there is no such state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Has never run.
    Waiting,
    /// Holds KV blocks.
    Running,
    /// Ran, lost its blocks, waits to be recomputed.
    Preempted,
}

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) state: State,
    pub(super) options: AddOptions,
    /// Order of arrival, for choosing the youngest.
    pub(super) arrival: u64,
    pub(super) queued_at: Stamp,
    pub(super) blocks: Vec<BlockId>,
    /// Positions whose KV rows are in `blocks`.
    pub(super) computed: u32,
    /// Positions that can be computed: the prompt, and one per output.
    pub(super) known: u32,
    pub(super) outputs: u32,
    pub(super) paused: bool,
    rows: u32,
    rows_closed: bool,
}

impl Sequence {
    pub(super) fn new(prompt: u32, options: AddOptions, arrival: u64, queued_at: Stamp) -> Self {
        Self {
            state: State::Waiting,
            options,
            arrival,
            queued_at,
            blocks: Vec::new(),
            computed: 0,
            known: prompt,
            outputs: 0,
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

    /// Books one output: the next position becomes known.
    pub(super) fn emitted(&mut self) {
        self.outputs += 1;
        self.known += 1;
    }

    /// Whether the next output needs a row that upstream has not sent yet. Output `n` (from 0) consumes row `n`.
    pub(super) fn lacks_row(&self) -> bool {
        self.options.needs_rows && !self.rows_closed && self.rows <= self.outputs
    }

    /// Whether it could be computed now, given a place and blocks.
    pub(super) fn is_runnable(&self) -> bool {
        !self.paused && !self.lacks_row()
    }

    pub(super) fn pending(&self) -> u32 {
        self.known - self.computed
    }

    /// Whether the next positions are a prompt (or the recomputation of one) and not a single decode.
    pub(super) fn in_prefill(&self) -> bool {
        self.pending() > 1 || self.outputs == 0
    }

    pub(super) fn start(&mut self) {
        debug_assert!(
            matches!(self.state, State::Waiting | State::Preempted),
            "{:?}",
            self.state
        );
        self.state = State::Running;
    }

    pub(super) fn preempt(&mut self, now: Stamp) {
        debug_assert_eq!(self.state, State::Running);
        debug_assert!(self.blocks.is_empty(), "blocks are released first");
        self.state = State::Preempted;
        self.computed = 0;
        self.queued_at = now;
    }
}
