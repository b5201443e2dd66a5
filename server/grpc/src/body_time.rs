//! Slow-loris protection: a message that has begun must arrive in time. A call's only message is awaited from the
//! first moment, and must fit into the budget of all of them, packed and unpacked. Between the messages of a stream,
//! sessions have timeouts of their own.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use omni_core::error::ServeError;
use omni_transport::BodyBudget;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{BoxError, Service};

use super::calls::Frames;
use super::serve::MESSAGE_ENCODING;
use super::status::status;
use super::unpacked::Unpacked;

/// Least rate, in bytes per second, of a message that takes longer than its time.
const LEAST_RATE: f64 = 4096.0;

/// Timeout of messages. Clones share the list of methods.
#[derive(Debug, Clone)]
pub(super) struct BodyTime {
    time: Duration,
    bodies: BodyBudget,
    /// Largest message, in bytes.
    most: usize,
    /// Paths of methods with one request message.
    whole: Arc<HashSet<String>>,
}

impl BodyTime {
    /// Creates the timeout for these paths.
    pub(super) fn new(time: Duration, bodies: BodyBudget, most: usize, whole: HashSet<String>) -> Self {
        Self {
            time,
            bodies,
            most,
            whole: Arc::new(whole),
        }
    }

    /// The same for messages of at most `most` bytes.
    pub(super) fn with_most(&self, most: usize) -> Self {
        Self { most, ..self.clone() }
    }

    pub(super) fn layer<S>(&self, inner: S) -> Timely<S> {
        Timely {
            inner,
            body_time: self.clone(),
        }
    }
}

/// A service whose requests must arrive in time.
#[derive(Debug, Clone)]
pub(super) struct Timely<S> {
    inner: S,
    body_time: BodyTime,
}

impl<S: NamedService> NamedService for Timely<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Timely<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        let BodyTime {
            time,
            bodies,
            most,
            whole,
        } = &self.body_time;
        let pace = Pace::new(*time);
        if !whole.contains(request.uri().path()) {
            let streamed = |body| {
                Body::new(Timed {
                    body,
                    unpacked: None,
                    pace,
                })
            };
            return self.inner.call(request.map(streamed));
        }
        let packed = request.headers().contains_key(MESSAGE_ENCODING);
        let request = bodies.count(request);
        let hold = request.extensions().get().filter(|_| packed).cloned();
        let unpacked = hold.map(|hold| Unpacked::new(hold, *most));
        let request = request.map(|body| {
            Body::new(Timed {
                body: Body::new(body.map_err(refused)),
                unpacked,
                pace: pace.awaited(),
            })
        });
        self.inner.call(request)
    }
}

/// Status for tonic when the budget has no room.
fn refused(error: BoxError) -> Status {
    match error.downcast::<ServeError>() {
        Ok(error) => status(&error),
        Err(error) => Status::from_error(error),
    }
}

/// Timer of a message. Each must arrive in full within a time from its first byte; a message that is too large for
/// that at the least rate has more time.
struct Pace {
    time: Duration,
    frames: Frames,
    /// Start of the wait for the rest of a message, and its bytes so far.
    within: Option<(Instant, usize)>,
    /// `true` if the body has one message, and ends with it.
    whole: bool,
    late: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn new(time: Duration) -> Self {
        Self {
            time,
            frames: Frames::default(),
            within: None,
            whole: false,
            late: None,
        }
    }

    /// Starts the timer for the only message of a body.
    fn awaited(mut self) -> Self {
        self.within = Some((Instant::now(), 0));
        self.whole = true;
        self
    }

    /// Counts bytes.
    fn came(&mut self, data: &[u8]) {
        let ended = self.frames.messages(data) > 0 && !self.whole;
        let begun = self.within.filter(|_| !ended);
        self.within = (self.whole || self.frames.is_within()).then(|| {
            let (since, bytes) = begun.unwrap_or_else(|| (Instant::now(), 0));
            (since, bytes + data.len())
        });
    }

    /// Time at which an incomplete message is too late.
    fn deadline(&self) -> Option<Instant> {
        let (since, bytes) = self.within?;
        let more = Duration::from_secs_f64(bytes as f64 / LEAST_RATE);
        Some(since + self.time + more)
    }

    /// Resolves at that time.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let Some(deadline) = self.deadline() else {
            return Poll::Pending;
        };
        let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if late.deadline() != deadline {
            late.as_mut().reset(deadline);
        }
        late.as_mut().poll(context).map(|()| {
            let time = self.time;
            Status::deadline_exceeded(format!("the request did not come in full within {time:?}"))
        })
    }
}

/// A body whose messages must arrive in time.
struct Timed {
    body: Body,
    /// Set where messages are compressed.
    unpacked: Option<Unpacked>,
    pace: Pace,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            return self.pace.poll_late(context).map(|late| Some(Err(late)));
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.pace.came(data);
            if let Some(unpacked) = &mut self.unpacked
                && let Err(error) = unpacked.pass(data)
            {
                return Poll::Ready(Some(Err(status(&error))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    fn pace() -> (Pace, Instant) {
        (Pace::new(TIME), Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_drips_is_late_and_a_stream_between_messages_never() {
        let (mut pace, begun) = pace();
        assert_eq!(pace.deadline(), None);
        pace.came(&[0, 0, 0, 0, 200, 1]);
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(1)).await;
            pace.came(&[1]);
        }
        assert!(pace.deadline().expect("one is awaited") < begun + TIME + Duration::from_secs(1));
        pace.came(&[1; 99]);
        assert_eq!(pace.deadline(), None, "it has come");
        tokio::time::advance(TIME * 9).await;
        pace.came(&[0, 0, 0, 0, 0, 0]);
        assert_eq!(
            pace.deadline(),
            Some(Instant::now() + TIME + Duration::from_secs_f64(6.0 / LEAST_RATE))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_message_on_a_slow_link_is_in_time() {
        let (mut pace, _) = pace();
        let size: u32 = 1 << 20;
        pace.came(&[&[0][..], &size.to_be_bytes()].concat());
        for _ in 0..128 {
            // 64 kbit/s.
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(pace.deadline().expect("one is awaited") > Instant::now());
            pace.came(&[0; 8 << 10]);
        }
        assert_eq!(pace.deadline(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_request_is_awaited_before_its_first_byte() {
        let (pace, begun) = pace();
        assert_eq!(pace.awaited().deadline(), Some(begun + TIME));
    }
}
