//! The port: how it is encrypted, and what connections may take. All bounds of connections have their defaults here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;

use super::proxies::{host, network};
use super::raw::{CONNECTIONS, PORTS};
use super::time::parse_duration;
use super::tls::TlsFiles;

/// Bounds of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once.
    pub connections: usize,
    /// Of these from one address (IPv6: from one network of 64 bits).
    pub per_peer: usize,
    /// Connections that have said nothing yet, besides; when there are more, the oldest of the address with the most
    /// goes.
    pub openings: usize,
    /// Longest time until a connection has said something: for its TLS handshake and the first bytes after it.
    pub opening_time: Duration,
    /// Longest time for the head of a request on HTTP/1.1, and for the message of a call that has one.
    pub request_time: Duration,
    /// Longest time that a connection of HTTP/1.1 may have no request.
    pub idle_time: Duration,
    /// Longest time for an answered caller to continue with an unread body.
    pub leftover_time: Duration,
    /// Bytes of that.
    pub leftover_bytes: usize,
    /// Calls at once on one connection.
    pub streams: u32,
    /// Largest request message in bytes.
    pub message_bytes: usize,
    /// Bytes of the bodies that are being received for calls with one message, from all callers; one caller may hold as
    /// many as are left.
    pub body_bytes: usize,
    /// Largest list of headers in bytes.
    pub header_bytes: u32,
    /// Most headers of a request on HTTP/1.1.
    pub headers: usize,
    /// Largest frame of HTTP/2 in bytes.
    pub frame_bytes: u32,
    /// Bytes of request that may wait in one call. Requests are text: small windows hold back a flood without slowing
    /// anyone.
    pub stream_window: u32,
    /// Bytes of request that may wait in one connection: more than all its calls may have, so that none of them holds
    /// up the others. h2 counts each small frame that waits as 256 bytes, and ends the connection when that is half of
    /// this.
    pub connection_window: u32,
    /// Bytes of response that may wait in one call: few, for audio among them cannot be taken back.
    pub send_buffer: usize,
    /// Streams that a caller opened and reset and that were not accepted yet; more end the connection (rapid reset,
    /// CVE-2023-44487).
    pub pending_resets: usize,
    /// A connection without traffic is probed after this.
    pub keepalive: Duration,
    /// A probe that is not answered in this time ends the connection.
    pub keepalive_timeout: Duration,
}

impl ConnectionLimits {
    /// The bounds that hold by default.
    pub const DEFAULT: Self = Self {
        connections: 1_024,
        per_peer: 256,
        openings: 256,
        opening_time: Duration::from_secs(10),
        request_time: Duration::from_secs(30),
        // Longer than the pools of proxies and load balancers keep theirs, of which the longest usual time is 600 s.
        idle_time: Duration::from_secs(620),
        leftover_time: Duration::from_secs(5),
        leftover_bytes: 64 << 20,
        streams: 256,
        message_bytes: 1 << 20,
        body_bytes: 256 << 20,
        header_bytes: 16 << 10,
        headers: 100,
        frame_bytes: 16 << 10,
        stream_window: 64 << 10,
        connection_window: 32 << 20,
        send_buffer: 16 << 10,
        pending_resets: 1_024,
        keepalive: Duration::from_secs(30),
        keepalive_timeout: Duration::from_secs(20),
    };
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const DEFAULT: ConnectionLimits = ConnectionLimits::DEFAULT;

/// As typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = CONNECTIONS)]
pub struct RawTransport {
    /// Encrypt: file with the server's certificate and those between it and its authority (PEM). Read again when it
    /// changes
    #[arg(long, alias = "ssl-certfile", env = "OMNI_TLS_CERT", value_name = "FILE")]
    #[arg(help_heading = PORTS)]
    pub tls_cert: Option<PathBuf>,

    /// File with the key of --tls-cert (PEM)
    #[arg(long, alias = "ssl-keyfile", env = "OMNI_TLS_KEY", value_name = "FILE")]
    #[arg(help_heading = PORTS)]
    pub tls_key: Option<PathBuf>,

    /// Require client certificates signed by an authority in this file (PEM)
    #[arg(long, alias = "ssl-ca-certs", env = "OMNI_TLS_CLIENT_CA", value_name = "FILE")]
    #[arg(help_heading = PORTS)]
    pub tls_client_ca: Option<PathBuf>,

