//! One connection, from its first request to its end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::header::CONNECTION;
use http::{HeaderName, HeaderValue, Request, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use omni_config::ConnectionLimits;
use omni_core::error::ServeError;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tower::ServiceExt as _;

use super::frames::go_away;
use super::leftover::{Leftover, RequestBody, swallow};
use super::limiter::Place;
use super::traffic::{Standing, Traffic, Watched};
use super::{Opened, Shared};
use crate::forwarded::{self, CalledAs, Connected};
use crate::hosts::is_probe;
use crate::refusal::refusal;
use crate::websocket::Upgrades;

/// Time for which nothing must be open before a connection that is to end does.
const QUIET: Duration = Duration::from_secs(1);
/// Time and bytes for a peer to continue after an end.
const LINGER: Duration = Duration::from_secs(1);
const LAST_BYTES: u64 = 8 << 20;
/// A code of RFC 9113, section 7.
const ENHANCE_YOUR_CALM: u32 = 11;
const FLOODED: &str = "more calls were reset than one connection may reset in a second";
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const GRPC_PROBES: &str = "/grpc.health.v1.Health/";

/// Facts of a connection that is served.
struct Served {
    shared: Arc<Shared>,
    traffic: Arc<Traffic>,
    connected: Connected,
    /// The reason why nothing but probes is answered.
    refused: Option<ServeError>,
    upgrades: Upgrades,
    left: mpsc::Sender<Leftover>,
}

impl Served {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let proxies = &self.shared.port.proxies;
        let (mut head, body) = request.into_parts();
        let called = CalledAs::of(proxies, &self.connected, &head);
        let caller = forwarded::caller(proxies, self.connected.nearest, &head.headers);
        head.extensions.insert(called);
        head.extensions.insert(caller);
        head.extensions.insert(self.upgrades.clone());
        let version = head.version;
        let open = self.traffic.open();
        let body = RequestBody::new(body, &head, open.clone(), self.left.clone());
        let refused = self
            .refused
            .as_ref()
            .filter(|_| !is_answered_always(head.uri.path()));
        let answer = match refused {
            Some(error) => refusal(error, &head.headers),
            None => {
                let request = Request::from_parts(head, Body::new(body));
                let answer = self.shared.service.clone().oneshot(request).await;
                answer.unwrap_or_else(|never| match never {})
            }
        };
        // Its request is open as long as there is something of the answer.
        let mut answer = answer.map(|body| {
            Body::new(body.map_err(move |error| {
                let _open = &open;
                error
            }))
        });
        if version == Version::HTTP_11 {
            self.say_how_long(&mut answer);
        }
        Ok(answer)
    }

    /// Announces the connection's remaining time, unless it is upgraded, so that client pools do not reuse a
    /// connection about to be closed.
    fn say_how_long(&self, answer: &mut Response) {
        if answer.headers().contains_key(CONNECTION) {
            return;
        }
        let port = &self.shared.port;
        let last = self.refused.is_some() || port.phases.is_leaving();
        let seconds = port.limits.idle_time.as_secs();
        let stays = HeaderValue::try_from(format!("timeout={seconds}"));
        match stays {
            Ok(stays) if !last => answer.headers_mut().insert(KEEP_ALIVE, stays),
            _ => answer
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close")),
        };
    }
}

/// True for paths that are answered on a connection beyond the bounds, too.
fn is_answered_always(path: &str) -> bool {
    is_probe(path) || path.starts_with(GRPC_PROBES)
}

/// The way of a connection to its end.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// It takes requests.
    Open,
    /// It takes requests, and ends when there have been none for a moment.
    Leaving(Instant),
    /// The peer has been told to go away.
    Closing(Instant),
}

impl Phase {
    /// The time at which the next step to its end is due, if nothing happens until then.
    fn next_step(self, standing: Standing, is_http2: bool, limits: &ConnectionLimits) -> Option<Instant> {
        match (self, standing) {
            (_, Standing::Busy | Standing::Flooded) => None,
            (Self::Open, Standing::Idle(_)) if is_http2 => None,
            (Self::Open, Standing::Idle(since)) => Some(since + limits.idle_time),
            (Self::Open | Self::Leaving(_), Standing::Head(since)) => Some(since + limits.request_time),
            (Self::Leaving(at) | Self::Closing(at), Standing::Idle(since) | Standing::Head(since)) => {
                Some(since.max(at) + QUIET)
            }
        }
    }

