//! The two directions of one sequence on a connection.
//!
//! Flow control is by credit, in the units of the edges: a side sends items only while it has credit, and gets credit
//! as the sender at the other side has room. So the items in flight plus those held in that sender never exceed its
//! capacity (by more than one item, which may weigh more than the last of the credit): a slow reader pauses its own
//! sequence, and nothing accumulates in between.

use omni_engine::{SeqId, Stamp};
use omni_proto::stage::v1::frame::Body;
use omni_proto::stage::v1::{self as wire, Credit, Idle};

use super::link::{Link, LinkError};
use super::wire::{PeerClock, Received, WireError, item, payload, payload_of};
use crate::item::ItemKind;
use crate::stage::{EdgeFull, EdgeReceiver, EdgeSender, End, Recv, TransferStamps};

/// Initial credit of a new sequence: its first items go with the request.
pub(super) const OPEN_CREDIT: u32 = 32;

/// First items of a sequence, which are sent at once because a listener waits for the first sound.
const HEAD: u32 = 16;

/// Outbound items of a sequence.
pub(super) struct Sending {
    /// None if there is nothing to send.
    receiver: Option<Box<dyn EdgeReceiver>>,
    /// `true` once the end was taken from the receiver, which is kept for the transfers that are still to be
    /// measured.
    ended: bool,
    /// Credit: units that the other side has room for.
    credit: i64,
    number: u32,
    /// Idle state of upstream as the other side knows it: `true` if it waits for a caller.
    waits: bool,
    /// `true` if items behind the head may wait.
    gathers: bool,
}

/// Result of [`Sending::forward`].
#[derive(Debug, PartialEq)]
pub(super) enum Forwarded {
    /// There is nothing to send, or no room for it.
    Nothing,
    /// An item was queued.
    Item,
    /// The items have ended; the end was not sent.
    End(End),
    /// The writer of the items has dropped the work.
    Gone,
    /// An item cannot be sent.
    TooLong(WireError),
}

impl Sending {
    /// Items to a stage that was just given the sequence.
    pub(super) fn opening(receiver: Option<Box<dyn EdgeReceiver>>) -> Self {
        Self {
            receiver,
            ended: false,
            credit: i64::from(OPEN_CREDIT),
            number: 0,
            waits: false,
            gathers: false,
        }
    }

    /// Items from a stage, sent on credit. Those behind the head may wait for a moment, to be sent together.
    pub(super) fn answering(receiver: Box<dyn EdgeReceiver>) -> Self {
        Self {
            credit: 0,
            gathers: true,
            ..Self::opening(Some(receiver))
        }
    }

    /// Items to the next stage, by a link. Those behind the head may wait for a moment.
    pub(super) fn linked(receiver: Box<dyn EdgeReceiver>) -> Self {
        Self {
            gathers: true,
            ..Self::opening(Some(receiver))
        }
    }

    /// Adds `units` of credit.
    pub(super) fn credit(&mut self, units: u32) {
        self.credit += i64::from(units);
    }

    /// Drops the receiver: the other side wants no more.
    pub(super) fn close(&mut self) {
        self.receiver = None;
    }

    /// Returns true if its next items may wait for a moment.
    pub(super) fn is_patient(&self) -> bool {
        self.gathers && self.number >= HEAD
    }

    /// Records the arrival of an item at the other side.
    pub(super) fn transferred(&mut self, passage: &TransferStamps) {
        if let Some(receiver) = &mut self.receiver {
            receiver.transferred(passage);
        }
    }

    /// Tells the other side if upstream waits for a caller, when that changes.
    pub(super) fn tell_idle(&mut self, seq: SeqId, link: &mut Link) -> Result<(), WireError> {
        let waits = self
            .receiver
            .as_ref()
            .is_some_and(|receiver| receiver.is_upstream_idle());
        if waits != self.waits {
            self.waits = waits;
            link.say(seq, Body::Idle(Idle { idle: waits }))?;
        }
        Ok(())
    }

    /// Queues the next item, if there is one and credit for it.
    pub(super) fn forward(&mut self, seq: SeqId, link: &mut Link) -> Forwarded {
        let open = !self.ended && self.credit > 0;
        let Some(receiver) = self.receiver.as_mut().filter(|_| open) else {
            return Forwarded::Nothing;
        };
        let (taken, put) = receiver.take_timed();
        let item = match taken {
            Recv::Item(item) => item,
            Recv::Empty => return Forwarded::Nothing,
            Recv::Gone => return Forwarded::Gone,
            Recv::End(end) => {
                self.ended = true;
                return Forwarded::End(end);
            }
        };
        let units = item.units();
        let put = put.unwrap_or_else(|| link.now());
        let item = wire::Item {
            number: self.number,
            put: link.peer_clock().to_wire(put),
            payload: Some(payload(item)),
        };
        match link.say(seq, Body::Item(item)) {
            Ok(()) => {
                self.number = self.number.wrapping_add(1);
                self.credit -= i64::from(units);
                if self.gathers && self.number == HEAD {
                    receiver.gather();
                }
                Forwarded::Item
            }
            Err(error) => Forwarded::TooLong(error),
        }
    }
}