    /// Allow an address that other machines can reach, although nothing is encrypted
    #[arg(long, env = "OMNI_INSECURE_PLAINTEXT")]
    #[arg(help_heading = PORTS)]
    pub insecure_plaintext: bool,

    /// Connections at once; more are closed
    #[arg(long, env = "OMNI_MAX_CONNECTIONS", default_value_t = DEFAULT.connections, value_name = "N")]
    pub max_connections: usize,

    /// Connections at once from one address, or one /64 network of IPv6; more are closed
    #[arg(long, env = "OMNI_MAX_CONNECTIONS_PER_PEER", default_value_t = DEFAULT.per_peer, value_name = "N")]
    pub max_connections_per_peer: usize,

    /// Calls at once on one connection; more wait
    #[arg(long, env = "OMNI_MAX_STREAMS_PER_CONNECTION", default_value_t = DEFAULT.streams, value_name = "N")]
    pub max_streams_per_connection: u32,

    /// Largest message of a call
    #[arg(long, env = "OMNI_MAX_MESSAGE_BYTES", default_value_t = DEFAULT.message_bytes, value_name = "BYTES")]
    pub max_message_bytes: usize,

    /// Close a connection of HTTP/1.1 on which nothing was asked for this long. Proxies must close theirs sooner
    #[arg(long, env = "OMNI_KEEP_ALIVE_TIMEOUT", default_value = "620s", value_parser = parse_duration, value_name = "TIME")]
    pub keep_alive_timeout: Duration,

    /// Believe proxies at these addresses, like 127.0.0.1 or 10.0.0.0/8, where they say who calls and by which address:
    /// X-Forwarded-For, -Proto and -Host, Forwarded, and the PROXY protocol. Their connections have no bound by address
    #[arg(long, env = "OMNI_TRUSTED_PROXIES", value_delimiter = ',', value_parser = network, value_name = "CIDR")]
    pub trusted_proxies: Vec<IpNet>,

    /// Answer only requests for these hosts, like speech.example.org, *.example.org or "*" for all, besides this
    /// machine's own names. Without it a port at a loopback address that asks for no API keys answers to localhost and
    /// loopback addresses, and any other port to every name
    #[arg(long, env = "OMNI_ALLOWED_HOSTS", value_delimiter = ',', value_parser = host, value_name = "HOST")]
    pub allowed_hosts: Vec<String>,

    /// Longest time for a TLS handshake and the first words of a connection
    #[arg(long, env = "OMNI_HANDSHAKE_TIMEOUT", default_value = "10s", value_parser = parse_duration, value_name = "TIME")]
    pub handshake_timeout: Duration,
}

impl RawTransport {
    /// The files of certificates, if there are any; they are usable. `listen` is the address that others may reach.
    pub(super) fn tls(&self, listen: SocketAddr) -> Result<Option<TlsFiles>, Vec<String>> {
        let (certificate, key) = match (&self.tls_cert, &self.tls_key, &self.tls_client_ca) {
            (Some(certificate), Some(key), _) => (certificate, key),
            (None, None, None) => return self.plaintext(listen).map(|()| None),
            (Some(_), None, _) => return Err(vec!["--tls-cert: expected --tls-key beside it".to_owned()]),
            (None, Some(_), _) => return Err(vec!["--tls-key: expected --tls-cert beside it".to_owned()]),
            (None, None, Some(_)) => {
                let problem = "--tls-client-ca: expected --tls-cert and --tls-key beside it";
                return Err(vec![problem.to_owned()]);
            }
        };
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: self.tls_client_ca.clone(),
        };
        files.read().map(|_| Some(files))
    }

    fn plaintext(&self, listen: SocketAddr) -> Result<(), Vec<String>> {
        if listen.ip().is_loopback() || self.insecure_plaintext {
            return Ok(());
        }
        Err(vec![format!(
            "--listen {listen}: other machines could reach it and nothing is encrypted; name a certificate with --tls-cert \
             and --tls-key, listen on a loopback address, or add --insecure-plaintext (where something in front encrypts)"
        )])
    }

    /// The bounds that can be configured, the others as they are.
    pub(super) fn limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.max_connections,
            per_peer: self.max_connections_per_peer,
            streams: self.max_streams_per_connection,
            message_bytes: self.max_message_bytes,
            opening_time: self.handshake_timeout,
            idle_time: self.keep_alive_timeout,
            ..DEFAULT
        }
    }
}
