//! The edge within one process: a channel, and a count of its units.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use omni_engine::Stamp;
use tokio::sync::mpsc;

use super::meter::{EdgeMeter, EdgeRecord};
use crate::clock::Clock;
use crate::item::Item;
use crate::stage::{EdgeFull, EdgeReceiver, EdgeSender, End, Notifier, Recv, TransferStamps};

/// Creates an edge for `capacity` units. `writer` and `reader` are the notifiers of stages at the two ends; a session
/// has none, it awaits [`EdgeReader::next`].
pub fn edge<T: Send>(
    capacity: u32,
    writer: Option<Notifier>,
    reader: Option<Notifier>,
) -> (EdgeWriter<T>, EdgeReader<T>) {
    // An item weighs at least one unit and is put only if there is room: that many slots, and one for the end.
    let (sender, receiver) = mpsc::channel(capacity as usize + 1);
    let shared = Arc::new(Shared {
        writer: writer.map(OnceLock::from).unwrap_or_default(),
        ..Shared::default()
    });
    let sending = EdgeWriter {
        channel: Some(sender),
        shared: Arc::clone(&shared),
        capacity,
        reader,
        scale: None,
    };
    let receiving = EdgeReader {
        channel: receiver,
        shared,
        capacity,
        meter: None,
    };
    (sending, receiving)
}

/// Creates an [`edge`] that measures its items.
pub fn metered_edge(
    capacity: u32,
    writer: Option<Notifier>,
    reader: Option<Notifier>,
    meter: EdgeMeter,
) -> (EdgeWriter, EdgeReader) {
    let (mut sending, receiving) = edge(capacity, writer, reader);
    sending.scale = Some((meter.clock, Item::bytes));
    (sending, receiving.measured_by(meter))
}

/// Creates an [`edge`] whose reader measures its items, and needs the time at which they were put.
pub(super) fn stamped_edge(
    capacity: u32,
    writer: Option<Notifier>,
    reader: Option<Notifier>,
    clock: Clock,
) -> (EdgeWriter, EdgeReader) {
    let (mut sending, receiving) = edge(capacity, writer, reader);
    sending.scale = Some((clock, |_| 0));
    (sending, receiving)
}

fn nanos(at: Stamp) -> u64 {
    u64::try_from(at.0.as_nanos()).unwrap_or(u64::MAX)
}

/// State shared by both ends.
#[derive(Debug, Default)]
struct Shared {
    /// Notified when there is room again, and when the reader is dropped; set once it is known which stage writes.
    writer: OnceLock<Notifier>,
    /// Units on the edge.
    used: AtomicU32,
    /// `true` while the writer is idle for want of a caller or of room.
    waits: AtomicBool,
    /// `true` if the reader batches items, so that their notifications are hints.
    gathers: AtomicBool,
    /// Number of times that the writer has become idle.
    idles: AtomicU32,
    /// On an edge that measures: nanoseconds in which writers found no room, and the start of the current such time
    /// (0: none).
    held: AtomicU64,
    full_since: AtomicU64,
}

#[derive(Debug)]
enum Envelope<T> {
    Item {
        item: T,
        units: u32,
        /// On an edge that measures.
        sent: Option<Sent>,
    },
    End(End),
}

/// Stamps of an item at the time when it is put.
#[derive(Debug)]
enum Sent {
    Now {
        bytes: u64,
        /// Start and end of the writer's hand-over.
        from: Stamp,
        until: Stamp,
    },
    Measured(TransferStamps),
}

/// The writing end of an edge.
#[derive(Debug)]
pub struct EdgeWriter<T = Item> {
    /// Taken when the writer is dropped.
    channel: Option<mpsc::Sender<Envelope<T>>>,
    shared: Arc<Shared>,
    capacity: u32,
    reader: Option<Notifier>,
    /// Measure of an item's size.
    scale: Option<Scale<T>>,
}

/// Clock, and the size of an item in bytes.
type Scale<T> = (Clock, fn(&T) -> u64);

impl<T> EdgeWriter<T> {
    fn notify(&self) {
        if let Some(reader) = &self.reader {
            reader.notify();
        }
    }
}

