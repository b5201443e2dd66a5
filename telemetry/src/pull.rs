//! Pull: a small HTTP server of its own for Prometheus and probes.
//!
//! In: a bound socket. Out: `/metrics` (with `name[]`, gzip, HEAD), `/metrics/catalogue`, `/healthz`, `/readyz`.
//! Connections are bounded in number and in patience, and every one is joined. Rendering happens off the runtime's
//! threads, one at a time.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::exposition::{Exposition, Format, Selection};
use crate::instruments::ExporterInstruments;
use crate::schema::Schema;
use crate::telemetry::Telemetry;

mod answer;
mod guard;
mod query;

use answer::{Answer, taken};
pub use guard::{Admission, HostCheck, PullGuard, TlsSource};
pub use query::queried_names;

/// Connections served at a time; further ones wait in the socket's backlog.
const MOST_CONNECTIONS: usize = 64;
/// Longest time for a caller to send a request's head, and of silence between two requests.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time for answers under way when the server stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Readiness of the server to take requests.
pub type Readiness = Arc<dyn Fn() -> bool + Send + Sync>;

/// The HTTP server. A value with a `serve` method: the composition root decides when it runs.
#[derive(Clone, derive_more::Debug)]
#[debug("PullEndpoint {{ .. }}")]
pub struct PullEndpoint {
    exposition: Arc<Exposition>,
    schema: Arc<Schema>,
    instruments: ExporterInstruments,
    ready: Readiness,
    rendering: Arc<Semaphore>,
    /// Requirements on readers, as soon as they are known; none are served before.
    guard: Arc<OnceLock<PullGuard>>,
}

impl PullEndpoint {
    /// Serves what `telemetry` records. `ready` answers `/readyz`.
    pub fn new(telemetry: &Telemetry, ready: Readiness) -> Self {
        Self {
            exposition: Arc::clone(telemetry.exposition()),
            schema: Arc::clone(telemetry.schema()),
            instruments: ExporterInstruments::new(telemetry.meter()),
            ready,
            rendering: Arc::new(Semaphore::new(1)),
            guard: Arc::new(PullGuard::default().into()),
        }
    }

    /// Asks of readers what `guard` says. Connections that come before it is set are closed.
    #[must_use]
    pub fn guarded(mut self, guard: Arc<OnceLock<PullGuard>>) -> Self {
        self.guard = guard;
        self
    }

    /// Serves callers of `listener` until `stop`, and then what is under way.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&listener, &permits) => accepted,
            };
            let Some((stream, permit)) = accepted else {
                continue;
            };
            let this = self.clone();
            let stop = stop.clone();
            connections.spawn(async move {
                this.connection(stream, stop).await;
                drop(permit);
            });
        }
        while connections.join_next().await.is_some() {}
    }

    async fn connection(self, stream: TcpStream, stop: CancellationToken) {
        let Some(guard) = self.guard.get().cloned() else {
            return;
        };
        let local = stream.local_addr().ok().map(|local| local.ip());
        match guard.acceptor() {
            None => self.requests(stream, (&guard, local), stop).await,
            Some(acceptor) => match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.requests(stream, (&guard, local), stop).await,
                Ok(Err(error)) => tracing::debug!(%error, "a metrics connection could not be encrypted"),
                Err(_) => tracing::debug!("a metrics connection was silent"),
            },
        }
    }

    async fn requests<S>(
        &self,
        stream: S,
        (guard, local): (&PullGuard, Option<IpAddr>),
        stop: CancellationToken,
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let this = self;
        let service = service_fn(move |request: Request<Incoming>| async move {
            Ok::<_, Infallible>(this.answer(request, guard, local).await)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(16 * 1024)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a metrics connection ended");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        guard: &PullGuard,
        local: Option<IpAddr>,
    ) -> Response<Full<Bytes>> {
        if let Err((status, problem)) = guard.answers(&request, local) {
            return Answer::text(status, &format!("{problem}\n")).into_response(&request);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD\n").allow_reading();
        }
        let path = request.uri().path();
        let answer = match path
            .strip_suffix('/')
            .filter(|path| !path.is_empty())
            .unwrap_or(path)
        {
            "/metrics" | "/metrics/catalogue" if !guard.admits(request.headers()) => {
                return Answer::text(
                    StatusCode::UNAUTHORIZED,
                    "expected \"authorization: Bearer KEY\" with a key of the scope metrics\n",
                )
                .ask_for_a_key();
            }
            "/metrics" => {
                let names = queried_names(request.uri().query().unwrap_or_default());
                self.instruments.scraped();
                let format = taken(request.headers());
                Answer::metrics(self.render(Selection::of(names), format).await, format)
            }
            "/metrics/catalogue" => Answer::json(&self.schema.to_json()),
            "/healthz" => Answer::text(StatusCode::OK, "ok\n"),
            "/readyz" if (self.ready)() => Answer::text(StatusCode::OK, "ready\n"),
            "/readyz" => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            _ => Answer::text(
                StatusCode::NOT_FOUND,
                "expected /metrics, /metrics/catalogue, /healthz or /readyz\n",
            ),
        };
        answer.into_response(&request)
    }

    async fn render(&self, selection: Selection, format: Format) -> String {
        // Scrapes at the same time wait for each other instead of rendering at once. The semaphore is never closed.
        let _turn = self.rendering.acquire().await;
        let exposition = Arc::clone(&self.exposition);
        let rendered = tokio::task::spawn_blocking(move || exposition.render_as(&selection, format)).await;
        rendered.unwrap_or_else(|error| {
            tracing::error!(%error, "rendering the metrics failed");
            String::new()
        })
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "a metrics connection could not be accepted");
            // Out of file descriptors, most likely: trying again at once would spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
