//! Items of sequences.

use std::sync::Arc;

use omni_engine::{CodecFrame, SeqId};
use omni_proto::stage::v1;
use omni_proto::stage::v1::item::Payload;

use super::{PeerClock, WireError};
use crate::item::{AudioPiece, Item, Latents, ReplyToken};
use crate::stage::TransferStamps;

/// Payload of a received item.
pub(in crate::connector) fn payload_of(item: v1::Item) -> Result<Payload, WireError> {
    item.payload
        .ok_or_else(|| WireError::absent("an item", "a payload"))
}

/// Encodes an item.
pub(in crate::connector) fn payload(item: Item) -> Payload {
    match item {
        Item::Text(ids) => Payload::Text(v1::Tokens { ids }),
        Item::Frames(frames) => match <[CodecFrame; 1]>::try_from(frames) {
            Ok([frame]) => Payload::Frame(frame_message(&frame)),
            Err(frames) => Payload::Frames(v1::CodecFrames {
                frames: frame_messages(&frames),
            }),
        },
        Item::Latents(latents) => Payload::Latents(v1::Latents {
            width: latents.width(),
            values: latents.into_values(),
        }),
        Item::Audio(piece) => Payload::Audio(v1::Audio {
            samples: piece.samples,
            frames: piece.frames,
            codes: frame_messages(&piece.codes),
        }),
        Item::Reply(token) => Payload::Reply(v1::ReplyToken {
            id: token.id,
            hidden: token.hidden.iter().map(floats).collect(),
        }),
        Item::Embedding(rows) => Payload::Embedding(floats(&rows)),
    }
}

/// Decodes an item.
///
/// # Errors
///
/// If it is latents without a frame, or with one that is cut short.
pub(in crate::connector) fn item(payload: Payload) -> Result<Item, WireError> {
    Ok(match payload {
        Payload::Text(v1::Tokens { ids }) => Item::Text(ids),
        Payload::Frame(frame) => Item::Frames(frames(vec![frame])),
        Payload::Frames(message) => Item::Frames(frames(message.frames)),
        Payload::Latents(message) => {
            let got = format!("{} values in frames of {}", message.values.len(), message.width);
            let latents = Latents::new(message.width, message.values);
            let expected = "at least one whole frame of at least one value";
            Item::Latents(latents.ok_or_else(|| WireError::value("latents", got, expected))?)
        }
        Payload::Audio(message) => Item::Audio(AudioPiece {
            samples: message.samples,
            frames: message.frames,
            codes: frames(message.codes),
        }),
        Payload::Reply(v1::ReplyToken { id, hidden }) => Item::Reply(ReplyToken {
            id,
            hidden: hidden.into_iter().map(|row| row.values.into()).collect(),
        }),
        Payload::Embedding(rows) => Item::Embedding(rows.values.into()),
    })
}

pub(super) fn floats(values: &Arc<[f32]>) -> v1::Floats {
    v1::Floats {
        values: values.to_vec(),
    }
}

fn frame_message(frame: &CodecFrame) -> v1::CodecFrame {
    v1::CodecFrame {
        codes: frame.0.to_vec(),
    }
}

pub(super) fn frame_messages(frames: &[CodecFrame]) -> Vec<v1::CodecFrame> {
    frames.iter().map(frame_message).collect()
}

pub(super) fn frames(messages: Vec<v1::CodecFrame>) -> Vec<CodecFrame> {
    messages
        .into_iter()
        .map(|frame| CodecFrame(frame.codes.into()))
        .collect()
}

/// Arrival of an item of a sequence.
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
