//! Arguments that select the server and the connection to it.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args as ClapArgs};
use omni_client::{Endpoint, TlsSettings};

use crate::failure::Failure;

/// The variable that may hold the API key.
const API_KEY: &str = "OMNI_API_KEY";

/// Address of the server, and access to it.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Server {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "OMNI_ENDPOINT", hide_env_values = true)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub(crate) endpoint: Endpoint,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// Credentials: an API key, and certificates where the endpoint is https://.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Access {
    /// File with the API key, for servers that require one; OMNI_API_KEY may hold the key itself
    #[arg(long, value_name = "FILE", env = "OMNI_API_KEY_FILE", hide_env_values = true)]
    api_key_file: Option<PathBuf>,
    /// Trust the authorities in this file (PEM) instead of the system's
    #[arg(long, value_name = "FILE", env = "OMNI_TLS_CA", hide_env_values = true)]
    tls_ca: Option<PathBuf>,
    /// Client certificate (PEM), for servers that require one
    #[arg(
        long,
        value_name = "FILE",
        env = "OMNI_CLIENT_TLS_CERT",
        hide_env_values = true
    )]
    tls_cert: Option<PathBuf>,
    /// Key of --tls-cert (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "OMNI_CLIENT_TLS_KEY",
        hide_env_values = true
    )]
    tls_key: Option<PathBuf>,
    /// Name that the server's certificate must have, if it differs from the address
    #[arg(
        long,
        value_name = "NAME",
        env = "OMNI_TLS_SERVER_NAME",
        hide_env_values = true
    )]
    tls_server_name: Option<String>,
}

/// Arguments of [`Access`] that apply to https:// only.
const TLS: [&str; 4] = ["tls_ca", "tls_cert", "tls_key", "tls_server_name"];

impl Access {
    /// Returns true if the command line itself has an option about TLS. A variable does not count: it is set for all
    /// servers, and some of them are not encrypted.
    pub(super) fn is_about_tls(matches: &ArgMatches) -> bool {
        let mut matches = matches;
        while let Some((_, command)) = matches.subcommand() {
            matches = command;
        }
        let typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        TLS.into_iter().any(typed)
    }

    /// Gives endpoints the key and the certificates that were named. A key is never an argument: those are visible to
    /// every user of the machine. Certificates without an encrypted endpoint are an error if they are `wanted`.
    pub(super) fn authorise(&self, endpoints: Vec<&mut Endpoint>, wanted: bool) -> Result<(), Failure> {
        let encrypted = endpoints.iter().any(|endpoint| endpoint.is_encrypted());
        let tls = if encrypted || wanted { self.tls()? } else { None };
        let key = self.key()?;
        for endpoint in endpoints {
            if let Some(tls) = tls.clone().filter(|_| endpoint.is_encrypted() || !encrypted) {
                let with_tls = endpoint.clone().with_tls(tls);
                *endpoint = with_tls.map_err(|error| Failure::Usage(error.to_string()))?;
            }
            if let Some(key) = &key {
                let with_key = endpoint.clone().with_api_key(key);
                *endpoint = with_key.map_err(|error| Failure::Usage(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Source of the API key; none if none is sent.
    pub(crate) fn key_source(&self) -> Option<String> {
        match &self.api_key_file {
            Some(file) => Some(file.display().to_string()),
            None => env_key().map(|_| API_KEY.to_owned()),
        }
    }

    fn key(&self) -> Result<Option<String>, Failure> {
        match &self.api_key_file {
            Some(file) => std::fs::read_to_string(file)
                .map(Some)
                .map_err(|error| unreadable(file, error)),
            None => Ok(env_key()),
        }
    }

    /// None without any such argument.
    fn tls(&self) -> Result<Option<TlsSettings>, Failure> {
        let wrong = |flag: &str, error: &dyn std::fmt::Display| Failure::Usage(format!("{flag}: {error}"));
        let mut settings = TlsSettings::default();
        if let Some(file) = &self.tls_ca {
            settings = settings
                .trusting(read(file)?)
                .map_err(|error| wrong("--tls-ca", &error))?;
        }
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                settings = settings
                    .identified_by(read(certificate)?, read(key)?)
                    .map_err(|error| wrong("--tls-cert, --tls-key", &error))?;
            }
            (None, None) => {}
            (Some(_), None) => return Err(wrong("--tls-cert", &"expected --tls-key beside it")),
            (None, Some(_)) => return Err(wrong("--tls-key", &"expected --tls-cert beside it")),
        }
        if let Some(name) = &self.tls_server_name {
            settings = settings.expecting(name);
        }
        Ok((settings != TlsSettings::default()).then_some(settings))
    }
}

fn env_key() -> Option<String> {
    std::env::var(API_KEY).ok().filter(|key| !key.is_empty())
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| unreadable(file, error))
}

fn unreadable(file: &Path, error: std::io::Error) -> Failure {
    Failure::io(format!("cannot read {}", file.display()), error)
}
