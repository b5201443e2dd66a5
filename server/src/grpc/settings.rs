//! `SpeechConfig` and `Settings`: checked on the way in, complete on the way out.
//!
//! What cannot be honoured is refused, with the field and what would be right. Hints alone are ignored, with a warning, unless the
//! server is strict.

use std::sync::Arc;
use std::time::Duration;

use omni_proto::v1;

use super::aliases;
use super::delivery::{self, Asked, DeliveryFields, delivery};
use crate::error::{ErrorKind, InvalidField, ServeError, excerpt};
use crate::session::{Buffering, SessionLimits, Settings};
use crate::stage::{Sampling, SpeechInfo};

/// Paths of the fields of one set of sampling parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct SamplingFields {
    pub(super) temperature: &'static str,
    pub(super) top_p: &'static str,
    pub(super) top_k: &'static str,
    pub(super) repetition_penalty: &'static str,
    pub(super) max_tokens: &'static str,
}

/// Those of `SpeechConfig`.
const SAMPLING: SamplingFields = SamplingFields {
    temperature: "config.sampling.temperature",
    top_p: "config.sampling.top_p",
    top_k: "config.sampling.top_k",
    repetition_penalty: "config.sampling.repetition_penalty",
    max_tokens: "config.sampling.max_tokens",
};

/// Those of `SpeechConfig`.
const DELIVERY: DeliveryFields = DeliveryFields {
    frame_duration: "config.output.frame_duration",
    max_lead: "config.output.max_lead",
    leading_silence: "config.output.leading_silence",
    encoding: "config.output.format.encoding",
    sample_rate_hz: "config.output.format.sample_rate_hz",
    channels: "config.output.format.channels",
    speed: "config.speed",
    volume_gain_db: "config.volume_gain_db",
};

/// Longest delay that makes sense for a text buffer.
const MAX_BUFFER_DELAY: Duration = Duration::from_secs(60);

/// A name of something that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnknownName {
    #[error("model {got:?} is not served here, expected {expected:?} or empty")]
    Model { got: String, expected: String },
    #[error("voice {got:?} does not exist, the model has: {known}")]
    Voice { got: String, known: String },
    #[error("language {got:?} is not spoken by the model, expected one of: {known}")]
    Language { got: String, known: String },
}

impl From<UnknownName> for ServeError {
    fn from(error: UnknownName) -> Self {
        let (kind, reason, field) = match error {
            UnknownName::Model { .. } => (ErrorKind::UnknownModel, "MODEL_NOT_FOUND", "config.model"),
            UnknownName::Voice { .. } => (ErrorKind::InvalidArgument, "VOICE_NOT_FOUND", "config.voice"),
            UnknownName::Language { .. } => (
                ErrorKind::InvalidArgument,
                "LANGUAGE_NOT_FOUND",
                "config.language",
            ),
        };
        Self::new(kind, reason, error.to_string()).at(field)
    }
}

/// Checks a configuration against the model.
pub(super) fn settings(config: &v1::SpeechConfig, info: &SpeechInfo) -> Result<Settings, ServeError> {
    model(&config.model, info)?;
    let ignored = unsupported(config, info)?;
    let sampling = config.sampling.unwrap_or_default();
    let asked = Asked {
        output: config.output.as_ref(),
        speed: config.speed,
        volume_gain_db: config.volume_gain_db,
    };
    Ok(Settings {
        voice: voice(&config.voice, info)?,
        language: language(&config.language, info)?,
        instructions: instructions(&config.style_instructions, info),
        delivery: delivery(asked, info, &DELIVERY)?,
        sampling: self::sampling(&sampling, &SAMPLING)?,
        seed: sampling.seed,
        max_frames: max_tokens(&sampling, &SAMPLING)?,
        buffering: buffering(config.buffering)?,
        max_buffer_delay: buffer_delay(config.max_buffer_delay)?,
        alignment: config.alignment,
        ignored,
    })
}

pub(super) fn invalid(field: &'static str, problem: impl Into<String>) -> ServeError {
    InvalidField::new(field, problem).into()
}

