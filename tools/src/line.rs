//! A connection that can break.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};
use tower::service_fn;

/// A connection of its own, with access to its socket.
#[derive(Debug)]
pub(crate) struct Line {
    /// Channel of its calls.
    pub(crate) channel: Channel,
    socket: Socket,
}

type Socket = Arc<Mutex<Option<std::net::TcpStream>>>;

impl Line {
    /// Connects to `address`.
    ///
    /// # Errors
    /// If no server listens there.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Error> {
        let socket = Socket::default();
        let held = Arc::clone(&socket);
        let connect = service_fn(move |_: Uri| connected(address, Arc::clone(&held)));
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        let channel = endpoint.connect_with_connector(connect).await?;
        Ok(Self { channel, socket })
    }

    /// Breaks the connection during its calls, without a goodbye.
    pub(crate) fn cut(self) {
        let socket = self.socket.lock().take();
        if let Some(socket) = socket {
            // It may be broken already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

async fn connected(address: SocketAddr, held: Socket) -> io::Result<TokioIo<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    // As clients have it; otherwise a request waits for the acknowledgement of what went before.
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    *held.lock() = Some(stream.try_clone()?);
    Ok(TokioIo::new(TcpStream::from_std(stream)?))
}
