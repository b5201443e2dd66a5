//! A link of low bandwidth, which delays the server's output.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Bytes that are read at once, and that a socket of the link holds.
const PIECE: usize = 1 << 10;
const BUFFER: u32 = 4 << 10;
/// Pieces that may be on their way.
const PIECES: usize = 1 << 10;

/// Connections to a server over such a link. It ends when it is dropped.
#[derive(Debug)]
pub struct SlowLink {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl SlowLink {
    /// Link to the server at `address`: `kbit` thousand bits per second towards the client, with a delay of `way`
    /// each way.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(address: SocketAddr, kbit: u64, way: Duration) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_send_buffer_size(BUFFER).expect("a small buffer");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        let listener = socket.listen(8).expect("a port");
        let own = listener.local_addr().expect("an address");
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, address, kbit * 125, way));
            }
        });
        Self { address: own, task }
    }

    /// Address for a client.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(client: TcpStream, address: SocketAddr, bytes_per_second: u64, way: Duration) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(BUFFER).expect("a small buffer");
    let server = socket.connect(address).await.expect("the server listens");
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        pump(from_client, to_server, None, way),
        pump(from_server, to_client, Some(bytes_per_second), way),
    );
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, bytes_per_second: Option<u64>, way: Duration) {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let takes = async move {
        let mut free = Instant::now();
        let mut piece = vec![0; PIECE];
        while let Ok(bytes @ 1..) = from.read(&mut piece).await {
            if let Some(rate) = bytes_per_second {
                free = free.max(Instant::now()) + Duration::from_micros(bytes as u64 * 1_000_000 / rate);
                sleep_until(free).await;
            }
            let arrives = Instant::now() + way;
            if sender.send((arrives, piece[..bytes].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let gives = async move {
        while let Some((arrives, piece)) = pieces.recv().await {
            sleep_until(arrives).await;
            if to.write_all(&piece).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(takes, gives);
}
