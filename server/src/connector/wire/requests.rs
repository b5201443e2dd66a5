//! What is asked of a stage for one sequence.

use std::sync::Arc;

use omni_engine::{CacheSalt, CodecFrame};
use omni_proto::stage::v1::context_row::Row;
use omni_proto::stage::v1::open::Request;
use omni_proto::stage::v1::prompt_piece::Piece;
use omni_proto::stage::v1::{self as wire};

use super::WireError;
use crate::stage::{
    ContextRow, PromptPiece, Sampling, TalkerRequest, ThinkerRequest, VoicePrompt, VoiceReference,
};

/// A request that can be passed on to another process.
pub trait StageRequest: Sized {
    /// As it is sent.
    fn into_request(self) -> Request;

    /// As it was sent.
    ///
    /// # Errors
    /// If it is for another kind of stage, or a part of it is missing.
    fn from_request(request: Request) -> Result<Self, WireError>;
}

fn wrong(request: &Request, expected: &'static str) -> WireError {
    let got = match request {
        Request::Speech(_) => "speech",
        Request::Text(_) => "text",
        Request::Decode(_) => "to decode",
    };
    WireError::value("what is asked", got, expected)
}

/// The request and the most frames to make.
impl StageRequest for (TalkerRequest, u32) {
    fn into_request(self) -> Request {
        let (request, max_outputs) = self;
        let rows = |rows: Arc<[ContextRow]>| wire::ContextRows {
            rows: rows.iter().map(row_message).collect(),
        };
        Request::Speech(wire::SpeechRequest {
            voice: request.voice,
            voice_prompt: request.voice_prompt.map(|prompt| voice_message(&prompt)),
            language: request.language,
            sampling: Some(sampling_message(request.sampling)),
            seed: request.seed,
            context: request.context.map(rows),
            generated: request.thought,
            max_outputs,
            instructions: request.instructions.map(|text| text.as_ref().to_owned()),
        })
    }

    fn from_request(request: Request) -> Result<Self, WireError> {
        let request = match request {
            Request::Speech(request) => request,
            other => return Err(wrong(&other, "speech")),
        };
        let rows = |rows: wire::ContextRows| rows.rows.into_iter().map(row).collect::<Result<Arc<[_]>, _>>();
        let talker = TalkerRequest {
            voice: request.voice,
            voice_prompt: request.voice_prompt.map(voice).map(Arc::new),
            language: request.language,
            instructions: request.instructions.map(Arc::from),
            sampling: sampling(request.sampling)?,
            seed: request.seed,
            context: request.context.map(rows).transpose()?,
            thought: request.generated,
        };
        Ok((talker, request.max_outputs))
    }
}

/// The request and the most tokens to make.
impl StageRequest for (ThinkerRequest, u32) {
    fn into_request(self) -> Request {
        let (request, max_outputs) = self;
        Request::Text(wire::TextRequest {
            prompt: request.prompt.into_iter().map(piece_message).collect(),
            sampling: Some(sampling_message(request.sampling)),
            seed: request.seed,
            export_hidden: request.export_heard,
            cache_salt: request.salt.0,
            max_outputs,
        })
    }

    fn from_request(request: Request) -> Result<Self, WireError> {
        let request = match request {
            Request::Text(request) => request,
            other => return Err(wrong(&other, "text")),
        };
        let thinker = ThinkerRequest {
            prompt: request.prompt.into_iter().map(piece).collect::<Result<_, _>>()?,
            sampling: sampling(request.sampling)?,
            seed: request.seed,
            export_heard: request.export_hidden,
            salt: CacheSalt(request.cache_salt),
        };
        Ok((thinker, request.max_outputs))
    }
}

/// To decode what comes, behind these frames.
impl StageRequest for Arc<[CodecFrame]> {
    fn into_request(self) -> Request {
        let lead = frame_messages(&self);
        Request::Decode(wire::DecodeRequest { lead })
    }

