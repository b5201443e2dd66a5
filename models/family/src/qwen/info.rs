//! Properties of a checkpoint, with those that its `omni.json` adds.

use anyhow::{Context as _, bail, ensure};
use omni_audio::{SampleRate, SamplesPerFrame};
use omni_models::{SpeechLimits, SpeechModel, VoiceSource};
use omni_pipeline::request::Sampling;
use omni_text::{Language, Normalizer};

use super::card::Card;
use super::voice_encoder::support;
use crate::{SpeechInfo, Terms, VoiceInfo};

/// Characters of one piece for a model that does not say.
const MAX_CHARACTERS: usize = 300;
/// The voice that the reference implementation of Qwen3-Omni takes by default (transformers,
/// `generate(speaker="Ethan")`).
const REFERENCE_VOICE: &str = "ethan";

pub(super) fn card(model: &SpeechModel) -> anyhow::Result<Option<Card>> {
    let json = model.file("omni.json")?;
    json.map(|json| serde_json::from_slice(&json).context("omni.json cannot be read"))
        .transpose()
}

pub(super) fn info(model: &SpeechModel, card: Card, name: String) -> anyhow::Result<SpeechInfo> {
    let limits = model.limits();
    let defaults = model.defaults();
    if let Some(rate) = card.sample_rate {
        ensure!(
            rate == limits.sample_rate,
            "sample_rate is {rate}, the model has {}",
            limits.sample_rate
        );
    }
    tracing::debug!(license = card.license, "model card");
    let samples_per_frame = limits
        .samples_per_frame
        .try_into()
        .context("a frame has no samples")?;
    let voices = voices(&card, limits)?;
    let languages = if card.languages.is_empty() {
        limits.languages.iter().map(|l| l.tag.to_owned()).collect()
    } else {
        card.languages
    };
    let talker = defaults.talker;
    let name = card.name.unwrap_or(name);
    Ok(SpeechInfo {
        display_name: name.clone(),
        id: name,
        description: card.description.unwrap_or_default(),
        detects_language: !limits.languages.is_empty(),
        instructions: limits.instructions,
        non_streaming: limits.non_streaming,
        own_speed: false,
        languages,
        voices,
        voice_support: support(model)?,
        sample_rate: SampleRate::new(limits.sample_rate)?,
        samples_per_frame: SamplesPerFrame(samples_per_frame),
        leading_silence_frames: card.leading_silence_frames.unwrap_or(0),
        max_frames: defaults.max_frames,
        max_context: limits.max_positions,
        default_sampling: Sampling {
            temperature: Some(talker.temperature),
            top_p: Some(talker.top_p),
            top_k: Some(talker.top_k),
            repetition_penalty: Some(talker.repetition_penalty),
            ..Sampling::default()
        },
        normalizer: normalizer(
            card.text_normalization.as_deref(),
            card.speakable_characters.as_deref(),
        )?,
        max_characters: card.max_characters.unwrap_or(MAX_CHARACTERS).max(1),
        terms: Terms::default(),
    })
}

fn voices(card: &Card, limits: &SpeechLimits) -> anyhow::Result<Vec<VoiceInfo>> {
    let known = &limits.voices;
    match limits.voice_source {
        VoiceSource::Names => ensure!(!known.is_empty(), "the checkpoint has no voices"),
        VoiceSource::Descriptions => return Ok(vec![described()]),
        // Callers bring them.
        VoiceSource::Recordings => return Ok(Vec::new()),
    }
    for voice in &card.voices {
        let exists = known.iter().any(|name| name.eq_ignore_ascii_case(&voice.id));
        ensure!(
            exists,
            "voice {:?} is not in the checkpoint, which has {}",
            voice.id,
            known.join(", ")
        );
    }
    if !card.voices.is_empty() {
        let voices = card.voices.iter().map(|voice| VoiceInfo {
            id: voice.id.clone(),
            display_name: voice.display_name.clone(),
            description: voice.description.clone(),
        });
        return Ok(voices.collect());
    }
    let mut voices: Vec<_> = known
        .iter()
        .map(|name| VoiceInfo {
            id: name.clone(),
            display_name: name.clone(),
            description: String::new(),
        })
        .collect();
    voices.sort_by_key(|voice| !voice.id.eq_ignore_ascii_case(REFERENCE_VOICE));
    Ok(voices)
}

/// Voice of a checkpoint whose sound is described in words.
fn described() -> VoiceInfo {
    VoiceInfo {
        id: "described".to_owned(),
        display_name: "As described".to_owned(),
        description: "The voice that the style instructions of a request describe.".to_owned(),
    }
}

fn normalizer(language: Option<&str>, speakable: Option<&str>) -> anyhow::Result<Option<Normalizer>> {
    match (language, speakable) {
        (None, _) => Ok(None),
        (Some("en"), Some(speakable)) => Ok(Some(Normalizer::new(Language::English, speakable)?)),
        (Some("en"), None) => bail!("text_normalization needs speakable_characters"),
        (Some(other), _) => bail!("text_normalization is {other:?}, expected \"en\""),
    }
}
