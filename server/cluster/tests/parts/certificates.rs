//! Certificates of the parts of a cluster.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// An authority that signs certificates of parts.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("it signs itself"))
    }

    /// A certificate of a part, its key and that of the authority, as files in `folder`; the flags that name them.
    pub(crate) fn part(&self, folder: &Path) -> Vec<String> {
        let files = self.signed("omni-cluster", folder);
        let flags = ["--cluster-cert", "--cluster-key", "--cluster-ca"];
        let named = flags.iter().zip(&files);
        named
            .flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()])
            .collect()
    }

    /// A certificate with that name or address, its key and that of the authority, as files in `folder`.
    pub(crate) fn signed(&self, name: &str, folder: &Path) -> [PathBuf; 3] {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.0).expect("it is signed");
        let write = |name: &str, pem: String| -> PathBuf {
            let path = folder.join(name);
            std::fs::write(&path, pem).expect("the folder is there");
            path
        };
        [
            write("cert.pem", signed.pem()),
            write("key.pem", key.serialize_pem()),
            write("ca.pem", self.0.pem()),
        ]
    }
}
