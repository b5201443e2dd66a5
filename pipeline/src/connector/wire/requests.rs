//! Requests to a stage for one sequence, as messages.

use std::sync::Arc;

use omni_engine::CacheSalt;
use omni_proto::stage::v1::context_row::Row;
use omni_proto::stage::v1::open::Request;
use omni_proto::stage::v1::prompt_piece::Piece;
use omni_proto::stage::v1::{self as wire};

use super::WireError;
use super::items::{floats, frame_messages, frames};
use super::messages::{known, token, token_message};
use crate::request::{
    ContextRow, DecodeRequest, PromptPiece, Sampling, SpeechRequest, StageRequest, TextRequest, VoicePrompt,
    VoiceReference,
};
use crate::stage::NextStage;

/// Encodes a request.
pub(in crate::connector) fn request_message(request: StageRequest) -> Request {
    match request {
        StageRequest::Speech(request) => Request::Speech(speech_message(request)),
        StageRequest::Text(request) => Request::Text(wire::TextRequest {
            prompt: request.prompt.into_iter().map(piece_message).collect(),
            sampling: Some(sampling_message(request.sampling)),
            seed: request.seed,
            export_hidden: request.export_hidden,
            cache_salt: request.salt.0,
            max_outputs: request.max_outputs,
        }),
        StageRequest::Decode(request) => Request::Decode(wire::DecodeRequest {
            lead: frame_messages(&request.lead),
            into_frames: request.into_frames,
            with_codes: request.with_codes,
        }),
        StageRequest::Encode(samples) => Request::Encode(wire::EncodeRequest {
            samples: samples.to_vec(),
        }),
    }
}

/// Message of the next stage, to which the items of a sequence go.
pub(in crate::connector) fn next_stage_message(next: NextStage) -> wire::Link {
    wire::Link {
        stage: next.stage,
        address: next.address.to_vec(),
        token: token_message(next.token),
    }
}

/// Next stage of a sequence's items, from a message.
///
/// # Errors
/// If the token is invalid, or the stage is not one of `stages`.
pub(in crate::connector) fn next_stage(
    message: wire::Link,
    stages: &[&'static str],
) -> Result<NextStage, WireError> {
    Ok(NextStage {
        token: token(&message.token)?,
        stage: known(&message.stage, stages)?.to_owned(),
        address: message.address.into(),
    })
}

fn speech_message(request: SpeechRequest) -> wire::SpeechRequest {
    let rows = |rows: Arc<[ContextRow]>| wire::ContextRows {
        rows: rows.iter().map(row_message).collect(),
    };
    wire::SpeechRequest {
        voice: request.voice,
        voice_prompt: request.voice_prompt.map(|prompt| voice_message(&prompt)),
        embedding: request.embedding.as_ref().map(floats),
        language: request.language,
        sampling: Some(sampling_message(request.sampling)),
        seed: request.seed,
        context: request.context.map(rows),
        generated: request.generated,
        max_outputs: request.max_outputs,
        prior_frames: frame_messages(&request.prior_frames),
        whole_text: request.whole_text.map(|ids| wire::Tokens { ids: ids.to_vec() }),
        instructions: request.instructions.map(|text| text.as_ref().to_owned()),
    }
}

/// Decodes a request.
///
/// # Errors
/// If a part of it is missing.
pub(in crate::connector) fn request(message: Request) -> Result<StageRequest, WireError> {
    Ok(match message {
        Request::Speech(message) => StageRequest::Speech(speech(message)?),
        Request::Text(message) => StageRequest::Text(TextRequest {
            prompt: message.prompt.into_iter().map(piece).collect::<Result<_, _>>()?,
            sampling: sampling(message.sampling)?,
            seed: message.seed,
            export_hidden: message.export_hidden,
            salt: CacheSalt(message.cache_salt),
            max_outputs: message.max_outputs,
        }),
        Request::Decode(message) => StageRequest::Decode(DecodeRequest {
            lead: frames(message.lead).into(),
            into_frames: message.into_frames,
            with_codes: message.with_codes,
        }),
        Request::Encode(message) => StageRequest::Encode(message.samples.into()),
    })
}

fn speech(message: wire::SpeechRequest) -> Result<SpeechRequest, WireError> {
    let rows = |rows: wire::ContextRows| rows.rows.into_iter().map(row).collect::<Result<Arc<[_]>, _>>();
    Ok(SpeechRequest {
        voice: message.voice,
        voice_prompt: message.voice_prompt.map(voice).map(Arc::new),
        embedding: message.embedding.map(|rows| rows.values.into()),
        language: message.language,
        instructions: message.instructions.map(Arc::from),
        sampling: sampling(message.sampling)?,
        seed: message.seed,
        context: message.context.map(rows).transpose()?,
        generated: message.generated,
        max_outputs: message.max_outputs,
        prior_frames: frames(message.prior_frames).into(),
        whole_text: message.whole_text.map(|tokens| tokens.ids.into()),
    })
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
        frames: frames(reference.frames),
        text: reference.text,
    };
    VoicePrompt {
        x_vector: message.x_vector,
        reference: message.reference.map(reference),
    }
}

fn sampling_message(sampling: Sampling) -> wire::Sampling {
    let Sampling {
        temperature,
        top_p,
        top_k,
        repetition_penalty,
        min_p,
        presence_penalty,
        frequency_penalty,
    } = sampling;
    wire::Sampling {
        temperature,
        top_p,
        top_k,
        repetition_penalty,
        min_p,
        presence_penalty,
        frequency_penalty,
    }
}

fn sampling(message: Option<wire::Sampling>) -> Result<Sampling, WireError> {
    let message = message.ok_or_else(|| WireError::absent("the sampling of a request", "there"))?;
    Ok(Sampling {
        temperature: message.temperature,
        top_p: message.top_p,
        top_k: message.top_k,
        repetition_penalty: message.repetition_penalty,
        min_p: message.min_p,
        presence_penalty: message.presence_penalty,
        frequency_penalty: message.frequency_penalty,
    })
}

fn row_message(row: &ContextRow) -> wire::ContextRow {
    let row = match row {
        ContextRow::Token(token) => Row::Token(*token),
        ContextRow::Hidden(hidden) => Row::Hidden(floats(hidden)),
        ContextRow::Awaited(number) => Row::Awaited(*number),
    };
    wire::ContextRow { row: Some(row) }
}

fn row(message: wire::ContextRow) -> Result<ContextRow, WireError> {
    match message.row {
        Some(Row::Token(token)) => Ok(ContextRow::Token(token)),
        Some(Row::Hidden(hidden)) => Ok(ContextRow::Hidden(hidden.values.into())),
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
