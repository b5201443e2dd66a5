//! Traffic of a connection: whether something is open on it, since when nothing is, and its bytes on their way to hyper and back.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, oneshot};

use super::frames::Frames;

/// The work of a connection at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Requests are answered.
    Busy,
    /// The head of a request has begun to come, on HTTP/1.1.
    Head(Instant),
    /// Nothing is open.
    Idle(Instant),
    /// More was reset than a connection may.
    Flooded,
}

/// Facts of a connection, kept up to date by its bytes.
#[derive(Debug)]
pub(super) struct Traffic {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// On HTTP/2.
    frames: Option<Frames>,
    /// Requests on HTTP/1.1 whose body has not come in full, or whose answer is not over.
    requests: usize,
    /// True if bytes have come since the last of them.
    head: bool,
    since: Instant,
}

impl Standing {
    /// Since when nothing is open.
    pub(super) fn idle_since(self) -> Option<Instant> {
        match self {
            Self::Idle(since) => Some(since),
            _ => None,
        }
    }
}

impl State {
    fn standing(&self) -> Standing {
        let open = self.frames.as_ref().map_or(self.requests, Frames::open);
        if self.frames.as_ref().is_some_and(Frames::is_flooded) {
            return Standing::Flooded;
        }
        match open {
            0 if self.head && self.frames.is_none() => Standing::Head(self.since),
            0 => Standing::Idle(self.since),
            _ => Standing::Busy,
        }
    }
}

impl Traffic {
    pub(super) fn new(is_http2: bool) -> Self {
        let now = Instant::now();
        let state = State {
            frames: is_http2.then(|| Frames::new(now)),
            requests: 0,
            head: false,
            since: now,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// The work of the connection now.
    pub(super) fn standing(&self) -> Standing {
        self.state.lock().standing()
    }

    /// Resolves when [`Traffic::standing`] may have changed since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// True if a frame of HTTP/2 may be written to the connection, now that nothing else is.
    pub(super) fn may_write_frame(&self) -> bool {
        self.state.lock().frames.as_ref().is_some_and(Frames::may_write)
    }

    /// A request on HTTP/1.1 is open until the last copy of this is dropped.
    pub(super) fn open(self: &Arc<Self>) -> Option<OpenRequest> {
        let is_http1 = self.state.lock().frames.is_none();
        is_http1.then(|| {
            self.change(|state| {
                state.requests += 1;
                state.head = false;
            });
            OpenRequest(Arc::new(Closing(Arc::clone(self))))
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        let before = state.standing();
        change(&mut state);
        let after = state.standing();
        if std::mem::discriminant(&before) != std::mem::discriminant(&after) {
            state.since = Instant::now();
            self.changed.notify_one();
        }
    }

    fn received(&self, data: &[u8]) {
        self.change(|state| match &mut state.frames {
            Some(frames) => frames.received(data, Instant::now()),
            None => state.head = true,
        });
    }

    fn sent(&self, data: &[u8]) {
        self.change(|state| {
            if let Some(frames) = &mut state.frames {
                frames.sent(data, Instant::now());
            }
        });
    }
}

/// A request on HTTP/1.1.
#[derive(Debug, Clone)]
pub(super) struct OpenRequest(#[expect(dead_code, reason = "it is held")] Arc<Closing>);

#[derive(Debug)]
struct Closing(Arc<Traffic>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.requests -= 1;
            // Bytes that came behind the request's own are the next one's, and have their time from now on.
            state.head = false;
        });
    }
}

/// A stream that records its traffic. On drop it returns to its owner, so that a connection can be closed in order.
#[derive(Debug)]
pub(super) struct Watched<S> {
    /// Until it is dropped.
    stream: Option<S>,
    back: Option<oneshot::Sender<S>>,
    traffic: Arc<Traffic>,
}

impl<S: Unpin> Watched<S> {
    /// Observes `stream`, which is returned through the receiver on drop.
    pub(super) fn new(stream: S, traffic: Arc<Traffic>) -> (Self, oneshot::Receiver<S>) {
        let (back, comes_back) = oneshot::channel();
        let watched = Self {
            stream: Some(stream),
            back: Some(back),
            traffic,
        };
        (watched, comes_back)
    }

    fn stream(&mut self) -> io::Result<Pin<&mut S>> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        self.stream.as_mut().map(Pin::new).ok_or_else(gone)
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        if let Some((stream, back)) = self.stream.take().zip(self.back.take()) {
            // No task waits for the stream of a connection whose task was ended.
            let _ = back.send(stream);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.stream()?.poll_read(context, buffer);
        let data = &buffer.filled()[before..];
        if !data.is_empty() {
            self.traffic.received(data);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream()?.poll_write(context, bytes);
        if let Poll::Ready(Ok(length)) = written {
            self.traffic.sent(&bytes[..length]);
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream()?.poll_write_vectored(context, slices);
        if let Poll::Ready(Ok(mut length)) = written {
            for slice in slices {
                let part = length.min(slice.len());
                self.traffic.sent(&slice[..part]);
                length -= part;
            }
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
