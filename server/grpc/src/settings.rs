//! `SpeechConfig`: to a request on the way in, complete on the way out.

use std::time::Duration;

use omni_audio::{InputEncoding, InputFormat, SampleRate};
use omni_core::error::ServeError;
use omni_family::SpeechInfo;
use omni_pipeline::request::Sampling;
use omni_proto::v1;
use omni_services::SpeechRequest;
use omni_services::settings::{DELIVERY, SamplingRequest, invalid};
use omni_services::voices::{Imitation, Recording};
use omni_session::{Buffering, SessionLimits, Settings};

use super::delivery;

/// Request of a configuration.
pub(super) fn request(config: v1::SpeechConfig) -> Result<SpeechRequest, ServeError> {
    let output = delivery::request(config.output, &DELIVERY)?;
    Ok(SpeechRequest {
        model: config.model,
        voice: config.voice,
        language: config.language,
        output: output.rendered(config.speed, config.volume_gain_db),
        sampling: sampling(config.sampling),
        buffering: buffering(config.buffering)?,
        max_buffer_delay: config.max_buffer_delay.map(time),
        alignment: config.alignment,
        style_instructions: config.style_instructions,
        has_pronunciations: !config.pronunciations.is_empty(),
        non_streaming_mode: config.non_streaming_mode,
        whole_text: false,
        clone: config.clone.map(imitation).transpose()?,
        imitated: None,
    })
}

/// Recording to imitate. With a transcript it is continued in context, without one its speaker's vector alone
/// decides.
fn imitation(clone: v1::VoiceClone) -> Result<Imitation, ServeError> {
    Ok(Imitation {
        recording: recording(clone.audio, clone.format.as_ref(), "config.clone.format")?,
        x_vector_only: clone.transcript.trim().is_empty(),
        transcript: clone.transcript,
    })
}

/// A recording: a file that identifies its format, or samples of the stated `format`.
pub(super) fn recording(
    data: impl Into<bytes::Bytes>,
    format: Option<&v1::AudioFormat>,
    field: &'static str,
) -> Result<Recording, ServeError> {
    use v1::AudioEncoding as E;
    let Some(format) = format.filter(|format| **format != v1::AudioFormat::default()) else {
        return Ok(Recording::file(data));
    };
    let encoding = match E::try_from(format.encoding) {
        Ok(E::Unspecified | E::PcmS16le) => InputEncoding::Pcm16,
        Ok(E::PcmF32le) => InputEncoding::PcmF32,
        Ok(E::Mulaw) => InputEncoding::Mulaw,
        Ok(E::Alaw) => InputEncoding::Alaw,
        Ok(E::OggOpus | E::Wav | E::Flac) => return Ok(Recording::file(data)),
        _ => {
            let problem = format!(
                "unsupported encoding '{}'; expected WAV, FLAC, Ogg Opus, PCM, mu-law or A-law",
                delivery::name(format.encoding)
            );
            return Err(invalid(field, problem));
        }
    };
    let usual = match encoding {
        InputEncoding::Mulaw | InputEncoding::Alaw => 8_000,
        _ => 24_000,
    };
    let hz = match format.sample_rate_hz {
        0 => usual,
        hz => hz,
    };
    let rate = SampleRate::new(hz).map_err(|error| invalid(field, error.to_string()))?;
    let channels = u16::try_from(format.channels.max(1)).unwrap_or(u16::MAX);
    Ok(Recording::stated(
        data,
        InputFormat {
            encoding,
            rate,
            channels,
        },
    ))
}

/// A time of a message; a negative one is out of every range, like an infinite one.
pub(super) fn time(got: omni_proto::Duration) -> Duration {
    Duration::try_from(got).unwrap_or(Duration::MAX)
}

pub(super) fn sampling(got: Option<v1::SamplingParams>) -> SamplingRequest {
    let got = got.unwrap_or_default();
    SamplingRequest {
        temperature: got.temperature,
        top_p: got.top_p,
        top_k: got.top_k,
        repetition_penalty: got.repetition_penalty,
        seed: got.seed,
        max_tokens: got.max_tokens,
        ..SamplingRequest::default()
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
            format!("unsupported value '{got}'; expected one of TextBuffering"),
        )),
    }
}

/// Settings in force, with every default filled in.
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
        non_streaming_mode: info.non_streaming.map(|_| settings.non_streaming),
        ..v1::SpeechConfig::default()
    }
}

/// Sampling parameters with every default filled in.
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

/// Limits of the session as a message.
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
