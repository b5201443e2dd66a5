//! Requirements on readers: TLS, a key.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::{HeaderMap, Request, StatusCode, Uri, Version};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The certificate to show now.
pub type TlsSource = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;
/// Decides if a request with these headers may read.
pub type Admission = Arc<dyn Fn(&HeaderMap) -> bool + Send + Sync>;
/// True if a request is answered that names its host so, and came in at that address of this machine; if not, the
/// status and why.
pub type HostCheck =
    Arc<dyn Fn(Version, &Uri, &HeaderMap, Option<IpAddr>) -> Result<(), (StatusCode, String)> + Send + Sync>;

/// Requirements on readers.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("PullGuard {{ tls: {:?}, keys: {:?}, hosts: {:?} }}", self.tls.is_some(), self.admits.is_some(), self.hosts.is_some())]
pub struct PullGuard {
    /// Connections are encrypted, if there is one.
    pub tls: Option<TlsSource>,
    /// Asked for everything but probes, if there is one.
    pub admits: Option<Admission>,
    /// Asked for everything, if there is one.
    pub hosts: Option<HostCheck>,
}

impl PullGuard {
    /// TLS of a connection. The server speaks HTTP/1.1 and offers nothing else.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        let source = self.tls.as_ref()?;
        let mut config = ServerConfig::clone(&source());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Some(TlsAcceptor::from(Arc::new(config)))
    }

    pub(super) fn answers<B>(
        &self,
        request: &Request<B>,
        local: Option<IpAddr>,
    ) -> Result<(), (StatusCode, String)> {
        match &self.hosts {
            Some(answers) => answers(request.version(), request.uri(), request.headers(), local),
            None => Ok(()),
        }
    }

    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        self.admits.as_ref().is_none_or(|admits| admits(headers))
    }
}
