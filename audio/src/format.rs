//! Output formats: an encoding with a rate.
//!
//! All output has one channel. This module alone decides which rates an encoding supports, so that validation and
//! encoding agree.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::units::{SampleRate, Samples};

/// The rates, in Hz, that libopus encodes at.
const OPUS: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];
/// The rates, in Hz, of MPEG audio: Layer III and AAC.
const MPEG: [u32; 9] = [
    8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000,
];
/// The rates, in Hz, at which telephones carry G.711: narrow and wide band.
const G711: [u32; 2] = [8_000, 16_000];

/// Playing times, in microseconds, of the packets that libopus makes.
const OPUS_FRAMES: [u64; 6] = [2_500, 5_000, 10_000, 20_000, 40_000, 60_000];
/// Playing times, in microseconds: of the shortest page, which must exceed the pre-skip; of the packets of longer
/// pages; and of the longest page, which has room for 50.
const MIN_OGG: u64 = 10_000;
const OGG_PACKET: u64 = 20_000;
const MAX_OGG: u64 = 1_000_000;
/// Playing times, in microseconds, of frames without a codec's grid, and of FLAC frames: none has more samples than
/// every decoder accepts.
const RAW_FRAMES: RangeInclusive<u64> = 2_500..=5_000_000;
const FLAC_FRAMES: RangeInclusive<u64> = 2_500..=80_000;

/// Encoding of output audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Signed 16-bit little-endian samples.
    Pcm16,
    /// 32-bit little-endian floats in `[-1, 1]`.
    PcmF32,
    /// G.711 mu-law, a byte a sample.
    Mulaw,
    /// G.711 A-law, a byte a sample.
    Alaw,
    /// Bare Opus packets of 20 ms.
    Opus,
    /// Opus packets in an Ogg stream.
    OggOpus,
    /// 16-bit samples after a WAV header of unknown length.
    Wav,
    /// 16-bit samples as a FLAC stream of unknown length.
    Flac,
    /// MPEG Layer III.
    Mp3,
    /// AAC-LC in ADTS frames.
    Aac,
}

