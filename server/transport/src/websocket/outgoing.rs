//! Output of a WebSocket, with the time since when its peer reads nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Fewer bytes are no progress: a peer that takes them one by one is as good as gone.
const PROGRESS: usize = 1 << 10;

/// A stream that records since when a write is blocked.
#[derive(Debug)]
pub(super) struct Outgoing<S> {
    stream: S,
    since: Option<Instant>,
    /// Bytes since then.
    taken: usize,
}

impl<S> Outgoing<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            since: None,
            taken: 0,
        }
    }

    /// A message begins to be written; everything before it is.
    pub(super) fn begins(&mut self, now: Instant) {
        (self.since, self.taken) = (Some(now), 0);
    }

    /// Everything is written.
    pub(super) fn is_done(&mut self) {
        self.since = None;
    }

    /// Since when the peer has taken nothing, if there is something for it.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.since
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Outgoing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Outgoing<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(bytes)) = written
            && self.since.is_some()
        {
            self.taken += bytes;
            if self.taken >= PROGRESS {
                self.begins(Instant::now());
            }
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