pub(super) fn model(got: &str, info: &SpeechInfo) -> Result<(), ServeError> {
    let mut aliases = info.terms.aliases.iter();
    match got.is_empty() || got == info.id || aliases.any(|alias| alias.eq_ignore_ascii_case(got)) {
        true => Ok(()),
        false => {
            let (got, expected) = (excerpt(got), info.id.clone());
            Err(UnknownName::Model { got, expected }.into())
        }
    }
}

pub(super) fn voice(got: &str, info: &SpeechInfo) -> Result<String, ServeError> {
    let voices = &info.voices;
    let found = match got {
        "" => voices.first(),
        _ => voices
            .iter()
            .find(|voice| voice.id.eq_ignore_ascii_case(got))
            .or_else(|| voices.get(aliases::meant(got, voices.len())?)),
    };
    found.map(|voice| voice.id.clone()).ok_or_else(|| {
        let known = join(info.voices.iter().map(|voice| voice.id.as_str()));
        let got = excerpt(got);
        UnknownName::Voice { got, known }.into()
    })
}

pub(super) fn language(got: &str, info: &SpeechInfo) -> Result<Option<String>, ServeError> {
    /// What callers of models that detect the language write where they leave that to it.
    const DETECTED: &str = "auto";
    if info.detects_language && (got.is_empty() || got.eq_ignore_ascii_case(DETECTED)) {
        return Ok(None);
    }
    if got.is_empty() {
        return Ok(info.languages.first().cloned());
    }
    let found = info.languages.iter().find(|spoken| same_language(got, spoken));
    found.cloned().map(Some).ok_or_else(|| {
        let known = join(info.languages.iter().map(String::as_str));
        let got = excerpt(got);
        UnknownName::Language { got, known }.into()
    })
}