    fn from_request(request: Request) -> Result<Self, WireError> {
        match request {
            Request::Decode(wire::DecodeRequest { lead }) => Ok(frames(lead).collect()),
            other => Err(wrong(&other, "to decode")),
        }
    }
}

fn voice_message(prompt: &VoicePrompt) -> wire::VoicePrompt {
    let reference = |reference: &VoiceReference| wire::VoiceReference {
        frames: frame_messages(&reference.frames),
        text: reference.text.clone(),
    };
    wire::VoicePrompt {
        x_vector: prompt.x_vector.clone(),
        reference: prompt.reference.as_ref().map(reference),
    }
}

fn voice(message: wire::VoicePrompt) -> VoicePrompt {
    let reference = |reference: wire::VoiceReference| VoiceReference {
        frames: frames(reference.frames).collect(),
        text: reference.text,
    };
    VoicePrompt {
        x_vector: message.x_vector,
        reference: message.reference.map(reference),
    }
}

fn frame_messages(frames: &[CodecFrame]) -> Vec<wire::CodecFrame> {
    let message = |frame: &CodecFrame| wire::CodecFrame {
        codes: frame.0.to_vec(),
    };
    frames.iter().map(message).collect()
}

fn frames(messages: Vec<wire::CodecFrame>) -> impl Iterator<Item = CodecFrame> {
    messages.into_iter().map(|frame| CodecFrame(frame.codes.into()))
}

fn sampling_message(sampling: Sampling) -> wire::Sampling {
    let Sampling {
        temperature,
        top_p,
        top_k,
        repetition_penalty,
    } = sampling;
    wire::Sampling {
        temperature,
        top_p,
        top_k,
        repetition_penalty,
    }
}

fn sampling(message: Option<wire::Sampling>) -> Result<Sampling, WireError> {
    let message = message.ok_or_else(|| WireError::absent("the sampling of a request", "there"))?;
    Ok(Sampling {
        temperature: message.temperature,
        top_p: message.top_p,
        top_k: message.top_k,
        repetition_penalty: message.repetition_penalty,
    })
}

fn row_message(row: &ContextRow) -> wire::ContextRow {
    let row = match row {
        ContextRow::Token(token) => Row::Token(*token),
        ContextRow::Heard(hidden) => Row::Hidden(wire::Floats {
            values: hidden.to_vec(),
        }),
        ContextRow::Awaited(number) => Row::Awaited(*number),
    };
    wire::ContextRow { row: Some(row) }
}

fn row(message: wire::ContextRow) -> Result<ContextRow, WireError> {
    match message.row {
        Some(Row::Token(token)) => Ok(ContextRow::Token(token)),
        Some(Row::Hidden(hidden)) => Ok(ContextRow::Heard(hidden.values.into())),
        Some(Row::Awaited(number)) => Ok(ContextRow::Awaited(number)),
        None => Err(WireError::absent(
            "a row of the context",
            "a token or a hidden state",
        )),
    }
}

fn piece_message(piece: PromptPiece) -> wire::PromptPiece {
    let piece = match piece {
        PromptPiece::Tokens(ids) => Piece::Tokens(wire::Tokens { ids }),
        PromptPiece::Audio { rows, values } => Piece::Embeddings(wire::Embeddings {
            rows,
            values: values.to_vec(),
        }),
    };
    wire::PromptPiece { piece: Some(piece) }
}

fn piece(message: wire::PromptPiece) -> Result<PromptPiece, WireError> {
    match message.piece {
        Some(Piece::Tokens(tokens)) => Ok(PromptPiece::Tokens(tokens.ids)),
        Some(Piece::Embeddings(wire::Embeddings { rows, values })) => Ok(PromptPiece::Audio {
            rows,
            values: values.into(),
        }),
        None => Err(WireError::absent("a piece of a prompt", "tokens or embeddings")),
    }
}
