//! What the payloads of the frames are.

use omni_engine::{CodecFrame, SeqId, Stamp};

use super::payload::{Fields, Wire, put_bytes, put_option, put_words};
use super::{WireError, nanos, stamp};
use crate::stage::{AudioPiece, ChunkStamps, End, ReplicaStats, STAGE_NAMES, Sampling, StageSnapshot};

/// An item that can pass an edge between processes.
pub trait Chunk: Wire + Send + 'static {
    /// What it weighs in the edge's unit; at least 1.
    fn units(&self) -> u32;
}

/// Text tokens.
impl Wire for Vec<u32> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_words(out, self, u32::to_le_bytes);
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let words = Fields::new("a batch of tokens", bytes).words()?;
        Ok(words.map(u32::from_le_bytes).collect())
    }
}

impl Chunk for Vec<u32> {
    fn units(&self) -> u32 {
        1
    }
}

impl Wire for CodecFrame {
    fn encode(&self, out: &mut Vec<u8>) {
        put_words(out, &self.0, u32::to_le_bytes);
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let words = Fields::new("a codec frame", bytes).words()?;
        Ok(Self(words.map(u32::from_le_bytes).collect()))
    }
}

impl Chunk for CodecFrame {
    fn units(&self) -> u32 {
        1
    }
}

impl Wire for AudioPiece {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.frames.to_le_bytes());
        put_words(out, &self.samples, f32::to_le_bytes);
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("a piece of audio", bytes);
        let frames = fields.u32()?;
        let samples = fields.words()?.map(f32::from_le_bytes).collect();
        Ok(Self { samples, frames })
    }
}

impl Chunk for AudioPiece {
    fn units(&self) -> u32 {
        self.frames.max(1)
    }
}

impl Wire for Sampling {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self {
            temperature,
            top_p,
            top_k,
            repetition_penalty,
        } = *self;
        for real in [temperature, top_p, repetition_penalty] {
            put_option(out, real, |out, real| out.extend(real.to_le_bytes()));
        }
        put_option(out, top_k, |out, top_k| out.extend(top_k.to_le_bytes()));
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("sampling", bytes);
        let sampling = sampling(&mut fields)?;
        fields.end()?;
        Ok(sampling)
    }
}

pub(super) fn sampling(fields: &mut Fields<'_>) -> Result<Sampling, WireError> {
    let real = |fields: &mut Fields<'_>| fields.option(|fields| fields.u32().map(f32::from_bits));
    Ok(Sampling {
        temperature: real(fields)?,
        top_p: real(fields)?,
        repetition_penalty: real(fields)?,
        top_k: fields.option(Fields::u32)?,
    })
}

impl Wire for End {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Stop => out.push(0),
            Self::Length => out.push(1),
            Self::Rejected(message) => {
                out.push(2);
                put_bytes(out, message.as_bytes());
            }
            Self::Overloaded(message) => {
                out.push(3);
                put_bytes(out, message.as_bytes());
            }
            Self::Failed { stage, message } => {
                out.push(4);
                put_bytes(out, stage.as_bytes());
                put_bytes(out, message.as_bytes());
            }
            Self::Lost { stage, message } => {
                out.push(5);
                put_bytes(out, stage.as_bytes());
                put_bytes(out, message.as_bytes());
            }
            Self::Repetition => out.push(6),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("an end", bytes);
        let end = match fields.byte()? {
            0 => Self::Stop,
            1 => Self::Length,
            2 => Self::Rejected(fields.text()?.to_owned()),
            3 => Self::Overloaded(fields.text()?.to_owned()),
            4 => Self::Failed {
                stage: stage(&mut fields)?,
                message: fields.text()?.to_owned(),
            },
            5 => Self::Lost {
                stage: stage(&mut fields)?,
                message: fields.text()?.to_owned(),
            },
            6 => Self::Repetition,
            other => return Err(fields.wrong(&other, "0 to 6")),
        };
        fields.end()?;
        Ok(end)
    }
}

