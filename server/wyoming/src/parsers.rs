//! Events of clients, for tests that send anything.

use bytes::BytesMut;
use tokio_util::codec::Decoder as _;

use super::speech::spoken;
use super::wire::EventDecoder;

/// The bytes of a connection, in pieces.
pub fn events(bytes: &[u8]) {
    let mut decoder = EventDecoder::default();
    let mut buffer = BytesMut::new();
    for piece in bytes.chunks(61) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(event)) => _ = spoken(event.data),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    let _ = decoder.decode_eof(&mut buffer);
}
