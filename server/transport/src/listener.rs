//! The port: accepting connections, and limits before the first request.
//!
//! In: the socket, certificates, a service. Out: served connections, each in a task of its own. A connection that has
//! not sent anything yet has a time limit and is one of a bounded number; beyond that, one of the address with most
//! of them is closed, so that silent connections do not lock others out. Connections that have sent something are
//! bounded in total and per address. tonic's own server has none of these limits.

mod connection;
mod frames;
mod handshakes;
mod leftover;
mod limiter;
mod peeked;
mod plaintext;
mod proxy_protocol;
mod traffic;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use omni_config::{ConnectionLimits, TlsFiles, TlsIdentity, TrustedProxies, subject};
use omni_core::caller::CallerAddress;
use omni_core::drain::Phases;
use omni_telemetry::{CertificateInstrument, Connected as Became, ConnectionInstruments};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_stream::StreamExt as _;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;

use self::connection::farewell;
use self::handshakes::{HandshakeLimiter, HandshakePermit};
pub use self::limiter::ConnectionLimiter;
use self::limiter::Full;
use self::peeked::PeekedStream;
use self::plaintext::{Plaintext, bad_request};
pub use self::proxy_protocol::caller as proxied_caller;
use super::forwarded::Connected;
use crate::reload::{Change, Reload, Source};
use crate::seldom::Seldom;

/// Pause after an error that is not a connection's own, like a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes that may wait in the kernel before the peer's window or the network takes them: what waits there is never taken back, and
/// may be seconds of audio.
const UNSENT: u32 = 16 << 10;
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Connections beyond the limits that get an answer saying so, in total and per address.
const RESERVE: usize = 256;
const RESERVE_PER_PEER: usize = 128;

impl Source for Certificate {
    type Value = TlsIdentity;

    const NAME: &'static str = "the TLS certificate";

    fn files(&self) -> Vec<PathBuf> {
        self.files.paths()
    }

    fn read(&self) -> Result<TlsIdentity, Vec<String>> {
        self.files.read()
    }

    fn compare(&self, old: &TlsIdentity, new: &TlsIdentity) -> Change {
        let (chain, authorities) = new.certificates;
        let (before, others) = old.certificates;
        if chain < before || authorities < others {
            return Change::Less("there are fewer certificates".to_owned());
        }
        Change::Taken
    }

    fn taken(&self, identity: &TlsIdentity) {
        self.expiry.expires(identity.expires);
        if let Some(warning) = identity.warning(SystemTime::now()) {
            tracing::warn!(file = %self.files.certificate.display(), "{warning}");
        }
    }
}

/// Certificate and key of a port, read again when the files change.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Reload<Certificate>>);

/// The files of a certificate.
struct Certificate {
    files: TlsFiles,
    expiry: CertificateInstrument,
}

impl Tls {
    /// Loads the files.
    ///
    /// # Errors
    /// All problems of the files.
    pub fn new(files: &TlsFiles, expiry: CertificateInstrument) -> Result<Self, Vec<String>> {
        let files = files.clone();
        Ok(Self(Arc::new(Reload::new(Certificate { files, expiry })?)))
    }

    /// The current certificate and key.
    pub fn config(&self) -> Arc<tokio_rustls::rustls::ServerConfig> {
        Arc::clone(&self.0.current().config)
    }

    fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.current().config))
    }

    /// Polls the files for changes, and logs daily if they expire soon. Never ends.
    pub async fn follow(self) {
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

/// The certificate, with its expiry.
struct Opened {
    stream: Stream,
    connected: Connected,
    /// The name in the certificate of its peer, if it showed one.
    principal: Option<String>,
}

/// Settings and instruments of a port's connections.
#[derive(Debug, Clone)]
pub struct Port {
    /// The certificate, if they are encrypted.
    pub tls: Option<Tls>,
    /// Their bounds.
    pub limits: ConnectionLimits,
    /// The proxies that are believed.
    pub proxies: TrustedProxies,
    /// The phase of the server's end.
    pub phases: Phases,
    /// Counters of them.
    pub instruments: Arc<ConnectionInstruments>,
}

/// A listening port with its connections.
pub struct Listener {
    incoming: TcpIncoming,
    shared: Arc<Shared>,
}

struct Shared {
    port: Port,
    openings: HandshakeLimiter,
    places: ConnectionLimiter,
    /// For connections that have no place: they get one answer, and probes are answered.
    reserve: ConnectionLimiter,
    http: Builder<TokioExecutor>,
    service: Router,
    closing: CancellationToken,
    /// True once plaintext where TLS is expected was logged.
    said_plaintext: AtomicBool,
}

impl Listener {
    pub fn new(listener: TcpListener, port: Port, service: Router) -> Self {
        let limits = port.limits;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        // HTTP/2 has pings; without these a peer on HTTP/1.1 that was lost would stay for ever.
        let incoming = incoming.with_keepalive(Some(limits.keepalive));
        let shared = Arc::new(Shared {
            openings: HandshakeLimiter::new(limits.openings),
            places: ConnectionLimiter::new(limits.connections, limits.per_peer),
            reserve: ConnectionLimiter::new(RESERVE, RESERVE_PER_PEER),
            http: http(&limits),
            port,
            service,
            closing: CancellationToken::new(),
            said_plaintext: AtomicBool::new(false),
        });
        Self { incoming, shared }
    }

    /// Serves until `shutdown` resolves and every connection has closed after it.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { incoming, shared } = self;
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut incoming = Some(incoming);
        let mut failing = false;
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                // The port is free for the next process, and proxies notice.
                () = shared.port.phases.listener_closes(), if incoming.is_some() => incoming = None,
                Some(ended) = connections.join_next() => joined(ended),
                accepted = next(&mut incoming) => match accepted {
                    Some(Ok(stream)) => {
                        failing = false;
                        // Without an address it is gone already.
                        if let Ok(peer) = stream.peer_addr() {
                            keep_unsent_short(&stream);
                            let opening = shared.openings.enter(peer.ip());
                            connections.spawn(Arc::clone(&shared).connection(stream, peer, opening));
                        }
                    }
                    Some(Err(error)) if is_own(&error) => {}
                    Some(Err(error)) => {
                        if !std::mem::replace(&mut failing, true) {
                            tracing::error!(%error, "accept failed, trying again");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                    None => break,
                }
            }
        }
        // Stops accepting: the port is free for the next process.
        drop(incoming);
        shared.closing.cancel();
        while let Some(ended) = connections.join_next().await {
            joined(ended);
        }
    }
}

/// The next connection, as long as any are accepted.
async fn next(incoming: &mut Option<TcpIncoming>) -> Option<io::Result<TcpStream>> {
    match incoming {
        Some(incoming) => incoming.next().await,
        None => std::future::pending().await,
    }
}

/// Has a write wait while more than `UNSENT` bytes do. More is on its way where the network takes more.
pub fn keep_unsent_short(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT) {
        tracing::debug!(%error, "TCP_NOTSENT_LOWAT could not be set");
    }
}

/// True if an error is that of a connection which is gone already.
fn is_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

fn joined(ended: Result<(), tokio::task::JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("connection task panicked");
    }
}

/// Every bound of HTTP is stated, none left to a default.
fn http(limits: &ConnectionLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The time of a head and of idleness are counted apart.
        .header_read_timeout(None)
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
        // These count for the whole life of a connection: there is a rate instead.
        .max_local_error_reset_streams(None)
        .keep_alive_interval(limits.keepalive)
        .keep_alive_timeout(limits.keepalive_timeout);
    builder
}

