//! WebSockets: upgrading HTTP/1.1 requests, and messages within limits.
//!
//! In: the head of a request, and what to do with the connection. Out: an answer of 101. The connection stays a joined task with
//! its place among the connections: a handler that accepts a WebSocket leaves its work to the task that served the request ([`Upgrades`]). Messages
//! have a longest size, and a peer that is silent is asked whether it is still there.
//!
//! Both directions go on at once: messages are put in line and written while others are read ([`WebSocket::next`]), so that a peer whose
//! link is full is still heard. Audio waits for its turn ([`WebSocket::takes_audio`]) and can be taken back until it is written.

mod lead;
mod line;
mod outgoing;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use omni_core::id::{current_request, in_request};
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message as WsMessage, Utf8Bytes};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::lead::Lead;
use self::line::{InLine, Line};
use self::outgoing::Outgoing;

/// The version of RFC 6455.
const VERSION: &str = "13";
/// Bytes that are read at once.
const READ_BUFFER: usize = 8 << 10;
/// Most bytes of messages that wait to be written: the longest message of the server, and its frames' heads.
const WRITE_BUFFER: usize = 8 << 20;
/// Prefix of a subprotocol that is an API key: pages can send no headers, and OpenAI's clients send their key so.
const KEY_PROTOCOL: &str = "openai-insecure-api-key.";
/// Longest reason of a close frame, in bytes (RFC 6455, section 5.5).
const MAX_REASON: usize = 123;

/// Takes from a request what its connection becomes; among its extensions.
#[derive(Clone, derive_more::Debug)]
#[debug("Upgrades")]
pub(crate) struct Upgrades {
    work: mpsc::Sender<BoxFuture<'static, ()>>,
    closing: CancellationToken,
}

impl Upgrades {
    /// For one connection, which `closing` tells to end; upgraded connections come out of the receiver.
    pub(super) fn new(closing: CancellationToken) -> (Self, mpsc::Receiver<BoxFuture<'static, ()>>) {
        let (work, becomes) = mpsc::channel(1);
        (Self { work, closing }, becomes)
    }
}

/// The reason that a request cannot become a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("the request is no WebSocket upgrade, expected GET on HTTP/1.1 with upgrade: websocket")]
    NoUpgrade,
    #[error("unsupported version of WebSocket, expected sec-websocket-version: 13")]
    Version,
    #[error("the only subprotocol offered is an API key, expected another one beside it")]
    OnlyKey,
}

/// Bounds of a WebSocket.
#[derive(Debug, Clone, Copy)]
pub struct WebSocketLimits {
    /// Longest message of the peer, in bytes.
    pub message_bytes: usize,
    /// Silence after which a ping is sent.
    pub keepalive: Duration,
    /// It has this long to answer.
    pub keepalive_timeout: Duration,
    /// Longest time that the peer may take for one message.
    pub stall_timeout: Duration,
}

/// A request that asks to become a WebSocket.
pub struct Handshake {
    accept: HeaderValue,
    protocol: Option<HeaderValue>,
    on_upgrade: OnUpgrade,
    upgrades: Upgrades,
}

impl Handshake {
    /// The upgrade that the head of a request asks for.
    pub fn of(head: &mut Parts) -> Result<Self, HandshakeError> {
        let headers = &head.headers;
        let asks = head.method == Method::GET
            && head.version == Version::HTTP_11
            && lists(headers, &CONNECTION, "upgrade")
            && lists(headers, &UPGRADE, "websocket");
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| asks);
        let accept = key.map(|key| derive_accept_key(key.as_bytes()));
        let accept = accept.and_then(|accept| HeaderValue::try_from(accept).ok());
        let accept = accept.ok_or(HandshakeError::NoUpgrade)?;
        if headers
            .get(SEC_WEBSOCKET_VERSION)
            .is_none_or(|version| version != VERSION)
        {
            return Err(HandshakeError::Version);
        }
        let protocol = chosen(headers)?;
        let on_upgrade = head.extensions.remove::<OnUpgrade>();
        let upgrades = head.extensions.get::<Upgrades>().cloned();
        let (on_upgrade, upgrades) = on_upgrade.zip(upgrades).ok_or(HandshakeError::NoUpgrade)?;
        Ok(Self {
            accept,
            protocol,
            on_upgrade,
            upgrades,
        })
    }

    /// The answer; `serve` has the connection when that is out.
    pub fn accept<F>(
        self,
        limits: WebSocketLimits,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let on_upgrade = self.on_upgrade;
        let closing = self.upgrades.closing.clone();
        let work = async move {
            match on_upgrade.await {
                Ok(upgraded) => serve(WebSocket::new(upgraded, limits, closing).await).await,
                Err(error) => tracing::debug!(%error, "WebSocket upgrade failed"),
            }
        };
        let work = work.in_current_span();
        let work: BoxFuture<'static, ()> = match current_request() {
            Some(name) => Box::pin(in_request(name, work)),
            None => Box::pin(work),
        };
        let mut response = Response::new(Body::empty());
        if self.upgrades.work.try_send(work).is_err() {
            // A connection is served one request after the other, so there is room.
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            return response;
        }
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = self.protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

