//! A kept voice, and its owner.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_core::caller::{Caller, Tenant};
use omni_core::error::excerpt;
use omni_family::{SpeechInfo, VoiceContent, VoiceShape, VoiceSource};
use omni_pipeline::request::VoicePrompt;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::VoiceError;

/// Longest statement of consent, description or transcript, in bytes.
const MAX_TEXT: usize = 4_000;
/// Most characters of a name.
const MAX_NAME: usize = 64;

/// Name of a voice, in composed form (NFC). Two names that differ in case or in their composition alone are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceName(String);

impl VoiceName {
    /// # Errors
    /// If it is empty, too long, or has characters that make trouble in paths, headers or log lines.
    pub fn new(name: &str) -> Result<Self, VoiceError> {
        let composed: String = name.trim().nfc().collect();
        let fits = (1..=MAX_NAME).contains(&composed.chars().count());
        // A name of marks and signs alone could not be told from others, and "." and ".." vanish from paths.
        let said = composed.chars().any(char::is_alphanumeric);
        let begins = !composed.starts_with(is_combining_mark);
        let usable = |c: char| c.is_alphanumeric() || is_combining_mark(c) || " -_.'".contains(c);
        if fits && said && begins && composed.chars().all(usable) {
            Ok(Self(composed))
        } else {
            Err(VoiceError::Name { got: excerpt(name) })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Form that all names of the same voice share.
    pub(super) fn key(name: &str) -> String {
        name.trim().nfc().collect::<String>().to_lowercase()
    }
}

impl fmt::Display for VoiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Owner of a voice: the API key that made it, by a part of its hash, or none: then all callers share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(String);

impl Owner {
    pub fn shared() -> Self {
        Self(String::new())
    }

    /// Owner of the voices of `caller`. Without API keys all callers share them.
    pub fn of(caller: &Caller) -> Self {
        match caller.tenant() {
            Tenant::Key(half) => Self(format!("{half:032x}")),
            Tenant::Unknown | Tenant::Address(_) => Self::shared(),
        }
    }

    /// Parses the form in a file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let good = text.is_empty() || (text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()));
        good.then(|| Self(text.to_lowercase()))
    }

    pub fn is_shared(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Content of a voice for the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Encoded recording.
    Prompt(Arc<VoicePrompt>),
    /// Words that describe it.
    Description(Arc<str>),
}

impl Content {
    /// Kind of the content: `x_vector`, `in_context` or `description`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Prompt(prompt) if prompt.reference.is_some() => "in_context",
            Self::Prompt(_) => "x_vector",
            Self::Description(_) => "description",
        }
    }

    pub(super) fn to_speech(&self) -> VoiceContent {
        match self {
            Self::Prompt(prompt) => VoiceContent::Prompt(Arc::clone(prompt)),
            Self::Description(words) => VoiceContent::Description(Arc::clone(words)),
        }
    }
}

/// A kept voice with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredVoice {
    pub name: VoiceName,
    pub owner: Owner,
    /// The model that it was made for.
    pub model: String,
    /// Fingerprint of that model's configuration.
    pub fingerprint: String,
    pub content: Content,
    /// Words of the recording.
    pub transcript: String,
    /// The statement that the speaker agrees.
    pub consent: String,
    /// For people.
    pub description: String,
    /// Duration of the recording, without the silence around it.
    pub duration: Duration,
    /// Seconds since 1970.
    pub created: u64,
}

/// Most frames of a recording: a little more than the longest has.
const MAX_FRAMES: usize = 1_024;
/// Most tokens of a transcript.
const MAX_TOKENS: usize = 4_000;

/// Checks a text that is kept with a voice.
pub(super) fn check_text(field: &'static str, text: &str) -> Result<(), VoiceError> {
    if text.len() > MAX_TEXT {
        return Err(VoiceError::TextTooLong {
            field,
            got: text.len(),
            limit: MAX_TEXT,
        });
    }
    // These texts end up in terminals.
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        Err(VoiceError::ControlCharacters { field })
    } else {
        Ok(())
    }
}