impl Encoding {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Pcm16,
        Self::PcmF32,
        Self::Mulaw,
        Self::Alaw,
        Self::Opus,
        Self::OggOpus,
        Self::Wav,
        Self::Flac,
        Self::Mp3,
        Self::Aac,
    ];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcm16 => "16-bit PCM",
            Self::PcmF32 => "float PCM",
            Self::Mulaw => "mu-law",
            Self::Alaw => "A-law",
            Self::Opus => "Opus",
            Self::OggOpus => "Ogg Opus",
            Self::Wav => "WAV",
            Self::Flac => "FLAC",
            Self::Mp3 => "MP3",
            Self::Aac => "AAC",
        }
    }

    /// The only rates it takes, in Hz; none where it takes every rate from [`Format::MIN_HZ`] to [`Format::MAX_HZ`].
    pub fn only_rates(self) -> Option<&'static [u32]> {
        match self {
            Self::Mulaw | Self::Alaw => Some(&G711),
            Self::Opus | Self::OggOpus => Some(&OPUS),
            Self::Mp3 | Self::Aac => Some(&MPEG),
            Self::Pcm16 | Self::PcmF32 | Self::Wav | Self::Flac => None,
        }
    }

    /// Returns true if it supports this rate.
    pub fn takes(self, rate: SampleRate) -> bool {
        match self.only_rates() {
            Some(rates) => rates.contains(&rate.hz()),
            None => (Format::MIN_HZ..=Format::MAX_HZ).contains(&rate.hz()),
        }
    }

    /// Default rate: 8 kHz for G.711, else the supported rate nearest to `native`, preferably above it.
    pub fn default_rate(self, native: SampleRate) -> SampleRate {
        if self.takes(native) && !matches!(self, Self::Mulaw | Self::Alaw) {
            return native;
        }
        let hz = match self.only_rates() {
            Some(_) if matches!(self, Self::Mulaw | Self::Alaw) => G711[0],
            Some(_) => self.next_rate(native).hz(),
            None => native.hz().clamp(Format::MIN_HZ, Format::MAX_HZ),
        };
        SampleRate::new(hz).unwrap_or(native)
    }

    /// The supported rate nearest to `wanted`, preferably above it.
    pub fn next_rate(self, wanted: SampleRate) -> SampleRate {
        let next = match self.only_rates() {
            Some(rates) => rates
                .iter()
                .find(|&&hz| hz >= wanted.hz())
                .or(rates.last())
                .copied(),
            None => Some(wanted.hz().clamp(Format::MIN_HZ, Format::MAX_HZ)),
        };
        next.and_then(|hz| SampleRate::new(hz).ok()).unwrap_or(wanted)
    }

    /// Returns true if chunks may last this long, in microseconds.
    fn takes_frames(self, micros: u64) -> bool {
        match self {
            Self::Opus => OPUS_FRAMES.contains(&micros),
            Self::OggOpus if micros == MIN_OGG => true,
            Self::OggOpus => micros > 0 && micros.is_multiple_of(OGG_PACKET) && micros <= MAX_OGG,
            Self::Flac => FLAC_FRAMES.contains(&micros),
            Self::Mp3 | Self::Aac => false,
            Self::Pcm16 | Self::PcmF32 | Self::Mulaw | Self::Alaw | Self::Wav => RAW_FRAMES.contains(&micros),
        }
    }

    /// Permitted durations of chunks, for messages.
    fn expected_frames(self) -> &'static str {
        match self {
            Self::Opus => "2.5, 5, 10, 20, 40 or 60 ms",
            Self::OggOpus => "10 ms or a multiple of 20 ms up to 1 s",
            Self::Flac => "2.5 to 80 ms",
            Self::Mp3 | Self::Aac => "none: its frames have a length of their own",
            Self::Pcm16 | Self::PcmF32 | Self::Mulaw | Self::Alaw | Self::Wav => "2.5 ms to 5 s",
        }
    }

    /// The rates it takes, for people.
    fn expected(self) -> String {
        match self.only_rates() {
            None => format!("{} to {} Hz", Format::MIN_HZ, Format::MAX_HZ),
            Some(rates) => {
                let rates: Vec<_> = rates.iter().map(u32::to_string).collect();
                match rates.split_last() {
                    Some((last, rest)) => format!("{} or {last} Hz", rest.join(", ")),
                    None => String::new(),
                }
            }
        }
    }
}

/// A rate that an encoding does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{got} Hz does not go with {}, expected {}", encoding.name(), encoding.expected())]
pub struct FormatError {
    /// The encoding.
    pub encoding: Encoding,
    /// The rate, in Hz.
    pub got: u32,
}

/// A playing time that chunks cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The encoding has no frames of a fixed length.
    #[error("{got:?} does not go with {}, expected {}", encoding.name(), encoding.expected_frames())]
    Encoding {
        /// The encoding.
        encoding: Encoding,
        /// The playing time.
        got: Duration,
    },
    /// It ends between two samples.
    #[error("{got:?} is not a whole number of samples at {rate}")]
    Rate {
        /// The rate.
        rate: SampleRate,
        /// The playing time.
        got: Duration,
    },
}

/// An encoding at a rate that it takes; one channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    encoding: Encoding,
    rate: SampleRate,
    frame: Option<Samples>,
}

impl Format {
    /// The lowest rate audio is sent at, in Hz.
    pub const MIN_HZ: u32 = 8_000;
    /// The highest.
    pub const MAX_HZ: u32 = 48_000;

    /// # Errors
    /// [`FormatError`] if `encoding` does not take a rate of `hz`.
    pub fn new(encoding: Encoding, hz: u32) -> Result<Self, FormatError> {
        match SampleRate::new(hz) {
            Ok(rate) if encoding.takes(rate) => Ok(Self {
                encoding,
                rate,
                frame: None,
            }),
            _ => Err(FormatError { encoding, got: hz }),
        }
    }

    /// Same format in chunks of exactly `time` each, except the last.
    ///
    /// # Errors
    /// [`FrameError`] if the encoding or the rate cannot be cut so.
    pub fn framed(self, time: Duration) -> Result<Self, FrameError> {
        let Self { encoding, rate, .. } = self;
        let micros = time.as_nanos().is_multiple_of(1_000).then_some(time.as_micros());
        let micros = micros.and_then(|micros| u64::try_from(micros).ok());
        if !micros.is_some_and(|micros| encoding.takes_frames(micros)) {
            return Err(FrameError::Encoding { encoding, got: time });
        }
        let frame = rate.samples(time);
        if rate.duration(frame) == time {
            Ok(Self {
                frame: Some(frame),
                ..self
            })
        } else {
            Err(FrameError::Rate { rate, got: time })
        }
    }

