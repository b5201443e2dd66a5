//! Speech requests, checked against the model. Errors name fields by their paths in the .proto files.
//!
//! A field that cannot be honoured is refused, with the accepted values. Only hints are ignored, with a warning,
//! unless the server is strict.

use std::sync::Arc;
use std::time::Duration;

use omni_core::error::{ErrorKind, InvalidField, ServeError, excerpt};
use omni_family::{SpeechInfo, VoiceContent, VoiceSource};
use omni_pipeline::request::{Sampling, VoicePrompt};
use omni_session::{Buffering, IgnoredField, Settings};

use super::aliases;
use super::delivery::{DeliveryFields, delivery};
use super::speech::SpeechRequest;

/// Sampling parameters that a caller requests.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SamplingRequest {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<i32>,
    pub repetition_penalty: Option<f32>,
    /// For text only, like the two below it.
    pub min_p: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub seed: Option<u64>,
    pub max_tokens: Option<u32>,
}

/// Paths of the fields of one set of sampling parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct SamplingFields {
    pub(super) temperature: &'static str,
    pub(super) top_p: &'static str,
    pub(super) top_k: &'static str,
    pub(super) repetition_penalty: &'static str,
    pub(super) min_p: &'static str,
    pub(super) presence_penalty: &'static str,
    pub(super) frequency_penalty: &'static str,
    pub(super) max_tokens: &'static str,
}

const SAMPLING: SamplingFields = SamplingFields {
    temperature: "config.sampling.temperature",
    top_p: "config.sampling.top_p",
    top_k: "config.sampling.top_k",
    repetition_penalty: "config.sampling.repetition_penalty",
    min_p: "config.sampling.min_p",
    presence_penalty: "config.sampling.presence_penalty",
    frequency_penalty: "config.sampling.frequency_penalty",
    max_tokens: "config.sampling.max_tokens",
};

pub const DELIVERY: DeliveryFields = DeliveryFields {
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

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum UnknownName {
    #[error(
        "unknown model '{got}'; expected '{expected}', one of its other names (the list of models has them), or none"
    )]
    Model { got: String, expected: String },
    #[error("unknown voice '{got}'; expected one of: {known}")]
    Voice { got: String, known: String },
    #[error(
        "there are no voices yet: add one of a recording with VoiceService.CreateVoice, POST /v1/audio/voices or omni-client voices add"
    )]
    NoVoice,
    #[error("voice {got:?} cannot be spoken with here: {problem}")]
    Misfit { got: String, problem: String },
    #[error("unsupported language '{got}'; expected one of: {known}")]
    Language { got: String, known: String },
}

impl From<UnknownName> for ServeError {
    fn from(error: UnknownName) -> Self {
        let (kind, reason, field) = match error {
            UnknownName::Model { .. } => (ErrorKind::UnknownModel, "MODEL_NOT_FOUND", "config.model"),
            UnknownName::Voice { .. } | UnknownName::NoVoice => {
                (ErrorKind::InvalidArgument, "VOICE_NOT_FOUND", "config.voice")
            }
            UnknownName::Misfit { .. } => (
                ErrorKind::FailedPrecondition,
                "VOICE_OF_ANOTHER_MODEL",
                "config.voice",
            ),
            UnknownName::Language { .. } => (
                ErrorKind::InvalidArgument,
                "LANGUAGE_NOT_FOUND",
                "config.language",
            ),
        };
        Self::new(kind, reason, error.to_string()).at(field)
    }
}

/// Checks a request against the model.
pub(super) fn settings(request: &SpeechRequest, info: &SpeechInfo) -> Result<Settings, ServeError> {
    model(&request.model, info)?;
    let mut ignored = unsupported(request, info)?;
    let non_streaming = non_streaming(request, info)?;
    let sampling = &request.sampling;
    let voice = match &request.imitated {
        Some(prompt) => SpokenVoice::imitated(prompt),
        None => voice(&request.voice, info)?,
    };
    let language = language(&request.language, info, &mut ignored)?;
    if request.alignment {
        aligned(language.as_deref(), info)?;
    }
    Ok(Settings {
        instructions: instructions(&request.style_instructions, info)
            .map_or_else(|| voice.description.clone(), |told| Some(voice.told(&told))),
        voice: voice.name,
        voice_prompt: voice.prompt,
        language,
        non_streaming,
        delivery: delivery(&request.output, info, &DELIVERY)?,
        sampling: self::sampling(sampling, &SAMPLING)?,
        seed: sampling.seed,
        max_frames: max_tokens(sampling, &SAMPLING)?,
        buffering: request.buffering,
        max_buffer_delay: buffer_delay(request.max_buffer_delay)?,
        alignment: request.alignment,
        ignored,
    })
}

pub fn invalid(field: &'static str, problem: impl Into<String>) -> ServeError {
    InvalidField::new(field, problem).into()
}

