//! `ChatConfig`: checked on the way in, complete on the way out.

use omni_audio::InputFormat;
use omni_proto::v1;

use super::Known;
use super::audio::{INPUT, format, wire};
use super::messages::check_text;
use crate::error::ServeError;
use crate::grpc::delivery::{self, Asked, DeliveryFields, delivery};
use crate::grpc::settings::{
    SamplingFields, invalid, language, max_tokens, model, resolved_sampling, sampling, voice,
};
use crate::session::{Buffering, ChatSettings, Modalities, Settings};
use crate::stage::AudioInputError;

/// Stop strings, and bytes of one.
const MAX_STOPS: usize = 16;
const MAX_STOP_LEN: usize = 256;

const TEXT: SamplingFields = SamplingFields {
    temperature: "config.text_sampling.temperature",
    top_p: "config.text_sampling.top_p",
    top_k: "config.text_sampling.top_k",
    repetition_penalty: "config.text_sampling.repetition_penalty",
    max_tokens: "config.text_sampling.max_tokens",
};

const SPEECH: SamplingFields = SamplingFields {
    temperature: "config.speech_sampling.temperature",
    top_p: "config.speech_sampling.top_p",
    top_k: "config.speech_sampling.top_k",
    repetition_penalty: "config.speech_sampling.repetition_penalty",
    max_tokens: "config.speech_sampling.max_tokens",
};

const DELIVERY: DeliveryFields = DeliveryFields {
    frame_duration: "config.output_audio.frame_duration",
    max_lead: "config.output_audio.max_lead",
    leading_silence: "config.output_audio.leading_silence",
    speed: "config.speed",
    volume_gain_db: "config.volume_gain_db",
    encoding: "config.output_audio.format.encoding",
    sample_rate_hz: "config.output_audio.format.sample_rate_hz",
    channels: "config.output_audio.format.channels",
};

/// Checks a configuration against the model; `history` is not looked at.
pub(super) fn settings(config: &v1::ChatConfig, known: &Known) -> Result<ChatSettings, ServeError> {
    let speech = &known.speech;
    model(&config.model, speech)?;
    check_text("config.instructions", config.instructions.len(), known)?;
    let words = config.text_sampling.unwrap_or_default();
    let speaking = config.speech_sampling.unwrap_or_default();
    let most = known.chat.default_max_tokens;
    let asked = Asked {
        output: config.output_audio.as_ref(),
        speed: config.speed,
        volume_gain_db: config.volume_gain_db,
    };
    Ok(ChatSettings {
        instructions: text(&config.instructions),
        modalities: modalities(&config.output_modalities, "config.output_modalities")?.unwrap_or(
            Modalities {
                text: true,
                audio: true,
            },
        ),
        sampling: sampling(&words, &TEXT)?,
        seed: words.seed,
        max_tokens: max_tokens(&words, &TEXT)?.unwrap_or(most),
        stop: stop(&config.stop)?,
        input: input(config, known)?,
        speech: Settings {
            voice: voice(&config.voice, speech)?,
            language: language(&config.language, speech)?,
            instructions: None,
            delivery: delivery(asked, speech, &DELIVERY)?,
            sampling: sampling(&speaking, &SPEECH)?,
            seed: speaking.seed,
            max_frames: max_tokens(&speaking, &SPEECH)?,
            // Words as they come: the sentence is one sequence all the same, and its sound begins earliest.
            buffering: Buffering::Eager,
            max_buffer_delay: None,
            alignment: false,
            ignored: Vec::new(),
        },
    })
}

/// The layout of `InputAudio`.
fn input(config: &v1::ChatConfig, known: &Known) -> Result<Option<InputFormat>, ServeError> {
    let got = config.input_audio.unwrap_or_default();
    match known.chat.hearing {
        Some(hearing) => format(&got, hearing.sample_rate, &INPUT).map(Some),
        None if got == v1::AudioFormat::default() => Ok(None),
        None => {
            let field = "config.input_audio";
            Err(AudioInputError::NotSupported { field }.into())
        }
    }
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

/// A text that may be absent.
pub(super) fn text(text: &str) -> Option<std::sync::Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn stop(got: &[String]) -> Result<Vec<String>, ServeError> {
    let problem = match got.len() > MAX_STOPS {
        true => format!("has {} strings, expected at most {MAX_STOPS}", got.len()),
        false => match got
            .iter()
            .map(String::len)
            .find(|len| *len == 0 || *len > MAX_STOP_LEN)
        {
            Some(len) => format!("has a string of {len} bytes, expected 1 to {MAX_STOP_LEN}"),
            None => return Ok(got.to_vec()),
        },
    };
    Err(invalid("config.stop", problem))
}

/// The settings in force, every default filled in.
pub(super) fn resolved(settings: &ChatSettings, known: &Known) -> v1::ChatConfig {
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

/// What a conversation may use, as it goes over the wire.
pub(super) fn limits(known: &Known) -> v1::ChatLimits {
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
