//! Conversations: what goes to a thinker, and what of it goes on to a talker.

use std::sync::Arc;

use omni_engine::CacheSalt;

use super::messages::{Chunk, sampling};
use super::payload::{Fields, Wire, put_bytes, put_option, put_words};
use super::{WireError, value};
use crate::stage::{ContextRow, PromptPiece, ReplyToken, TalkerRequest, ThinkerRequest};

/// The request and the most frames to make.
impl Wire for (TalkerRequest, u32) {
    fn encode(&self, out: &mut Vec<u8>) {
        let (request, max_frames) = self;
        out.extend(max_frames.to_le_bytes());
        out.extend(request.seed.to_le_bytes());
        out.push(u8::from(request.thought));
        put_bytes(out, request.voice.as_bytes());
        put_option(out, request.language.as_ref(), |out, language| {
            put_bytes(out, language.as_bytes());
        });
        request.sampling.encode(out);
        put_option(out, request.context.as_ref(), |out, rows| {
            put_list(out, rows, put_row);
        });
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("a request to the talker", bytes);
        let max_frames = fields.u32()?;
        let request = TalkerRequest {
            seed: fields.u64()?,
            thought: fields.option(|_| Ok(()))?.is_some(),
            voice: fields.text()?.to_owned(),
            language: fields.option(Fields::text)?.map(str::to_owned),
            sampling: sampling(&mut fields)?,
            context: fields
                .option(|fields| fields.list(row))?
                .map(Arc::<[ContextRow]>::from),
        };
        fields.end()?;
        Ok((request, max_frames))
    }
}

fn put_row(out: &mut Vec<u8>, row: &ContextRow) {
    match row {
        ContextRow::Token(token) => {
            out.push(0);
            out.extend(token.to_le_bytes());
        }
        ContextRow::Heard(hidden) => {
            out.push(1);
            put_reals(out, hidden);
        }
        ContextRow::Awaited(number) => {
            out.push(2);
            out.extend(number.to_le_bytes());
        }
    }
}

fn row(fields: &mut Fields<'_>) -> Result<ContextRow, WireError> {
    Ok(match fields.byte()? {
        0 => ContextRow::Token(fields.u32()?),
        1 => ContextRow::Heard(fields.reals()?),
        2 => ContextRow::Awaited(fields.u32()?),
        other => return Err(fields.wrong(&other, "0 to 2 (the kind of a row)")),
    })
}

/// The request and the most tokens to make.
impl Wire for (ThinkerRequest, u32) {
    fn encode(&self, out: &mut Vec<u8>) {
        let (request, max_tokens) = self;
        out.extend(max_tokens.to_le_bytes());
        out.extend(request.seed.to_le_bytes());
        out.push(u8::from(request.export_heard));
        out.extend(request.salt.0.to_le_bytes());
        request.sampling.encode(out);
        put_list(out, &request.prompt, put_piece);
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("a request to the thinker", bytes);
        let max_tokens = fields.u32()?;
        let request = ThinkerRequest {
            seed: fields.u64()?,
            export_heard: fields.option(|_| Ok(()))?.is_some(),
            salt: CacheSalt(fields.u64()?),
            sampling: sampling(&mut fields)?,
            prompt: fields.list(piece)?,
        };
        fields.end()?;
        Ok((request, max_tokens))
    }
}

fn put_piece(out: &mut Vec<u8>, piece: &PromptPiece) {
    match piece {
        PromptPiece::Tokens(tokens) => {
            out.push(0);
            out.extend((tokens.len() as u32).to_le_bytes());
            put_words(out, tokens, u32::to_le_bytes);
        }
        PromptPiece::Audio { rows, values } => {
            out.push(1);
            out.extend(rows.to_le_bytes());
            put_reals(out, values);
        }
    }
}

fn piece(fields: &mut Fields<'_>) -> Result<PromptPiece, WireError> {
    Ok(match fields.byte()? {
        0 => PromptPiece::Tokens(fields.list(Fields::u32)?),
        1 => PromptPiece::Audio {
            rows: fields.u32()?,
            values: fields.reals()?,
        },
        other => return Err(fields.wrong(&other, "0 or 1 (the kind of a piece)")),
    })
}

impl Wire for ReplyToken {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_le_bytes());
        put_list(out, &self.heard, |out, row| put_reals(out, row));
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new("a token of an answer", bytes);
        let token = Self {
            id: fields.u32()?,
            heard: fields.list(Fields::reals)?,
        };
        fields.end()?;
        Ok(token)
    }
}

impl Chunk for ReplyToken {
    fn units(&self) -> u32 {
        1
    }
}

/// What a stage takes that takes nothing: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {}

impl Wire for Nothing {
    fn encode(&self, _out: &mut Vec<u8>) {
        match *self {}
    }

    fn decode(_bytes: &[u8]) -> Result<Self, WireError> {
        Err(value("an item", "there", "none: the stage takes no items"))
    }
}

impl Chunk for Nothing {
    fn units(&self) -> u32 {
        match *self {}
    }
}

fn put_reals(out: &mut Vec<u8>, reals: &[f32]) {
    out.extend((reals.len() as u32).to_le_bytes());
    put_words(out, reals, f32::to_le_bytes);
}

fn put_list<T>(out: &mut Vec<u8>, list: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    out.extend((list.len() as u32).to_le_bytes());
    for item in list {
        put(out, item);
    }
}
