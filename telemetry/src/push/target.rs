//! The gateway's address: scheme, host, path with the grouping key, credentials.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hyper::Uri;

use crate::catalogue::{Family, is_label_name};

/// Something that is never shown.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("***")]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Credentials of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A name and a password.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A token.
    Bearer(Secret),
}

impl Credentials {
    /// The value of the header `authorization`.
    pub(super) fn header(&self) -> String {
        match self {
            Self::Basic { user, password } => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.0)))
            }
            Self::Bearer(token) => format!("Bearer {}", token.0),
        }
    }

    /// Returns true if `text` gives them away.
    pub(super) fn are_in(&self, text: &str) -> bool {
        let header = self.header();
        let (_, sent) = header.split_once(' ').unwrap_or(("", &header));
        let (Self::Basic { password: secret, .. } | Self::Bearer(secret)) = self;
        [sent, &secret.0]
            .into_iter()
            .any(|secret| !secret.is_empty() && text.contains(secret))
    }
}

/// The reason why an address cannot be used. None of the messages contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushTargetError {
    /// It is no address.
    #[error("the push gateway's address is not of the form http://host:port or https://host:port")]
    Address,
    /// A label of the grouping key.
    #[error("{0:?} cannot be a label of the grouping key")]
    Label(String),
    /// A label of the grouping key that series have, too.
    #[error(
        "{label:?} cannot be a label of the grouping key, because it is a label of {family}: a gateway refuses such a group, or \
         overwrites the label"
    )]
    Taken {
        /// The label.
        label: String,
        /// A metric that has it.
        family: String,
    },
    /// The job is empty.
    #[error("the job of the grouping key is empty")]
    Job,
    /// Certificates that cannot be read.
    #[error("certificates of {path}: {problem}")]
    Certificates {
        /// The file, or the system.
        path: String,
        /// The problem.
        problem: String,
    },
}

/// A group in a Pushgateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushTarget {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Path with the grouping key.
    pub(super) path: String,
    /// Labels of the grouping key but for `job`.
    pub(super) grouping: Vec<String>,
    pub(super) credentials: Option<Credentials>,
    pub(super) certificates: Option<PathBuf>,
}

impl fmt::Display for PushTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

impl PushTarget {
    /// The group `job` and `grouping` of the gateway at `url`. A name and a password in the URL are credentials.
    ///
    /// # Errors
    /// An address that is none, an empty job, or a label that cannot be one.
    pub fn new(url: &str, job: &str, grouping: &[(&str, &str)]) -> Result<Self, PushTargetError> {
        let uri: Uri = url.parse().map_err(|_| PushTargetError::Address)?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(PushTargetError::Address),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or(PushTargetError::Address)?.to_owned();
        if job.is_empty() {
            return Err(PushTargetError::Job);
        }
        let mut path = uri.path().trim_end_matches('/').to_owned();
        path.push_str("/metrics");
        segment(&mut path, "job", job);
        for (label, value) in grouping {
            if !is_label_name(label) || *label == "job" {
                return Err(PushTargetError::Label((*label).to_owned()));
            }
            segment(&mut path, label, value);
        }
        Ok(Self {
            tls,
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            host,
            path,
            grouping: grouping.iter().map(|(label, _)| (*label).to_owned()).collect(),
            credentials: uri
                .authority()
                .and_then(|authority| credentials(authority.as_str())),
            certificates: None,
        })
    }

    /// True if no label of the grouping key is one of these metrics' own.
    ///
    /// # Errors
    /// The first that is: a gateway refuses the group as soon as it gets two values of it, and overwrites a single one.
    pub fn check<'a>(&self, families: impl IntoIterator<Item = &'a Family>) -> Result<(), PushTargetError> {
        for family in families {
            let own = family.exposed_labels();
            let taken = |label: &&String| own.contains(&label.as_str());
            if let Some(label) = self.grouping.iter().find(taken) {
                return Err(PushTargetError::Taken {
                    label: label.clone(),
                    family: family.name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// With these credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Trusting the certificates of that file instead of the system's.
    #[must_use]
    pub fn trusting(mut self, certificates: PathBuf) -> Self {
        self.certificates = Some(certificates);
        self
    }
}

fn credentials(authority: &str) -> Option<Credentials> {
    let (info, _) = authority.rsplit_once('@')?;
    let (user, password) = info.split_once(':').unwrap_or((info, ""));
    Some(Credentials::Basic {
        user: decoded(user),
        password: Secret::new(decoded(password)),
    })
}

/// Percent-decoded, so that a password may have what separates the parts of an address. What is no valid escape stands
/// for itself.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|_| *first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a label and its value. Base64 carries what a path segment cannot: nothing, and slashes.
fn segment(path: &mut String, label: &str, value: &str) {
    path.push('/');
    path.push_str(label);
    if value.is_empty() {
        path.push_str("@base64/=");
    } else if value.contains('/') || value.bytes().all(|byte| byte == b'.') {
        path.push_str("@base64/");
        path.push_str(&URL_SAFE_NO_PAD.encode(value));
    } else {
        path.push('/');
        for byte in value.bytes() {
            let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            if plain {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
}
