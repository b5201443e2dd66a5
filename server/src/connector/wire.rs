//! The encoding of what passes between two processes.
//!
//! Everything is a frame: a header of [`HEADER_LEN`] bytes and a payload. Numbers are little endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `OMNI` |
//! | 4 | 2 | version of the encoding; it and the magic stay where they are in every version |
//! | 6 | 1 | [`Kind`] |
//! | 7 | 1 | 0 |
//! | 8 | 8 | sequence; 0 in frames that belong to none |
//! | 16 | 4 | number of the item in its sequence and direction, from 0 |
//! | 20 | 4 | units: what the item weighs, or how many more may be sent |
//! | 24 | 8 | tx start: nanoseconds of `CLOCK_MONOTONIC` when encoding began |
//! | 32 | 8 | tx end: when it was done |
//! | 40 | 4 | bytes of the payload that follows |
//!
//! A peer of another version is refused, as is a frame that is longer than [`MAX_PAYLOAD`] or that says what makes no sense:
//! both processes are of one build, so that whatever cannot be read is a fault and not an extension.

mod chat;
mod frames;
mod messages;
mod news;
mod payload;

use std::time::Duration;

use omni_engine::{SeqId, Stamp};

pub use chat::Nothing;
pub(super) use frames::{Frame, FrameReader};
pub use messages::Chunk;
pub(super) use messages::{Hello, Opening, Passage, Passages};
pub(super) use news::News;
pub use payload::{Fields, Wire};

/// Version of the encoding that is spoken here.
pub const VERSION: u16 = 4;
/// Bytes of a header.
pub const HEADER_LEN: usize = 44;
/// Most bytes of a payload: a thousand rows of a large thinker, or ten minutes of audio.
pub const MAX_PAYLOAD: usize = 16 << 20;

const MAGIC: [u8; 4] = *b"OMNI";

/// What makes bytes unreadable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// No frame begins here.
    #[error("a frame begins with the bytes {got:02x?}, expected {MAGIC:02x?}")]
    Magic {
        /// What is there.
        got: [u8; 4],
    },
    /// The peer is of another build.
    #[error("the peer speaks version {theirs} of the encoding, expected version {ours}")]
    Version {
        /// Spoken here.
        ours: u16,
        /// Spoken there.
        theirs: u16,
    },
    /// A value that has no meaning.
    #[error("{what} is {got}, expected {expected}")]
    Value {
        /// Which.
        what: &'static str,
        /// What it is.
        got: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A payload is longer than is allowed.
    #[error("a frame has a payload of {got} bytes, the limit is {MAX_PAYLOAD}")]
    TooLong {
        /// Bytes that it says or has.
        got: usize,
    },
    /// The payload ends too early.
    #[error("{what} ends after {got} bytes, expected {expected}")]
    Short {
        /// What was being read.
        what: &'static str,
        /// Bytes that are there.
        got: usize,
        /// Bytes that are needed.
        expected: usize,
    },
    /// The payload does not end where it should.
    #[error("{what} has {extra} bytes too many")]
    Trailing {
        /// What was read.
        what: &'static str,
        /// Bytes behind it.
        extra: usize,
    },
}

/// What a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Who is there: the first frame in both directions.
    Hello = 1,
    /// The stage works from now on.
    Ready = 2,
    /// The stage cannot work, or a model failed for good; text.
    Failed = 3,
    /// A new sequence; its job.
    Open = 4,
    /// One item of a sequence.
    Item = 5,
    /// The receiver has room for that many more units of a sequence.
    Credit = 6,
    /// No more items will come; how they ended.
    End = 7,
    /// The sender has dropped the sequence.
    Cancel = 8,
    /// The stage has done with a sequence, although outputs of it are still on their way.
    Done = 9,
    /// How far a sequence got in the stage.
    Progress = 10,
    /// The passages of items that arrived at the sender of this.
    Passages = 11,
    /// Whether whoever makes the items waits for a caller (units 1) or has no such excuse (units 0).
    Waiting = 12,
    /// What the stage is doing and has done.
    Stats = 13,
    /// What its engine tells.
    News = 14,
    /// The stage is still being loaded, and looked after.
    Loading = 15,
}

const KINDS: [Kind; 15] = [
    Kind::Hello,
    Kind::Ready,
    Kind::Failed,
    Kind::Open,
    Kind::Item,
    Kind::Credit,
    Kind::End,
    Kind::Cancel,
    Kind::Done,
    Kind::Progress,
    Kind::Passages,
    Kind::Waiting,
    Kind::Stats,
    Kind::News,
    Kind::Loading,
];

/// The header of a frame, without what only its bytes need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) seq: SeqId,
    pub(super) number: u32,
    pub(super) units: u32,
    pub(super) tx_start: Stamp,
    pub(super) tx_end: Stamp,
}

impl Header {
    /// Of a frame without number and units.
    pub(super) fn new(kind: Kind, seq: SeqId, tx_start: Stamp) -> Self {
        Self {
            kind,
            seq,
            number: 0,
            units: 0,
            tx_start,
            tx_end: tx_start,
        }
    }

