//! `AudioDelivery`, speed and level: checked on the way in, complete on the way out.

use std::ops::RangeInclusive;
use std::time::Duration;

use omni_audio::{Encoding, Format, Gain, Rendering, Speed};
use omni_proto::v1;

use super::settings::invalid;
use crate::error::{ErrorKind, ServeError};
use crate::session::Delivery;
use crate::stage::SpeechInfo;

/// Silence before speech where the caller says nothing about it.
const LEADING_SILENCE: Duration = Duration::from_millis(20);
/// Most of it that a caller may ask for.
const MAX_LEADING_SILENCE: Duration = Duration::from_secs(10);
/// How far ahead of its listener audio may be asked to be: far enough that no timer of a busy machine makes a gap.
const MAX_LEADS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

/// What is offered.
const ENCODINGS: [(v1::AudioEncoding, Encoding); 10] = [
    (v1::AudioEncoding::PcmS16le, Encoding::Pcm16),
    (v1::AudioEncoding::PcmF32le, Encoding::PcmF32),
    (v1::AudioEncoding::Mulaw, Encoding::Mulaw),
    (v1::AudioEncoding::Alaw, Encoding::Alaw),
    (v1::AudioEncoding::Opus, Encoding::Opus),
    (v1::AudioEncoding::OggOpus, Encoding::OggOpus),
    (v1::AudioEncoding::Wav, Encoding::Wav),
    (v1::AudioEncoding::Flac, Encoding::Flac),
    (v1::AudioEncoding::Mp3, Encoding::Mp3),
    (v1::AudioEncoding::Aac, Encoding::Aac),
];

/// Paths of the fields that say how audio is delivered.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryFields {
    pub(super) frame_duration: &'static str,
    pub(super) max_lead: &'static str,
    pub(super) leading_silence: &'static str,
    pub(super) encoding: &'static str,
    pub(super) sample_rate_hz: &'static str,
    pub(super) channels: &'static str,
    pub(super) speed: &'static str,
    pub(super) volume_gain_db: &'static str,
}

/// What a caller says about the delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) output: Option<&'a v1::AudioDelivery>,
    pub(super) speed: Option<f64>,
    pub(super) volume_gain_db: Option<f64>,
}

/// Encoding, rate or channels cannot be produced or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub(super) struct UnsupportedFormat {
    pub(super) field: &'static str,
    pub(super) problem: String,
}

impl From<UnsupportedFormat> for ServeError {
    fn from(error: UnsupportedFormat) -> Self {
        Self::new(
            ErrorKind::InvalidArgument,
            "UNSUPPORTED_AUDIO_FORMAT",
            error.to_string(),
        )
        .about(error.field)
    }
}

/// Checks it.
pub(super) fn delivery(
    asked: Asked<'_>,
    info: &SpeechInfo,
    fields: &DeliveryFields,
) -> Result<Delivery, ServeError> {
    let output = asked.output.copied().unwrap_or_default();
    let format = format(&output.format.unwrap_or_default(), info, fields)?;
    let format = framed(format, output.frame_duration, fields)?;
    Ok(Delivery {
        format,
        rendering: Rendering {
            speed: Speed::new(asked.speed.unwrap_or(1.0) as f32)
                .map_err(|error| invalid(fields.speed, error.to_string().trim_start_matches("speed ")))?,
            gain: Gain::new(asked.volume_gain_db.unwrap_or(0.0) as f32)
                .map_err(|error| invalid(fields.volume_gain_db, error.to_string()))?,
        },
        leading_silence: leading_silence(output.leading_silence, fields)?,
        max_lead: max_lead(output.max_lead, format, fields)?,
    })
}

/// The format in chunks of a playing time, if one is asked for.
fn framed(
    format: Format,
    got: Option<omni_proto::Duration>,
    fields: &DeliveryFields,
) -> Result<Format, ServeError> {
    let got = got.unwrap_or_default();
    if got == omni_proto::Duration::default() {
        return Ok(format);
    }
    let field = fields.frame_duration;
    let time = Duration::try_from(got).map_err(|_| invalid(field, "is negative, expected 0 or more"))?;
    format
        .framed(time)
        .map_err(|error| invalid(field, error.to_string()))
}

