//! Errors of text.

use crate::Skipped;

/// The reason for which text cannot be spoken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The utterance ended without a word, digit or symbol that has a reading.
    #[error("the text has nothing to speak: expected at least one letter, digit or symbol with a reading{}", detail(.skipped))]
    NothingSpeakable {
        /// The characters that were left out.
        skipped: Skipped,
    },
    /// More text waits for a flush than may wait.
    #[error(
        "{buffered} bytes of text would wait for a flush, the limit is {limit} bytes: flush or finish earlier"
    )]
    BufferFull {
        /// Bytes there would have been.
        buffered: usize,
        /// Bytes there may be.
        limit: usize,
    },
    /// SSML that says more than where sentences end and how long a pause is.
    #[error("SSML: {element} is not followed here; <speak>, <p>, <s> and <break> are")]
    Markup {
        /// The element, or its beginning.
        element: String,
    },
    /// A voice whose alphabet lacks what every reading needs.
    #[error("the speakable characters lack {missing:?}: expected at least a to z and the space")]
    Alphabet {
        /// The characters that are missing.
        missing: String,
    },
}

fn detail(skipped: &Skipped) -> String {
    if skipped.is_empty() {
        String::new()
    } else {
        format!("; {skipped}")
    }
}
