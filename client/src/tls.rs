//! Encryption of connections, and a diagnosis when it fails.

mod probe;

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{AlertDescription, CertificateError, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

pub use probe::{TlsFacts, check_tls};

/// Trusted authorities, expected name, and the caller's own certificate.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use omni_client::{Endpoint, TlsSettings};
///
/// let tls = TlsSettings::default().trusting(std::fs::read("authority.pem")?)?;
/// let endpoint = Endpoint::parse("https://speech.example")?.with_tls(tls);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TlsSettings {
    authority: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    name: Option<String>,
}

/// Reason why settings cannot be used. Repeats nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct TlsSettingsError {
    what: &'static str,
    problem: &'static str,
}

impl TlsSettings {
    /// Trusts the authorities of this PEM text instead of those that the system trusts.
    ///
    /// # Errors
    /// If there are none in it.
    pub fn trusting(self, authority: Vec<u8>) -> Result<Self, TlsSettingsError> {
        certificates("the authority", &authority)?;
        Ok(Self {
            authority: Some(authority),
            ..self
        })
    }

    /// Client certificate, PEM, with its `key`, PEM, for servers that require one.
    ///
    /// # Errors
    /// If one of them cannot be parsed.
    pub fn identified_by(self, certificate: Vec<u8>, key: Vec<u8>) -> Result<Self, TlsSettingsError> {
        certificates("the certificate", &certificate)?;
        PrivateKeyDer::from_pem_slice(&key).map_err(|_| TlsSettingsError {
            what: "the key",
            problem: "holds no private key, expected PEM without a password",
        })?;
        Ok(Self {
            identity: Some((certificate, key)),
            ..self
        })
    }

    /// Expects a certificate for this name instead of that in the address.
    #[must_use]
    pub fn expecting(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// For a server whose address says `host`.
    pub(crate) fn config(&self, host: &str, patience: Duration) -> ClientTlsConfig {
        let name = self.name.as_deref().unwrap_or(host);
        let config = ClientTlsConfig::new().domain_name(name).timeout(patience);
        let config = match &self.authority {
            Some(authority) => config.ca_certificate(Certificate::from_pem(authority)),
            None => config.with_native_roots(),
        };
        match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        }
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("own_authority", &self.authority.is_some())
            .field("own_certificate", &self.identity.is_some())
            .field("name", &self.name)
            .finish()
    }
}

fn certificates(what: &'static str, text: &[u8]) -> Result<(), TlsSettingsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    // This only checks that the text holds certificates, for any purpose.
    let (good, bad) = RootCertStore::empty().add_parsable_certificates(found.unwrap_or_default());
    match (good, bad) {
        (1.., 0) => Ok(()),
        _ => Err(TlsSettingsError {
            what,
            problem: "holds no certificate, expected PEM (BEGIN CERTIFICATE)",
        }),
    }
}

/// Problem of an encrypted connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsProblem {
    /// No authority that is trusted has signed the server's certificate.
    #[error("the server's certificate is signed by no authority that is trusted here")]
    UnknownAuthority,
    /// The server's certificate is for other names.
    #[error("the server's certificate is for another name")]
    WrongName,
    /// The server's certificate has expired.
    #[error("the server's certificate has expired")]
    Expired,
    /// The time of the server's certificate has not begun.
    #[error("the server's certificate is not valid yet")]
    NotYetValid,
    /// The server there does not speak TLS.
    #[error("the server does not speak TLS")]
    NotTls,
    /// The port expects TLS, and the address begins with `http://`.
    #[error("the server speaks TLS there")]
    TlsExpected,
    /// The server requires a client certificate.
    #[error("the server asks for a certificate")]
    CertificateRequired,
    /// The server does not accept the certificate that it was shown.
    #[error("the server does not accept the certificate it was shown")]
    CertificateRefused,
    /// The server there speaks TLS, and not HTTP/2.
    #[error("the server does not speak HTTP/2")]
    NoHttp2,
    /// Something else.
    #[error("the handshake failed")]
    Other,
}

/// Finds TLS's error in a chain of errors.
pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<(TlsProblem, String)> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some((judge(tls), tls.to_string()));
        }
        // The source of such an error is that of its content.
        if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(found) = find(inner)
        {
            return Some(found);
        }
        let text = error.to_string();
        // HTTP/2 keeps only the message.
        let said = [
            (
                "received fatal alert: CertificateRequired",
                TlsProblem::CertificateRequired,
            ),
            ("received fatal alert: UnknownCA", TlsProblem::CertificateRefused),
            ("HTTP/2 was not negotiated", TlsProblem::NoHttp2),
            // Result of INADEQUATE_SECURITY in GOAWAY.
            ("do not meet minimum requirements", TlsProblem::TlsExpected),
        ];
        if let Some((_, problem)) = said.iter().find(|(words, _)| text.contains(words)) {
            return Some((*problem, text));
        }
        next = error.source();
    }
    None
}

fn judge(error: &rustls::Error) -> TlsProblem {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(error) => match error {
            // An authority of the same name with other keys.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsProblem::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsProblem::WrongName
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsProblem::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsProblem::NotYetValid
            }
            _ => TlsProblem::Other,
        },
        rustls::Error::InvalidMessage(_) => TlsProblem::NotTls,
        rustls::Error::AlertReceived(alert) => match alert {
            Alert::CertificateRequired | Alert::NoCertificate => TlsProblem::CertificateRequired,
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::AccessDenied
            | Alert::DecryptError => TlsProblem::CertificateRefused,
            Alert::NoApplicationProtocol => TlsProblem::NoHttp2,
            _ => TlsProblem::Other,
        },
        rustls::Error::NoApplicationProtocol => TlsProblem::NoHttp2,
        _ => TlsProblem::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused_without_repeating_it() {
        for bad in [
            "",
            "secret",
            "-----BEGIN CERTIFICATE-----\nsecret\n-----END CERTIFICATE-----",
        ] {
            let error = TlsSettings::default().trusting(bad.into()).unwrap_err();
            assert!(error.to_string().contains("BEGIN CERTIFICATE") && !error.to_string().contains("secret"));
        }
    }

    #[test]
    fn what_tls_said_is_found_inside_of_other_errors() {
        let tls = |error: CertificateError| rustls::Error::InvalidCertificate(error);
        let wrapped =
            |error: rustls::Error| io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
        for (error, problem) in [
            (tls(CertificateError::UnknownIssuer), TlsProblem::UnknownAuthority),
            (tls(CertificateError::Expired), TlsProblem::Expired),
            (tls(CertificateError::NotValidForName), TlsProblem::WrongName),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                TlsProblem::CertificateRequired,
            ),
        ] {
            assert_eq!(find(&wrapped(error)).map(|(found, _)| found), Some(problem));
        }
        let text = "connection error: received fatal alert: CertificateRequired";
        assert_eq!(
            find(&io::Error::other(text)).map(|(found, _)| found),
            Some(TlsProblem::CertificateRequired)
        );
        assert_eq!(find(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
    }
}
