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
use crate::item::ItemKind;
use crate::request::{
    ContextRow, DecodeRequest, Payloads, PromptPiece, Sampling, SpeechHead, SpeechRequest, StageRequest,
    TextRequest, VoicePrompt, VoiceReference,
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
            with_codes: request.with_codes,
            speech: Some(head_message(request.head)),
            payloads: Some(payloads_message(request.payloads)),
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
        embedding: request.embedding.as_ref().map(floats),
        context: request.context.map(rows),
        generated: request.generated,
        prior_frames: frame_messages(&request.prior_frames),
        whole_text: request.whole_text.map(|ids| wire::Tokens { ids: ids.to_vec() }),
        payloads: Some(payloads_message(request.payloads)),
        ..head_message(request.head)
    }
}

/// Message with the part of a request that concerns every stage.
fn head_message(head: SpeechHead) -> wire::SpeechRequest {
    wire::SpeechRequest {
        voice: head.voice,
        voice_prompt: head.voice_prompt.map(|prompt| voice_message(&prompt)),
        language: head.language,
        instructions: head.instructions.map(|text| text.as_ref().to_owned()),
        speed: head.speed,
        sampling: Some(sampling_message(head.sampling)),
        seed: head.seed,
        max_outputs: head.max_outputs,
        ..wire::SpeechRequest::default()
    }
}

fn payloads_message(payloads: Payloads) -> wire::Payloads {
    let payload = |kind| match kind {
        ItemKind::Text => wire::Payload::Text,
        ItemKind::Frames => wire::Payload::Frames,
        ItemKind::Latents => wire::Payload::Latents,
        ItemKind::Audio => wire::Payload::Audio,
        // Not between stages of speech.
        ItemKind::Reply | ItemKind::Embedding => wire::Payload::Unspecified,
    };
    wire::Payloads {
        reads: payloads.reads.map(|kind| payload(kind).into()),
        gives: payload(payloads.gives).into(),
    }
}

fn payloads(message: Option<wire::Payloads>) -> Result<Payloads, WireError> {
    let message = message.ok_or_else(|| WireError::absent("the items of a stage", "there"))?;
    let kind = |number: i32| match wire::Payload::try_from(number) {
        Ok(wire::Payload::Text) => Ok(ItemKind::Text),
        Ok(wire::Payload::Frames) => Ok(ItemKind::Frames),
        Ok(wire::Payload::Latents) => Ok(ItemKind::Latents),
        Ok(wire::Payload::Audio) => Ok(ItemKind::Audio),
        _ => Err(WireError::value(
            "a kind of items",
            number,
            "text, frames, latents or audio",
        )),
    };
    Ok(Payloads {
        reads: message.reads.map(kind).transpose()?,
        gives: kind(message.gives)?,
    })
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
            with_codes: message.with_codes,
            head: head(
                message
                    .speech
                    .ok_or_else(|| WireError::absent("the voice of speech", "there"))?,
            )?,
            payloads: payloads(message.payloads)?,
        }),
        Request::Encode(message) => StageRequest::Encode(message.samples.into()),
    })
}

fn speech(mut message: wire::SpeechRequest) -> Result<SpeechRequest, WireError> {
    let rows = |rows: wire::ContextRows| rows.rows.into_iter().map(row).collect::<Result<Arc<[_]>, _>>();
    Ok(SpeechRequest {
        payloads: payloads(message.payloads.take())?,
        embedding: message.embedding.take().map(|rows| rows.values.into()),
        context: message.context.take().map(rows).transpose()?,
        generated: message.generated,
        prior_frames: frames(std::mem::take(&mut message.prior_frames)).into(),
        whole_text: message.whole_text.take().map(|tokens| tokens.ids.into()),
        head: head(message)?,
    })
}

fn head(message: wire::SpeechRequest) -> Result<SpeechHead, WireError> {
    let speed = message.speed;
    if !(speed.is_finite() && speed > 0.0) {
        return Err(WireError::value("a speed", speed, "a positive number"));
    }
    Ok(SpeechHead {
        voice: message.voice,
        voice_prompt: message.voice_prompt.map(voice).map(Arc::new),
        language: message.language,
        instructions: message.instructions.map(Arc::from),
        speed,
        sampling: sampling(message.sampling)?,
        seed: message.seed,
        max_outputs: message.max_outputs,
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
