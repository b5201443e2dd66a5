//! Addresses of servers: typed text, checked and completed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tonic::transport::Uri;

use crate::credentials::{ApiKeyError, Credentials};
use crate::tls::TlsSettings;

/// The port a server listens on unless told otherwise.
const DEFAULT_PORT: u16 = 50_051;

/// Reason why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an address at all.
    #[error("\"{given}\" is not a server address, expected http://HOST:PORT or https://HOST:PORT")]
    Malformed {
        /// The given text.
        given: String,
    },
    /// A scheme other than http and https.
    #[error("\"{given}\" asks for {scheme}, expected http or https")]
    Scheme {
        /// The given text.
        given: String,
        /// Its scheme.
        scheme: String,
    },
    /// More than host and port.
    #[error("\"{given}\" has a path, expected only http://HOST:PORT or https://HOST:PORT")]
    Path {
        /// The given text.
        given: String,
    },
    /// Settings for encryption, and no encryption.
    #[error("\"{given}\" is not encrypted, but settings for TLS were given: expected https://HOST:PORT")]
    NotEncrypted {
        /// The address.
        given: String,
    },
}

/// The address of a server, the key for it if one is asked for, and how the connection is encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    // Behind a pointer, for every error names its endpoint.
    uri: Arc<Uri>,
    credentials: Credentials,
    tls: Option<Arc<TlsSettings>>,
}

impl Endpoint {
    /// Reads `http://HOST:PORT`, or `https://HOST:PORT` for an encrypted connection to a server that an authority of
    /// the system has signed for. The scheme (http) and the port (50051) may be left out.
    ///
    /// ```
    /// # use omni_client::Endpoint;
    /// let endpoint = Endpoint::parse("speech.example")?;
    /// assert_eq!(endpoint.to_string(), "http://speech.example:50051");
    /// # Ok::<(), omni_client::EndpointError>(())
    /// ```
    ///
    /// # Errors
    /// [`EndpointError`] says what was expected.
    pub fn parse(given: &str) -> Result<Self, EndpointError> {
        Self::parse_with_port(given, DEFAULT_PORT)
    }

    /// The same, with another port where none is given: operators are served at one of their own.
    ///
    /// # Errors
    /// [`EndpointError`] says what was expected.
    pub fn parse_with_port(given: &str, port: u16) -> Result<Self, EndpointError> {
        let malformed = || EndpointError::Malformed {
            given: given.to_owned(),
        };
        let text = given.trim();
        let full = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let uri: Uri = full.parse().map_err(|_| malformed())?;
        let scheme = match uri.scheme_str() {
            Some("http") => "http",
            Some("https") => "https",
            Some(scheme) => {
                return Err(EndpointError::Scheme {
                    given: given.to_owned(),
                    scheme: scheme.to_owned(),
                });
            }
            None => return Err(malformed()),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(EndpointError::Path {
                given: given.to_owned(),
            });
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(malformed)?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        // A port that does not parse reads as none at all; that must not turn into the default.
        if uri.port().is_none() && authority.len() != host.len() || authority.contains('@') {
            return Err(malformed());
        }
        let port = uri.port_u16().unwrap_or(port);
        let uri: Uri = format!("{scheme}://{host}:{port}")
            .parse()
            .map_err(|_| malformed())?;
        Ok(Self {
            uri: Arc::new(uri),
            credentials: Credentials::default(),
            tls: (scheme == "https").then(Arc::default),
        })
    }

    /// The name or address of the machine, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        let host = self.uri.host().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, given or not.
    pub fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(DEFAULT_PORT)
    }

    /// The same server, called with an API key.
    ///
    /// # Errors
    /// If it cannot be one.
    pub fn with_api_key(self, key: &str) -> Result<Self, ApiKeyError> {
        let credentials = Credentials::key(key)?;
        Ok(Self { credentials, ..self })
    }

    /// The same server, which is trusted and talked to as `settings` say.
    ///
    /// # Errors
    /// If its address does not ask for encryption.
    pub fn with_tls(self, settings: TlsSettings) -> Result<Self, EndpointError> {
        if self.is_encrypted() {
            Ok(Self {
                tls: Some(Arc::new(settings)),
                ..self
            })
        } else {
            Err(EndpointError::NotEncrypted {
                given: self.to_string(),
            })
        }
    }

    /// True if the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn tls(&self) -> Option<&TlsSettings> {
        self.tls.as_deref()
    }

    pub(crate) fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    pub(crate) fn uri(&self) -> Uri {
        Uri::clone(&self.uri)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        Self::parse(given)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}",
            self.uri.scheme_str().unwrap_or_default(),
            self.uri.authority().map_or("", |authority| authority.as_str())
        )
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_and_port_may_be_left_out() {
        for (given, full) in [
            ("http://127.0.0.1:50051", "http://127.0.0.1:50051"),
            ("127.0.0.1:7000", "http://127.0.0.1:7000"),
            ("localhost", "http://localhost:50051"),
            (" http://host/ ", "http://host:50051"),
            ("[::1]:9", "http://[::1]:9"),
            ("http://[::1]", "http://[::1]:50051"),
            ("https://host", "https://host:50051"),
            ("https://host:443/", "https://host:443"),
        ] {
            assert_eq!(
                Endpoint::parse(given).map(|e| e.to_string()).as_deref(),
                Ok(full),
                "{given}"
            );
        }
        let of = |given| Endpoint::parse_with_port(given, 50_052).map(|e| e.to_string());
        assert_eq!(of("host").as_deref(), Ok("http://host:50052"));
        assert_eq!(of("host:50051").as_deref(), Ok("http://host:50051"));
    }

    #[test]
    fn host_and_port_are_what_a_resolver_takes() {
        for (given, host, port) in [
            ("http://[::1]:9", "::1", 9),
            ("speech.example", "speech.example", 50_051),
        ] {
            let endpoint = Endpoint::parse(given).unwrap();
            assert_eq!((endpoint.host(), endpoint.port()), (host, port));
        }
    }

    #[test]
    fn what_cannot_be_an_address_is_refused() {
        for given in [
            "",
            "http://",
            "http://:50051",
            "host:port",
            "host:99999",
            "a b",
            "user@host:1",
        ] {
            assert!(
                matches!(Endpoint::parse(given), Err(EndpointError::Malformed { .. })),
                "{given}"
            );
        }
        assert!(matches!(
            Endpoint::parse("ftp://host:1"),
            Err(EndpointError::Scheme { .. })
        ));
        let plain = Endpoint::parse("http://host:1").unwrap();
        assert!(matches!(
            plain.with_tls(TlsSettings::default()),
            Err(EndpointError::NotEncrypted { .. })
        ));
        assert!(matches!(
            Endpoint::parse("http://host:1/v1"),
            Err(EndpointError::Path { .. })
        ));
    }
}