/// True if a header that is a list has this in it, in any case.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    listed(headers, name).any(|word| word.eq_ignore_ascii_case(wanted))
}

fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The API key among the subprotocols.
pub fn key_protocol(headers: &HeaderMap) -> Option<&str> {
    listed(headers, &SEC_WEBSOCKET_PROTOCOL).find_map(|protocol| protocol.strip_prefix(KEY_PROTOCOL))
}

/// The first subprotocol that is no key: a browser that offers some takes no answer without one.
fn chosen(headers: &HeaderMap) -> Result<Option<HeaderValue>, HandshakeError> {
    let mut offered = listed(headers, &SEC_WEBSOCKET_PROTOCOL).peekable();
    if offered.peek().is_none() {
        return Ok(None);
    }
    let plain = offered.find(|protocol| !protocol.is_empty() && !protocol.starts_with(KEY_PROTOCOL));
    let plain = plain.and_then(|protocol| HeaderValue::from_str(protocol).ok());
    plain.map(Some).ok_or(HandshakeError::OnlyKey)
}

/// A message of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Text(String),
    Binary(Bytes),
}

/// The reason that nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The peer is gone, or answers nothing, or does not read.
    Gone,
    /// A message has more bytes than are allowed.
    TooLong,
    /// The bytes are no WebSocket's, or no text.
    Invalid,
}

/// A connection that has become a WebSocket.
pub struct WebSocket {
    stream: WebSocketStream<Outgoing<TokioIo<Upgraded>>>,
    limits: WebSocketLimits,
    closing: CancellationToken,
    line: Line,
    /// Lead of written audio over the peer.
    lead: Lead,
    /// The time at which the peer last said something.
    heard: Instant,
    /// Ping to a silent peer in progress.
    asked: Option<Asked>,
    /// Nothing of the peer's is unread.
    is_read: bool,
    /// A message of the peer was refused, and is not read to its end.
    refused: bool,
}

#[derive(Debug, Clone, Copy)]
enum Asked {
    /// The ping is queued.
    Soon,
    /// It was written at this time.
    At(Instant),
}

/// Result of reading and writing.
enum Turned {
    Message(Message),
    /// There is room that there was not.
    Room,
    /// The peer has said goodbye.
    Closed,
}

