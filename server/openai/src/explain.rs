//! `POST /v1/audio/speech/explain`: the input of the model for a text. The body is that of `POST /v1/audio/speech`.

use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use omni_config::Scope;
use omni_text::{EndKind, Explained, ExplainedSegment};
use serde_json::{Value, json};

use super::error::ApiError;
use super::speech::{asked, named, rules};
use super::{OpenAi, body as answer};

pub(super) async fn explain(
    State(openai): State<OpenAi>,
    head: Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = openai.allow(&head, Some(Scope::Speech))?;
    let (asked, notes) = openai.json(&head, body, rules(&openai), asked).await?;
    let (request, text) = asked.0;
    let explained = openai.speech.explain(caller, request, text).await;
    let (info, explained) = explained.map_err(|error| named(&error))?;
    let mut response = answer(&told(&info.id, &explained));
    notes.tell(&mut response);
    Ok(response)
}

fn told(model: &str, explained: &Explained) -> Value {
    let warnings = explained
        .warnings
        .iter()
        .map(|warning| json!({"reason": warning.reason(), "message": warning.to_string()}));
    json!({
        "model": model,
        "segments": explained.segments.iter().map(segment).collect::<Vec<_>>(),
        "warnings": warnings.collect::<Vec<_>>(),
    })
}

fn segment(segment: &ExplainedSegment) -> Value {
    let end = match segment.end {
        EndKind::Forced => "forced",
        EndKind::Flush => "flush",
        EndKind::Clause => "clause",
        EndKind::Sentence => "sentence",
        EndKind::Paragraph => "paragraph",
    };
    let words = segment.words.iter().map(
        |word| json!({"spoken": word.spoken, "char_start": word.source.start, "char_end": word.source.end}),
    );
    json!({
        "text": segment.text,
        "char_start": segment.source.start,
        "char_end": segment.source.end,
        "words": words.collect::<Vec<_>>(),
        "ends_at": end,
        "continues": segment.open,
        "pause_before_s": segment.pause.map(|pause| pause.as_secs_f64()),
    })
}
