//! Items of sequences.

use std::sync::Arc;

use omni_engine::{CodecFrame, SeqId};
use omni_proto::stage::v1::item::Payload;
use omni_proto::stage::v1::{self, Item};

use super::{PeerClock, WireError};
use crate::stage::{AudioPiece, ReplyToken, TransferStamps};

/// An item that can pass an edge between processes.
pub trait Chunk: Send + Sized + 'static {
    /// What it weighs in the edge's unit; at least 1.
    fn units(&self) -> u32;

    /// As it is sent.
    fn into_payload(self) -> Payload;

    /// As it was sent.
    ///
    /// # Errors
    /// If it is of another kind.
    fn from_payload(payload: Payload) -> Result<Self, WireError>;
}

/// What is in an item that came.
pub(in crate::connector) fn payload_of(item: Item) -> Result<Payload, WireError> {
    item.payload
        .ok_or_else(|| WireError::absent("an item", "tokens, a codec frame or audio"))
}

/// Text tokens.
impl Chunk for Vec<u32> {
    fn units(&self) -> u32 {
        1
    }

    fn into_payload(self) -> Payload {
        Payload::Text(v1::Tokens { ids: self })
    }

    fn from_payload(payload: Payload) -> Result<Self, WireError> {
        match payload {
            Payload::Text(v1::Tokens { ids }) => Ok(ids),
            other => Err(wrong(&other, "text")),
        }
    }
}

impl Chunk for CodecFrame {
    fn units(&self) -> u32 {
        1
    }

    fn into_payload(self) -> Payload {
        Payload::Frame(v1::CodecFrame {
            codes: self.0.into_vec(),
        })
    }

    fn from_payload(payload: Payload) -> Result<Self, WireError> {
        match payload {
            Payload::Frame(v1::CodecFrame { codes }) => Ok(Self(codes.into())),
            other => Err(wrong(&other, "a codec frame")),
        }
    }
}

impl Chunk for AudioPiece {
    fn units(&self) -> u32 {
        self.frames.max(1)
    }

    fn into_payload(self) -> Payload {
        let Self { samples, frames } = self;
        Payload::Audio(v1::Audio { samples, frames })
    }

    fn from_payload(payload: Payload) -> Result<Self, WireError> {
        match payload {
            Payload::Audio(v1::Audio { samples, frames }) => Ok(Self { samples, frames }),
            other => Err(wrong(&other, "audio")),
        }
    }
}

impl Chunk for ReplyToken {
    fn units(&self) -> u32 {
        1
    }

    fn into_payload(self) -> Payload {
        let floats = |row: &Arc<[f32]>| v1::Floats { values: row.to_vec() };
        Payload::Reply(v1::ReplyToken {
            id: self.id,
            hidden: self.heard.iter().map(floats).collect(),
        })
    }

    fn from_payload(payload: Payload) -> Result<Self, WireError> {
        match payload {
            Payload::Reply(v1::ReplyToken { id, hidden }) => Ok(Self {
                id,
                heard: hidden.into_iter().map(|row| row.values.into()).collect(),
            }),
            other => Err(wrong(&other, "a token of an answer")),
        }
    }
}

/// The item of a stage that takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {}

impl Chunk for Nothing {
    fn units(&self) -> u32 {
        match *self {}
    }

    fn into_payload(self) -> Payload {
        match self {}
    }

    fn from_payload(payload: Payload) -> Result<Self, WireError> {
        Err(wrong(&payload, "none: the stage takes no items"))
    }
}

fn wrong(payload: &Payload, expected: &'static str) -> WireError {
    let got = match payload {
        Payload::Text(_) => "text",
        Payload::Frame(_) => "a codec frame",
        Payload::Audio(_) => "audio",
        Payload::Reply(_) => "a token of an answer",
    };
    WireError::value("an item", got, expected)
}

/// How an item of a sequence arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::connector) struct Arrival {
    pub(in crate::connector) seq: SeqId,
    pub(in crate::connector) stamps: TransferStamps,
}

impl Arrival {
    pub(in crate::connector) fn message(&self, clock: PeerClock) -> v1::Arrival {
        let Self { seq, stamps } = self;
        v1::Arrival {
            sequence: seq.0,
            bytes: stamps.bytes,
            tx_start: clock.to_wire(stamps.tx_start),
            tx_end: clock.to_wire(stamps.tx_end),
            rx_start: clock.to_wire(stamps.rx_start),
            rx_end: clock.to_wire(stamps.rx_end),
        }
    }

    pub(in crate::connector) fn of(message: &v1::Arrival, clock: PeerClock) -> Self {
        Self {
            seq: SeqId(message.sequence),
            stamps: TransferStamps {
                bytes: message.bytes,
                tx_start: clock.to_local(message.tx_start),
                tx_end: clock.to_local(message.tx_end),
                rx_start: clock.to_local(message.rx_start),
                rx_end: clock.to_local(message.rx_end),
            },
        }
    }
}
