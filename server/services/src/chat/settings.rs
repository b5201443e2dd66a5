//! Chat requests, checked against the model. Errors name fields by their paths in the .proto files.

use std::sync::Arc;

use omni_audio::InputFormat;
use omni_core::error::ServeError;
use omni_family::AudioInputError;
use omni_session::{Buffering, ChatSettings, Modalities, Settings};

use super::audio::{INPUT, format};
use super::messages::check_text;
use super::{ChatModel, ChatRequest};
use crate::delivery::{DeliveryFields, delivery};
use crate::settings::{SamplingFields, invalid, language, max_tokens, model, sampling, voice};

/// Most stop strings, and most bytes of one.
const MAX_STOPS: usize = 16;
const MAX_STOP_LEN: usize = 256;

const TEXT: SamplingFields = SamplingFields {
    temperature: "config.text_sampling.temperature",
    top_p: "config.text_sampling.top_p",
    top_k: "config.text_sampling.top_k",
    repetition_penalty: "config.text_sampling.repetition_penalty",
    min_p: "config.text_sampling.min_p",
    presence_penalty: "config.text_sampling.presence_penalty",
    frequency_penalty: "config.text_sampling.frequency_penalty",
    max_tokens: "config.text_sampling.max_tokens",
};

const SPEECH: SamplingFields = SamplingFields {
    temperature: "config.speech_sampling.temperature",
    top_p: "config.speech_sampling.top_p",
    top_k: "config.speech_sampling.top_k",
    repetition_penalty: "config.speech_sampling.repetition_penalty",
    min_p: "config.speech_sampling.min_p",
    presence_penalty: "config.speech_sampling.presence_penalty",
    frequency_penalty: "config.speech_sampling.frequency_penalty",
    max_tokens: "config.speech_sampling.max_tokens",
};

pub const DELIVERY: DeliveryFields = DeliveryFields {
    frame_duration: "config.output_audio.frame_duration",
    max_lead: "config.output_audio.max_lead",
    leading_silence: "config.output_audio.leading_silence",
    speed: "config.speed",
    volume_gain_db: "config.volume_gain_db",
    encoding: "config.output_audio.format.encoding",
    sample_rate_hz: "config.output_audio.format.sample_rate_hz",
    channels: "config.output_audio.format.channels",
};

/// Checks a request against the model; `history` is not looked at.
pub(super) fn settings(request: &ChatRequest, known: &ChatModel) -> Result<ChatSettings, ServeError> {
    let speech = &known.speech;
    model(&request.model, speech)?;
    check_text("config.instructions", request.instructions.len(), known)?;
    let words = &request.text_sampling;
    let speaking = &request.speech_sampling;
    let most = known.chat.default_max_tokens;
    let mut ignored = Vec::new();
    let language = language(&request.language, speech, &mut ignored)?;
    Ok(ChatSettings {
        instructions: text(&request.instructions),
        modalities: request.modalities.unwrap_or(Modalities {
            text: true,
            audio: true,
        }),
        sampling: sampling(words, &TEXT)?,
        seed: words.seed,
        max_tokens: max_tokens(words, &TEXT)?.unwrap_or(most),
        stop: stop(&request.stop)?,
        input: input(request, known)?,
        speech: Settings {
            // Models that converse have voices of their own only.
            voice: voice(&request.voice, speech)?.name,
            voice_prompt: None,
            language,
            instructions: None,
            delivery: delivery(&request.output, speech, &DELIVERY)?,
            sampling: sampling(speaking, &SPEECH)?,
            seed: speaking.seed,
            max_frames: max_tokens(speaking, &SPEECH)?,
            // Text as it comes: the sentence is still one sequence, and its sound begins earliest.
            buffering: Buffering::Eager,
            max_buffer_delay: None,
            non_streaming: false,
            alignment: false,
            ignored,
        },
    })
}

/// Format of the audio that the caller will send.
fn input(request: &ChatRequest, known: &ChatModel) -> Result<Option<InputFormat>, ServeError> {
    match (known.chat.hearing, request.input) {
        (Some(hearing), input) => format(&input.unwrap_or_default(), hearing.sample_rate, &INPUT).map(Some),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let field = "config.input_audio";
            Err(AudioInputError::NotSupported { field }.into())
        }
    }
}

/// A text that may be absent.
fn text(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn stop(got: &[String]) -> Result<Vec<String>, ServeError> {
    let problem = if got.len() > MAX_STOPS {
        format!("has {} strings; expected at most {MAX_STOPS}", got.len())
    } else {
        match got
            .iter()
            .map(String::len)
            .find(|len| *len == 0 || *len > MAX_STOP_LEN)
        {
            Some(len) => format!("has a string of {len} bytes; expected 1 to {MAX_STOP_LEN}"),
            None => return Ok(got.to_vec()),
        }
    };
    Err(invalid("config.stop", problem))
}
