//! Boundaries of the messages of a gRPC stream.

/// A flag and four bytes of length stand before every message.
const HEAD: usize = 5;

/// Finds the messages in the bytes of one direction of a call, in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    head: [u8; HEAD],
    /// Bytes of it that have come.
    filled: usize,
    /// Bytes of the message that have not.
    left: usize,
}

impl Frames {
    /// Number of messages that end within `data`.
    pub(crate) fn messages(&mut self, mut data: &[u8]) -> usize {
        let mut messages = 0;
        while !data.is_empty() {
            if self.filled < HEAD {
                let taken = data.len().min(HEAD - self.filled);
                self.head[self.filled..self.filled + taken].copy_from_slice(&data[..taken]);
                self.filled += taken;
                data = &data[taken..];
                if self.filled < HEAD {
                    break;
                }
                let [_, length @ ..] = self.head;
                self.left = u32::from_be_bytes(length) as usize;
            }
            let taken = data.len().min(self.left);
            self.left -= taken;
            data = &data[taken..];
            if self.left == 0 {
                messages += 1;
                self.filled = 0;
            }
        }
        messages
    }

    /// Returns true if a message has arrived in part.
    pub(crate) fn is_within(&self) -> bool {
        self.filled > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u8) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, length];
        bytes.resize(HEAD + usize::from(length), 7);
        bytes
    }

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let stream = [message(3), message(0), message(200), message(1)].concat();
        for piece in [1, 2, 4, 5, 6, 100, stream.len()] {
            let mut frames = Frames::default();
            let ends: usize = stream.chunks(piece).map(|piece| frames.messages(piece)).sum();
            assert_eq!(ends, 4, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_message_that_has_not_all_come_is_none() {
        let mut frames = Frames::default();
        let bytes = message(10);
        assert_eq!(frames.messages(&bytes[..14]), 0);
        assert_eq!(frames.messages(&bytes[14..]), 1);
    }
}
