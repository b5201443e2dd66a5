//! Certificates of a test: an authority and its certificates.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// Names of the machine that tests run on.
const LOCAL: [&str; 2] = ["localhost", "127.0.0.1"];

/// A certificate and its key, PEM.
#[derive(Debug, Clone)]
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Signed {
    /// Writes both into a folder; gives their paths.
    ///
    /// # Panics
    /// If it cannot be written in.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let certificate = folder.join(format!("{name}.pem"));
        let key = folder.join(format!("{name}.key"));
        // The key first, as careful operators write them: a reader in between finds two that do not belong together.
        fs::write(&key, &self.key).expect("a folder to write in");
        fs::write(&certificate, &self.certificate).expect("a folder to write in");
        (certificate, key)
    }
}

/// RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// An authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, PEM.
    pub certificate: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("random bytes");
        let certificate = pem(
            "CERTIFICATE",
            params.self_signed(&key).expect("a certificate").der(),
        );
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// A server of this machine.
    pub fn server(&self) -> Signed {
        self.sign(&LOCAL, "a server", |_| {})
    }

    /// A server of these names.
    pub fn server_of(&self, names: &[&str]) -> Signed {
        self.sign(names, "a server", |_| {})
    }

    /// A server of this machine whose certificate has expired.
    pub fn expired(&self) -> Signed {
        self.sign(&LOCAL, "a server", |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    /// A client of this name.
    pub fn client(&self, name: &str) -> Signed {
        self.sign(&[], name, |_| {})
    }

    /// A client without a common name, of these other names.
    pub fn nameless_client(&self, names: &[&str]) -> Signed {
        self.sign(names, "", |params| {
            params.distinguished_name = DistinguishedName::new();
        })
    }

    fn sign(&self, names: &[&str], common: &str, adjust: impl FnOnce(&mut CertificateParams)) -> Signed {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, common);
        adjust(&mut params);
        let key = KeyPair::generate().expect("random bytes");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        Signed {
            certificate: pem("CERTIFICATE", signed.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
        }
    }

    /// Writes its certificate into a folder; gives its path.
    ///
    /// # Panics
    /// If it cannot be written in.
    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(format!("{name}.pem"));
        fs::write(&path, &self.certificate).expect("a folder to write in");
        path
    }
}
