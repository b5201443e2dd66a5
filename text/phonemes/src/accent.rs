//! The accents of English.

use crate::PhonemeError;

/// An accent of English.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Accent {
    /// General American.
    #[default]
    American,
    /// Southern British.
    British,
}

impl Accent {
    /// The accent of a language tag, in letters of any size: `en` and `en-US` are American, `en-GB` is British.
    ///
    /// # Errors
    /// [`PhonemeError::Language`] for any other tag.
    pub fn from_tag(tag: &str) -> Result<Self, PhonemeError> {
        match tag.replace('_', "-").to_ascii_lowercase().as_str() {
            "en" | "en-us" => Ok(Self::American),
            "en-gb" => Ok(Self::British),
            _ => Err(PhonemeError::Language { tag: tag.to_owned() }),
        }
    }
}