    /// Encoding of the samples.
    pub fn encoding(self) -> Encoding {
        self.encoding
    }

    /// Samples per second.
    pub fn rate(self) -> SampleRate {
        self.rate
    }

    /// Samples of every chunk but the last; none where chunks are as they come.
    pub fn frame(self) -> Option<Samples> {
        self.frame
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.encoding.name(), self.rate)?;
        match self.frame {
            Some(frame) => write!(f, " in frames of {:?}", self.rate.duration(frame)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(hz: u32) -> SampleRate {
        SampleRate::new(hz).unwrap()
    }

    #[test]
    fn a_rate_that_does_not_fit_is_refused_with_those_that_do() {
        let told = |encoding, hz| Format::new(encoding, hz).unwrap_err().to_string();
        assert_eq!(
            told(Encoding::Mulaw, 24_000),
            "24000 Hz does not go with mu-law, expected 8000 or 16000 Hz"
        );
        assert_eq!(
            told(Encoding::OggOpus, 44_100),
            "44100 Hz does not go with Ogg Opus, expected 8000, 12000, 16000, 24000 or 48000 Hz"
        );
        assert_eq!(
            told(Encoding::Flac, 96_000),
            "96000 Hz does not go with FLAC, expected 8000 to 48000 Hz"
        );
        assert!(Format::new(Encoding::Pcm16, 0).is_err());
        assert!(Format::new(Encoding::Pcm16, 22_050).is_ok());
    }

    #[test]
    fn a_frame_that_cannot_be_is_refused_with_those_that_can() {
        let cases = [
            (
                Encoding::Opus,
                48_000,
                30_000,
                "30ms does not go with Opus, expected 2.5, 5, 10, 20, 40 or 60 ms",
            ),
            (
                Encoding::OggOpus,
                48_000,
                30_000,
                "30ms does not go with Ogg Opus, expected 10 ms or a multiple of 20 ms up to 1 s",
            ),
            (
                Encoding::Pcm16,
                16_000,
                0,
                "0ns does not go with 16-bit PCM, expected 2.5 ms to 5 s",
            ),
            (
                Encoding::Flac,
                16_000,
                81_000,
                "81ms does not go with FLAC, expected 2.5 to 80 ms",
            ),
            (
                Encoding::Pcm16,
                11_025,
                10_000,
                "10ms is not a whole number of samples at 11025 Hz",
            ),
        ];
        for (encoding, hz, micros, told) in cases {
            let framed = Format::new(encoding, hz)
                .unwrap()
                .framed(Duration::from_micros(micros));
            assert_eq!(framed.unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn a_frame_is_counted_in_samples() {
        let frame = |encoding, hz, ms| {
            let format = Format::new(encoding, hz).unwrap();
            format.framed(Duration::from_millis(ms)).unwrap().frame()
        };
        assert_eq!(frame(Encoding::Mulaw, 8_000, 20), Some(Samples(160)));
        assert_eq!(frame(Encoding::Pcm16, 22_050, 20), Some(Samples(441)));
        assert_eq!(frame(Encoding::OggOpus, 24_000, 100), Some(Samples(2_400)));
    }

    #[test]
    fn the_default_rate_is_one_that_the_encoding_takes() {
        for encoding in Encoding::ALL {
            for hz in [8_000, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000] {
                assert!(
                    encoding.takes(encoding.default_rate(rate(hz))),
                    "{encoding:?} {hz}"
                );
            }
        }
        assert_eq!(Encoding::Pcm16.default_rate(rate(24_000)), rate(24_000));
        assert_eq!(Encoding::Opus.default_rate(rate(22_050)), rate(24_000));
        assert_eq!(Encoding::Alaw.default_rate(rate(16_000)), rate(8_000));
        assert_eq!(Encoding::Mp3.default_rate(rate(22_050)), rate(22_050));
        assert_eq!(Encoding::Aac.default_rate(rate(96_000)), rate(48_000));
    }
}
