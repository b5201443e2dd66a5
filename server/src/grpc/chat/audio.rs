//! Audio that callers send, as mono samples at the rate that the model hears.

use omni_audio::{DecodeError, Decoder, Encoding, InputEncoding, InputFormat, SampleRate, Samples};
use omni_proto::v1;

use crate::error::ServeError;
use crate::grpc::delivery::{UnsupportedFormat, name};
use crate::grpc::settings::invalid;
use crate::stage::{AudioInputError, Hearing};

/// What is taken.
const ENCODINGS: [(v1::AudioEncoding, InputEncoding); 7] = [
    (v1::AudioEncoding::PcmS16le, InputEncoding::Pcm16),
    (v1::AudioEncoding::PcmF32le, InputEncoding::PcmF32),
    (v1::AudioEncoding::Mulaw, InputEncoding::Mulaw),
    (v1::AudioEncoding::Alaw, InputEncoding::Alaw),
    (v1::AudioEncoding::Opus, InputEncoding::Opus),
    (v1::AudioEncoding::OggOpus, InputEncoding::OggOpus),
    (v1::AudioEncoding::Wav, InputEncoding::Wav),
];

/// A format as it goes over the wire: 0 where the bytes themselves say it.
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

/// Where audio comes from: paths for errors, and what does not go there.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormatFields {
    encoding: &'static str,
    sample_rate_hz: &'static str,
    channels: &'static str,
    data: &'static str,
    /// A whole file there is; or pieces that belong together.
    not: InputEncoding,
}

/// Of `ChatConfig.input_audio`. A WAV file is not to be read before its end.
pub(super) const INPUT: FormatFields = FormatFields {
    encoding: "config.input_audio.encoding",
    sample_rate_hz: "config.input_audio.sample_rate_hz",
    channels: "config.input_audio.channels",
    data: "input_audio.data",
    not: InputEncoding::Wav,
};

/// Of `AudioClip`. Bare packets have no file to be in.
const CLIP: FormatFields = FormatFields {
    encoding: "message.parts.audio.format.encoding",
    sample_rate_hz: "message.parts.audio.format.sample_rate_hz",
    channels: "message.parts.audio.format.channels",
    data: "message.parts.audio.data",
    not: InputEncoding::Opus,
};

/// Checks a format.
pub(super) fn format(
    got: &v1::AudioFormat,
    heard: SampleRate,
    fields: &FormatFields,
) -> Result<InputFormat, ServeError> {
    let encoding = encoding(got.encoding, fields)?;
    if encoding.describes_itself() && (got.sample_rate_hz != 0 || got.channels != 0) {
        let problem = format!(
            "is {}, which says rate and channels itself: expected 0 in both fields",
            name(got.encoding)
        );
        return Err(unsupported(fields.encoding, problem));
    }
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
    // Whatever a decoder does not take is known before the first byte.
    new_decoder(format, heard, Samples::ZERO, fields)?;
    Ok(format)
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
        unsupported(fields.encoding, problem)
    })
}

/// What makes samples of bytes in `format`, as many as one message may have.
pub(super) fn decoder(
    format: InputFormat,
    hearing: Hearing,
    fields: &FormatFields,
) -> Result<Decoder, ServeError> {
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

/// What a caller is told of bytes that are not what they were said to be.
pub(super) fn undecodable(error: DecodeError, hearing: Hearing, fields: &FormatFields) -> ServeError {
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

/// The samples of a clip, of which there may be `most`.
pub(super) fn clip(clip: &v1::AudioClip, hearing: Hearing, most: Samples) -> Result<Vec<f32>, ServeError> {
    let format = format(&clip.format.unwrap_or_default(), hearing.sample_rate, &CLIP)?;
    let mut decoder = new_decoder(format, hearing.sample_rate, most, &CLIP)?;
    let mut samples = Vec::new();
    let decoded = decoder
        .push(&clip.data, &mut samples)
        .and_then(|()| decoder.finish(&mut samples));
    decoded.map_err(|error| undecodable(error, hearing, &CLIP))?;
    hearing.check_short(samples.len(), CLIP.data)?;
    Ok(samples)
}

fn unsupported(field: &'static str, problem: String) -> ServeError {
    UnsupportedFormat { field, problem }.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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

    fn decoded(format: v1::AudioFormat, data: Vec<u8>) -> Result<Vec<f32>, ServeError> {
        let format = Some(format);
        let data = data.into();
        clip(&v1::AudioClip { format, data }, hearing(), Samples(16_000))
    }

    use v1::AudioEncoding as E;

    #[test]
    fn two_channels_are_mixed_and_floats_are_taken() {
        let stereo: Vec<u8> = [0x4000_i16, 0, -0x4000, -0x4000]
            .iter()
            .flat_map(|s| s.to_le_bytes())
            .collect();
        assert_eq!(
            decoded(format(E::PcmS16le, 16_000, 2), stereo).unwrap(),
            [0.25, -0.5]
        );
        let floats: Vec<u8> = [0.5_f32, -1.0].iter().flat_map(|s| s.to_le_bytes()).collect();
        assert_eq!(decoded(format(E::PcmF32le, 0, 0), floats).unwrap(), [0.5, -1.0]);
    }

    #[test]
    fn what_is_louder_than_full_scale_is_cut_off_there() {
        let loud = [3e38_f32, 3e38, -3e38, -3e38];
        let data: Vec<u8> = loud.iter().flat_map(|s| s.to_le_bytes()).collect();
        assert_eq!(decoded(format(E::PcmF32le, 0, 2), data).unwrap(), [1.0, -1.0]);
    }

    #[test]
    fn a_wav_says_its_own_format() {
        let header = omni_audio::WavHeader::mono(SampleRate::new(16_000).unwrap());
        let mut file = header.streaming().to_vec();
        file.extend([0x20_00_i16, 0].iter().flat_map(|s| s.to_le_bytes()));
        assert_eq!(decoded(format(E::Wav, 0, 0), file.clone()).unwrap(), [0.25, 0.0]);
        assert!(decoded(format(E::Wav, 16_000, 0), file).is_err());
        assert!(decoded(format(E::Wav, 0, 0), b"RIFF nonsense".to_vec()).is_err());
    }

    #[test]
    fn other_rates_and_laws_are_heard_at_the_models_rate() {
        let half = decoded(format(E::PcmS16le, 48_000, 1), vec![0; 48_000]).unwrap();
        assert_eq!(half.len(), 8_000);
        // A telephone's rate, unless something else is said.
        let half = decoded(format(E::Alaw, 0, 0), vec![0xD5; 4_000]).unwrap();
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
                "nothing shorter than 0.125 ms",
            ),
            (
                format(E::PcmF32le, 0, 0),
                f32::NAN.to_le_bytes().to_vec(),
                "infinite",
            ),
            (format(E::PcmS16le, 0, 0), vec![0; 32_002], "1 s"),
        ];
        for (format, data, expected) in bad {
            let error = decoded(format, data).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