/// Most units that one item may weigh: far more than any chunk of a stage has frames.
const MAX_UNITS: u32 = 1 << 16;

/// Arrival of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    pub(super) seq: SeqId,
    pub(super) bytes: usize,
    /// Time of sending, by the sender's clock.
    pub(super) sent: i64,
    /// Time at which decoding it began.
    pub(super) began: Stamp,
    pub(super) clock: PeerClock,
}

impl Came {
    pub(super) fn of(frame: &Received, clock: PeerClock) -> Self {
        Self {
            seq: frame.seq,
            bytes: frame.bytes,
            sent: frame.sent,
            began: frame.began,
            clock,
        }
    }
}

/// Inbound items of a sequence.
pub(super) struct Receiving {
    sender: Option<Box<dyn EdgeSender>>,
    /// Kind of the items; none if none may come.
    kind: Option<ItemKind>,
    /// Credit that the other side has not used.
    granted: i64,
    number: u32,
}

impl Receiving {
    /// Outputs of a stage.
    pub(super) fn answer(sender: Box<dyn EdgeSender>, kind: Option<ItemKind>) -> Self {
        Self {
            sender: Some(sender),
            kind,
            granted: 0,
            number: 0,
        }
    }

    /// Inputs of a stage that was just given the sequence; the sender has room for [`OPEN_CREDIT`] units.
    pub(super) fn opened(sender: Box<dyn EdgeSender>, kind: Option<ItemKind>) -> Self {
        Self {
            granted: i64::from(OPEN_CREDIT),
            ..Self::answer(sender, kind)
        }
    }

    /// Inputs of a sequence whose items come by a link.
    pub(super) fn elsewhere() -> Self {
        Self {
            sender: None,
            kind: None,
            granted: 0,
            number: 0,
        }
    }

    /// Returns true if items come here and have not ended.
    pub(super) fn is_open(&self) -> bool {
        self.sender.is_some()
    }

    /// Returns true if the reader of the items is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.is_abandoned())
    }

    /// Passes on an item that was received; returns its arrival. An item after the end is an error.
    pub(super) fn item(
        &mut self,
        came: Came,
        message: wire::Item,
        now: Stamp,
    ) -> Result<TransferStamps, LinkError> {
        let number = self.number;
        let found = message.number;
        let tx_start = came.clock.to_local(message.put);
        let item = item(payload_of(message)?)?;
        if self.kind != Some(item.kind()) {
            let expected = self.kind.map_or("none: the stage takes no items", ItemKind::name);
            return Err(WireError::value("an item", item.kind().name(), expected).into());
        }
        let units = item.units();
        let offence = |what: String| Err(LinkError::Protocol(format!("sequence {}: {what}", came.seq.0)));
        if found != number {
            return offence(format!("item {found} came, expected item {number}"));
        }
        if units > MAX_UNITS {
            return offence(format!(
                "item {number} has {units} units, the limit is {MAX_UNITS}"
            ));
        }
        let Some(sender) = self.sender.as_mut() else {
            return offence(format!("item {number} came after the end"));
        };
        if self.granted <= 0 {
            return offence(format!("item {number} came without credit"));
        }
        self.granted -= i64::from(units);
        self.number = number.wrapping_add(1);
        let passage = TransferStamps {
            bytes: came.bytes as u64,
            tx_start,
            tx_end: came.clock.to_local(came.sent),
            rx_start: came.began,
            rx_end: now,
        };
        match sender.put_measured(item, units, &passage) {
            Ok(()) => Ok(passage),
            Err(EdgeFull(_)) => offence(format!("item {number} came without room for it")),
        }
    }

    /// Passes on if upstream waits for a caller.
    pub(super) fn set_idle(&mut self, waits: bool) {
        if let Some(sender) = &mut self.sender {
            sender.set_idle(waits);
        }
    }

    /// Passes on the end.
    pub(super) fn end(&mut self, end: End) {
        if let Some(sender) = self.sender.take() {
            sender.end(end);
        }
    }

    /// Grants room that became free, once it is half of the capacity: not with a frame for every item.
    pub(super) fn grant(&mut self, seq: SeqId, link: &mut Link) -> Result<(), WireError> {
        let Some(sender) = &self.sender else { return Ok(()) };
        let more = i64::from(sender.room()) - self.granted;
        if more <= 0 || more < self.granted {
            return Ok(());
        }
        let units = u32::try_from(more).unwrap_or(u32::MAX);
        self.granted += i64::from(units);
        link.say(seq, Body::Credit(Credit { units }))
    }
}