fn max_lead(
    got: Option<omni_proto::Duration>,
    format: Format,
    fields: &DeliveryFields,
) -> Result<Option<Duration>, ServeError> {
    let Some(got) = got else { return Ok(None) };
    let Some(lead) = Duration::try_from(got)
        .ok()
        .filter(|lead| MAX_LEADS.contains(lead))
    else {
        return Err(invalid(
            fields.max_lead,
            "is out of range, expected 100 ms to 1 h",
        ));
    };
    let frame = format
        .frame()
        .map_or(Duration::ZERO, |frame| format.rate().duration(frame));
    match lead >= 2 * frame {
        true => Ok(Some(lead)),
        false => {
            let problem = format!("is {lead:?}, expected at least twice the frame duration of {frame:?}");
            Err(invalid(fields.max_lead, problem))
        }
    }
}

fn leading_silence(
    got: Option<omni_proto::Duration>,
    fields: &DeliveryFields,
) -> Result<Duration, ServeError> {
    let Some(got) = got else {
        return Ok(LEADING_SILENCE);
    };
    match Duration::try_from(got) {
        Ok(silence) if silence <= MAX_LEADING_SILENCE => Ok(silence),
        _ => Err(invalid(
            fields.leading_silence,
            "is out of range, expected 0 to 10 s",
        )),
    }
}

fn format(got: &v1::AudioFormat, info: &SpeechInfo, fields: &DeliveryFields) -> Result<Format, ServeError> {
    let refuse = |field, problem| ServeError::from(UnsupportedFormat { field, problem });
    if got.channels > 1 {
        let problem = format!("{} channels are not offered, expected 0 or 1", got.channels);
        return Err(refuse(fields.channels, problem));
    }
    let encoding = encoding(got.encoding).ok_or_else(|| {
        let names = ENCODINGS.map(|(wire, _)| wire.as_str_name());
        let problem = format!(
            "{} is not offered, expected one of: {}",
            name(got.encoding),
            names.join(", ")
        );
        refuse(fields.encoding, problem)
    })?;
    let hz = match got.sample_rate_hz {
        0 => encoding.default_rate(info.sample_rate).hz(),
        hz => hz,
    };
    Format::new(encoding, hz).map_err(|error| refuse(fields.sample_rate_hz, error.to_string()))
}

fn encoding(got: i32) -> Option<Encoding> {
    match v1::AudioEncoding::try_from(got) {
        Ok(v1::AudioEncoding::Unspecified) => Some(Encoding::Pcm16),
        Ok(got) => ENCODINGS
            .iter()
            .find(|(wire, _)| *wire == got)
            .map(|(_, encoding)| *encoding),
        Err(_) => None,
    }
}

/// What an encoding is called on the wire.
pub(super) fn name(encoding: i32) -> String {
    v1::AudioEncoding::try_from(encoding).map_or_else(
        |_| encoding.to_string(),
        |encoding| encoding.as_str_name().to_owned(),
    )
}

/// What is sent, as it goes over the wire.
pub(super) fn wire(delivery: &Delivery) -> v1::AudioDelivery {
    let wire = ENCODINGS
        .iter()
        .find(|(_, encoding)| *encoding == delivery.format.encoding());
    let frame = delivery.format.frame();
    v1::AudioDelivery {
        format: Some(v1::AudioFormat {
            encoding: wire.map_or(0, |(wire, _)| (*wire).into()),
            sample_rate_hz: delivery.format.rate().hz(),
            channels: 1,
        }),
        frame_duration: frame.and_then(|frame| delivery.format.rate().duration(frame).try_into().ok()),
        max_lead: delivery.max_lead.and_then(|lead| lead.try_into().ok()),
        leading_silence: delivery.leading_silence.try_into().ok(),
    }
}

/// Speed and level in force.
pub(super) fn rendering(delivery: &Delivery) -> (Option<f64>, Option<f64>) {
    let Rendering { speed, gain } = delivery.rendering;
    (Some(short(speed.factor())), Some(short(gain.db())))
}

/// The shortest number that means the same: 0.7, not 0.699999988079071.
fn short(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_that_can_be_made_is_offered() {
        for encoding in Encoding::ALL {
            assert!(ENCODINGS.iter().any(|(_, offered)| *offered == encoding));
        }
    }

    #[test]
    fn numbers_come_back_as_they_were_sent() {
        for sent in [0.7, 1.1, 1.0, -5.3] {
            assert_eq!(short(sent as f32), sent);
        }
    }
}
