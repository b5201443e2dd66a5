//! Encoding frames, and decoding them from bytes in pieces of any size.

use std::io::{self, Read};

use omni_engine::{SeqId, Stamp};
use omni_proto::stage::v1::{Frame, frame::Body};
use prost::Message as _;

use super::{MAX_FRAME, PREFIX, VERSION, WireError};

/// Bytes read at once.
const READ: usize = 64 << 10;

/// First bytes of a frame in versions before 5. Their version number follows in two bytes. As a length it would be
/// too long.
const OLD_MAGIC: [u8; 4] = *b"OMNI";

/// A frame that came.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::connector) struct Received {
    pub(in crate::connector) seq: SeqId,
    pub(in crate::connector) body: Body,
    /// Time of sending, by the sender's clock.
    pub(in crate::connector) sent: i64,
    /// Its bytes, with those of its length.
    pub(in crate::connector) bytes: usize,
    /// Time at which decoding it began.
    pub(in crate::connector) began: Stamp,
}

/// Appends a frame to `out`; `sent` is called once its body is encoded.
///
/// # Errors
/// [`WireError::TooLong`]; `out` is unchanged.
pub(in crate::connector) fn write_frame(
    out: &mut Vec<u8>,
    seq: SeqId,
    body: Body,
    sent: impl FnOnce() -> i64,
) -> Result<(), WireError> {
    let start = out.len();
    let frame = Frame {
        sequence: seq.0,
        body: Some(body),
        sent: 0,
    };
    // Checked before encoding: a prompt may have any length.
    let body = frame.encoded_len();
    if body + STAMP > MAX_FRAME {
        return Err(WireError::TooLong { got: body + STAMP });
    }
    out.reserve(PREFIX + body + STAMP);
    out.extend([0; PREFIX]);
    frame.encode_raw(out);
    // A message is the concatenation of its fields' encodings, so the time can be added when everything else is
    // encoded.
    let stamp = Frame {
        sent: sent(),
        ..Frame::default()
    };
    stamp.encode_raw(out);
    let length = out.len() - start - PREFIX;
    let length = u32::try_from(length).map_err(|_| WireError::TooLong { got: length })?;
    out[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Most bytes of the field `sent`.
const STAMP: usize = 10;

/// Collects bytes until a frame is complete. Never holds more than twice the largest frame.
#[derive(Debug, Default)]
pub(in crate::connector) struct FrameReader {
    buffer: Vec<u8>,
    /// Start of the unread bytes, `buffer[start..end]`.
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
            // Grows with the bytes received, not with the length announced.
            self.buffer.resize((self.end + READ).next_power_of_two(), 0);
        }
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// [`WireError`] if it cannot be read. The stream cannot be continued then.
    pub(in crate::connector) fn next(
        &mut self,
        now: impl FnOnce() -> Stamp,
    ) -> Result<Option<Received>, WireError> {
        let there = &self.buffer[self.start..self.end];
        let Some((length, rest)) = there.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        if *length == OLD_MAGIC {
            return match rest.first_chunk() {
                Some(version) => Err(WireError::Version {
                    ours: VERSION,
                    theirs: u16::from_le_bytes(*version).into(),
                }),
                None => Ok(None),
            };
        }
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(WireError::TooLong { got: length });
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let began = now();
        let frame = Frame::decode(message).map_err(|error| WireError::Malformed {
            length,
            why: error.to_string(),
        })?;
        self.start += PREFIX + length;
        Ok(Some(Received {
            seq: SeqId(frame.sequence),
            body: frame
                .body
                .ok_or_else(|| WireError::absent("the body of a frame", "one of 15"))?,
            sent: frame.sent,
            bytes: PREFIX + length,
            began,
        }))
    }

    /// Bytes of an incomplete frame.
    pub(in crate::connector) fn pending(&self) -> usize {
        self.end - self.start
    }
}

#[cfg(test)]
impl FrameReader {
    /// Allocated bytes.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }
}
