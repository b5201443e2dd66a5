//! Shows what a text becomes, with the same front end that speaks it.

use core::time::Duration;

use crate::{CharRange, EndKind, FrontEnd, FrontEndOptions, TextError, Warning, Word};

/// A whole text as a model is given it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explained {
    /// In the order in which they are spoken; none if the text has nothing to speak.
    pub segments: Vec<ExplainedSegment>,
    /// Parts of the text that are not spoken.
    pub warnings: Vec<Warning>,
}

/// Text that a model is given in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedSegment {
    /// Exactly what the model is given.
    pub text: String,
    /// The text it stands for, in Unicode scalar values of the original.
    pub source: CharRange,
    /// Its words in order, without the marks and white space around them.
    pub words: Vec<Word>,
    /// The reason for its end.
    pub end: EndKind,
    /// The next segment goes on in mid sentence.
    pub open: bool,
    /// The pause before it that marks of the text ask for, in place of the usual one.
    pub pause: Option<Duration>,
}

/// Explains what a session with these options gives its model for `text`. Text without anything to speak is no error here: it has no
/// segments and a warning.
///
/// # Errors
/// [`TextError::Markup`] for SSML that cannot be followed; [`TextError::BufferFull`] for more text than may wait for a flush.
///
/// ```
/// use omni_text::{CharRange, FrontEndOptions, Language, Normalizer, explain};
///
/// let normalizer = Normalizer::new(Language::English, "abcdefghijklmnopqrstuvwxyz .,?!'-:;")?;
/// let options = FrontEndOptions { normalizer: Some(normalizer), ..FrontEndOptions::default() };
/// let explained = explain(options, "It costs $3. Thanks!")?;
/// assert_eq!(explained.segments[0].text, "it costs three dollars.");
/// let amount = &explained.segments[0].words[2];
/// assert_eq!((amount.spoken.as_str(), amount.source), ("three dollars", CharRange::new(9, 11)));
/// # Ok::<(), omni_text::TextError>(())
/// ```
pub fn explain(options: FrontEndOptions, text: &str) -> Result<Explained, TextError> {
    let mut front_end = FrontEnd::new(options);
    let mut pieces = front_end.push(text)?;
    let rest = front_end.finish();
    let mut warnings = front_end.take_warnings();
    match rest {
        Ok(rest) => pieces.extend(rest),
        Err(TextError::NothingSpeakable { .. }) => warnings.push(Warning::NothingSpeakable),
        Err(error) => return Err(error),
    }
    let segments = pieces.into_iter().map(|piece| ExplainedSegment {
        words: piece.words().into_iter().map(bare).collect(),
        text: piece.text,
        source: piece.source,
        end: piece.end,
        open: piece.open,
        pause: piece.pause,
    });
    Ok(Explained {
        segments: segments.collect(),
        warnings,
    })
}

/// A word without the marks of pause and the white space behind it.
fn bare(mut word: Word) -> Word {
    let mark = |c: char| c.is_whitespace() || matches!(c, '.' | ',' | '?' | '!' | ':' | ';');
    let length = word.spoken.trim_end_matches(mark).len();
    word.spoken.truncate(length);
    word
}