    fn is_closing(self) -> bool {
        matches!(self, Self::Closing(_))
    }
}

impl Shared {
    /// Serves a connection until it ends. One without a place is refused: nothing but probes is answered, and soon it ends.
    pub(super) async fn talk(self: &Arc<Self>, opened: Opened, place: Result<&Place, ServeError>) {
        let Opened {
            stream, connected, ..
        } = opened;
        let is_http2 = stream.is_http2();
        let (place, refused) = match place {
            Ok(place) => (Some(place), None),
            Err(error) => (None, Some(error)),
        };
        let told = refused.as_ref().map(|error| error.message().to_owned());
        let traffic = Arc::new(Traffic::new(is_http2));
        let (upgrades, mut becomes) = Upgrades::new(self.closing.clone());
        let (left, mut leftovers) = mpsc::channel(self.port.limits.streams as usize);
        let (stream, comes_back) = Watched::new(stream, Arc::clone(&traffic));
        let served = Arc::new(Served {
            shared: Arc::clone(self),
            traffic: Arc::clone(&traffic),
            connected,
            refused,
            upgrades,
            left,
        });
        let service = service_fn(move |request| {
            let served = Arc::clone(&served);
            async move { served.answer(request).await }
        });
        let mut why = None;
        {
            let phases = &self.port.phases;
            let mut phase = if told.is_some() || phases.is_draining() {
                Phase::Leaving(Instant::now())
            } else {
                Phase::Open
            };
            let mut connection = pin!(
                self.http
                    .serve_connection_with_upgrades(TokioIo::new(stream), service)
            );
            let mut patience = pin!(tokio::time::sleep(self.port.limits.opening_time));
            let mut swallowing = FuturesUnordered::new();
            loop {
                let standing = traffic.standing();
                if let Some(place) = place {
                    place.idle(standing.idle_since());
                }
                if standing == Standing::Flooded {
                    why = Some(FLOODED.to_owned());
                    break;
                }
                let next = phase.next_step(standing, is_http2, &self.port.limits);
                let was = phase;
                tokio::select! {
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            tracing::debug!(peer = %connected.nearest, error = &*error, "connection failed");
                        }
                        break;
                    }
                    () = traffic.changed() => {}
                    Some(left) = leftovers.recv() => swallowing.push(swallow(left, self.port.limits)),
                    Some(()) = swallowing.next(), if !swallowing.is_empty() => {}
                    () = self.closing.cancelled(), if !phase.is_closing() => phase = Phase::Closing(Instant::now()),
                    () = phases.draining(), if matches!(phase, Phase::Open) => phase = match is_http2 {
                        true => Phase::Closing(Instant::now()),
                        // It cannot be said without closing: a request that is on its way would be lost.
                        false => Phase::Leaving(Instant::now()),
                    },
                    () = has_to_go(place), if !phase.is_closing() => phase = Phase::Closing(Instant::now()),
                    () = &mut patience, if told.is_some() => {
                        why = told;
                        break;
                    }
                    () = at(next) => {
                        if phase.is_closing() || told.is_some() {
                            why = told;
                            break;
                        }
                        phase = Phase::Closing(Instant::now());
                    }
                }
                if phase.is_closing() && !was.is_closing() {
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
        if let Some(place) = place {
            place.idle(None);
        }
        if let Ok(work) = becomes.try_recv() {
            work.await;
        }
        let Ok(stream) = comes_back.await else { return };
        let is_idle = traffic.standing().idle_since().is_some();
        if self.closing.is_cancelled() && is_idle && why.is_none() {
            return;
        }
        let why = why.filter(|_| traffic.may_write_frame());
        let last = why.map(|why| go_away(ENHANCE_YOUR_CALM, 0, &why));
        farewell(stream, &last.unwrap_or_default()).await;
    }
}

/// Resolves when the place of a connection is given to another one.
async fn has_to_go(place: Option<&Place>) {
    match place {
        Some(place) => place.is_over().await,
        None => std::future::pending().await,
    }
}

/// Resolves at this time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends the last bytes and lets the peer read them: closing over unread input would reset the connection.
pub(super) async fn farewell<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, last: &[u8]) {
    let ended = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LAST_BYTES), &mut tokio::io::sink()).await
    };
    // A peer that does not read it has no use for it.
    let _ = tokio::time::timeout(LINGER, ended).await;
}
