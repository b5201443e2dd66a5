//! Whole responses on their way to their readers.
//!
//! A stream's unread output is bounded by its session. A whole response outlives its session: it is complete at once,
//! and drains at its reader's speed. Meanwhile it occupies a place of its own, of which there are as many as
//! sessions, reserved before the work begins. A reader that falls too far behind is disconnected, and the rest is
//! dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use omni_core::error::ServeError;
use omni_core::error::TooManySessions;
use omni_core::tasks::Tasks;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Time that a piece may take without using up patience, so that a reader of 64 KiB per second is never disconnected.
const PIECE_TIME: Duration = Duration::from_millis(250);
/// Bytes handed to the transport at once. They are copied, so that a piece in flight does not keep the rest in
/// memory.
const PIECE: usize = 16 << 10;

/// Gives places to whole answers. Copies are the same.
#[derive(Debug, Clone)]
pub struct BufferedResponses {
    places: Arc<Semaphore>,
    most: usize,
    patience: Duration,
    tasks: Arc<Tasks>,
    stop: CancellationToken,
}

/// The place of a whole answer; free again when the last copy is dropped. Until then the answer is one of the server's tasks:
/// a drain waits for the reader, too.
#[derive(Debug, Clone)]
pub struct ResponseSlot(
    #[expect(dead_code, reason = "it is held")] Arc<(OwnedSemaphorePermit, TaskTrackerToken)>,
);

impl BufferedResponses {
    /// At most `most` at once, whose readers may fall `patience` behind one that reads slowly. All are dropped at `stop`.
    pub fn new(most: usize, patience: Duration, tasks: Arc<Tasks>, stop: CancellationToken) -> Self {
        Self {
            places: Arc::new(Semaphore::new(most)),
            most,
            patience,
            tasks,
            stop,
        }
    }

    /// A place for a whole answer.
    pub fn reserve(&self) -> Result<ResponseSlot, ServeError> {
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let permit = permit.map_err(|_| TooManySessions { limit: self.most })?;
        Ok(ResponseSlot(Arc::new((permit, self.tasks.token()))))
    }

    /// The body of an answer that has a place.
    pub fn wrap<B>(&self, body: B, place: ResponseSlot) -> BufferedResponse<B>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
    {
        let contents = Contents {
            rest: Bytes::new(),
            due: Instant::now() + self.patience,
            patience: self.patience,
            body: Some((Box::pin(body), place)),
        };
        let shared = Arc::new(Shared {
            contents: Mutex::new(contents),
            over: Notify::new(),
        });
        self.tasks
            .spawn(look_after(Arc::clone(&shared), self.stop.clone()));
        BufferedResponse(shared)
    }
}

/// Drops the response when its reader is too slow.
async fn look_after<B>(shared: Arc<Shared<B>>, stop: CancellationToken) {
    loop {
        let due = shared.contents.lock().due;
        if due <= Instant::now() {
            break;
        }
        tokio::select! {
            () = shared.over.notified() => break,
            () = stop.cancelled() => break,
            () = tokio::time::sleep_until(due) => {}
        }
    }
    shared.clear();
}

#[derive(Debug)]
struct Shared<B> {
    contents: Mutex<Contents<B>>,
    /// Notified when the reader is gone.
    over: Notify,
}

#[derive(Debug)]
struct Contents<B> {
    /// The part that is not begun.
    body: Option<(Pin<Box<B>>, ResponseSlot)>,
    /// Rest of a response that has started.
    rest: Bytes,
    /// The time at which its reader is let go.
    due: Instant,
    /// Longest time to `due`.
    patience: Duration,
}

impl<B> Shared<B> {
    fn clear(&self) {
        let mut contents = self.contents.lock();
        contents.body = None;
        contents.rest = Bytes::new();
    }
}

/// A whole response in flight. An abandoned one ends early, which its reader notices by the content length or the
/// missing status.
#[derive(Debug)]
pub struct BufferedResponse<B>(Arc<Shared<B>>);

impl<B: HttpBody<Data = Bytes>> HttpBody for BufferedResponse<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut contents = self.0.contents.lock();
        let contents = &mut *contents;
        let Some((body, _)) = &mut contents.body else {
            return Poll::Ready(None);
        };
        contents.due = (contents.due + PIECE_TIME).min(Instant::now() + contents.patience);
        while contents.rest.is_empty() {
            match std::task::ready!(body.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => contents.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        }
        let length = contents.rest.len().min(PIECE);
        let piece = Bytes::copy_from_slice(&contents.rest[..length]);
        contents.rest.advance(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let contents = self.0.contents.lock();
        let body = contents.body.as_ref();
        contents.rest.is_empty() && body.is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let contents = self.0.contents.lock();
        match &contents.body {
            Some((body, _)) if contents.rest.is_empty() => body.size_hint(),
            _ => SizeHint::new(),
        }
    }
}

impl<B> Drop for BufferedResponse<B> {
    fn drop(&mut self) {
        self.0.clear();
        self.0.over.notify_one();
    }
}
