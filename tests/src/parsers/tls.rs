//! Certificates and keys of others.

use std::fs;

use omni_client::TlsSettings;
use omni_config::{TlsFiles, subject};
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::certificates::{Authority, Signed};

thread_local! {
    /// A place for files, and what else is needed beside the one that is wrong.
    static PLACE: (TempDir, Signed) = (
        tempfile::tempdir().expect("a directory"),
        Authority::new("ours").server(),
    );
}

/// The first byte selects the kind of PEM file: certificate, key or authorities.
pub(super) fn files(bytes: &[u8]) {
    let [what, pem @ ..] = bytes else { return };
    PLACE.with(|(place, good)| {
        let (certificate, key) = good.write(place.path(), "good");
        let other = place.path().join("other");
        fs::write(&other, pem).expect("written");
        let mut files = TlsFiles {
            certificate,
            key,
            client_ca: None,
        };
        match what % 3 {
            0 => files.certificate = other,
            1 => files.key = other,
            _ => files.client_ca = Some(other),
        }
        let _ = files.read();
        let settings = TlsSettings::default();
        let _ = match what % 3 {
            0 => settings.identified_by(pem.to_vec(), good.key.clone().into_bytes()),
            1 => settings.identified_by(good.certificate.clone().into_bytes(), pem.to_vec()),
            _ => settings.trusting(pem.to_vec()),
        };
    });
}

/// A client's certificate, DER, issued by the operator's authority.
pub(super) fn caller(bytes: &[u8]) {
    let _ = subject(&CertificateDer::from(bytes));
}
