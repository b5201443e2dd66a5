//! PROXY protocol, versions 1 and 2: a TCP proxy's statement of the caller's address, before the first byte of the
//! connection.

use std::io;
use std::net::{IpAddr, SocketAddr};

use omni_config::TrustedProxies;
use omni_core::caller::CallerAddress;
use ppp::{HeaderResult, v1, v2};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// The first bytes of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 and a connection of the proxy's own.
const LOCAL: u8 = 0x20;
/// The first bytes of version 1.
const WORD: &[u8] = b"PROXY ";
/// Longest header of version 1, in bytes.
const LONGEST_LINE: usize = 107;
/// Bytes of version 2 before the addresses, and most of the rest.
const FIXED: usize = 16;
const LONGEST_REST: usize = 4 << 10;

/// Address of the caller behind a connection from `peer`: that of a trusted proxy's PROXY header, which is consumed,
/// or `peer`.
///
/// # Errors
/// If the connection breaks, or the header is invalid.
pub async fn caller(
    proxies: &TrustedProxies,
    stream: &mut TcpStream,
    peer: SocketAddr,
) -> io::Result<CallerAddress> {
    let direct = CallerAddress::direct(peer.ip());
    if !proxies.contains(peer.ip()) {
        return Ok(direct);
    }
    let header = match announced(stream).await? {
        None => return Ok(direct),
        Some(Version::One) => line(stream).await?,
        Some(Version::Two) => binary(stream).await?,
    };
    // A proxy that calls on its own account, as for its health checks, names no caller, whatever stands behind.
    if header.starts_with(&SIGNATURE) && header[SIGNATURE.len()] == LOCAL {
        return Ok(direct);
    }
    let source = match HeaderResult::parse(&header) {
        HeaderResult::V1(Ok(header)) => first(&header),
        HeaderResult::V2(Ok(header)) => second(&header),
        HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => {
            return Err(broken("the header of the PROXY protocol cannot be read"));
        }
    };
    Ok(source.map_or(direct, |source| direct.behind(source)))
}

/// Refuses a connection that begins with the PROXY protocol from a peer that is no trusted proxy. Waits for its first
/// bytes, which stay to be read.
///
/// # Errors
/// If the connection breaks, or is refused.
pub(super) async fn refuse_strangers(
    proxies: &TrustedProxies,
    stream: &TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    if !proxies.contains(peer.ip()) && announced(stream).await?.is_some() {
        return Err(broken(
            "the peer sends the PROXY protocol and is not in --trusted-proxies",
        ));
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The version of the header that a connection begins with, if it begins with one. Nothing is taken off the stream.
async fn announced(stream: &TcpStream) -> io::Result<Option<Version>> {
    let mut first = [0; SIGNATURE.len()];
    let mut seen = 0;
    loop {
        let length = stream.peek(&mut first).await?;
        let begun = &first[..length];
        if begun.starts_with(WORD) {
            return Ok(Some(Version::One));
        }
        if begun == SIGNATURE {
            return Ok(Some(Version::Two));
        }
        let may_be = WORD.starts_with(begun) || SIGNATURE.starts_with(begun);
        if !may_be || length == 0 {
            return Ok(None);
        }
        if length == seen {
            // Peeked bytes stay readable, so readiness does not help: poll by time.
            tokio::time::sleep(PAUSE).await;
        }
        seen = length;
    }
}

/// Poll interval for an incomplete header.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// A header of version 1.
async fn line(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(LONGEST_LINE);
    while !line.ends_with(b"\r\n") {
        if line.len() == LONGEST_LINE {
            return Err(broken("the header of the PROXY protocol has no end"));
        }
        line.push(stream.read_u8().await?);
    }
    Ok(line)
}

/// A header of version 2.
async fn binary(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = vec![0; FIXED];
    stream.read_exact(&mut header).await?;
    let rest = usize::from(u16::from_be_bytes([header[FIXED - 2], header[FIXED - 1]]));
    if rest > LONGEST_REST {
        return Err(broken("the header of the PROXY protocol is longer than 4 KiB"));
    }
    header.resize(FIXED + rest, 0);
    stream.read_exact(&mut header[FIXED..]).await?;
    Ok(header)
}

fn first(header: &v1::Header<'_>) -> Option<IpAddr> {
    match header.addresses {
        v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Unknown => None,
    }
}

fn second(header: &v2::Header<'_>) -> Option<IpAddr> {
    match header.addresses {
        v2::Addresses::IPv4(addresses) => Some(addresses.source_address.into()),
        v2::Addresses::IPv6(addresses) => Some(addresses.source_address.into()),
        v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
    }
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, addresses].concat()
    }

    /// Caller and remaining bytes of a connection that sends these bytes and ends.
    async fn read(trusted: &str, bytes: &[u8]) -> io::Result<(String, Vec<u8>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut client = TcpStream::connect(listener.local_addr()?).await?;
        let (mut stream, peer) = listener.accept().await?;
        client.write_all(bytes).await?;
        client.shutdown().await?;
        let proxies = TrustedProxies::new(vec![trusted.parse().unwrap()]);
        let caller = caller(&proxies, &mut stream, peer).await?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await?;
        Ok((caller.ip().to_string(), rest))
    }

    #[tokio::test]
    async fn a_trusted_proxy_names_the_caller_in_either_version() {
        const SAID: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
        let four = [192, 0, 2, 7, 127, 0, 0, 1, 0x12, 0x34, 0, 80];
        let mut six = [0; 36];
        six[..16].copy_from_slice(&"2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        for (header, expected) in [
            (
                b"PROXY TCP4 192.0.2.7 127.0.0.1 4660 80\r\n".to_vec(),
                "192.0.2.7",
            ),
            (b"PROXY TCP6 2001:db8::1 ::1 4660 80\r\n".to_vec(), "2001:db8::1"),
            (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
            (binary(1, 0x11, &four), "192.0.2.7"),
            (binary(1, 0x21, &six), "2001:db8::1"),
            // With a field more (TLV) behind the addresses.
            (binary(1, 0x11, &[&four[..], &[4, 0, 1, 0]].concat()), "192.0.2.7"),
            (binary(0, 0, &[]), "127.0.0.1"),
            // Of no use to a proxy's own connection: the family, and too few addresses for it.
            (binary(0, 0x11, &[]), "127.0.0.1"),
            (Vec::new(), "127.0.0.1"),
        ] {
            let read = read("127.0.0.0/8", &[&header, SAID].concat()).await.unwrap();
            assert_eq!(read, (expected.to_owned(), SAID.to_vec()), "{header:?}");
        }
    }

    #[tokio::test]
    async fn others_are_not_believed_and_what_is_broken_ends_the_connection() {
        for header in [
            b"PROXY TCP4 192.0.2.7 127.0.0.1 4660 80\r\n".to_vec(),
            binary(0, 0, &[]),
        ] {
            let (caller, rest) = read("10.0.0.0/8", &header).await.unwrap();
            assert_eq!((caller.as_str(), rest.as_slice()), ("127.0.0.1", &header[..]));
        }
        for broken in [
            b"PROXY TCP4 nobody 127.0.0.1 1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7".to_vec(),
            [b"PROXY ", &[b'x'; 200][..]].concat(),
            binary(1, 0x11, &[1, 2]),
            binary(1, 0x11, &[0; 12])[..20].to_vec(),
        ] {
            assert!(read("127.0.0.0/8", &broken).await.is_err(), "{broken:?}");
        }
    }
}
