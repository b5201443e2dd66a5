//! Decoding a caller's recording to the samples of a voice.

use bytes::Bytes;
use omni_audio::{DecodeError, Decoder, InputEncoding, InputFormat, SampleRate, Samples};

use super::VoiceError;
use super::judge;

/// Largest recording in bytes.
pub const RECORDING_BYTES: usize = 10 << 20;
/// Longest recording that is decoded, silence around it included.
const DECODED: std::time::Duration = std::time::Duration::from_secs(300);

/// A recording as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub data: Bytes,
    pub format: RecordingFormat,
}

/// Encoding of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordingFormat {
    /// Detected by its first bytes.
    Detected,
    /// As stated by the caller.
    Stated(InputFormat),
}

impl Recording {
    /// A file whose first bytes identify its format.
    pub fn file(data: impl Into<Bytes>) -> Self {
        Self {
            data: data.into(),
            format: RecordingFormat::Detected,
        }
    }

    /// A file that identifies its format, or else bare samples of the stated format.
    pub fn stated(data: impl Into<Bytes>, format: InputFormat) -> Self {
        let data = data.into();
        let format = match InputEncoding::of_file(&data) {
            Some(_) => RecordingFormat::Detected,
            None => RecordingFormat::Stated(format),
        };
        Self { data, format }
    }

    fn format(&self, rate: SampleRate) -> Result<InputFormat, VoiceError> {
        let encoding = match self.format {
            RecordingFormat::Stated(format) => return Ok(format),
            RecordingFormat::Detected => {
                InputEncoding::of_file(&self.data).ok_or(VoiceError::UnknownFormat)?
            }
        };
        Ok(InputFormat {
            encoding,
            rate,
            channels: 1,
        })
    }

    /// Speech in it: mono samples at `rate` without the silence around them.
    ///
    /// # Errors
    /// The reason why no voice can be made of it.
    pub(super) fn speech(&self, rate: SampleRate) -> Result<Vec<f32>, VoiceError> {
        if self.data.len() > RECORDING_BYTES {
            let limit = RECORDING_BYTES;
            return Err(VoiceError::TooLarge { limit });
        }
        let limit = rate.samples(DECODED);
        let samples = decoded(&self.data, self.format(rate)?, rate, limit)?;
        judge::speech(&samples, rate)
    }
}

fn decoded(
    data: &[u8],
    format: InputFormat,
    rate: SampleRate,
    limit: Samples,
) -> Result<Vec<f32>, VoiceError> {
    let refused = |error| match error {
        DecodeError::TooLong { .. } => VoiceError::TooLong {
            found: DECODED,
            most: judge::LONGEST,
        },
        error => VoiceError::Decode(error),
    };
    let mut decoder = Decoder::new(format, rate, limit).map_err(refused)?;
    let mut samples = Vec::new();
    decoder.push(data, &mut samples).map_err(refused)?;
    decoder.finish(&mut samples).map_err(refused)?;
    Ok(samples)
}

#[cfg(test)]
pub(super) mod tests {
    use std::f32::consts::TAU;
    use std::time::Duration;

    use omni_audio::{Encoder, Encoding, Format, WavHeader};

    use super::*;

    fn rate() -> SampleRate {
        SampleRate::new(24_000).unwrap()
    }

    /// Something like speech: four syllables a second of a voice at 120 Hz with its overtones, pauses between.
    pub(in crate::voices) fn babble(seconds: f32, level: f32) -> Vec<f32> {
        let sample = |n: usize| {
            let t = n as f32 / 24_000.0;
            let syllable = (0.5 - 0.5 * (TAU * 4.0 * t).cos()).powi(2);
            let pitch = TAU * (120.0 * t + 0.4 * (TAU * 1.5 * t).sin());
            let tone: f32 = (1..20).map(|k| (pitch * k as f32).sin() / k as f32).sum();
            level * syllable * tone / 2.0
        };
        (0..(seconds * 24_000.0) as usize).map(sample).collect()
    }

    pub(in crate::voices) fn wav(samples: &[f32]) -> Recording {
        let mut file = WavHeader::mono(rate()).finished(Samples::of(samples)).to_vec();
        omni_audio::encode_s16le(samples, &mut file);
        Recording::file(file)
    }

    fn encoded(encoding: Encoding, samples: &[f32]) -> Recording {
        let format = Format::new(encoding, 24_000).unwrap();
        let mut encoder = Encoder::new(format, 1);
        let mut chunks = Vec::new();
        encoder.push(samples, &mut chunks);
        encoder.finish(&mut chunks);
        Recording::file(
            chunks
                .iter()
                .flat_map(|chunk| chunk.data.to_vec())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn every_format_that_says_itself_what_it_is_gives_the_same_speech() {
        let said = babble(3.0, 0.5);
        let plain = wav(&said).speech(rate()).unwrap();
        for encoding in [Encoding::Flac, Encoding::OggOpus] {
            let heard = encoded(encoding, &said).speech(rate()).unwrap();
            let apart = plain.len().abs_diff(heard.len());
            assert!(apart < 2_400, "{encoding:?}: {apart} samples apart");
        }
        let flac = encoded(Encoding::Flac, &said).speech(rate()).unwrap();
        assert_eq!(flac, plain, "nothing is lost in FLAC");
    }

    #[test]
    fn what_is_stated_is_believed_and_what_says_nothing_is_refused() {
        let mut bytes = Vec::new();
        omni_audio::encode_s16le(&babble(2.0, 0.5), &mut bytes);
        let refused = Recording::file(bytes.clone()).speech(rate()).unwrap_err();
        assert!(matches!(refused, VoiceError::UnknownFormat), "{refused}");
        let stated = Recording {
            data: bytes.into(),
            format: RecordingFormat::Stated(InputFormat {
                encoding: InputEncoding::Pcm16,
                rate: rate(),
                channels: 1,
            }),
        };
        assert!(stated.speech(rate()).is_ok());
        let mp3 = encoded(Encoding::Mp3, &babble(2.0, 0.5))
            .speech(rate())
            .unwrap_err();
        assert!(mp3.to_string().contains("FLAC"), "{mp3}");
    }

    #[test]
    fn several_minutes_and_many_bytes_are_refused_before_they_are_judged() {
        let long = vec![0.1; 24_000 * 301];
        let stated = |rate: u32| {
            let mut bytes = Vec::new();
            omni_audio::encode_s16le(&long[..8_000 * 301], &mut bytes);
            Recording {
                data: bytes.into(),
                format: RecordingFormat::Stated(InputFormat {
                    encoding: InputEncoding::Pcm16,
                    rate: SampleRate::new(rate).unwrap(),
                    channels: 1,
                }),
            }
        };
        let error = stated(8_000).speech(rate()).unwrap_err();
        let most = Duration::from_secs(60);
        assert!(
            matches!(error, VoiceError::TooLong { most: m, .. } if m == most),
            "{error}"
        );
        let error = wav(&long).speech(rate()).unwrap_err();
        assert!(matches!(error, VoiceError::TooLarge { .. }), "{error}");
    }
}
