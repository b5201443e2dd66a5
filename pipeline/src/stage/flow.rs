//! The edges at the two sides of a stage, as the stage uses them.

use std::time::Duration;

use omni_engine::Stamp;

use crate::item::Item;

/// Transfer of one chunk, by the machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferStamps {
    /// Encoded size; within one process, size of its content in memory.
    pub bytes: u64,
    /// The writer begins to hand it over.
    pub tx_start: Stamp,
    /// The writer has handed it over.
    pub tx_end: Stamp,
    /// The reader begins to take it.
    pub rx_start: Stamp,
    /// The reader has it.
    pub rx_end: Stamp,
}

impl TransferStamps {
    /// Time in flight; within one process it includes the wait for the reader.
    pub fn in_flight(&self) -> Duration {
        self.rx_start.since(self.tx_end)
    }
}

/// End of a flow of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The model ended.
    Stop,
    /// A limit was reached.
    Length,
    /// The model repeated itself.
    Repetition,
    /// The model cannot serve this request; its content is at fault.
    Rejected(String),
    /// The stage had no room for it.
    Overloaded(String),
    /// A stage failed.
    Failed {
        /// Name of the stage.
        stage: &'static str,
        /// Error message.
        message: String,
    },
    /// The replica that worked on it died. Another one may succeed.
    Lost {
        /// Name of the stage.
        stage: &'static str,
        /// Error message.
        message: String,
    },
    /// The link from the stage that gives the items has broken; the stage itself may be alive. The sequence can
    /// continue elsewhere, or on another way.
    Severed {
        /// Name of the stage that gives the items.
        stage: &'static str,
        /// Error message.
        message: String,
    },
}

/// Error of an edge without room, with the item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an item was put into a full edge")]
pub struct EdgeFull<T = Item>(pub T);

/// Writing end of an edge, for the outputs of one sequence. Never blocks.
pub trait EdgeSender<T = Item>: Send {
    /// Units of the edge's capacity that are free. A stage puts an item only if there are some.
    fn room(&self) -> u32;

    /// Passes on an item that weighs `units` of the edge's capacity (for example its codec frames).
    ///
    /// # Errors
    /// The item, if there is no room.
    fn put(&mut self, item: T, units: u32) -> Result<(), EdgeFull<T>>;

    /// Passes on an item that was put into an edge of another process, and whose passage was measured.
    ///
    /// # Errors
    /// The item, if there is no room.
    fn put_measured(&mut self, item: T, units: u32, passage: &TransferStamps) -> Result<(), EdgeFull<T>>;

    /// Sets if this side delivers nothing for a good reason: a caller has sent no more, or others take all its room.
    /// Idle time is not a stall. Notifies the other side of a change.
    fn set_idle(&mut self, waiting: bool);

    /// Returns true if the other side is gone: further items are lost.
    fn is_abandoned(&self) -> bool;

    /// Ends the items. Dropping a sender without this means that the work was cancelled.
    fn end(self: Box<Self>, end: End);
}

/// Result of a take from a receiver.
#[derive(Debug, PartialEq, Eq)]
pub enum Recv<T> {
    /// An item.
    Item(T),
    /// Nothing now.
    Empty,
    /// No more items will come.
    End(End),
    /// The other side is gone without an end: the work was cancelled.
    Gone,
}

/// Reading end of an edge, for the inputs of one sequence. Never blocks; further items notify the stage
/// ([`Notifier`](super::Notifier)).
pub trait EdgeReceiver<T = Item>: Send {
    /// The next item.
    fn take(&mut self) -> Recv<T>;

    /// Takes the next item, for a reader that carries it to another process and measures its transfer; with the time
    /// at which it was put, on an edge that measures.
    fn take_timed(&mut self) -> (Recv<T>, Option<Stamp>);

    /// Records the transfer of an item that was [taken with its time](Self::take_timed).
    fn transferred(&mut self, passage: &TransferStamps);

    /// Batches items from now on: they only send hints to the reader ([`Notifier`](super::Notifier)).
    fn gather(&mut self) {}

    /// Returns true if the other side waits for a caller ([`EdgeSender::set_idle`]).
    fn is_upstream_idle(&self) -> bool;
}