impl<T: Send> EdgeWriter<T> {
    /// Sends an item if there is room for it, and counts its units.
    fn send(&self, item: T, units: u32, sent: Option<Sent>) -> Result<(), EdgeFull<T>> {
        let Some(channel) = &self.channel else {
            return Ok(());
        };
        if !self.has_room() {
            return Err(EdgeFull(item));
        }
        match channel.try_reserve() {
            Ok(place) => {
                self.take_room(units);
                place.send(Envelope::Item { item, units, sent });
            }
            // A reader that is gone has cancelled; the stage learns that from the flag.
            Err(mpsc::error::TrySendError::Closed(())) => return Ok(()),
            Err(mpsc::error::TrySendError::Full(())) => return Err(EdgeFull(item)),
        }
        match &self.reader {
            Some(reader) if self.shared.gathers.load(Ordering::Acquire) => reader.hint(),
            _ => self.notify(),
        }
        Ok(())
    }

    /// Counts the units of an item that is sent now.
    fn take_room(&self, units: u32) {
        let used = self.shared.used.fetch_add(units, Ordering::AcqRel) + units;
        if used >= self.capacity
            && let Some((clock, _)) = &self.scale
        {
            let now = nanos(clock.now());
            self.shared.full_since.store(now.max(1), Ordering::Release);
            // The reader may have made room before the flag was set, and missed it.
            if self.shared.used.load(Ordering::Acquire) <= self.capacity / 2 {
                self.shared.full_since.store(0, Ordering::Release);
            }
        }
    }
}

impl<T> EdgeWriter<T> {
    /// Sets the notifier of the writer, unless another was set before.
    pub(super) fn woken_by(&self, writer: Notifier) {
        let _ = self.shared.writer.set(writer);
    }

    /// Returns true if the reader is gone: further items are lost.
    pub fn is_abandoned(&self) -> bool {
        self.channel.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Returns true if another item fits.
    pub fn has_room(&self) -> bool {
        self.shared.used.load(Ordering::Acquire) < self.capacity
    }
}

impl<T: Send> EdgeSender<T> for EdgeWriter<T> {
    fn room(&self) -> u32 {
        self.capacity
            .saturating_sub(self.shared.used.load(Ordering::Acquire))
    }

    fn put(&mut self, item: T, units: u32) -> Result<(), EdgeFull<T>> {
        let sent = self.scale.as_ref().map(|(clock, bytes)| {
            let from = clock.now();
            Sent::Now {
                bytes: bytes(&item),
                from,
                until: clock.now(),
            }
        });
        self.send(item, units, sent)
    }

    fn put_measured(&mut self, item: T, units: u32, passage: &TransferStamps) -> Result<(), EdgeFull<T>> {
        self.send(item, units, Some(Sent::Measured(*passage)))
    }

    fn set_idle(&mut self, waiting: bool) {
        if self.shared.waits.swap(waiting, Ordering::AcqRel) != waiting {
            self.shared.idles.fetch_add(u32::from(waiting), Ordering::AcqRel);
            self.notify();
        }
    }

    fn is_abandoned(&self) -> bool {
        Self::is_abandoned(self)
    }

    fn end(self: Box<Self>, end: End) {
        if let Some(channel) = &self.channel {
            // One slot of the channel is reserved for the end.
            let _ = channel.try_send(Envelope::End(end));
        }
        self.notify();
    }
}

impl<T> Drop for EdgeWriter<T> {
    fn drop(&mut self) {
        // A reader woken by the notifier must find the channel closed, so it is closed first.
        drop(self.channel.take());
        self.notify();
    }
}

/// The reading end of an edge.
#[derive(Debug)]
pub struct EdgeReader<T = Item> {
    channel: mpsc::Receiver<Envelope<T>>,
    shared: Arc<Shared>,
    capacity: u32,
    meter: Option<(EdgeMeter, EdgeRecord)>,
}

impl<T> EdgeReader<T> {
    /// Number of times that the writer has become idle ([`EdgeSender::set_idle`]).
    pub fn idles(&self) -> u32 {
        self.shared.idles.load(Ordering::Acquire)
    }

    /// Waits for the next item or the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Recv<T> {
        let envelope = self.channel.recv().await;
        self.open_and_measure(envelope)
    }

