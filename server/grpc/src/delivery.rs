//! `AudioDelivery`: to a request on the way in, complete on the way out.

use std::time::Duration;

use omni_audio::{Encoding, Rendering};
use omni_core::error::ServeError;
use omni_proto::v1;
use omni_services::delivery::{DeliveryFields, OutputRequest, UnsupportedFormat};
use omni_services::settings::invalid;
use omni_session::Delivery;

use super::settings::time;

/// Offered encodings.
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

/// Requested delivery, except speed and level.
pub(super) fn request(
    got: Option<v1::AudioDelivery>,
    fields: &DeliveryFields,
) -> Result<OutputRequest, ServeError> {
    let output = got.unwrap_or_default();
    let format = output.format.unwrap_or_default();
    let encoding = encoding(format.encoding).ok_or_else(|| {
        let names = ENCODINGS.map(|(wire, _)| wire.as_str_name());
        let problem = format!(
            "unsupported value '{}'; expected one of: {}",
            name(format.encoding),
            names.join(", ")
        );
        let field = fields.encoding;
        UnsupportedFormat { field, problem }
    })?;
    let frame = Duration::try_from(output.frame_duration.unwrap_or_default());
    Ok(OutputRequest {
        encoding,
        sample_rate_hz: format.sample_rate_hz,
        channels: format.channels,
        frame_duration: frame
            .map_err(|_| invalid(fields.frame_duration, "is negative; expected 0 or more"))?,
        max_lead: output.max_lead.map(time),
        leading_silence: output.leading_silence.map(time),
        ..OutputRequest::default()
    })
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

/// Name of an encoding in the .proto files.
pub(super) fn name(encoding: i32) -> String {
    v1::AudioEncoding::try_from(encoding).map_or_else(
        |_| encoding.to_string(),
        |encoding| encoding.as_str_name().to_owned(),
    )
}

/// Delivery as a message.
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

/// Shortest decimal with the same value: 0.7, not 0.699999988079071.
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
