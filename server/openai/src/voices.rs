//! `POST /v1/audio/voices` and `DELETE /v1/audio/voices/{name}`, in vLLM-Omni's form.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use omni_config::Scope;
use omni_core::error::ServeError;
use omni_services::voices::{NewVoice, RECORDING_BYTES, Recording, VoiceOrigin, VoiceView};
use omni_transport::{BodyHold, ForeignOrigin};
use serde_json::{Value, json};

use super::error::ApiError;
use super::multipart::{Field, Multipart};
use super::{OpenAi, blocking, body};

/// Longest body: a recording, and the fields beside it.
const MAX_BODY: usize = RECORDING_BYTES + (64 << 10);
/// Fields of the service's requests, and their names here.
const NAMES: [(&str, &str); 4] = [
    ("recording", "audio_sample"),
    ("transcript", "ref_text"),
    ("description", "speaker_description"),
    ("design", "voice_description"),
];
/// Base64 of which the padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) async fn create(
    State(openai): State<OpenAi>,
    head: Parts,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = openai.allow(&head, Some(Scope::Speech))?;
    of_no_other_page(&head)?;
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let boundary = kind.and_then(Multipart::boundary).ok_or_else(|| {
        let problem = "the content type is not multipart/form-data with a boundary";
        ApiError::unread(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            problem,
        )
    })?;
    let data = openai.read(&head, body, MAX_BODY).await?;
    let hold = head.extensions.get::<BodyHold>().cloned();
    // The boundary is searched in megabytes.
    let new = blocking(move || {
        let fields = Multipart::read(&data, &boundary);
        drop(hold);
        new_voice(&fields.map_err(|error| ApiError::invalid(None, format!("the body: {error}")))?)
    });
    let new = new.await?;
    let created = openai.voices.create(&caller, new).await;
    // Its body is counted until here.
    drop(head);
    let voice = kept(&created.map_err(|error| named(&error))?);
    Ok(super::body(&json!({"success": true, "voice": voice})))
}

pub(super) async fn delete(
    State(openai): State<OpenAi>,
    Path(name): Path<String>,
    head: Parts,
) -> Result<Response, ApiError> {
    let caller = openai.allow(&head, Some(Scope::Speech))?;
    of_no_other_page(&head)?;
    let deleted = openai.voices.delete(&caller, &name).await;
    deleted.map_err(|error| named(&error))?;
    let message = format!("voice {name:?} is deleted");
    Ok(body(&json!({"success": true, "name": name, "message": message})))
}

/// Refuses requests of a page of another origin: browsers send forms without asking first.
pub(super) fn of_no_other_page(head: &Parts) -> Result<(), ApiError> {
    match head.extensions.get::<ForeignOrigin>() {
        None => Ok(()),
        Some(ForeignOrigin) => {
            let problem = "origin of the page not allowed: --cors-origin does not name it";
            Err(ApiError::unread(
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                problem,
            ))
        }
    }
}

fn named(error: &ServeError) -> ApiError {
    ApiError::new(error, &NAMES)
}

fn new_voice(fields: &[Field]) -> Result<NewVoice, ApiError> {
    const KNOWN: [&str; 7] = [
        "name",
        "consent",
        "audio_sample",
        "ref_text",
        "speaker_description",
        "voice_description",
        "x_vector_only_mode",
    ];
    if let Some(field) = fields.iter().find(|field| !KNOWN.contains(&field.name.as_str())) {
        let problem = format!(
            "unknown field '{}'; expected some of: {}",
            omni_core::error::excerpt(&field.name),
            KNOWN.join(", ")
        );
        return Err(ApiError::invalid(None, problem));
    }
    let found = |name: &str| fields.iter().find(|field| field.name == name);
    let text = |name: &'static str| match found(name) {
        None => Ok(String::new()),
        Some(field) => String::from_utf8(field.data.to_vec())
            .map_err(|_| ApiError::invalid(Some(name), format!("{name} is no text"))),
    };
    let transcript = text("ref_text")?;
    let alone = match text("x_vector_only_mode")?.as_str() {
        "" => transcript.trim().is_empty(),
        "true" | "1" => true,
        "false" | "0" => false,
        _ => {
            let problem = "x_vector_only_mode is neither true nor false";
            return Err(ApiError::invalid(Some("x_vector_only_mode"), problem));
        }
    };
    let origin = match (found("audio_sample"), text("voice_description")?) {
        (Some(sample), design) if design.is_empty() => VoiceOrigin::Recording {
            recording: Recording::file(sample.data.clone()),
            transcript,
            x_vector_only: alone,
            consent: text("consent")?,
        },
        (None, design) if !design.is_empty() => VoiceOrigin::Description(design),
        _ => {
            let problem = "expected audio_sample, or voice_description for a VoiceDesign checkpoint";
            return Err(ApiError::invalid(Some("audio_sample"), problem));
        }
    };
    Ok(NewVoice {
        name: text("name")?,
        origin,
        description: text("speaker_description")?,
    })
}

/// A kept voice as clients see it.
pub(super) fn kept(view: &VoiceView) -> Value {
    let voice = &view.voice;
    json!({
        "name": voice.name.as_str(),
        "kind": voice.content.kind(),
        "consent": voice.consent,
        "created_at": voice.created,
        "ref_text": voice.transcript,
        "speaker_description": voice.description,
        "duration_s": voice.duration.as_secs_f64(),
        "model": voice.model,
        "durable": view.durable,
        "shared": voice.owner.is_shared(),
        "problem": view.problem,
    })
}

/// Recording in a field of JSON: base64, or a `data:` URL with it. Nothing is fetched.
pub(super) fn recording(text: &str) -> Result<Recording, ApiError> {
    let invalid = |problem: &str| ApiError::invalid(Some("ref_audio"), format!("ref_audio {problem}"));
    let encoded = match text.split_once(':') {
        Some(("data", rest)) => match rest.split_once(";base64,") {
            Some((_, encoded)) => encoded,
            None => return Err(invalid("is a data: URL without ;base64,")),
        },
        Some((scheme, _))
            if scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) =>
        {
            return Err(invalid(
                "is a URL, which this server does not fetch: send the recording itself, as a data: URL or as base64",
            ));
        }
        _ => text,
    };
    let data = BASE64.decode(encoded.trim().as_bytes());
    Ok(Recording::file(
        data.map_err(|error| invalid(&format!("is not base64: {error}")))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_come_as_base64_and_are_never_fetched() {
        for good in ["data:audio/wav;base64,UklGRg==", "UklGRg==", "UklGRg"] {
            assert_eq!(&recording(good).unwrap().data[..], b"RIFF", "{good}");
        }
        for url in [
            "http://127.0.0.1/a.wav",
            "https://example.org/a",
            "file:///etc/passwd",
            "s3:x",
        ] {
            let error = recording(url).unwrap_err().json().to_string();
            assert!(error.contains("does not fetch"), "{url}: {error}");
        }
        for bad in ["data:audio/wav,abc", "data:;base64,&", "&&&"] {
            assert!(recording(bad).is_err(), "{bad}");
        }
    }
}