fn stage(fields: &mut Fields<'_>) -> Result<&'static str, WireError> {
    let name = fields.text()?;
    let known = STAGE_NAMES.into_iter().find(|known| *known == name);
    known.ok_or_else(|| fields.wrong(&format!("{name:?}"), "the name of a stage"))
}

/// Without the replica: that is known by another id at the other side.
impl Wire for StageSnapshot {
    fn encode(&self, out: &mut Vec<u8>) {
        for stamp in [self.started, self.first_output, self.last_output] {
            put_option(out, stamp, |out, stamp| out.extend(nanos(stamp.0).to_le_bytes()));
        }
        out.extend(nanos(self.busy).to_le_bytes());
        out.extend(self.outputs.to_le_bytes());
        out.extend(self.starved.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("progress", bytes);
        let at = |fields: &mut Fields<'_>| fields.option(|fields| fields.u64().map(stamp));
        let snapshot = Self {
            started: at(&mut fields)?,
            first_output: at(&mut fields)?,
            last_output: at(&mut fields)?,
            busy: stamp(fields.u64()?).0,
            outputs: fields.u32()?,
            starved: fields.u32()?,
            replica: None,
        };
        fields.end()?;
        Ok(snapshot)
    }
}

/// Who is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::connector) struct Hello {
    /// Name of the stage that the two work for.
    pub(in crate::connector) stage: String,
    /// How it is to be run. Only those who build it know what this is.
    pub(in crate::connector) settings: Vec<u8>,
}

impl Wire for Hello {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.stage.as_bytes());
        put_bytes(out, &self.settings);
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("a greeting", bytes);
        let hello = Self {
            stage: fields.text()?.to_owned(),
            settings: fields.bytes()?.to_owned(),
        };
        fields.end()?;
        Ok(hello)
    }
}

/// A new sequence.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::connector) struct Opening<O> {
    /// When its request arrived at the edge, if anybody knows.
    pub(in crate::connector) arrived: Option<Stamp>,
    /// What is asked.
    pub(in crate::connector) order: O,
}

impl<O: Wire> Wire for Opening<O> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_option(out, self.arrived, |out, at| out.extend(nanos(at.0).to_le_bytes()));
        self.order.encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("a new sequence", bytes);
        Ok(Self {
            arrived: fields.option(|fields| fields.u64().map(stamp))?,
            order: O::decode(fields.rest())?,
        })
    }
}

/// A message.
impl Wire for String {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("a message", bytes);
        let text = fields.text()?.to_owned();
        fields.end()?;
        Ok(text)
    }
}

/// How an item of a sequence arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::connector) struct Passage {
    pub(in crate::connector) seq: SeqId,
    pub(in crate::connector) stamps: ChunkStamps,
}

/// How some items arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::connector) struct Passages(pub(in crate::connector) Vec<Passage>);

impl Wire for Passages {
    fn encode(&self, out: &mut Vec<u8>) {
        for Passage { seq, stamps } in &self.0 {
            out.extend(seq.0.to_le_bytes());
            out.extend(stamps.bytes.to_le_bytes());
            for stamp in [stamps.tx_start, stamps.tx_end, stamps.rx_start, stamps.rx_end] {
                out.extend(nanos(stamp.0).to_le_bytes());
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("passages", bytes);
        let mut passages = Vec::new();
        while !fields.is_empty() {
            passages.push(Passage {
                seq: SeqId(fields.u64()?),
                stamps: ChunkStamps {
                    bytes: fields.u64()?,
                    tx_start: stamp(fields.u64()?),
                    tx_end: stamp(fields.u64()?),
                    rx_start: stamp(fields.u64()?),
                    rx_end: stamp(fields.u64()?),
                },
            });
        }
        Ok(Self(passages))
    }
}

impl Wire for ReplicaStats {
    fn encode(&self, out: &mut Vec<u8>) {
        for count in [self.running, self.waiting, self.queued_items] {
            out.extend(count.to_le_bytes());
        }
        let counters = [
            self.kv_usage.to_bits(),
            self.steps,
            nanos(self.busy),
            self.prefill_tokens,
            self.decode_tokens,
            self.preempted,
            self.starved,
            self.late,
            self.deaths,
        ];
        for counter in counters {
            out.extend(counter.to_le_bytes());
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("the figures of a stage", bytes);
        let stats = Self {
            running: fields.u32()?,
            waiting: fields.u32()?,
            queued_items: fields.u32()?,
            kv_usage: f64::from_bits(fields.u64()?),
            steps: fields.u64()?,
            busy: stamp(fields.u64()?).0,
            prefill_tokens: fields.u64()?,
            decode_tokens: fields.u64()?,
            preempted: fields.u64()?,
            starved: fields.u64()?,
            late: fields.u64()?,
            deaths: fields.u64()?,
        };
        fields.end()?;
        Ok(stats)
    }
}
