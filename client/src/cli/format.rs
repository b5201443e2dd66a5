//! Formats of audio files, by name and by file ending.

use std::path::Path;

use clap::ValueEnum as _;

/// A format the client can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// 16-bit samples behind a WAV header
    Wav,
    /// Bare 16-bit little-endian samples
    #[value(alias = "raw")]
    Pcm,
}

impl Format {
    /// What `path` asks for by its ending.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "wav" | "wave" => Some(Self::Wav),
            "pcm" | "raw" => Some(Self::Pcm),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
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
            ("a.mp3", None),
            ("wav", None),
            (".wav", None),
        ] {
            assert_eq!(Format::of(Path::new(path)), format, "{path}");
        }
    }
}
