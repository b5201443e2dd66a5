//! Warnings about the text of a caller.

use core::fmt;

use crate::{Ignored, Skipped};

/// Something of the text that is not spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Characters that the voice cannot speak were left out.
    CharactersSkipped(Skipped),
    /// Markup that is not spoken was left out: tags that are not known, or a formula that cannot be read.
    MarkupIgnored(Ignored),
    /// The whole utterance has nothing to speak.
    NothingSpeakable,
}

impl Warning {
    /// Its stable name for programs, such as `CHARACTERS_SKIPPED`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::CharactersSkipped(_) => "CHARACTERS_SKIPPED",
            Self::MarkupIgnored(_) => "MARKUP_IGNORED",
            Self::NothingSpeakable => "NOTHING_SPEAKABLE",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CharactersSkipped(skipped) => skipped.fmt(f),
            Self::MarkupIgnored(ignored) => ignored.fmt(f),
            Self::NothingSpeakable => {
                f.write_str("the text has nothing to speak, its audio is a short silence")
            }
        }
    }
}