impl WebSocket {
    async fn new(upgraded: Upgraded, limits: WebSocketLimits, closing: CancellationToken) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits.message_bytes))
            .max_frame_size(Some(limits.message_bytes))
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE_BUFFER);
        let stream = Outgoing::new(TokioIo::new(upgraded));
        Self {
            stream: WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await,
            limits,
            closing,
            line: Line::default(),
            lead: Lead::default(),
            heard: Instant::now(),
            asked: None,
            is_read: false,
            refused: false,
        }
    }

    /// Cancelled when the port closes.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Queues a text message.
    pub fn send_text(&mut self, text: String) {
        self.line.put(WsMessage::Text(text.into()), None);
    }

    /// Queues audio of playing time `time`.
    pub fn send_audio(&mut self, message: Message, time: Duration) {
        let message = match message {
            Message::Text(text) => WsMessage::Text(text.into()),
            Message::Binary(bytes) => WsMessage::Binary(bytes),
        };
        self.line.put(message, Some(time));
    }

    /// True if more audio may be queued: the previous one is written, and the peer is not too far behind.
    pub fn takes_audio(&self) -> bool {
        // A pong may be behind unread messages of the peer.
        let behind = self.is_read && self.lead.is_far(Instant::now());
        !behind && !self.line.has_audio()
    }

    /// True if more messages caused by the peer may be queued.
    pub fn takes_more(&self) -> bool {
        self.line.has_room()
    }

    /// Removes unwritten audio from the queue.
    pub fn drop_audio(&mut self) {
        self.line.drop_audio();
    }

    /// Writes the queue and, if it `reads`, waits for the next message. Returns none once [audio](Self::takes_audio)
    /// or [more messages](Self::takes_more) can be queued again. Cancel-safe.
    pub async fn next(&mut self, reads: bool) -> Result<Option<Message>, Ended> {
        // From the caller's view: reading no more may itself make room.
        let before = [self.takes_audio(), self.takes_more()];
        self.is_read &= reads;
        loop {
            let due = self.due(reads);
            let turned = tokio::select! {
                biased;
                turned = poll_fn(|context| self.turn(reads, before, context)) => turned?,
                () = sleep_until(due) => {
                    self.is_late(reads)?;
                    continue;
                }
            };
            return match turned {
                Turned::Message(message) => Ok(Some(message)),
                Turned::Room => Ok(None),
                Turned::Closed => {
                    // The library sends its own close frame with the next read.
                    let _ = timeout(LINGER, self.stream.next()).await;
                    Err(Ended::Gone)
                }
            };
        }
    }

    /// The time at which something is late, or at the latest that at which there is room by itself.
    fn due(&self, reads: bool) -> Instant {
        let stalled = self.stream.get_ref().waits_since();
        let stalled = stalled.map(|since| since + self.limits.stall_timeout);
        // Counted from the ping: a session that reads nothing for a while must not take that time from the peer's.
        let silent = match self.asked {
            None => Some(self.heard + self.limits.keepalive),
            Some(Asked::Soon) => None,
            Some(Asked::At(at)) => Some(at + self.limits.keepalive_timeout),
        };
        let silent = silent.filter(|_| reads);
        let dues = [stalled, silent, self.lead.given_up_at()];
        let due = dues.into_iter().flatten().min();
        due.unwrap_or_else(|| Instant::now() + self.limits.keepalive)
    }

    fn is_late(&mut self, reads: bool) -> Result<(), Ended> {
        let now = Instant::now();
        let stalled = self.stream.get_ref().waits_since();
        if stalled.is_some_and(|since| since + self.limits.stall_timeout <= now) {
            return Err(Ended::Gone);
        }
        self.lead.give_up(now);
        match self.asked {
            None if reads && self.heard + self.limits.keepalive <= now => {
                self.asked = Some(Asked::Soon);
                self.line.put(WsMessage::Ping(Bytes::new()), None);
            }
            Some(Asked::At(at)) if reads && at + self.limits.keepalive_timeout <= now => {
                return Err(Ended::Gone);
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads and writes as far as possible without waiting.
    fn turn(
        &mut self,
        reads: bool,
        before: [bool; 2],
        context: &mut Context<'_>,
    ) -> Poll<Result<Turned, Ended>> {
        loop {
            let _ = self.poll_write(context)?;
            let read = if reads {
                self.poll_read(context)?
            } else {
                Poll::Pending
            };
            match read {
                Poll::Ready(Some(turned)) => return Poll::Ready(Ok(turned)),
                // It may have to be answered.
                Poll::Ready(None) => {}
                Poll::Pending => break,
            }
        }
        self.is_read |= reads;
        let now = [self.takes_audio(), self.takes_more()];
        if now.into_iter().zip(before).any(|(now, before)| now && !before) {
            Poll::Ready(Ok(Turned::Room))
        } else {
            Poll::Pending
        }
    }

    /// Writes the queue; ready when all of it has left the process.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, Ended> {
        let gone = |_| Ended::Gone;
        loop {
            if self.stream.poll_ready_unpin(context).map_err(gone)?.is_pending() {
                return Ok(Poll::Pending);
            }
            let Some(InLine { message, plays }) = self.line.take() else {
                let flushed = self.stream.poll_flush_unpin(context).map_err(gone)?;
                if flushed.is_ready() {
                    self.stream.get_mut().is_done();
                }
                return Ok(flushed);
            };
            let now = Instant::now();
            if matches!(&message, WsMessage::Ping(payload) if payload.is_empty()) {
                self.asked = Some(Asked::At(now));
            }
            if let Some(number) = plays.and_then(|time| self.lead.wrote(time, now)) {
                self.line
                    .put_first(WsMessage::Ping(Bytes::copy_from_slice(&number)));
            }
            self.stream.get_mut().begins(now);
            self.stream.start_send_unpin(message).map_err(gone)?;
        }
    }

    /// Reads; ready with nothing if it was no message.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<Poll<Option<Turned>>, Ended> {
        let Poll::Ready(read) = self.stream.poll_next_unpin(context) else {
            return Ok(Poll::Pending);
        };
        self.heard = Instant::now();
        self.asked = None;
        let turned = match read {
            Some(Ok(WsMessage::Text(text))) => Turned::Message(Message::Text(text.as_str().to_owned())),
            Some(Ok(WsMessage::Binary(bytes))) => Turned::Message(Message::Binary(bytes)),
            Some(Ok(WsMessage::Pong(payload))) => {
                self.lead.answered(&payload, self.heard);
                return Ok(Poll::Ready(None));
            }
            // The library answers pings at the next read or write.
            Some(Ok(WsMessage::Ping(_) | WsMessage::Frame(_))) => return Ok(Poll::Ready(None)),
            Some(Ok(WsMessage::Close(_))) => Turned::Closed,
            None => return Err(Ended::Gone),
            Some(Err(error)) => {
                self.refused = true;
                return Err(ended(&error));
            }
        };
        Ok(Poll::Ready(Some(turned)))
    }

    /// Writes the whole queue, as long as the peer keeps reading.
    async fn drain(&mut self) -> Result<(), Ended> {
        loop {
            let since = self.stream.get_ref().waits_since();
            let late = since.unwrap_or_else(Instant::now) + self.limits.stall_timeout;
            let written = timeout_at(
                late,
                poll_fn(|context| match self.poll_write(context) {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
                    Err(ended) => Poll::Ready(Err(ended)),
                }),
            );
            match written.await {
                Ok(written) => return written,
                Err(_) if self.stream.get_ref().waits_since() == since => return Err(Ended::Gone),
                Err(_) => {}
            }
        }
    }

    /// Closes with an RFC 6455 code and a reason, after the queue, and waits briefly for the peer's answer.
    pub async fn close(mut self, code: u16, reason: &str) {
        let end = (0..=MAX_REASON.min(reason.len()))
            .rev()
            .find(|end| reason.is_char_boundary(*end));
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: Utf8Bytes::from(&reason[..end.unwrap_or_default()]),
        };
        if self.drain().await.is_err() {
            return;
        }
        let agreed = async {
            if self.stream.close(Some(frame)).await.is_ok() {
                while let Some(Ok(_)) = self.stream.next().await {}
            }
            // Closing over unread bytes resets the connection, and the peer would lose the last messages.
            let mut unread = [0; 4096];
            while self.refused && matches!(self.stream.get_mut().read(&mut unread).await, Ok(1..)) {}
        };
        let _ = timeout(LINGER, agreed).await;
    }
}

