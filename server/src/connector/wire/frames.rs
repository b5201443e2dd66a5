//! Frames out of bytes that come in any pieces.

use std::io::{self, Read};

use super::{HEADER_LEN, Header, WireError};

/// Bytes read at once.
const READ: usize = 64 << 10;

/// A complete frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::connector) struct Frame<'a> {
    pub(in crate::connector) header: Header,
    pub(in crate::connector) payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes of header and payload.
    pub(in crate::connector) fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }
}

/// Gathers bytes until a frame is complete. Never holds more than twice the largest frame.
#[derive(Debug, Default)]
pub(in crate::connector) struct FrameReader {
    buffer: Vec<u8>,
    /// What was read and not yet handed out: `buffer[start..end]`.
    start: usize,
    end: usize,
}

impl FrameReader {
    /// Reads once; returns the number of bytes, 0 at the end of the stream.
    pub(in crate::connector) fn fill(&mut self, mut from: impl Read) -> io::Result<usize> {
        self.make_room();
        let count = from.read(&mut self.buffer[self.end..])?;
        self.end += count;
        Ok(count)
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end >= READ {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() - self.end < READ {
            // Grows with what has come, not with what a header promises.
            self.buffer.resize((self.end + READ).next_power_of_two(), 0);
        }
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// [`WireError`] if its header cannot be read. The stream is of no use then.
    pub(in crate::connector) fn next(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        let there = &self.buffer[self.start..self.end];
        let Some((header, rest)) = there.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let (header, length) = Header::read(header)?;
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        self.start += HEADER_LEN + length;
        Ok(Some(Frame { header, payload }))
    }

    /// Bytes of a frame that is not complete.
    pub(in crate::connector) fn pending(&self) -> usize {
        self.end - self.start
    }
}

#[cfg(test)]
impl FrameReader {
    /// Bytes that are reserved.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }
}
