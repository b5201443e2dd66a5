//! Server certificate, and the authorities of accepted clients.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// A certificate that expires sooner is worth a warning.
const SOON: Duration = Duration::from_secs(30 * DAY);
const DAY: u64 = 24 * 3_600;

/// Files of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and its authority, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Authorities whose clients are served, PEM. Without them all clients are.
    pub client_ca: Option<PathBuf>,
}

/// The certificate, key and authorities of encrypted connections.
#[derive(Clone, derive_more::Debug)]
#[debug("TlsIdentity {{ expires: {:?}, .. }}", self.expires)]
pub struct TlsIdentity {
    /// Configuration for the handshake.
    pub config: Arc<ServerConfig>,
    /// Time at which the first certificate of the chain expires.
    pub expires: SystemTime,
    /// Certificates of the chain, and authorities of clients.
    pub certificates: (usize, usize),
}

impl TlsIdentity {
    /// A warning about the time that is left at `now`, if that is not much.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        match self.expires.duration_since(now) {
            Ok(left) if left > SOON => None,
            Ok(left) => Some(format!(
                "the certificate expires in {} days",
                left.as_secs() / DAY
            )),
            Err(_) => Some("the certificate has expired: clients will refuse it".to_owned()),
        }
    }
}

impl TlsFiles {
    /// The files that are watched for changes.
    pub fn paths(&self) -> Vec<PathBuf> {
        let own = [&self.certificate, &self.key];
        own.into_iter().chain(&self.client_ca).cloned().collect()
    }

    /// Reads and checks them.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn read(&self) -> Result<TlsIdentity, Vec<String>> {
        let chain = certificates("--tls-cert", &self.certificate);
        let key = private_key(&self.key);
        let authorities = self.client_ca.as_deref().map(authorities).transpose();
        let (chain, key, authorities) = match (chain, key, authorities) {
            (Ok(chain), Ok(key), Ok(authorities)) => (chain, key, authorities),
            (chain, key, authorities) => {
                let problems = [chain.err(), key.err(), authorities.err()];
                return Err(problems.into_iter().flatten().collect());
            }
        };
        let expires = chain.iter().map(|certificate| expiry(certificate));
        let expires = expires.min().unwrap_or(SystemTime::UNIX_EPOCH);
        let certificates = (chain.len(), authorities.as_ref().map_or(0, RootCertStore::len));
        let config = server_config(chain, key, authorities)
            .map_err(|error| vec![format!("--tls-cert {}: {error}", self.certificate.display())])?;
        Ok(TlsIdentity {
            config: Arc::new(config),
            expires,
            certificates,
        })
    }
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Option<RootCertStore>,
) -> Result<ServerConfig, String> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        format!("the certificate and the key of --tls-key cannot be used together: {error}")
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |problem: &dyn fmt::Display| format!("{flag} {}: {problem}", path.display());
    let length = fs::metadata(path).map_err(|error| failed(&error))?.len();
    if length > MAX_FILE {
        let problem = format!("has {length} bytes, expected at most {MAX_FILE}");
        return Err(failed(&problem));
    }
    fs::read(path).map_err(|error| failed(&error))
}

/// The certificates of a file: at least one, each well formed.
fn certificates(flag: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |problem: &str| format!("{flag} {}: {problem}", path.display());
    let text = read(flag, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| failed(&format!("is no PEM: {error}")))?;
    if found.is_empty() {
        return Err(failed("holds no certificate, expected PEM (BEGIN CERTIFICATE)"));
    }
    if found.iter().all(|found| Certificate::from_der(found).is_ok()) {
        Ok(found)
    } else {
        Err(failed("holds something that is no certificate"))
    }
}

/// Errors repeat nothing of the file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read("--tls-key", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        format!(
            "--tls-key {}: holds no private key, expected PEM without a password (PKCS #8, PKCS #1 or SEC 1)",
            path.display()
        )
    })
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("--tls-client-ca", path)? {
        roots
            .add(certificate)
            .map_err(|error| format!("--tls-client-ca {}: {error}", path.display()))?;
    }
    Ok(roots)
}

fn expiry(certificate: &CertificateDer<'_>) -> SystemTime {
    let read = Certificate::from_der(certificate);
    read.map_or(SystemTime::UNIX_EPOCH, |read| {
        read.tbs_certificate().validity().not_after.to_system_time()
    })
}

/// The name in a certificate that was verified: its common name, or else the first of its other names.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate();
    if let Ok(Some(name)) = certificate.subject().common_name() {
        return Some(name.value().into_owned());
    }
    let (_, names) = certificate.get_extension::<SubjectAltName>().ok()??;
    names.0.iter().find_map(|name| match name {
        GeneralName::DnsName(name)
        | GeneralName::UniformResourceIdentifier(name)
        | GeneralName::Rfc822Name(name) => Some(name.to_string()),
        _ => None,
    })
}
