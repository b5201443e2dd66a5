//! Audio of callers, as mono samples at the rate of the model's audio input.

use omni_audio::{DecodeError, Decoder, Encoding, InputEncoding, InputFormat, SampleRate, Samples};
use omni_core::error::ServeError;
use omni_family::{AudioInputError, Hearing};
use omni_session::{ChatCommand, ProtocolError};

use super::ChatModel;
use crate::delivery::UnsupportedFormat;
use crate::settings::invalid;

/// Source of audio: paths for errors, and the encoding that is not accepted there.
#[derive(Debug, Clone, Copy)]
pub struct FormatFields {
    pub encoding: &'static str,
    sample_rate_hz: &'static str,
    channels: &'static str,
    data: &'static str,
    /// Encoding that is not accepted: a WAV file in pieces, or bare packets as a file.
    pub not: InputEncoding,
}

/// Fields of `ChatConfig.input_audio`. A WAV file cannot be decoded before its end.
pub const INPUT: FormatFields = FormatFields {
    encoding: "config.input_audio.encoding",
    sample_rate_hz: "config.input_audio.sample_rate_hz",
    channels: "config.input_audio.channels",
    data: "input_audio.data",
    not: InputEncoding::Wav,
};

/// Fields of `AudioClip`. Bare packets are no file.
pub const CLIP: FormatFields = FormatFields {
    encoding: "message.parts.audio.format.encoding",
    sample_rate_hz: "message.parts.audio.format.sample_rate_hz",
    channels: "message.parts.audio.format.channels",
    data: "message.parts.audio.data",
    not: InputEncoding::Opus,
};

/// Format of a caller's audio; 0 leaves a value to the server or to the bytes themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputRequest {
    pub encoding: InputEncoding,
    pub sample_rate_hz: u32,
    pub channels: u32,
}

impl Default for InputRequest {
    fn default() -> Self {
        Self {
            encoding: InputEncoding::Pcm16,
            sample_rate_hz: 0,
            channels: 0,
        }
    }
}

/// Checks a format.
pub(super) fn format(
    got: &InputRequest,
    heard: SampleRate,
    fields: &FormatFields,
) -> Result<InputFormat, ServeError> {
    let encoding = got.encoding;
    let usual = match encoding {
        InputEncoding::Mulaw => Encoding::Mulaw.default_rate(heard),
        InputEncoding::Alaw => Encoding::Alaw.default_rate(heard),
        _ => heard,
    };
    let rate = match got.sample_rate_hz {
        0 => usual,
        hz => SampleRate::new(hz).map_err(|error| unsupported(fields.sample_rate_hz, error.to_string()))?,
    };
    let channels = u16::try_from(got.channels.max(1)).unwrap_or(u16::MAX);
    let format = InputFormat {
        encoding,
        rate,
        channels,
    };
    // Creating a decoder finds every unsupported format before the first byte.
    new_decoder(format, heard, Samples::ZERO, fields)?;
    Ok(format)
}

/// Decoder of bytes in `format`, for as many samples as one message may have.
fn decoder(format: InputFormat, hearing: Hearing, fields: &FormatFields) -> Result<Decoder, ServeError> {
    let limit = hearing.sample_rate.samples(hearing.max_audio);
    new_decoder(format, hearing.sample_rate, limit, fields)
}

fn new_decoder(
    format: InputFormat,
    heard: SampleRate,
    limit: Samples,
    fields: &FormatFields,
) -> Result<Decoder, ServeError> {
    Decoder::new(format, heard, limit).map_err(|error| {
        let field = match error {
            DecodeError::Channels { .. } => fields.channels,
            _ => fields.sample_rate_hz,
        };
        unsupported(field, error.to_string())
    })
}

/// Error of bytes that are not in the stated format.
fn undecodable(error: DecodeError, hearing: Hearing, fields: &FormatFields) -> ServeError {
    match error {
        DecodeError::TooLong { .. } => {
            let limit = hearing.max_audio;
            AudioInputError::TooLong { limit }.into()
        }
        DecodeError::NotWhole { .. } | DecodeError::NotFinite | DecodeError::Empty => {
            invalid(fields.data, error.to_string())
        }
        _ => unsupported(fields.data, error.to_string()),
    }
}

/// Decodes a recording of at most `most` samples.
pub fn clip(
    layout: &InputRequest,
    data: &[u8],
    hearing: Hearing,
    most: Samples,
) -> Result<Vec<f32>, ServeError> {
    let format = format(layout, hearing.sample_rate, &CLIP)?;
    let mut decoder = new_decoder(format, hearing.sample_rate, most, &CLIP)?;
    let mut samples = Vec::new();
    let decoded = decoder
        .push(data, &mut samples)
        .and_then(|()| decoder.finish(&mut samples));
    decoded.map_err(|error| undecodable(error, hearing, &CLIP))?;
    hearing.check_short(samples.len(), CLIP.data)?;
    Ok(samples)
}

/// Audio of the user's message, on its way from bytes to samples.
#[derive(Debug, Default)]
pub struct InputAudio {
    /// None until the configuration has come.
    pub format: Option<InputFormat>,
    /// None between the turns of the user.
    decoder: Option<Decoder>,
}

impl InputAudio {
    /// Adds bytes.
    ///
    /// # Errors
    /// If the bytes are not in the format of the configuration, or are too many.
    pub fn push(&mut self, data: &[u8], model: &ChatModel) -> Result<ChatCommand, ServeError> {
        let field = "input_audio";
        let hearing = model.chat.hearing;
        let hearing = hearing.ok_or(AudioInputError::NotSupported { field })?;
        let format = self.format.ok_or(ProtocolError::NO_CONFIG)?;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(decoder(format, hearing, &INPUT)?),
        };
        let mut samples = Vec::new();
        let pushed = decoder.push(data, &mut samples);
        pushed.map_err(|error| undecodable(error, hearing, &INPUT))?;
        Ok(ChatCommand::Audio(samples))
    }

    /// Ends the turn; returns the rest of its audio.
    ///
    /// # Errors
    /// If the bytes end within a sample.
    pub fn close(&mut self, model: &ChatModel) -> Result<Option<ChatCommand>, ServeError> {
        let (Some(decoder), Some(hearing)) = (self.decoder.take(), model.chat.hearing) else {
            return Ok(None);
        };
        let mut rest = Vec::new();
        let finished = decoder.finish(&mut rest);
        finished.map_err(|error| undecodable(error, hearing, &INPUT))?;
        Ok((!rest.is_empty()).then_some(ChatCommand::Audio(rest)))
    }
}

fn unsupported(field: &'static str, problem: String) -> ServeError {
    UnsupportedFormat { field, problem }.into()
}
