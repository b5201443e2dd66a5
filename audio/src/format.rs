//! What audio can be sent as: an encoding and a rate that go together.
//!
//! Everything that leaves is one channel. Which rates an encoding takes is decided here and nowhere else, so that who checks
//! a request and who encodes it cannot disagree.

use std::fmt;

use crate::units::SampleRate;

/// The rates, in Hz, that libopus encodes at.
const OPUS: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];
/// The rates, in Hz, at which telephones carry G.711: narrow and wide band.
const G711: [u32; 2] = [8_000, 16_000];

/// How samples become bytes.
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
    /// 16-bit samples behind a WAV header of unknown length.
    Wav,
    /// 16-bit samples as a FLAC stream of unknown length.
    Flac,
}

impl Encoding {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pcm16,
        Self::PcmF32,
        Self::Mulaw,
        Self::Alaw,
        Self::Opus,
        Self::OggOpus,
        Self::Wav,
        Self::Flac,
    ];

    /// What people call it.
    #[must_use]
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
        }
    }

    /// The only rates it takes, in Hz; none where it takes every rate from [`Format::MIN_HZ`] to [`Format::MAX_HZ`].
    #[must_use]
    pub fn only_rates(self) -> Option<&'static [u32]> {
        match self {
            Self::Mulaw | Self::Alaw => Some(&G711),
            Self::Opus | Self::OggOpus => Some(&OPUS),
            Self::Pcm16 | Self::PcmF32 | Self::Wav | Self::Flac => None,
        }
    }

    /// Whether it takes this rate.
    #[must_use]
    pub fn takes(self, rate: SampleRate) -> bool {
        match self.only_rates() {
            Some(rates) => rates.contains(&rate.hz()),
            None => (Format::MIN_HZ..=Format::MAX_HZ).contains(&rate.hz()),
        }
    }

    /// The rate to use where none is asked for: that of telephones for G.711, else `native`, or what is next to it from above.
    #[must_use]
    pub fn default_rate(self, native: SampleRate) -> SampleRate {
        if self.takes(native) && !matches!(self, Self::Mulaw | Self::Alaw) {
            return native;
        }
        let hz = match self.only_rates() {
            Some(rates) if matches!(self, Self::Opus | Self::OggOpus) => {
                let above = rates.iter().copied().find(|&hz| hz >= native.hz());
                above.unwrap_or(Format::MAX_HZ)
            }
            Some(_) => G711[0],
            None => native.hz().clamp(Format::MIN_HZ, Format::MAX_HZ),
        };
        SampleRate::new(hz).unwrap_or(native)
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

/// An encoding at a rate that it takes; one channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    encoding: Encoding,
    rate: SampleRate,
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
            Ok(rate) if encoding.takes(rate) => Ok(Self { encoding, rate }),
            _ => Err(FormatError { encoding, got: hz }),
        }
    }

    /// How samples become bytes.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        self.encoding
    }

    /// Samples per second.
    #[must_use]
    pub fn rate(self) -> SampleRate {
        self.rate
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.encoding.name(), self.rate)
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
    }
}