    fn bytes(&self, length: u32) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.seq.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.units.to_le_bytes());
        bytes[24..32].copy_from_slice(&nanos(self.tx_start.0).to_le_bytes());
        bytes[32..40].copy_from_slice(&nanos(self.tx_end.0).to_le_bytes());
        bytes[40..].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// Reads a header; also returns the bytes of the payload behind it.
    fn read(bytes: &[u8; HEADER_LEN]) -> Result<(Self, usize), WireError> {
        let magic: [u8; 4] = part(bytes, 0);
        if magic != MAGIC {
            return Err(WireError::Magic { got: magic });
        }
        let theirs = u16::from_le_bytes(part(bytes, 4));
        if theirs != VERSION {
            let ours = VERSION;
            return Err(WireError::Version { ours, theirs });
        }
        if bytes[7] != 0 {
            return Err(value("byte 7 of a header", &bytes[7], "0"));
        }
        let kind = KINDS.into_iter().find(|kind| *kind as u8 == bytes[6]);
        let kind = kind.ok_or_else(|| value("the kind of a frame", &bytes[6], "1 to 15"))?;
        let length = u32::from_le_bytes(part(bytes, 40)) as usize;
        if length > MAX_PAYLOAD {
            return Err(WireError::TooLong { got: length });
        }
        let header = Self {
            kind,
            seq: SeqId(u64::from_le_bytes(part(bytes, 8))),
            number: u32::from_le_bytes(part(bytes, 16)),
            units: u32::from_le_bytes(part(bytes, 20)),
            tx_start: stamp(u64::from_le_bytes(part(bytes, 24))),
            tx_end: stamp(u64::from_le_bytes(part(bytes, 32))),
        };
        Ok((header, length))
    }
}

/// Appends a frame to `out`; returns its bytes. `now` is read when the payload is encoded.
///
/// # Errors
/// [`WireError::TooLong`]; `out` is as it was then.
pub(super) fn write_frame(
    out: &mut Vec<u8>,
    mut header: Header,
    payload: impl FnOnce(&mut Vec<u8>),
    now: impl FnOnce() -> Stamp,
) -> Result<usize, WireError> {
    let start = out.len();
    out.resize(start + HEADER_LEN, 0);
    payload(out);
    let length = out.len() - start - HEADER_LEN;
    if length > MAX_PAYLOAD {
        out.truncate(start);
        return Err(WireError::TooLong { got: length });
    }
    header.tx_end = now();
    out[start..start + HEADER_LEN].copy_from_slice(&header.bytes(length as u32));
    Ok(HEADER_LEN + length)
}

/// `N` bytes from `at`.
fn part<const N: usize>(bytes: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

fn value(what: &'static str, got: &(impl ToString + ?Sized), expected: &'static str) -> WireError {
    let got = got.to_string();
    WireError::Value { what, got, expected }
}

/// Nanoseconds as they are sent; no duration here is longer than 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn stamp(nanos: u64) -> Stamp {
    Stamp(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Item,
            seq: SeqId(0x0102_0304_0506_0708),
            number: 9,
            units: 10,
            tx_start: stamp(11),
            tx_end: stamp(12),
        }
    }

    #[test]
    fn a_frame_has_the_documented_bytes() {
        let mut out = vec![0xEE];
        let written = write_frame(&mut out, header(), |out| out.extend([7, 8, 9]), || stamp(13));
        assert_eq!(written, Ok(47));
        let expected = [
            &[0xEE][..],
            b"OMNI",
            &[4, 0, 5, 0],
            &[8, 7, 6, 5, 4, 3, 2, 1],
            &[9, 0, 0, 0, 10, 0, 0, 0],
            &[11, 0, 0, 0, 0, 0, 0, 0],
            &[13, 0, 0, 0, 0, 0, 0, 0],
            &[3, 0, 0, 0],
            &[7, 8, 9],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_header_that_makes_no_sense_is_refused_with_what_was_expected() {
        let good = header().bytes(0);
        assert_eq!(Header::read(&good), Ok((header(), 0)));
        let changed = |at: usize, to: u8| {
            let mut bytes = good;
            bytes[at] = to;
            Header::read(&bytes).unwrap_err().to_string()
        };
        assert_eq!(
            changed(0, b'P'),
            "a frame begins with the bytes [50, 4d, 4e, 49], expected [4f, 4d, 4e, 49]"
        );
        assert_eq!(
            changed(4, 1),
            "the peer speaks version 1 of the encoding, expected version 4"
        );
        assert_eq!(changed(6, 0), "the kind of a frame is 0, expected 1 to 15");
        assert_eq!(changed(6, 16), "the kind of a frame is 16, expected 1 to 15");
        assert_eq!(changed(7, 1), "byte 7 of a header is 1, expected 0");
        assert_eq!(
            changed(43, 2),
            "a frame has a payload of 33554432 bytes, the limit is 16777216"
        );
    }

    #[test]
    fn a_payload_beyond_the_limit_is_not_written() {
        let mut out = vec![1, 2];
        let got = MAX_PAYLOAD + 1;
        let written = write_frame(
            &mut out,
            header(),
            |out| out.resize(out.len() + got, 0),
            || stamp(0),
        );
        assert_eq!(written, Err(WireError::TooLong { got }));
        assert_eq!(out, [1, 2]);
    }
}
