//! `ChatConfig`: to a request on the way in, complete on the way out.

use omni_core::error::ServeError;
use omni_proto::v1;
use omni_services::chat::DELIVERY;
use omni_services::chat::audio::INPUT;
use omni_services::settings::invalid;
use omni_services::{ChatModel, ChatRequest};
use omni_session::{ChatSettings, Modalities};

use super::audio::{self, wire};
use super::messages;
use crate::delivery;
use crate::settings::{resolved_sampling, sampling};

/// Request of a configuration.
pub(super) fn request(config: v1::ChatConfig) -> Result<ChatRequest, ServeError> {
    // A field with all defaults is the same as none.
    let input = config
        .input_audio
        .filter(|input| *input != v1::AudioFormat::default());
    let output = delivery::request(config.output_audio, &DELIVERY)?;
    Ok(ChatRequest {
        model: config.model,
        instructions: config.instructions,
        modalities: modalities(&config.output_modalities, "config.output_modalities")?,
        voice: config.voice,
        language: config.language,
        input: input.map(|input| audio::request(&input, &INPUT)).transpose()?,
        output: output.rendered(config.speed, config.volume_gain_db),
        text_sampling: sampling(config.text_sampling),
        speech_sampling: sampling(config.speech_sampling),
        stop: config.stop,
        history: messages::requests(config.history)?,
    })
}

/// Forms of output; `None` if none are named.
pub(super) fn modalities(got: &[i32], field: &'static str) -> Result<Option<Modalities>, ServeError> {
    let mut modalities = Modalities {
        text: false,
        audio: false,
    };
    for &modality in got {
        match v1::Modality::try_from(modality) {
            Ok(v1::Modality::Text) => modalities.text = true,
            Ok(v1::Modality::Audio) => modalities.audio = true,
            Ok(v1::Modality::Unspecified) | Err(_) => {
                return Err(invalid(
                    field,
                    format!("has {modality}, expected MODALITY_TEXT or MODALITY_AUDIO"),
                ));
            }
        }
    }
    Ok((!got.is_empty()).then_some(modalities))
}

/// Settings in force, with every default filled in.
pub(super) fn resolved(settings: &ChatSettings, known: &ChatModel) -> v1::ChatConfig {
    let speech = &settings.speech;
    let modalities = [
        (settings.modalities.text, v1::Modality::Text),
        (settings.modalities.audio, v1::Modality::Audio),
    ];
    let modalities = modalities.into_iter().filter(|(sent, _)| *sent);
    let (speed, volume_gain_db) = delivery::rendering(&speech.delivery);
    v1::ChatConfig {
        model: known.speech.id.clone(),
        instructions: settings.instructions.as_deref().unwrap_or_default().to_owned(),
        output_modalities: modalities.map(|(_, modality)| modality.into()).collect(),
        voice: speech.voice.clone(),
        language: speech.language.clone().unwrap_or_default(),
        input_audio: settings.input.map(wire),
        output_audio: Some(delivery::wire(&speech.delivery)),
        speed,
        volume_gain_db,
        text_sampling: Some(resolved_sampling(
            settings.sampling,
            known.chat.default_sampling,
            settings.seed,
            Some(settings.max_tokens),
        )),
        speech_sampling: Some(resolved_sampling(
            speech.sampling,
            known.speech.default_sampling,
            speech.seed,
            speech.max_frames,
        )),
        history: Vec::new(),
        stop: settings.stop.clone(),
    }
}

/// Limits of a conversation as a message.
pub(super) fn limits(known: &ChatModel) -> v1::ChatLimits {
    let limits = &known.limits;
    v1::ChatLimits {
        max_text_bytes_per_message: u32::try_from(limits.max_text_bytes).unwrap_or(u32::MAX),
        max_input_audio: known
            .chat
            .hearing
            .and_then(|hearing| hearing.max_audio.try_into().ok()),
        max_context_tokens: known.chat.max_context,
        max_audio_per_response: limits.max_audio.try_into().ok(),
        idle_timeout: limits.idle_timeout.try_into().ok(),
        max_session: limits.max_age.try_into().ok(),
    }
}
