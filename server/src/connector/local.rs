//! The edge within one process: a channel, and a count of what is in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;

use crate::stage::{End, Inlet, Outlet, Taken, Wake};

/// An edge for `capacity` units. `writer` and `reader` are the bells of stages at the two ends; a session has none, it
/// awaits [`EdgeReader::next`].
pub fn edge<T: Send>(
    capacity: u32,
    writer: Option<Wake>,
    reader: Option<Wake>,
) -> (EdgeWriter<T>, EdgeReader<T>) {
    // An item weighs at least one unit and is put only if there is room: that many slots, and one for the end.
    let (sender, receiver) = mpsc::channel(capacity as usize + 1);
    let used = Arc::new(AtomicU32::new(0));
    let sending = EdgeWriter {
        channel: Some(sender),
        used: Arc::clone(&used),
        capacity,
        reader,
    };
    let receiving = EdgeReader {
        channel: receiver,
        used,
        capacity,
        writer,
    };
    (sending, receiving)
}

#[derive(Debug)]
enum Parcel<T> {
    Item { item: T, units: u32 },
    End(End),
}

/// The end that items are put into.
#[derive(Debug)]
pub struct EdgeWriter<T> {
    /// Taken when the writer goes.
    channel: Option<mpsc::Sender<Parcel<T>>>,
    used: Arc<AtomicU32>,
    capacity: u32,
    reader: Option<Wake>,
}

impl<T> EdgeWriter<T> {
    fn send(&self, parcel: Parcel<T>) {
        let Some(channel) = &self.channel else { return };
        match channel.try_send(parcel) {
            // A reader that is gone has cancelled; the stage learns that from the flag.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => unreachable!("put without room"),
        }
        self.ring();
    }

    fn ring(&self) {
        if let Some(reader) = &self.reader {
            reader.ring();
        }
    }
}

impl<T> EdgeWriter<T> {
    /// Whether the reader is gone: what is put from now on is lost.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.channel.as_ref().is_none_or(mpsc::Sender::is_closed)
    }
}

impl<T: Send> Outlet<T> for EdgeWriter<T> {
    fn has_room(&self) -> bool {
        self.used.load(Ordering::Acquire) < self.capacity
    }

    fn put(&mut self, item: T, units: u32) {
        debug_assert!(units > 0 && self.has_room(), "put of {units} units without room");
        self.used.fetch_add(units, Ordering::AcqRel);
        self.send(Parcel::Item { item, units });
    }

    fn end(self: Box<Self>, end: End) {
        self.send(Parcel::End(end));
    }
}

impl<T> Drop for EdgeWriter<T> {
    fn drop(&mut self) {
        // A reader woken by this must find the channel closed, so it is closed before the bell rings.
        drop(self.channel.take());
        self.ring();
    }
}

/// The end that items are taken from.
#[derive(Debug)]
pub struct EdgeReader<T> {
    channel: mpsc::Receiver<Parcel<T>>,
    used: Arc<AtomicU32>,
    capacity: u32,
    writer: Option<Wake>,
}

impl<T> EdgeReader<T> {
    /// Waits for the next item or the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Taken<T> {
        let parcel = self.channel.recv().await;
        self.open(parcel)
    }

    fn open(&mut self, parcel: Option<Parcel<T>>) -> Taken<T> {
        match parcel {
            None => Taken::Gone,
            Some(Parcel::End(end)) => Taken::End(end),
            Some(Parcel::Item { item, units }) => {
                let before = self.used.fetch_sub(units, Ordering::AcqRel);
                let half = self.capacity / 2;
                if before > half && before - units <= half {
                    self.ring();
                }
                Taken::Item(item)
            }
        }
    }

    fn ring(&self) {
        if let Some(writer) = &self.writer {
            writer.ring();
        }
    }
}

impl<T: Send> Inlet<T> for EdgeReader<T> {
    fn take(&mut self) -> Taken<T> {
        match self.channel.try_recv() {
            Ok(parcel) => self.open(Some(parcel)),
            Err(mpsc::error::TryRecvError::Empty) => Taken::Empty,
            Err(mpsc::error::TryRecvError::Disconnected) => self.open(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_in_units_and_comes_back_when_items_are_taken() {
        let (mut writer, mut reader) = edge::<&str>(4, None, None);
        writer.put("a", 3);
        assert!(writer.has_room());
        writer.put("b", 3);
        assert!(!writer.has_room());
        assert_eq!(reader.take(), Taken::Item("a"));
        assert!(writer.has_room());
        assert_eq!(reader.take(), Taken::Item("b"));
        assert_eq!(reader.take(), Taken::Empty);
    }

    #[test]
    fn a_full_edge_still_takes_the_end() {
        let (mut writer, mut reader) = edge::<u8>(2, None, None);
        writer.put(1, 1);
        writer.put(2, 1);
        Box::new(writer).end(End::Length);
        assert_eq!(reader.take(), Taken::Item(1));
        assert_eq!(reader.take(), Taken::Item(2));
        assert_eq!(reader.take(), Taken::End(End::Length));
        assert_eq!(reader.take(), Taken::Gone);
    }

    #[test]
    fn a_writer_that_goes_without_an_end_is_noticed() {
        let (writer, mut reader) = edge::<u8>(2, None, None);
        drop(writer);
        assert_eq!(reader.take(), Taken::Gone);
    }

    #[test]
    fn putting_into_an_abandoned_edge_is_harmless() {
        let (mut writer, reader) = edge::<u8>(1, None, None);
        assert!(!writer.is_abandoned());
        drop(reader);
        assert!(writer.is_abandoned());
        writer.put(1, 1);
        Box::new(writer).end(End::Stop);
    }
}
