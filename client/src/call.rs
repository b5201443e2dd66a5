//! The two directions of any call.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Response, Status, Streaming};

/// Messages that may wait to be sent; beyond that the sender waits.
const SEND_QUEUE: usize = 32;

/// The call accepts no more messages. Its events give the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionClosed;

/// A call that is being opened.
type Opening<T> = AbortOnDropHandle<Result<Response<Streaming<T>>, Status>>;

/// Its end tells the sending half that the receiving half is gone; nothing is ever sent.
pub(crate) type Hearing = oneshot::Sender<Infallible>;

/// The receiving direction. Its response headers may still be on their way.
#[derive(Debug)]
pub(crate) enum Call<T> {
    Opening(Opening<T>),
    Open(Box<Streaming<T>>),
    Ended,
}

impl<T: Send + 'static> Call<T> {
    /// Opens the call in a task of its own, so that it is on its way before its first message is awaited. Dropping it
    /// ends it.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub(crate) fn open(
        opening: impl Future<Output = Result<Response<Streaming<T>>, Status>> + Send + 'static,
    ) -> Self {
        Self::Opening(AbortOnDropHandle::new(tokio::spawn(opening)))
    }
}

impl<T> Stream for Call<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Self::Opening(opening) = &mut *self {
            let opened = ready!(Pin::new(opening).poll(context));
            match opened.unwrap_or_else(|error| Err(Status::internal(error.to_string()))) {
                Ok(response) => *self = Self::Open(Box::new(response.into_inner())),
                Err(status) => {
                    *self = Self::Ended;
                    return Poll::Ready(Some(Err(status)));
                }
            }
        }
        let Self::Open(stream) = &mut *self else {
            return Poll::Ready(None);
        };
        let message = ready!(Pin::new(&mut **stream).poll_next(context));
        if !matches!(message, Some(Ok(_))) {
            *self = Self::Ended;
        }
        Poll::Ready(message)
    }
}

/// Stream of requests for the transport: everything from the senders, until the last of them or the receiving half is
/// dropped.
///
/// The transport ends a call only when both of its directions are let go, so the sending one must not outlive the
/// other.
#[derive(Debug)]
pub(crate) struct Outgoing<T> {
    requests: mpsc::Receiver<T>,
    listener: oneshot::Receiver<Infallible>,
}

/// The sending direction, with its first message in it.
pub(crate) fn outgoing<T>(first: T) -> (mpsc::Sender<T>, Outgoing<T>, Hearing) {
    let (sender, requests) = mpsc::channel(SEND_QUEUE);
    let (hearing, listener) = oneshot::channel();
    let queued = sender.try_send(first);
    debug_assert!(queued.is_ok(), "a new queue has room and a receiver");
    (sender, Outgoing { requests, listener }, hearing)
}

impl<T> Stream for Outgoing<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.listener.is_terminated() || Pin::new(&mut self.listener).poll(context).is_ready() {
            self.requests.close();
            return Poll::Ready(None);
        }
        self.requests.poll_recv(context)
    }
}
