//! The port: which connections are accepted, and what one may take before its first request.
//!
//! In: the socket, certificates, a service. Out: connections that are served, each in a task of its own. A connection that has not
//! said anything yet has a time limit and is one of a bounded number; when there are too many of them, one of the address that has
//! most of them goes, so that silent connections do not lock others out. One that has spoken is one of a bounded number in all and per address. tonic's own
//! server has none of these bounds.

mod handshakes;
mod limiter;
mod peeked;
mod plaintext;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::Router;
use http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use omni_telemetry::{CertificateInstrument, Connected, ConnectionInstruments};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_stream::StreamExt as _;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tower::Service;

use self::handshakes::{HandshakeLimiter, HandshakePermit};
pub(crate) use self::limiter::ConnectionLimiter;
use self::limiter::Full;
use self::peeked::PeekedStream;
use self::plaintext::Plaintext;
use super::keys::Peer;
use super::websocket::Upgrades;
use crate::config::{ConnectionLimits, TlsFiles, TlsIdentity, subject};
use crate::reload::Reload;

/// Pause after an error that is not a connection's own, like a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// How long a peer whose handshake failed may go on, and with how many bytes.
const LINGER: Duration = Duration::from_secs(1);
const LAST_BYTES: u64 = 64 << 10;

/// What connections are encrypted with, read again when the files change.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Reload<TlsIdentity>>);

impl Tls {
    /// As the files say.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn new(files: &TlsFiles, expiry: CertificateInstrument) -> Result<Self, Vec<String>> {
        let (paths, files) = (files.paths(), files.clone());
        let read = move || {
            let identity = files.read()?;
            expiry.expires(identity.expires);
            if let Some(warning) = identity.warning(SystemTime::now()) {
                tracing::warn!(file = %files.certificate.display(), "{warning}");
            }
            Ok(identity)
        };
        Ok(Self(Arc::new(Reload::new("the TLS certificate", paths, read)?)))
    }

    /// What connections are encrypted with now.
    #[must_use]
    pub fn config(&self) -> Arc<tokio_rustls::rustls::ServerConfig> {
        Arc::clone(&self.0.current().config)
    }

    fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.current().config))
    }

    /// Looks at the files again and again, and says every day that they expire soon. Never ends.
    pub(crate) async fn follow(self) {
        let warned = async {
            loop {
                tokio::time::sleep(DAY).await;
                self.warn();
            }
        };
        tokio::join!(Arc::clone(&self.0).follow(), warned);
    }

    fn warn(&self) {
        if let Some(warning) = self.0.current().warning(SystemTime::now()) {
            tracing::warn!("{warning}");
        }
    }
}

/// A connection, encrypted or not, that has said something.
type Stream = PeekedStream<Either<TcpStream, Box<tokio_rustls::server::TlsStream<TcpStream>>>>;

/// The port, and what is known of its connections.
pub(crate) struct Listener {
    incoming: TcpIncoming,
    shared: Arc<Shared>,
}

struct Shared {
    tls: Option<Tls>,
    instruments: Arc<ConnectionInstruments>,
    limits: ConnectionLimits,
    openings: HandshakeLimiter,
    places: ConnectionLimiter,
    http: Builder<TokioExecutor>,
    service: Router,
    closing: CancellationToken,
    /// Whether plaintext where TLS is expected was logged.
    said_plaintext: AtomicBool,
}

impl Listener {
    pub(crate) fn new(
        listener: TcpListener,
        tls: Option<Tls>,
        limits: ConnectionLimits,
        instruments: Arc<ConnectionInstruments>,
        service: Router,
    ) -> Self {
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        // HTTP/2 has pings; without these a peer on HTTP/1.1 that was lost would stay for ever.
        let incoming = incoming.with_keepalive(Some(limits.keepalive));
        let shared = Arc::new(Shared {
            tls,
            instruments,
            openings: HandshakeLimiter::new(limits.openings),
            places: ConnectionLimiter::new(limits.connections, limits.per_peer),
            http: http(&limits),
            limits,
            service,
            closing: CancellationToken::new(),
            said_plaintext: AtomicBool::new(false),
        });
        Self { incoming, shared }
    }

    /// Serves until `shutdown` resolves and every connection has closed after it.
    pub(crate) async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { mut incoming, shared } = self;
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut failing = false;
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => joined(ended),
                accepted = incoming.next() => match accepted {
                    Some(Ok(stream)) => {
                        failing = false;
                        // Without an address it is gone already.
                        if let Ok(peer) = stream.peer_addr() {
                            let opening = shared.openings.enter(peer.ip());
                            connections.spawn(Arc::clone(&shared).connection(stream, peer, opening));
                        }
                    }
                    Some(Err(error)) if is_own(&error) => {}
                    Some(Err(error)) => {
                        if !std::mem::replace(&mut failing, true) {
                            tracing::error!(%error, "no connection can be accepted, trying again");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                    None => break,
                }
            }
        }
        // No more connections are accepted: the port is free for the next process.
        drop(incoming);
        shared.closing.cancel();
        while let Some(ended) = connections.join_next().await {
            joined(ended);
        }
    }
}

