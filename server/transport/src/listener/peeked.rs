//! A connection whose first bytes are known.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// First bytes of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose first bytes were read, and are given again to its next reader.
#[derive(Debug)]
pub(super) struct PeekedStream<S> {
    first: [u8; PREFACE.len()],
    /// Number of bytes of `first`, and of those that were given out.
    length: usize,
    given: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> PeekedStream<S> {
    /// Waits until it is known whether the peer speaks HTTP/2 or something else.
    pub(super) async fn read(mut stream: S) -> io::Result<Self> {
        let mut first = [0; PREFACE.len()];
        let mut length = 0;
        while length < PREFACE.len() && PREFACE.starts_with(&first[..length]) {
            match stream.read(&mut first[length..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => length += read,
            }
        }
        Ok(Self {
            first,
            length,
            given: 0,
            stream,
        })
    }
}

impl<S> PeekedStream<S> {
    /// True if the peer speaks HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.length == PREFACE.len() && self.first == PREFACE
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PeekedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.first[self.given..self.length];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let taken = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..taken]);
        self.given += taken;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PeekedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_back(bytes: &[u8]) -> Vec<u8> {
        let mut opened = PeekedStream::read(bytes).await.unwrap();
        let mut all = Vec::new();
        opened.read_to_end(&mut all).await.unwrap();
        all
    }

    #[tokio::test]
    async fn nothing_is_lost_of_what_was_looked_at() {
        let mut long = PREFACE.to_vec();
        long.extend(b"and a frame");
        for bytes in [
            &long[..],
            b"GET / HTTP/1.1\r\n\r\n",
            b"P",
            b"PRI * HTTP/1.1 of old",
        ] {
            match bytes {
                // Not enough to tell.
                b"P" => assert!(PeekedStream::read(bytes).await.is_err()),
                _ => assert_eq!(read_back(bytes).await, bytes),
            }
        }
    }
}
