//! Bodies that are not read to their end. A refused caller may still be sending: its data is read for a while and
//! dropped, so that it can read its answer. Closing an HTTP/1.1 connection over unread bytes resets it, and resetting
//! an HTTP/2 stream counts against its connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::EXPECT;
use http::request::Parts;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use omni_config::ConnectionLimits;
use tokio::sync::mpsc;

use super::traffic::OpenRequest;

/// An abandoned body, with its request if still open.
pub(super) type Leftover = (Incoming, Option<OpenRequest>);

/// A body of a request, which is handed on if it is dropped before its end.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// Until it is dropped.
    body: Option<Incoming>,
    open: Option<OpenRequest>,
    /// True if the caller waits to be asked for it, and was not.
    unasked: bool,
    left: mpsc::Sender<Leftover>,
}

impl RequestBody {
    pub(super) fn new(
        body: Incoming,
        head: &Parts,
        open: Option<OpenRequest>,
        left: mpsc::Sender<Leftover>,
    ) -> Self {
        Self {
            body: Some(body),
            open,
            unasked: head.headers.contains_key(EXPECT),
            left,
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        // A caller that was not asked for its body does not send it.
        let body = self
            .body
            .take()
            .filter(|body| !self.unasked && !body.is_end_stream());
        if let Some(body) = body {
            // Without room or connection the body is dropped.
            let _ = self.left.try_send((body, self.open.take()));
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.unasked = false;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = std::task::ready!(Pin::new(body).poll_frame(context));
        if matches!(frame, None | Some(Err(_))) {
            self.body = None;
            self.open = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

/// Reads the rest of a body, within limits.
pub(super) async fn swallow((mut body, open): Leftover, limits: ConnectionLimits) {
    let read = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > limits.leftover_bytes {
                break;
            }
        }
    };
    // One that sends for longer loses its connection, or its stream.
    let _ = tokio::time::timeout(limits.leftover_time, read).await;
    drop((body, open));
}