impl Shared {
    /// A connection from its begin to its end.
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, opening: HandshakePermit) {
        let opened = self.opening(stream, peer, &opening).await;
        drop(opening);
        let Some(opened) = opened else { return };
        let caller = opened.connected.nearest;
        let shared = self.port.proxies.contains(caller.ip());
        match self.places.take(caller.ip(), shared) {
            Ok(place) => {
                tracing::debug!(peer = %caller, principal = opened.principal, "connection opened");
                let open = self.port.instruments.open();
                self.talk(opened, Ok(&place)).await;
                drop((place, open));
            }
            Err(full) => {
                self.port.instruments.connected(full.connected());
                refused(caller, &full);
                if let Ok(place) = self.reserve.take(caller.ip(), shared) {
                    self.talk(opened, Err(full.into())).await;
                    drop(place);
                }
            }
        }
    }

    /// Waits for the first words of a connection.
    async fn opening(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        opening: &HandshakePermit,
    ) -> Option<Opened> {
        let opened = tokio::time::timeout(self.port.limits.opening_time, self.open(stream, peer));
        let (what, problem) = tokio::select! {
            () = self.closing.cancelled() => return None,
            () = opening.is_over() => (Became::CrowdedOut, "too many others are opening".to_owned()),
            opened = opened => match opened {
                Ok(Ok(opened)) => return Some(opened),
                Ok(Err((what, error))) => (what, error.to_string()),
                Err(_) => (Became::Silent, "it said nothing in time".to_owned()),
            },
        };
        self.port.instruments.connected(what);
        tracing::debug!(%peer, problem, "handshake failed");
        None
    }

    async fn open(&self, mut stream: TcpStream, peer: SocketAddr) -> Result<Opened, (Became, io::Error)> {
        let gone = |error| (Became::Abandoned, error);
        let proxies = &self.port.proxies;
        let named = async {
            proxy_protocol::refuse_strangers(proxies, &stream, peer).await?;
            proxied_caller(proxies, &mut stream, peer).await
        };
        let named = match named.await {
            Ok(named) => named,
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    refuse_header(&mut stream, peer, &error).await;
                }
                return Err(gone(error));
            }
        };
        let connected = Connected {
            nearest: named,
            local: stream.local_addr().ok().map(|local| local.ip()),
            encrypted: self.port.tls.is_some(),
        };
        let Some(tls) = &self.port.tls else {
            let opened = PeekedStream::read(Either::Left(stream)).await;
            return Ok(Opened {
                stream: opened.map_err(gone)?,
                connected,
                principal: None,
            });
        };
        if let Some(plaintext) = Plaintext::spoken(&stream).await.map_err(gone)? {
            self.say_plaintext(connected.nearest);
            farewell(stream, &plaintext.answer()).await;
            let spoken = io::Error::other("it spoke plaintext, expected TLS");
            return Err((Became::TlsFailed, spoken));
        }
        let stream = match tls.acceptor().accept(stream).into_fallible().await {
            Ok(stream) => Box::new(stream),
            Err((error, stream)) => {
                farewell(stream, &[]).await;
                return Err((Became::TlsFailed, error));
            }
        };
        let (_, session) = stream.get_ref();
        let certificates = session.peer_certificates().unwrap_or_default();
        let principal = certificates.first().and_then(subject);
        let opened = PeekedStream::read(Either::Right(stream)).await;
        Ok(Opened {
            stream: opened.map_err(gone)?,
            connected,
            principal,
        })
    }

    /// Once at a level that is seen: a client that tries again and again fills no log.
    fn say_plaintext(&self, peer: CallerAddress) {
        if self.said_plaintext.swap(true, Ordering::Relaxed) {
            tracing::debug!(%peer, "plaintext on a TLS port");
        } else {
            tracing::warn!(%peer, "plaintext on a TLS port: expected https:// or a channel with TLS");
        }
    }
}

/// Answers a proxy whose PROXY header is not taken, in words, and tells its operator now and then.
async fn refuse_header(stream: &mut TcpStream, peer: SocketAddr, problem: &io::Error) {
    static SAID: Seldom = Seldom::new();
    if SAID.now() {
        tracing::warn!(%peer, "connection refused: {problem}");
    }
    // The peer may be gone already.
    let _ = stream
        .write_all(&bad_request("proxy_protocol", &problem.to_string()))
        .await;
}

fn refused(peer: CallerAddress, full: &Full) {
    if full.said {
        tracing::debug!(%peer, limit = full.limit, "connection refused");
    } else {
        tracing::warn!(%peer, limit = full.limit, "connections refused: {full}");
    }
}
