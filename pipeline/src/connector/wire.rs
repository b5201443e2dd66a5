//! Wire format between two processes: messages of `omni.stage.v1`, each behind its length.
//!
//! `proto/proto/omni/stage/v1/stage.proto` describes it. This module bounds all reads, and converts messages to the
//! server's own types and back; nothing above it names a message. Unreadable data ends the connection with an error
//! that says what was expected.

mod clock;
mod events;
mod frames;
mod items;
mod messages;
mod requests;

use omni_engine::SeqId;
use omni_proto::stage::v1::frame::Body;

pub(super) use clock::PeerClock;
pub(super) use events::Reports;
pub(super) use frames::{FrameReader, Received, write_frame};
pub(super) use items::{Arrival, item, payload, payload_of};
pub(super) use messages::{end, end_message, known, progress, progress_message, token, token_message};
pub(super) use requests::{next_stage, next_stage_message, request, request_message};

/// Version of the protocol.
pub const VERSION: u32 = 16;
/// Bytes of the length in front of a frame.
pub const PREFIX: usize = 4;
/// Most bytes of a frame: a thousand rows of a large language model, or ten minutes of audio.
pub const MAX_FRAME: usize = 16 << 20;

/// Reason why bytes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// No message of the protocol.
    #[error("malformed frame of {length} bytes: {why}")]
    Malformed {
        /// Bytes of the frame.
        length: usize,
        /// Message of the decoder.
        why: String,
    },
    /// The peer speaks another version.
    #[error("the peer speaks version {theirs} of the protocol, expected version {ours}")]
    Version {
        /// Version of this side.
        ours: u32,
        /// Version of the peer.
        theirs: u32,
    },
    /// A value is not one of those accepted.
    #[error("{what} is {got}, expected {expected}")]
    Value {
        /// Name of the value.
        what: &'static str,
        /// The value received.
        got: String,
        /// Values accepted.
        expected: &'static str,
    },
    /// A frame is longer than is allowed.
    #[error("a frame has {got} bytes, the limit is {MAX_FRAME}")]
    TooLong {
        /// Bytes that it announces or has.
        got: usize,
    },
}

impl WireError {
    #[expect(clippy::needless_pass_by_value, reason = "callers make the text on the spot")]
    pub(super) fn value(what: &'static str, got: impl ToString, expected: &'static str) -> Self {
        let got = got.to_string();
        Self::Value { what, got, expected }
    }

    /// Error for a missing field.
    pub(super) fn absent(what: &'static str, expected: &'static str) -> Self {
        Self::value(what, "absent", expected)
    }
}

/// A frame about the whole replica.
pub(super) const NO_SEQUENCE: SeqId = SeqId(0);

/// Name of a frame's body.
pub(super) fn name(body: &Body) -> &'static str {
    match body {
        Body::Hello(_) => "hello",
        Body::Heartbeat(_) => "heartbeat",
        Body::Ready(_) => "ready",
        Body::Failed(_) => "failed",
        Body::Open(_) => "open",
        Body::Attach(_) => "attach",
        Body::Item(_) => "item",
        Body::Credit(_) => "credit",
        Body::End(_) => "end",
        Body::Cancel(_) => "cancel",
        Body::Done(_) => "done",
        Body::Progress(_) => "progress",
        Body::Arrivals(_) => "arrivals",
        Body::Idle(_) => "idle",
        Body::Events(_) => "events",
    }
}

#[cfg(test)]
mod tests;