/// Tells a service where its calls come from, and lets them take their connection over.
#[derive(Debug, Clone)]
struct Placed<S> {
    peer: Peer,
    upgrades: Upgrades,
    service: S,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Placed<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.upgrades.clone());
        self.service.call(request)
    }
}

/// Whether an error is that of a connection which is gone already.
fn is_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

fn joined(ended: Result<(), tokio::task::JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("the task of a connection panicked");
    }
}

/// Every bound of HTTP is stated, none left to a default.
fn http(limits: &ConnectionLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request_time)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window)
        .max_frame_size(limits.frame_bytes)
        .max_header_list_size(limits.header_bytes)
        .max_send_buf_size(limits.send_buffer)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(limits.local_resets)
        .keep_alive_interval(limits.keepalive)
        .keep_alive_timeout(limits.keepalive_timeout);
    builder
}

impl Shared {
    /// A connection from its begin to its end.
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, opening: HandshakePermit) {
        let opened = self.opening(stream, peer, &opening).await;
        drop(opening);
        let Some((stream, principal)) = opened else { return };
        let place = match self.places.take(peer.ip()) {
            Ok(place) => place,
            Err(full) => {
                self.instruments.connected(full.connected());
                return refused(peer.ip(), &full);
            }
        };
        tracing::debug!(%peer, principal, "connection");
        let open = self.instruments.open();
        self.talk(stream, peer).await;
        drop((place, open));
    }

    /// Waits for the first words of a connection.
    async fn opening(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        opening: &HandshakePermit,
    ) -> Option<(Stream, Option<String>)> {
        let opened = tokio::time::timeout(self.limits.opening_time, self.open(stream, peer));
        let (what, problem) = tokio::select! {
            () = self.closing.cancelled() => return None,
            () = opening.is_over() => (Connected::CrowdedOut, "too many others are opening".to_owned()),
            opened = opened => match opened {
                Ok(Ok(opened)) => return Some(opened),
                Ok(Err((what, error))) => (what, error.to_string()),
                Err(_) => (Connected::Silent, "it said nothing in time".to_owned()),
            },
        };
        self.instruments.connected(what);
        tracing::debug!(%peer, problem, "handshake failed");
        None
    }

    async fn open(
        &self,
        mut stream: TcpStream,
        peer: SocketAddr,
    ) -> Result<(Stream, Option<String>), (Connected, io::Error)> {
        let gone = |error| (Connected::Abandoned, error);
        let Some(tls) = &self.tls else {
            let opened = PeekedStream::read(Either::Left(stream)).await;
            return Ok((opened.map_err(gone)?, None));
        };
        if let Some(plaintext) = Plaintext::spoken(&stream).await.map_err(gone)? {
            self.say_plaintext(peer);
            plaintext.tell(&mut stream).await.map_err(gone)?;
            farewell(stream).await;
            let spoken = io::Error::other("it spoke plaintext, expected TLS");
            return Err((Connected::TlsFailed, spoken));
        }
        let stream = match tls.acceptor().accept(stream).into_fallible().await {
            Ok(stream) => Box::new(stream),
            Err((error, stream)) => {
                farewell(stream).await;
                return Err((Connected::TlsFailed, error));
            }
        };
        let (_, session) = stream.get_ref();
        let certificates = session.peer_certificates().unwrap_or_default();
        let principal = certificates.first().and_then(subject);
        let opened = PeekedStream::read(Either::Right(stream)).await;
        Ok((opened.map_err(gone)?, principal))
    }

    /// Once at a level that is seen: a client that tries again and again fills no log.
    fn say_plaintext(&self, peer: SocketAddr) {
        match self.said_plaintext.swap(true, Ordering::Relaxed) {
            true => {
                tracing::debug!(%peer, "a client speaks plaintext to a port that speaks TLS");
            }
            false => {
                tracing::warn!(%peer, "a client speaks plaintext to a port that speaks TLS, expected https:// or a channel with TLS");
            }
        }
    }

    async fn talk(&self, stream: Stream, peer: SocketAddr) {
        let (upgrades, mut becomes) = Upgrades::new(self.closing.clone());
        let service = TowerToHyperService::new(Placed {
            peer: Peer(peer.ip()),
            upgrades,
            service: self.service.clone(),
        });
        let stream = TokioIo::new(stream);
        let mut connection = pin!(self.http.serve_connection_with_upgrades(stream, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, error = &*error, "a connection broke");
        }
        if let Ok(work) = becomes.try_recv() {
            work.await;
        }
    }
}

/// Ends a connection so that its peer reads why: one that is still talking would only see a reset.
async fn farewell(mut stream: TcpStream) {
    let ended = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LAST_BYTES), &mut tokio::io::sink()).await
    };
    // A peer that does not read it has no use for it.
    let _ = tokio::time::timeout(LINGER, ended).await;
}

fn refused(peer: IpAddr, full: &Full) {
    match full.said {
        true => tracing::debug!(%peer, limit = full.limit, "a connection is refused"),
        false => tracing::warn!(%peer, limit = full.limit, "connections are refused: {full}"),
    }
}