impl StoredVoice {
    /// Checks the invariants of every kept voice, from any source.
    pub(super) fn check(&self) -> Result<(), VoiceError> {
        check_text("transcript", &self.transcript)?;
        check_text("consent", &self.consent)?;
        check_text("description", &self.description)?;
        check_text("model", &self.model)?;
        check_text("model_fingerprint", &self.fingerprint)?;
        let prompt = match &self.content {
            Content::Description(words) => return check_text("design", words),
            Content::Prompt(prompt) => prompt,
        };
        if self.consent.trim().is_empty() {
            return Err(VoiceError::ConsentMissing);
        }
        if prompt.x_vector.is_empty() || prompt.x_vector.iter().any(|x| !x.is_finite()) {
            return Err(VoiceError::File(
                "its vector has no numbers, or one that is not finite".to_owned(),
            ));
        }
        let Some(reference) = &prompt.reference else {
            return Ok(());
        };
        let frames = reference.frames.len();
        let tokens = reference.text.len();
        if (1..=MAX_FRAMES).contains(&frames) && (1..=MAX_TOKENS).contains(&tokens) {
            Ok(())
        } else {
            Err(VoiceError::File(format!(
                "it has {frames} frames and {tokens} tokens, expected 1 to {MAX_FRAMES} and 1 to {MAX_TOKENS}"
            )))
        }
    }

    /// Reason why the model cannot speak with it, with the remedy.
    pub fn misfit(&self, info: &SpeechInfo) -> Option<String> {
        let support = &info.voice_support;
        match (&self.content, support.source, &support.shape) {
            (Content::Prompt(_), _, Some(shape))
                if !self.fingerprint.is_empty() && self.fingerprint != shape.fingerprint =>
            {
                Some(format!(
                    "it was made for {:?}, a checkpoint with another configuration; make it anew of the recording here",
                    self.model
                ))
            }
            (Content::Prompt(prompt), _, Some(shape)) => unfit(prompt, shape).map(|problem| {
                format!(
                    "it was made for {:?}, and {problem}; make it anew of the recording here",
                    self.model
                )
            }),
            (Content::Description(_), VoiceSource::Descriptions, _) => None,
            (Content::Description(_), ..) => Some(format!(
                "it is a description for a VoiceDesign checkpoint, and {:?} is none",
                info.id
            )),
            (Content::Prompt(_), _, None) => Some(format!(
                "it is of a recording for a Base checkpoint of Qwen3-TTS, and {:?} is none",
                info.id
            )),
        }
    }
}

/// Part of a prompt that does not fit the shape.
fn unfit(prompt: &VoicePrompt, shape: &VoiceShape) -> Option<String> {
    let found = prompt.x_vector.len();
    if found != shape.width as usize {
        return Some(format!(
            "its vector has {found} numbers, this model's have {}",
            shape.width
        ));
    }
    let reference = prompt.reference.as_ref()?;
    let groups = shape.groups as usize;
    let frames = &reference.frames;
    if frames.is_empty() || frames.iter().any(|frame| frame.0.len() != groups) {
        return Some(format!("its frames have not {groups} codes as this model's have"));
    }
    if frames
        .iter()
        .any(|frame| frame.0.iter().any(|&code| code >= shape.codes))
    {
        return Some(format!(
            "it has codes of {} and above, which this model's codec lacks",
            shape.codes
        ));
    }
    let foreign = reference.text.iter().any(|&id| id >= shape.text_vocab);
    foreign.then(|| "its transcript has tokens that this model lacks".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_any_language_and_no_paths() {
        for good in [
            "anna",
            "Anna-Lena_2.",
            "O'Neill",
            "Łukasz Żak",
            "小明",
            "अन्ना",
            "Ngọc Ánh",
            "a\u{301}",
            " padded ",
        ] {
            assert!(VoiceName::new(good).is_ok(), "{good}");
        }
        // Four bytes each.
        assert!(VoiceName::new(&"𠀀".repeat(64)).is_ok());
        let long = "x".repeat(65);
        for bad in [
            "",
            "  ",
            ".",
            "..",
            "-",
            "a/b",
            "a\\b",
            "a\nb",
            "a:b",
            "a,b",
            "\u{301}a",
            "a\u{200b}",
            &long,
        ] {
            assert!(
                matches!(VoiceName::new(bad), Err(VoiceError::Name { .. })),
                "{bad}"
            );
        }
        assert_eq!(VoiceName::key(" ANNA "), VoiceName::key("anna"));
        assert_eq!(VoiceName::key("ZOE\u{308}"), VoiceName::key("zo\u{eb}"));
        assert_eq!(VoiceName::new("Zoe\u{308}").unwrap().as_str(), "Zo\u{eb}");
    }

    #[test]
    fn callers_without_a_key_share_and_keys_own() {
        let key = |half| Caller::anonymous(Tenant::Key(half));
        assert!(Owner::of(&Caller::default()).is_shared());
        assert_ne!(Owner::of(&key(1)), Owner::of(&key(2)));
        let owner = Owner::of(&key(7));
        assert_eq!(Owner::parse(owner.as_str()), Some(owner));
        assert_eq!(Owner::parse("../etc"), None);
    }
}
