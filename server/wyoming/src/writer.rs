//! The events of the server on their way to a peer.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::{Instant, timeout_at};

use super::connection::End;
use super::speech::Reply;
use super::wire::encoded;

/// Queued bytes beyond which the peer is not read: it could request more.
const ROOM: usize = 64 << 10;

/// Writes events, one behind the other, while something else is waited for.
pub(super) struct Writer {
    pub(super) stream: OwnedWriteHalf,
    line: BytesMut,
    /// The time at which the peer last took something.
    since: Instant,
    /// Time for which it may take nothing.
    patience: Duration,
}

impl Writer {
    pub(super) fn new(stream: OwnedWriteHalf, patience: Duration) -> Self {
        Self {
            stream,
            line: BytesMut::new(),
            since: Instant::now(),
            patience,
        }
    }

    /// Queues an event.
    pub(super) fn put(&mut self, reply: &Reply) {
        if self.is_done() {
            self.since = Instant::now();
        }
        let event = encoded(reply.kind, &reply.data, &reply.payload);
        self.line.extend_from_slice(&event);
    }

    /// True if the queue is empty.
    pub(super) fn is_done(&self) -> bool {
        !self.line.has_remaining()
    }

    /// True if there is room for answers to the peer.
    pub(super) fn has_room(&self) -> bool {
        self.line.len() < ROOM
    }

    /// Writes part of the queue. Cancel-safe.
    pub(super) async fn write(&mut self) -> Result<(), End> {
        let late = self.since + self.patience;
        match timeout_at(late, self.stream.write_buf(&mut self.line)).await {
            Ok(Ok(1..)) => {
                self.since = Instant::now();
                Ok(())
            }
            _ => Err(End::Gone),
        }
    }
}
