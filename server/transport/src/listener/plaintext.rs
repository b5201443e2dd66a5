//! Plaintext HTTP clients at a TLS port get an answer in their own protocol.

use std::io;

use tokio::net::TcpStream;

use super::frames::go_away;

/// Their answer.
const TOLD: &str =
    "this port speaks TLS and the client spoke plaintext, expected https:// or a channel with TLS";
/// The code of RFC 9113, section 7.
const INADEQUATE_SECURITY: u32 = 12;

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plaintext {
    Http1,
    Http2,
}

impl Plaintext {
    /// The peer's version of HTTP, if it speaks that. Waits for its first bytes, which can be read again.
    pub(super) async fn spoken(stream: &TcpStream) -> io::Result<Option<Self>> {
        let mut first = [0; 8];
        let length = stream.peek(&mut first).await?;
        Ok(Self::of(&first[..length]))
    }

    /// TLS begins with a byte that is no letter, methods of HTTP with one that is.
    fn of(first: &[u8]) -> Option<Self> {
        match first.first()? {
            letter if !letter.is_ascii_uppercase() => None,
            _ if first.starts_with(b"PRI") => Some(Self::Http2),
            _ => Some(Self::Http1),
        }
    }

    /// The answer to the peer.
    pub(super) fn answer(self) -> Vec<u8> {
        match self {
            Self::Http1 => bad_request("tls_expected", TOLD),
            Self::Http2 => {
                // Without the SETTINGS that begin a connection: with them gRPC's own library takes it for one that worked, and
                // connects again at once, hundreds of times a second. No stream was worked on.
                go_away(INADEQUATE_SECURITY, 0, TOLD)
            }
        }
    }
}

/// An answer by HTTP/1.1 to a connection that cannot be served.
pub(super) fn bad_request(code: &str, told: &str) -> Vec<u8> {
    let error = serde_json::json!({
        "error": { "message": told, "type": "invalid_request_error", "param": null, "code": code }
    });
    let body = error.to_string();
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n";
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_is_taken_for_plaintext() {
        assert_eq!(Plaintext::of(b"GET / HT"), Some(Plaintext::Http1));
        assert_eq!(Plaintext::of(b"PRI * HT"), Some(Plaintext::Http2));
        assert_eq!(Plaintext::of(&[22, 3, 1, 2]), None);
        assert_eq!(Plaintext::of(b""), None);
    }
}