    fn try_next(&mut self) -> Option<Option<Envelope<T>>> {
        match self.channel.try_recv() {
            Ok(envelope) => Some(Some(envelope)),
            Err(mpsc::error::TryRecvError::Empty) => None,
            Err(mpsc::error::TryRecvError::Disconnected) => Some(None),
        }
    }

    fn open_and_measure(&mut self, envelope: Option<Envelope<T>>) -> Recv<T> {
        let Some(Envelope::Item { item, units, sent }) = envelope else {
            return self.open(envelope);
        };
        let from = self.meter.as_ref().map(|(meter, _)| meter.clock.now());
        let taken = self.open(Some(Envelope::Item {
            item,
            units,
            sent: None,
        }));
        if let Some((sent, from)) = sent.zip(from) {
            self.measure(&sent, from);
        }
        taken
    }

    fn open(&mut self, envelope: Option<Envelope<T>>) -> Recv<T> {
        match envelope {
            None => Recv::Gone,
            Some(Envelope::End(end)) => Recv::End(end),
            Some(Envelope::Item { item, units, .. }) => {
                let before = self.shared.used.fetch_sub(units, Ordering::AcqRel);
                let half = self.capacity / 2;
                if before > half && before - units <= half {
                    self.is_free();
                    self.notify();
                }
                Recv::Item(item)
            }
        }
    }

    /// Time until `now` in which the writer found no room. It then pauses until half of the edge is free.
    pub fn held(&self, now: Stamp) -> Duration {
        let held = self.shared.held.load(Ordering::Acquire);
        let open = match self.shared.full_since.load(Ordering::Acquire) {
            0 => 0,
            since => nanos(now).saturating_sub(since),
        };
        Duration::from_nanos(held + open)
    }

    fn is_free(&self) {
        let Some((meter, _)) = &self.meter else { return };
        let since = self.shared.full_since.swap(0, Ordering::AcqRel);
        if since > 0 {
            let held = nanos(meter.clock.now()).saturating_sub(since);
            self.shared.held.fetch_add(held, Ordering::AcqRel);
        }
    }

    /// Records the transfer of an item, which the reader began to take at `taken`.
    fn measure(&mut self, sent: &Sent, taken: Stamp) {
        let Some((meter, record)) = &mut self.meter else {
            return;
        };
        let passage = match *sent {
            Sent::Measured(passage) => passage,
            Sent::Now { bytes, from, until } => TransferStamps {
                bytes,
                tx_start: from,
                tx_end: until,
                rx_start: taken,
                rx_end: meter.clock.now(),
            },
        };
        record.add(&passage);
        meter.sink.chunk(&meter.hop, &passage);
    }

    fn notify(&self) {
        if let Some(writer) = self.shared.writer.get() {
            writer.notify();
        }
    }
}

impl EdgeReader {
    /// Measures all further items by `meter`.
    pub(super) fn measured_by(mut self, meter: EdgeMeter) -> Self {
        let record = EdgeRecord::new(meter.hop, meter.trace.clone());
        self.meter = Some((meter, record));
        self
    }
}

impl<T> Drop for EdgeReader<T> {
    fn drop(&mut self) {
        // A writer woken by this must find the reader gone.
        self.channel.close();
        self.notify();
        if let Some((meter, record)) = &self.meter
            && record.chunks > 0
        {
            meter.sink.closed(record);
        }
    }
}

impl<T: Send> EdgeReceiver<T> for EdgeReader<T> {
    fn take(&mut self) -> Recv<T> {
        match self.try_next() {
            Some(envelope) => self.open_and_measure(envelope),
            None => Recv::Empty,
        }
    }

    fn take_timed(&mut self) -> (Recv<T>, Option<Stamp>) {
        let Some(envelope) = self.try_next() else {
            return (Recv::Empty, None);
        };
        let put = match &envelope {
            Some(Envelope::Item {
                sent: Some(Sent::Now { from, .. }),
                ..
            }) => Some(*from),
            _ => None,
        };
        (self.open(envelope), put)
    }

    fn transferred(&mut self, passage: &TransferStamps) {
        self.measure(&Sent::Measured(*passage), passage.rx_start);
    }

    fn gather(&mut self) {
        self.shared.gathers.store(true, Ordering::Release);
    }

    fn is_upstream_idle(&self) -> bool {
        self.shared.waits.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