pub fn model(got: &str, info: &SpeechInfo) -> Result<(), ServeError> {
    if aliases::is_model(got, info) {
        return Ok(());
    }
    let got = excerpt(got);
    let expected = info.id.clone();
    Err(UnknownName::Model { got, expected }.into())
}

/// Voice of a request: one of the model's own, or a kept or imitated one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpokenVoice {
    pub(super) name: String,
    prompt: Option<Arc<VoicePrompt>>,
    /// Description of the voice for the model.
    description: Option<Arc<str>>,
}

impl SpokenVoice {
    fn own(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            prompt: None,
            description: None,
        }
    }

    /// Voice of a recording that came with the request.
    fn imitated(prompt: &Arc<VoicePrompt>) -> Self {
        Self {
            prompt: Some(Arc::clone(prompt)),
            ..Self::own("recording")
        }
    }

    fn kept((name, content): (String, VoiceContent)) -> Self {
        let (prompt, description) = match content {
            VoiceContent::Prompt(prompt) => (Some(prompt), None),
            VoiceContent::Description(words) => (None, Some(words)),
        };
        Self {
            name,
            prompt,
            description,
        }
    }

    /// Instructions for the model: the voice's description, then those of the request.
    fn told(&self, instructions: &Arc<str>) -> Arc<str> {
        match &self.description {
            Some(description) => format!("{description} {instructions}").into(),
            None => Arc::clone(instructions),
        }
    }
}

pub(super) fn voice(got: &str, info: &SpeechInfo) -> Result<SpokenVoice, ServeError> {
    let voices = &info.voices;
    let own = match got {
        "" => voices.first(),
        _ => voices.iter().find(|voice| voice.id.eq_ignore_ascii_case(got)),
    };
    if let Some(own) = own {
        return Ok(SpokenVoice::own(&own.id));
    }
    let kept = info.voice_support.kept.as_ref();
    if let Some(found) = kept.and_then(|kept| kept.find(got)) {
        let misfit = |problem| UnknownName::Misfit {
            got: excerpt(got),
            problem,
        };
        return Ok(found.map(SpokenVoice::kept).map_err(misfit)?);
    }
    let names = names(info);
    let meant = match got {
        "" => Some(0),
        _ => aliases::meant(got, names.len()),
    };
    match meant.and_then(|index| names.get(index)) {
        // A listed name is always found.
        Some(name) => voice(name, info),
        None => {
            let known = known_voices(info);
            let unknown = match info.voice_support.source {
                VoiceSource::Recordings if known.is_empty() => UnknownName::NoVoice,
                _ => UnknownName::Voice {
                    got: excerpt(got),
                    known: join(known.iter().map(String::as_str)),
                },
            };
            Err(unknown.into())
        }
    }
}

/// Voices that OpenAI's names stand for, the default first: the model's own, or else the kept ones.
fn names(info: &SpeechInfo) -> Vec<String> {
    let kept = info.voice_support.kept.as_ref();
    match (info.voices.is_empty(), kept) {
        (true, Some(kept)) => kept.names(),
        _ => info.voices.iter().map(|voice| voice.id.clone()).collect(),
    }
}

/// Names of all voices that can be requested.
fn known_voices(info: &SpeechInfo) -> Vec<String> {
    let kept = info.voice_support.kept.as_ref().map(|kept| kept.names());
    let own = info.voices.iter().map(|voice| voice.id.clone());
    own.chain(kept.into_iter().flatten()).collect()
}

/// Language of the request; none where the model detects it. Another region of the language replaces a missing one,
/// unless the server is strict.
pub(super) fn language(
    got: &str,
    info: &SpeechInfo,
    ignored: &mut Vec<IgnoredField>,
) -> Result<Option<String>, ServeError> {
    /// Value by which callers of models that detect the language leave the choice to them.
    const DETECTED: &str = "auto";
    if info.detects_language && (got.is_empty() || got.eq_ignore_ascii_case(DETECTED)) {
        return Ok(None);
    }
    if got.is_empty() {
        return Ok(info.languages.first().cloned());
    }
    let mut languages = info.languages.iter();
    if let Some(found) = languages.find(|spoken| super::language::same(got, spoken)) {
        return Ok(Some(found.clone()));
    }
    let mut languages = info.languages.iter();
    let related = languages.find(|spoken| super::language::related(got, spoken));
    if let Some(related) = related.filter(|_| !info.terms.strict) {
        let problem = format!("{:?} is not offered, {related} is spoken instead", excerpt(got));
        hint("config.language", &problem, false, ignored)?;
        return Ok(Some(related.clone()));
    }
    let known = join(info.languages.iter().map(String::as_str));
    let got = excerpt(got);
    Err(UnknownName::Language { got, known }.into())
}