/// Time in which a peer may agree to an end.
const LINGER: Duration = Duration::from_secs(1);

fn ended(error: &WsError) -> Ended {
    match error {
        WsError::Capacity(CapacityError::MessageTooLong { .. }) => Ended::TooLong,
        // The connection ended without a close: nothing was said wrong.
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Ended::Gone,
        WsError::Protocol(_) | WsError::Utf8(_) | WsError::Capacity(_) => Ended::Invalid,
        _ => Ended::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(protocols: &[&str]) -> HeaderMap {
        let values = protocols.iter().map(|protocol| protocol.parse().unwrap());
        values.map(|value| (SEC_WEBSOCKET_PROTOCOL, value)).collect()
    }

    #[test]
    fn a_key_is_found_among_subprotocols_and_is_never_the_one_that_is_chosen() {
        for (offered, key, answered) in [
            (&[][..], None, Ok(None)),
            (&["speech"], None, Ok(Some("speech"))),
            (
                &["realtime, openai-insecure-api-key.k1"],
                Some("k1"),
                Ok(Some("realtime")),
            ),
            (
                &["openai-insecure-api-key.k1", "speech"],
                Some("k1"),
                Ok(Some("speech")),
            ),
            (
                &["openai-insecure-api-key.k1"],
                Some("k1"),
                Err(HandshakeError::OnlyKey),
            ),
        ] {
            let headers = offering(offered);
            assert_eq!(key_protocol(&headers), key, "{offered:?}");
            let answered = answered.map(|one| one.map(HeaderValue::from_static));
            assert_eq!(chosen(&headers), answered, "{offered:?}");
        }
    }

    #[test]
    fn a_plain_request_is_no_handshake() {
        let mut head = http::Request::new(()).into_parts().0;
        assert_eq!(Handshake::of(&mut head).err(), Some(HandshakeError::NoUpgrade));
        head.headers
            .insert(CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        head.headers.insert(UPGRADE, "WebSocket".parse().unwrap());
        head.headers.insert(SEC_WEBSOCKET_KEY, "AAAA".parse().unwrap());
        assert_eq!(Handshake::of(&mut head).err(), Some(HandshakeError::Version));
    }
}
