//! Audio that callers send, as mono samples at the rate that the model hears.

use omni_audio::{SampleRate, Wav, from_i16, i16_from_s16le};
use omni_proto::v1;

use crate::error::ServeError;
use crate::session::RawAudio;
use crate::stage::Hearing;

/// A raw format as it goes over the wire.
pub(super) fn wire(raw: RawAudio, rate: SampleRate) -> v1::AudioFormat {
    let encoding = match raw.float {
        true => v1::AudioEncoding::PcmF32le,
        false => v1::AudioEncoding::PcmS16le,
    };
    v1::AudioFormat {
        encoding: encoding.into(),
        sample_rate_hz: rate.hz(),
        channels: raw.channels.into(),
    }
}

/// Paths of the fields of one format, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormatFields {
    pub(super) encoding: &'static str,
    pub(super) sample_rate_hz: &'static str,
    pub(super) channels: &'static str,
    pub(super) data: &'static str,
}

/// Of `ChatConfig.input_audio`.
pub(super) const INPUT: FormatFields = FormatFields {
    encoding: "config.input_audio.encoding",
    sample_rate_hz: "config.input_audio.sample_rate_hz",
    channels: "config.input_audio.channels",
    data: "input_audio.data",
};

/// Of `AudioClip`.
const CLIP: FormatFields = FormatFields {
    encoding: "message.parts.audio.format.encoding",
    sample_rate_hz: "message.parts.audio.format.sample_rate_hz",
    channels: "message.parts.audio.format.channels",
    data: "message.parts.audio.data",
};

/// Checks a raw format.
pub(super) fn raw(
    format: &v1::AudioFormat,
    rate: SampleRate,
    fields: &FormatFields,
) -> Result<RawAudio, ServeError> {
    use v1::AudioEncoding as E;
    let float = match E::try_from(format.encoding) {
        Ok(E::Unspecified | E::PcmS16le) => false,
        Ok(E::PcmF32le) => true,
        other => {
            let got = other.map_or_else(|_| format.encoding.to_string(), |e| e.as_str_name().to_owned());
            let expected = "AUDIO_ENCODING_PCM_S16LE or AUDIO_ENCODING_PCM_F32LE";
            return unsupported(
                fields.encoding,
                format!("{got} is not taken, expected {expected}"),
            );
        }
    };
    if format.sample_rate_hz != 0 {
        check_rate(format.sample_rate_hz, rate, fields)?;
    }
    let channels = u16::try_from(format.channels.max(1)).unwrap_or(u16::MAX);
    check_channels(channels, fields)?;
    Ok(RawAudio { float, channels })
}

/// The samples of raw bytes.
pub(super) fn samples(data: &[u8], raw: RawAudio, fields: &FormatFields) -> Result<Vec<f32>, ServeError> {
    let frame = usize::from(raw.channels) * if raw.float { 4 } else { 2 };
    if data.is_empty() || !data.len().is_multiple_of(frame) {
        return Err(ServeError::InvalidField {
            field: fields.data,
            problem: format!(
                "has {} bytes, expected whole samples of {frame} bytes and at least one",
                data.len()
            ),
        });
    }
    let interleaved: Vec<f32> = match raw.float {
        true => data
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect(),
        false => i16_from_s16le(data).map(from_i16).collect(),
    };
    if interleaved.iter().any(|sample| !sample.is_finite()) {
        return Err(ServeError::InvalidField {
            field: fields.data,
            problem: "has samples that are infinite or no numbers".to_owned(),
        });
    }
    // What is louder than full scale is cut off there: mixed with another channel it could become infinite.
    let clamped = interleaved.into_iter().map(|sample| sample.clamp(-1.0, 1.0));
    Ok(mono(clamped.collect(), raw.channels))
}

/// The samples of a clip.
pub(super) fn clip(clip: &v1::AudioClip, hearing: Hearing) -> Result<Vec<f32>, ServeError> {
    let format = clip.format.unwrap_or_default();
    let samples = match v1::AudioEncoding::try_from(format.encoding) {
        Ok(v1::AudioEncoding::Wav) => wav(&clip.data, &format, hearing.sample_rate)?,
        _ => samples(&clip.data, raw(&format, hearing.sample_rate, &CLIP)?, &CLIP)?,
    };
    hearing.check_short(samples.len(), CLIP.data)?;
    match samples.len() > hearing.sample_rate.samples(hearing.max_audio).len() {
        true => Err(ServeError::AudioTooLong {
            limit: hearing.max_audio,
        }),
        false => Ok(samples),
    }
}

fn wav(data: &[u8], format: &v1::AudioFormat, rate: SampleRate) -> Result<Vec<f32>, ServeError> {
    if format.sample_rate_hz != 0 || format.channels != 0 {
        return unsupported(
            CLIP.encoding,
            "is AUDIO_ENCODING_WAV, whose header says rate and channels: expected 0 in both fields"
                .to_owned(),
        );
    }
    let wav = Wav::parse(data).map_err(|error| ServeError::UnsupportedAudioFormat {
        field: CLIP.data,
        problem: error.to_string(),
    })?;
    check_rate(wav.header.rate.hz(), rate, &CLIP)?;
    check_channels(wav.header.channels, &CLIP)?;
    if wav.samples.is_empty() {
        return Err(ServeError::InvalidField {
            field: CLIP.data,
            problem: "has no samples, expected at least one".to_owned(),
        });
    }
    let samples = wav.samples.into_iter().map(from_i16).collect();
    Ok(mono(samples, wav.header.channels))
}

fn mono(interleaved: Vec<f32>, channels: u16) -> Vec<f32> {
    match channels {
        1 => interleaved,
        _ => interleaved
            .chunks_exact(channels.into())
            .map(|frame| frame.iter().sum::<f32>() / f32::from(channels))
            .collect(),
    }
}

fn check_rate(got: u32, rate: SampleRate, fields: &FormatFields) -> Result<(), ServeError> {
    match got == rate.hz() {
        true => Ok(()),
        false => unsupported(
            fields.sample_rate_hz,
            format!(
                "{got} Hz is not taken, expected the {} Hz that the model hears",
                rate.hz()
            ),
        ),
    }
}

fn check_channels(got: u16, fields: &FormatFields) -> Result<(), ServeError> {
    match got {
        1 | 2 => Ok(()),
        _ => unsupported(
            fields.channels,
            format!("{got} channels are not taken, expected 1 or 2"),
        ),
    }
}

fn unsupported<T>(field: &'static str, problem: String) -> Result<T, ServeError> {
    Err(ServeError::UnsupportedAudioFormat { field, problem })
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
        clip(
            &v1::AudioClip {
                format,
                data: data.into(),
            },
            hearing(),
        )
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
    fn what_cannot_be_heard_is_refused_with_what_could() {
        let bad = [
            (format(E::PcmS16le, 8_000, 1), vec![0; 2], "16000"),
            (format(E::PcmS16le, 16_000, 3), vec![0; 6], "1 or 2"),
            (format(E::Mulaw, 8_000, 1), vec![0; 2], "PCM_S16LE"),
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