/// Refuses word times in a language without them. Without a language the model detects it by the text.
fn aligned(language: Option<&str>, info: &SpeechInfo) -> Result<(), ServeError> {
    match language.filter(|language| !super::language::is_aligned(language)) {
        None => Ok(()),
        Some(language) => {
            let offered = super::language::aligned_of(&info.languages);
            let offered = join(offered.iter().map(String::as_str));
            let problem =
                format!("unsupported in '{language}'; expected false: word times are in: {offered}");
            Err(invalid("config.alignment", problem))
        }
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Style instructions, if the model takes any.
fn instructions(got: &str, info: &SpeechInfo) -> Option<Arc<str>> {
    let got = got.trim();
    (info.instructions && !got.is_empty()).then(|| got.into())
}

/// Returns true if the prompt contains the whole text. A model that does not support that ignores the request.
fn non_streaming(request: &SpeechRequest, info: &SpeechInfo) -> Result<bool, ServeError> {
    const FIELD: &str = "config.non_streaming_mode";
    let Some(default) = info.non_streaming else {
        return Ok(false);
    };
    let eager = request.buffering == Buffering::Eager;
    if eager && request.non_streaming_mode == Some(true) {
        let problem = "is true, but with eager buffering a sentence begins before its end is known; expected false or another buffering";
        return Err(invalid(FIELD, problem));
    }
    let usual = default && request.whole_text && !eager;
    Ok(request.non_streaming_mode.unwrap_or(usual))
}

/// Refuses fields that are set and not supported; returns those that are ignored instead, each with the reason.
fn unsupported(request: &SpeechRequest, info: &SpeechInfo) -> Result<Vec<IgnoredField>, ServeError> {
    let mut ignored = Vec::new();
    if !request.style_instructions.is_empty() && !info.instructions {
        hint(
            "config.style_instructions",
            "this model follows none",
            info.terms.strict,
            &mut ignored,
        )?;
    }
    if request.non_streaming_mode == Some(true) && info.non_streaming.is_none() {
        hint(
            "config.non_streaming_mode",
            "this model reads its text frame by frame",
            info.terms.strict,
            &mut ignored,
        )?;
    }
    if request.has_pronunciations {
        return Err(invalid(
            "config.pronunciations",
            "this model takes none; expected empty",
        ));
    }
    // A recording that the model can imitate was encoded before.
    if request.clone.is_some() {
        return Err(invalid(
            "config.clone",
            "this model cannot clone voices; expected unset; Base checkpoints of Qwen3-TTS do",
        ));
    }
    Ok(ignored)
}

/// Handles a hint that cannot be followed: refused if the server is `strict`, else one more `ignored` field.
pub(super) fn hint(
    field: &'static str,
    problem: &str,
    strict: bool,
    ignored: &mut Vec<IgnoredField>,
) -> Result<(), ServeError> {
    if strict {
        return Err(invalid(field, format!("{problem}; expected empty")));
    }
    // The answer names the field.
    tracing::debug!(field, problem, "hint ignored");
    let problem = problem.to_owned();
    ignored.push(IgnoredField { field, problem });
    Ok(())
}

pub(super) fn sampling(got: &SamplingRequest, fields: &SamplingFields) -> Result<Sampling, ServeError> {
    let check = |value: Option<f32>, good: fn(f32) -> bool, field, expected: &str| match value {
        Some(v) if !good(v) => Err(invalid(field, format!("is {v}; expected {expected}"))),
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
    check(
        got.min_p,
        |v| (0.0..=1.0).contains(&v),
        fields.min_p,
        "a number from 0 to 1",
    )?;
    for (penalty, field) in [
        (got.presence_penalty, fields.presence_penalty),
        (got.frequency_penalty, fields.frequency_penalty),
    ] {
        check(
            penalty,
            |v| (-2.0..=2.0).contains(&v),
            field,
            "a number from -2 to 2",
        )?;
    }
    let top_k = got.top_k.map(u32::try_from).transpose();
    let top_k = top_k.map_err(|_| invalid(fields.top_k, "is negative; expected 0 or more"))?;
    Ok(Sampling {
        temperature: got.temperature,
        top_p: got.top_p,
        top_k,
        repetition_penalty: got.repetition_penalty,
        min_p: got.min_p,
        presence_penalty: got.presence_penalty,
        frequency_penalty: got.frequency_penalty,
    })
}

/// Most outputs, if the caller sets that.
pub(super) fn max_tokens(got: &SamplingRequest, fields: &SamplingFields) -> Result<Option<u32>, ServeError> {
    match got.max_tokens {
        Some(0) => Err(invalid(fields.max_tokens, "is 0; expected at least 1")),
        other => Ok(other),
    }
}

fn buffer_delay(got: Option<Duration>) -> Result<Option<Duration>, ServeError> {
    match got {
        Some(delay) if delay.is_zero() || delay > MAX_BUFFER_DELAY => Err(invalid(
            "config.max_buffer_delay",
            "is out of range; expected above 0 and at most 60 s",
        )),
        delay => Ok(delay),
    }
}
