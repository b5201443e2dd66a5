//! Binds ports, with errors that name the flag to change.

use std::io;
use std::net::SocketAddr;

use anyhow::anyhow;
use tokio::net::{TcpListener, TcpSocket};

/// Binds the address of `flag` for `whom`.
///
/// # Errors
/// The reason, with the flag to change.
pub(super) async fn bind(whom: &str, flag: &str, wanted: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(wanted).await;
    listener.map_err(|error| refused(whom, flag, wanted, &error))
}

/// Reserves the port for `whom` without listening: connections are refused until the socket listens.
///
/// # Errors
/// As for [`bind`].
pub(super) fn reserve(whom: &str, flag: &str, wanted: SocketAddr) -> anyhow::Result<TcpSocket> {
    let reserved = || {
        let socket = match wanted {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Connections of a server before it may still be closing.
        socket.set_reuseaddr(true)?;
        socket.bind(wanted)?;
        Ok(socket)
    };
    reserved().map_err(|error| refused(whom, flag, wanted, &error))
}

/// The error for a port that cannot be bound, with what to do.
pub(super) fn refused(whom: &str, flag: &str, wanted: SocketAddr, error: &io::Error) -> anyhow::Error {
    anyhow!(
        "cannot listen for {whom} on {wanted}: {}; {flag} names another address, port 0 takes a free one",
        reason(error, wanted)
    )
}

fn reason(error: &io::Error, wanted: SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("another program has port {} already", wanted.port()),
        io::ErrorKind::PermissionDenied => format!(
            "this user may not open port {} (ports below 1024 need CAP_NET_BIND_SERVICE)",
            wanted.port()
        ),
        io::ErrorKind::AddrNotAvailable => format!("this machine has no address {}", wanted.ip()),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_cannot_be_had_is_refused_with_what_to_do() {
        let taken = bind("callers", "--listen", ([127, 0, 0, 1], 0).into())
            .await
            .expect("a free port");
        let address = taken.local_addr().expect("it listens");
        for (flag, wanted, told) in [
            (
                "--listen",
                address,
                format!("another program has port {} already", address.port()),
            ),
            (
                "--admin-listen",
                address,
                "--admin-listen names another address, port 0 takes a free one".to_owned(),
            ),
            (
                "--wyoming",
                ([192, 0, 2, 1], 0).into(),
                "this machine has no address 192.0.2.1".to_owned(),
            ),
        ] {
            let error = bind("callers", flag, wanted)
                .await
                .expect_err("it is not to be had")
                .to_string();
            assert!(error.contains(&told), "{error}");
        }
        let forbidden = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(reason(&forbidden, ([127, 0, 0, 1], 80).into()).contains("CAP_NET_BIND_SERVICE"));
    }
}
