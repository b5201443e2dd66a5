//! A handshake and nothing more: the problem of the encryption, before any other.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::{TlsProblem, TlsSettings, find};
use crate::endpoint::Endpoint;
use crate::error::ClientError;

/// Limit for the server to refuse its caller: in TLS 1.3 it does so after the handshake.
const JUDGEMENT: Duration = Duration::from_millis(500);

/// Facts of an encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFacts {
    /// The version of TLS, like "TLSv1_3".
    pub version: String,
}

/// Makes an encrypted connection to `address`, which is one of the endpoint's, and closes it. Finds out what a call
/// would hide: why an encrypted connection to this server fails.
///
/// # Errors
/// [`ClientError::Tls`] with what is wrong, [`ClientError::Unreachable`] if there is no connection at all.
pub async fn check_tls(
    endpoint: &Endpoint,
    address: SocketAddr,
    patience: Duration,
) -> Result<TlsFacts, ClientError> {
    let unreachable = |cause: String| ClientError::Unreachable {
        endpoint: endpoint.clone(),
        cause,
    };
    let failed = |error: io::Error| match find(&error) {
        Some((problem, cause)) => ClientError::tls(endpoint, problem, cause),
        None => unreachable(error.to_string()),
    };
    let Some(settings) = endpoint.tls() else {
        return Err(unreachable("the address does not ask for encryption".to_owned()));
    };
    let config = config(settings).map_err(|cause| ClientError::tls(endpoint, TlsProblem::Other, cause))?;
    let name = settings.name.as_deref().unwrap_or(endpoint.host()).to_owned();
    let name = ServerName::try_from(name)
        .map_err(|error| ClientError::tls(endpoint, TlsProblem::WrongName, error.to_string()))?;
    let connected = timeout(patience, async {
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    });
    let late = |_| unreachable("no answer in time".to_owned());
    let mut stream = connected.await.map_err(late)?.map_err(failed)?;
    judgement(&mut stream).await.map_err(failed)?;
    let (_, session) = stream.get_ref();
    if session.alpn_protocol() != Some(b"h2") {
        let cause = "it chose another protocol".to_owned();
        return Err(ClientError::tls(endpoint, TlsProblem::NoHttp2, cause));
    }
    let version = session.protocol_version().and_then(|version| version.as_str());
    Ok(TlsFacts {
        version: version.unwrap_or_default().to_owned(),
    })
}

/// Fails if the server refuses its caller after the handshake. A server that accepts the caller waits for a request.
async fn judgement(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    match timeout(JUDGEMENT, stream.read_u8()).await {
        Ok(Err(error)) if find(&error).is_some() => Err(error),
        _ => Ok(()),
    }
}

fn config(settings: &TlsSettings) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match &settings.authority {
        Some(authority) => {
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authority).collect();
            roots.add_parsable_certificates(found.map_err(|error| error.to_string())?);
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err("there are no authorities to trust".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
            builder
                .with_client_auth_cert(chain.map_err(|error| error.to_string())?, key)
                .map_err(|error| error.to_string())?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
