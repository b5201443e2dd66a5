//! One request to the gateway, over a connection of its own: pushes are far apart.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::target::{PushTarget, PushTargetError};
use super::verifier::OrNamed;

/// Most that is read of an answer.
const MOST_ANSWER: usize = 1024;

/// The reason why a push did not arrive. None of the messages contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// No connection, or a broken one.
    #[error("no connection: {0}")]
    Connection(#[from] io::Error),
    /// The gateway does not speak HTTP.
    #[error("no answer in HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The request could not be made.
    #[error("no request can be made of the address or the credentials")]
    Request,
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The gateway refused.
    #[error("the gateway answered {status}: {message}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The first part of what it said.
        message: String,
    },
}

pub(super) struct Client {
    tls: Option<TlsConnector>,
}

impl Client {
    pub(super) fn new(target: &PushTarget) -> Result<Self, PushTargetError> {
        Ok(Self {
            tls: if target.tls {
                Some(connector(target)?)
            } else {
                None
            },
        })
    }

    pub(super) async fn send(
        &self,
        target: &PushTarget,
        method: Method,
        body: Bytes,
    ) -> Result<(), PushError> {
        let request = request(target, method, body)?;
        let host = target.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, target.port)).await?;
        let (status, body) = match &self.tls {
            None => exchange(stream, request).await?,
            Some(connector) => {
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                exchange(connector.connect(name, stream).await?, request).await?
            }
        };
        if status.is_success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&body);
        let message = message.lines().next().unwrap_or_default().trim().to_owned();
        // A gateway, or what stands before it, may send back what it was sent.
        let message = match &target.credentials {
            Some(credentials) if credentials.are_in(&message) => {
                "(its message repeats the credentials)".to_owned()
            }
            _ => message,
        };
        Err(PushError::Refused { status, message })
    }
}

fn request(target: &PushTarget, method: Method, body: Bytes) -> Result<Request<Full<Bytes>>, PushError> {
    let mut request = Request::builder()
        .method(method)
        .uri(&target.path)
        .header(HOST, format!("{}:{}", target.host, target.port))
        .header(USER_AGENT, "omni")
        .header(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    if let Some(credentials) = &target.credentials {
        request = request.header(AUTHORIZATION, credentials.header());
    }
    request.body(Full::new(body)).map_err(|_| PushError::Request)
}

/// The status of the answer, and the beginning of what it says.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), PushError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let talk = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes);
        Ok::<_, PushError>((status, body.unwrap_or_default()))
    };
    let mut talk = std::pin::pin!(talk);
    // The connection does the reading and writing for as long as there is something to wait for.
    tokio::select! {
        biased;
        answered = talk.as_mut() => answered,
        ended = connection => {
            ended?;
            talk.await
        }
    }
}

fn connector(target: &PushTarget) -> Result<TlsConnector, PushTargetError> {
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    match &target.certificates {
        Some(path) => {
            let failed = |problem: String| PushTargetError::Certificates {
                path: path.display().to_string(),
                problem,
            };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                named.push(certificate.clone());
                roots
                    .add(certificate)
                    .map_err(|error| failed(error.to_string()))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    if roots.is_empty() {
        let path = target.certificates.as_ref();
        return Err(PushTargetError::Certificates {
            path: path.map_or_else(|| "the system".to_owned(), |path| path.display().to_string()),
            problem: "there are none".to_owned(),
        });
    }
    let failed = |problem: String| PushTargetError::Certificates {
        path: "the system".to_owned(),
        problem,
    };
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = OrNamed::new(roots, named, Arc::clone(&provider)).map_err(failed)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
