//! Formats of audio files, by name and by file ending.

use std::path::Path;

use clap::ValueEnum as _;
use omni_audio::{Encoding, FormatError, InputEncoding, SampleRate};

/// A format the client can write.
///
/// The server is asked for samples at the wanted rate, and the file is made of them here: one that is in order however
/// many utterances are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// 16-bit samples behind a WAV header
    Wav,
    /// Bare 16-bit little-endian samples
    #[value(alias = "raw")]
    Pcm,
    /// Bare 32-bit little-endian floats
    F32,
    /// G.711 mu-law, bare, at 8000 Hz unless --rate is 16000
    #[value(alias = "ulaw")]
    Mulaw,
    /// G.711 A-law, bare, at 8000 Hz unless --rate is 16000
    Alaw,
    /// Opus in an Ogg stream
    #[value(alias = "ogg")]
    Opus,
    /// Lossless, at about half the size
    Flac,
    /// MPEG Layer III
    Mp3,
    /// AAC-LC in ADTS frames
    Aac,
}

impl Format {
    /// The endings that name a format, for people.
    pub(crate) const ENDINGS: &str = ".wav, .pcm, .raw, .f32, .ul, .al, .opus, .ogg, .flac, .mp3 or .aac";

    /// Format for the ending of `path`.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match ending(path)?.as_str() {
            "wav" | "wave" => Some(Self::Wav),
            "pcm" | "raw" => Some(Self::Pcm),
            "f32" => Some(Self::F32),
            "ul" | "ulaw" | "mulaw" => Some(Self::Mulaw),
            "al" | "alaw" => Some(Self::Alaw),
            "opus" | "ogg" | "oga" => Some(Self::Opus),
            "flac" => Some(Self::Flac),
            "mp3" => Some(Self::Mp3),
            "aac" => Some(Self::Aac),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Encoding of the file.
    pub(crate) fn encoding(self) -> Encoding {
        match self {
            Self::Wav => Encoding::Wav,
            Self::Pcm => Encoding::Pcm16,
            Self::F32 => Encoding::PcmF32,
            Self::Mulaw => Encoding::Mulaw,
            Self::Alaw => Encoding::Alaw,
            Self::Opus => Encoding::OggOpus,
            Self::Flac => Encoding::Flac,
            Self::Mp3 => Encoding::Mp3,
            Self::Aac => Encoding::Aac,
        }
    }

    /// Rate to request of the server; none: the model's own.
    pub(crate) fn rate(self, asked: Option<SampleRate>) -> Result<Option<SampleRate>, FormatError> {
        let usual = matches!(self, Self::Mulaw | Self::Alaw)
            .then(|| SampleRate::new(8_000).ok())
            .flatten();
        match asked {
            None => Ok(usual),
            Some(rate) => {
                omni_audio::Format::new(self.encoding(), rate.hz()).map(|format| Some(format.rate()))
            }
        }
    }
}

/// Encoding of the recording in `path`, where its ending is of another format than WAV.
pub(crate) fn recording(path: &Path) -> Option<InputEncoding> {
    match Format::of(path)? {
        Format::Opus => Some(InputEncoding::OggOpus),
        Format::Mulaw => Some(InputEncoding::Mulaw),
        Format::Alaw => Some(InputEncoding::Alaw),
        Format::Flac => Some(InputEncoding::Flac),
        Format::Wav | Format::Pcm | Format::F32 | Format::Mp3 | Format::Aac => None,
    }
}

fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_decide_whatever_their_case() {
        for (path, format) in [
            ("a.wav", Some(Format::Wav)),
            ("dir.x/A.WAV", Some(Format::Wav)),
            ("a.b.raw", Some(Format::Pcm)),
            ("a.pcm", Some(Format::Pcm)),
            ("a.Opus", Some(Format::Opus)),
            ("a.ul", Some(Format::Mulaw)),
            ("a.flac", Some(Format::Flac)),
            ("a.mp3", Some(Format::Mp3)),
            ("a.aac", Some(Format::Aac)),
            ("a.m4a", None),
            ("wav", None),
            (".wav", None),
        ] {
            assert_eq!(Format::of(Path::new(path)), format, "{path}");
        }
    }

    #[test]
    fn telephones_have_their_own_rate_and_refuse_others() {
        let rate = |hz| SampleRate::new(hz).unwrap();
        assert_eq!(Format::Mulaw.rate(None), Ok(Some(rate(8_000))));
        assert_eq!(Format::Alaw.rate(Some(rate(16_000))), Ok(Some(rate(16_000))));
        assert_eq!(Format::Opus.rate(None), Ok(None));
        assert!(Format::Mulaw.rate(Some(rate(24_000))).is_err());
        assert!(Format::Opus.rate(Some(rate(44_100))).is_err());
    }
}