/// Whether one BCP-47 tag is the other or a narrower form of it: "en" and "en-US", not "en-GB" and "en-US".
pub(super) fn same_language(a: &str, b: &str) -> bool {
    let mut pairs = a.split('-').zip(b.split('-'));
    pairs.all(|(a, b)| a.eq_ignore_ascii_case(b))
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// How to speak, if the model can be told.
fn instructions(got: &str, info: &SpeechInfo) -> Option<Arc<str>> {
    let got = got.trim();
    (info.instructions && !got.is_empty()).then(|| got.into())
}

/// Refuses what is set and cannot be had; gives what is ignored instead, each with the reason.
fn unsupported(config: &v1::SpeechConfig, info: &SpeechInfo) -> Result<Vec<String>, ServeError> {
    let mut ignored = Vec::new();
    if !config.style_instructions.is_empty() && !info.instructions {
        hint(
            "config.style_instructions",
            "this model follows none",
            info.terms.strict,
            &mut ignored,
        )?;
    }
    if !config.pronunciations.is_empty() {
        return Err(invalid(
            "config.pronunciations",
            "this model takes none, expected empty",
        ));
    }
    if config.clone.is_some() {
        return Err(invalid(
            "config.clone",
            "this model cannot clone voices, expected unset",
        ));
    }
    Ok(ignored)
}

/// A hint that cannot be followed: refused where the server is `strict`, else one more that is `ignored`.
pub(super) fn hint(
    field: &'static str,
    problem: &str,
    strict: bool,
    ignored: &mut Vec<String>,
) -> Result<(), ServeError> {
    if strict {
        return Err(invalid(field, format!("{problem}, expected empty")));
    }
    tracing::info!(field, problem, "ignored a hint");
    ignored.push(format!("{field}: {problem}"));
    Ok(())
}

pub(super) fn sampling(got: &v1::SamplingParams, fields: &SamplingFields) -> Result<Sampling, ServeError> {
    let check = |value: Option<f32>, good: fn(f32) -> bool, field, expected: &str| match value {
        Some(v) if !good(v) => Err(invalid(field, format!("is {v}, expected {expected}"))),
        _ => Ok(()),
    };
    check(
        got.temperature,
        |v| (0.0..=10.0).contains(&v),
        fields.temperature,
        "a number from 0 to 10",
    )?;
    check(
        got.top_p,
        |v| v > 0.0 && v <= 1.0,
        fields.top_p,
        "a number above 0 and at most 1",
    )?;
    check(
        got.repetition_penalty,
        |v| v > 0.0 && v <= 10.0,
        fields.repetition_penalty,
        "a number above 0 and at most 10",
    )?;
    let top_k = got.top_k.map(u32::try_from).transpose();
    let top_k = top_k.map_err(|_| invalid(fields.top_k, "is negative, expected 0 or more"))?;
    Ok(Sampling {
        temperature: got.temperature,
        top_p: got.top_p,
        top_k,
        repetition_penalty: got.repetition_penalty,
    })
}

/// Most outputs, if the caller sets that.
pub(super) fn max_tokens(
    got: &v1::SamplingParams,
    fields: &SamplingFields,
) -> Result<Option<u32>, ServeError> {
    match got.max_tokens {
        Some(0) => Err(invalid(fields.max_tokens, "is 0, expected at least 1")),
        other => Ok(other),
    }
}

fn buffering(got: i32) -> Result<Buffering, ServeError> {
    use v1::TextBuffering as B;
    match B::try_from(got) {
        Ok(B::Unspecified | B::Sentence) => Ok(Buffering::Sentence),
        Ok(B::Clause) => Ok(Buffering::Clause),
        Ok(B::Eager) => Ok(Buffering::Eager),
        Ok(B::Manual) => Ok(Buffering::Manual),
        Err(_) => Err(invalid(
            "config.buffering",
            format!("{got} is unknown, expected a value of TextBuffering"),
        )),
    }
}

fn buffer_delay(got: Option<omni_proto::Duration>) -> Result<Option<Duration>, ServeError> {
    let Some(got) = got else { return Ok(None) };
    match Duration::try_from(got) {
        Ok(delay) if !delay.is_zero() && delay <= MAX_BUFFER_DELAY => Ok(Some(delay)),
        _ => Err(invalid(
            "config.max_buffer_delay",
            "is out of range, expected above 0 and at most 60 s",
        )),
    }
}

/// The settings in force, every default filled in.
pub(super) fn resolved(settings: &Settings, info: &SpeechInfo) -> v1::SpeechConfig {
    let buffering = match settings.buffering {
        Buffering::Sentence => v1::TextBuffering::Sentence,
        Buffering::Clause => v1::TextBuffering::Clause,
        Buffering::Eager => v1::TextBuffering::Eager,
        Buffering::Manual => v1::TextBuffering::Manual,
    };
    let (speed, volume_gain_db) = delivery::rendering(&settings.delivery);
    v1::SpeechConfig {
        model: info.id.clone(),
        voice: settings.voice.clone(),
        language: settings.language.clone().unwrap_or_default(),
        output: Some(delivery::wire(&settings.delivery)),
        speed,
        volume_gain_db,
        sampling: Some(resolved_sampling(
            settings.sampling,
            info.default_sampling,
            settings.seed,
            settings.max_frames,
        )),
        buffering: buffering.into(),
        max_buffer_delay: settings.max_buffer_delay.and_then(|delay| delay.try_into().ok()),
        alignment: settings.alignment,
        ..v1::SpeechConfig::default()
    }
}

/// How outputs are drawn, every default filled in.
pub(super) fn resolved_sampling(
    own: Sampling,
    default: Sampling,
    seed: Option<u64>,
    max_tokens: Option<u32>,
) -> v1::SamplingParams {
    let top_k = own.top_k.or(default.top_k);
    v1::SamplingParams {
        temperature: own.temperature.or(default.temperature),
        top_p: own.top_p.or(default.top_p),
        top_k: top_k.map(|k| i32::try_from(k).unwrap_or(i32::MAX)),
        repetition_penalty: own.repetition_penalty.or(default.repetition_penalty),
        seed,
        max_tokens,
    }
}

/// What the session may use, as it goes over the wire.
pub(super) fn limits(limits: &SessionLimits) -> v1::SessionLimits {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    v1::SessionLimits {
        max_text_bytes_per_utterance: count(limits.max_text_bytes),
        max_buffered_text_bytes: count(limits.max_buffered_text_bytes),
        idle_timeout: limits.idle_timeout.try_into().ok(),
        max_session: limits.max_age.try_into().ok(),
        max_audio_per_utterance: limits.max_audio.try_into().ok(),
    }
}
