//! Formats of callers' audio.

use omni_audio::{InputEncoding, InputFormat};
use omni_core::error::ServeError;
use omni_proto::v1;
use omni_services::chat::audio::{FormatFields, InputRequest};
use omni_services::delivery::UnsupportedFormat;

use crate::delivery::name;

/// Accepted encodings.
const ENCODINGS: [(v1::AudioEncoding, InputEncoding); 7] = [
    (v1::AudioEncoding::PcmS16le, InputEncoding::Pcm16),
    (v1::AudioEncoding::PcmF32le, InputEncoding::PcmF32),
    (v1::AudioEncoding::Mulaw, InputEncoding::Mulaw),
    (v1::AudioEncoding::Alaw, InputEncoding::Alaw),
    (v1::AudioEncoding::Opus, InputEncoding::Opus),
    (v1::AudioEncoding::OggOpus, InputEncoding::OggOpus),
    (v1::AudioEncoding::Wav, InputEncoding::Wav),
];

/// A format as a message: 0 where the bytes themselves state it.
pub(super) fn wire(format: InputFormat) -> v1::AudioFormat {
    let wire = ENCODINGS
        .iter()
        .find(|(_, encoding)| *encoding == format.encoding);
    let told = !format.encoding.describes_itself();
    v1::AudioFormat {
        encoding: wire.map_or(0, |(wire, _)| (*wire).into()),
        sample_rate_hz: if told { format.rate.hz() } else { 0 },
        channels: if told { format.channels.into() } else { 0 },
    }
}

/// Request for an input format.
pub(super) fn request(got: &v1::AudioFormat, fields: &FormatFields) -> Result<InputRequest, ServeError> {
    let encoding = encoding(got.encoding, fields)?;
    if encoding.describes_itself() && (got.sample_rate_hz != 0 || got.channels != 0) {
        let problem = format!(
            "is {}, which says rate and channels itself: expected 0 in both fields",
            name(got.encoding)
        );
        let field = fields.encoding;
        return Err(UnsupportedFormat { field, problem }.into());
    }
    Ok(InputRequest {
        encoding,
        sample_rate_hz: got.sample_rate_hz,
        channels: got.channels,
    })
}

fn encoding(got: i32, fields: &FormatFields) -> Result<InputEncoding, ServeError> {
    let known = match v1::AudioEncoding::try_from(got) {
        Ok(v1::AudioEncoding::Unspecified) => Some(InputEncoding::Pcm16),
        Ok(got) => ENCODINGS
            .iter()
            .find(|(wire, _)| *wire == got)
            .map(|(_, encoding)| *encoding),
        Err(_) => None,
    };
    known.filter(|known| *known != fields.not).ok_or_else(|| {
        let taken = ENCODINGS.iter().filter(|(_, encoding)| *encoding != fields.not);
        let names: Vec<_> = taken.map(|(wire, _)| wire.as_str_name()).collect();
        let problem = format!(
            "{} is not taken, expected one of: {}",
            name(got),
            names.join(", ")
        );
        let field = fields.encoding;
        UnsupportedFormat { field, problem }.into()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use omni_audio::{SampleRate, Samples};

    use super::*;
    use omni_family::Hearing;
    use omni_services::chat::audio::{CLIP, clip};

    fn hearing() -> Hearing {
        Hearing {
            sample_rate: SampleRate::new(16_000).unwrap(),
            min_audio: Duration::from_micros(125),
            max_audio: Duration::from_secs(1),
            rows_per_second: 10,
            row_bytes: 4,
        }
    }

    fn format(encoding: v1::AudioEncoding, sample_rate_hz: u32, channels: u32) -> v1::AudioFormat {
        v1::AudioFormat {
            encoding: encoding.into(),
            sample_rate_hz,
            channels,
        }
    }

    fn decoded(format: v1::AudioFormat, data: &[u8]) -> Result<Vec<f32>, ServeError> {
        clip(&request(&format, &CLIP)?, data, hearing(), Samples(16_000))
    }

    use v1::AudioEncoding as E;

    #[test]
    fn two_channels_are_mixed_and_floats_are_taken() {
        let stereo: Vec<u8> = [0x4000_i16, 0, -0x4000, -0x4000]
            .iter()
            .flat_map(|s| s.to_le_bytes())
            .collect();
        assert_eq!(
            decoded(format(E::PcmS16le, 16_000, 2), &stereo).unwrap(),
            [0.25, -0.5]
        );
        let floats: Vec<u8> = [0.5_f32, -1.0].iter().flat_map(|s| s.to_le_bytes()).collect();
        assert_eq!(decoded(format(E::PcmF32le, 0, 0), &floats).unwrap(), [0.5, -1.0]);
    }

    #[test]
    fn what_is_louder_than_full_scale_is_cut_off_there() {
        let loud = [3e38_f32, 3e38, -3e38, -3e38];
        let data: Vec<u8> = loud.iter().flat_map(|s| s.to_le_bytes()).collect();
        assert_eq!(decoded(format(E::PcmF32le, 0, 2), &data).unwrap(), [1.0, -1.0]);
    }

    #[test]
    fn a_wav_says_its_own_format() {
        let header = omni_audio::WavHeader::mono(SampleRate::new(16_000).unwrap());
        let mut file = header.streaming().to_vec();
        file.extend([0x20_00_i16, 0].iter().flat_map(|s| s.to_le_bytes()));
        assert_eq!(decoded(format(E::Wav, 0, 0), &file).unwrap(), [0.25, 0.0]);
        assert!(decoded(format(E::Wav, 16_000, 0), &file).is_err());
        assert!(decoded(format(E::Wav, 0, 0), b"RIFF nonsense").is_err());
    }

    #[test]
    fn other_rates_and_laws_are_heard_at_the_models_rate() {
        let half = decoded(format(E::PcmS16le, 48_000, 1), &[0; 48_000]).unwrap();
        assert_eq!(half.len(), 8_000);
        // The rate of telephones by default.
        let half = decoded(format(E::Alaw, 0, 0), &[0xD5; 4_000]).unwrap();
        assert_eq!(half.len(), 8_000);
    }

    #[test]
    fn what_cannot_be_heard_is_refused_with_what_could() {
        let bad = [
            (format(E::PcmS16le, 96_000, 1), vec![0; 2], "8000 to 48000 Hz"),
            (format(E::PcmS16le, 16_000, 3), vec![0; 6], "1 or 2"),
            (format(E::Flac, 16_000, 1), vec![0; 2], "PCM_S16LE"),
            (format(E::Opus, 0, 0), vec![0; 2], "ENCODING_OPUS is not taken"),
            (format(E::OggOpus, 48_000, 1), vec![0; 2], "0 in both fields"),
            (format(E::OggOpus, 0, 0), vec![0; 2], "Ogg pages"),
            (format(E::PcmS16le, 0, 0), vec![0; 3], "whole samples"),
            (format(E::PcmS16le, 0, 0), vec![], "at least one"),
            (
                format(E::PcmS16le, 0, 0),
                vec![0; 2],
                "expected at least 0.125 ms",
            ),
            (
                format(E::PcmF32le, 0, 0),
                f32::NAN.to_le_bytes().to_vec(),
                "infinite",
            ),
            (format(E::PcmS16le, 0, 0), vec![0; 32_002], "1 s"),
        ];
        for (format, data, expected) in bad {
            let error = decoded(format, &data).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
