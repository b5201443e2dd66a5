//! Voices of recordings, in plain data: what is computed once of a recording, and travels with every request that speaks in its voice.

use std::fmt;
use std::sync::Arc;

use omni_audio::SampleRate;
use omni_engine::CodecFrame;

use super::backend::BackendError;

/// Frames at the end of a recording that the vocoder decodes in front of what is spoken, unheard: the context with which the reference
/// implementation of Qwen3-TTS joins the pieces that it decodes (`chunked_decode`, `left_context_size`).
const LEAD: usize = 25;

/// Where a model's voices come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VoiceSource {
    /// It has voices of its own, with names.
    #[default]
    Names,
    /// Recordings.
    Recordings,
    /// Descriptions in words.
    Descriptions,
}

/// What voices of recordings look like to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceShape {
    /// Numbers of a speaker's vector.
    pub width: u32,
    /// Codes of a frame.
    pub groups: u32,
    /// Every code is below this.
    pub codes: u32,
    /// Every text token is below this.
    pub text_vocab: u32,
    /// Tells checkpoints of one shape apart: a part of a hash over their configuration.
    pub fingerprint: String,
}

/// How a model gets voices besides its own.
#[derive(Debug, Clone, Default)]
pub struct VoiceSupport {
    /// Where its voices come from.
    pub source: VoiceSource,
    /// What voices of recordings look like to it, if it takes them.
    pub shape: Option<VoiceShape>,
    /// The voices that are kept beside its own, as the caller of a request sees them.
    pub kept: Option<Arc<dyn KeptVoices>>,
}

/// What a talker needs of a recording to speak in its voice.
#[derive(Debug, Clone, PartialEq)]
pub struct VoicePrompt {
    /// The speaker's vector.
    pub x_vector: Vec<f32>,
    /// The recording itself, which is continued in context; without it the vector alone decides.
    pub reference: Option<VoiceReference>,
}

/// A recording as a talker reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoiceReference {
    /// Its codec frames.
    pub frames: Vec<CodecFrame>,
    /// Text tokens of what is said in it.
    pub text: Vec<u32>,
}

impl VoicePrompt {
    /// Frames that the vocoder decodes first, unheard, so that what is spoken goes on from the recording.
    #[must_use]
    pub fn lead(&self) -> Arc<[CodecFrame]> {
        let frames = self.reference.as_ref().map(|reference| &reference.frames[..]);
        let frames = frames.unwrap_or_default();
        frames[frames.len().saturating_sub(LEAD)..].into()
    }
}

/// Tokens of its text that a talker's prompt takes besides the first one: in context the text goes on behind the transcript, beside the
/// recording's frames.
#[must_use]
pub fn prompt_rows(prompt: Option<&VoicePrompt>) -> u32 {
    let reference = prompt.and_then(|prompt| prompt.reference.as_ref());
    let rows = reference.map_or(0, |reference| {
        reference.frames.len().saturating_sub(reference.text.len())
    });
    u32::try_from(rows).unwrap_or(u32::MAX)
}

/// What a name of a kept voice stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum VoiceContent {
    /// What was computed of a recording.
    Prompt(Arc<VoicePrompt>),
    /// The words that describe it to the model.
    Description(Arc<str>),
}

/// Voices that are kept beside a model's own, as one caller sees them.
pub trait KeptVoices: fmt::Debug + Send + Sync {
    /// The voice of that name, with the name as it was given; the error is why the model cannot speak with it.
    fn find(&self, name: &str) -> Option<Result<(String, VoiceContent), String>>;

    /// The names of all that the model can speak with, sorted.
    fn names(&self) -> Vec<String>;
}

/// Makes voices of recordings. Every call may take seconds.
pub trait EncodeVoice: Send + Sync {
    /// Rate of the recordings that it takes.
    fn sample_rate(&self) -> SampleRate;

    /// The speaker's vector of mono samples in `[-1, 1]`.
    ///
    /// # Errors
    /// If it cannot be computed.
    fn x_vector(&self, samples: &[f32]) -> Result<Vec<f32>, BackendError>;

    /// The codec frames of the same; the last one may be cut short.
    ///
    /// # Errors
    /// If they cannot be computed.
    fn frames(&self, samples: &[f32]) -> Result<Vec<CodecFrame>, BackendError>;
}

/// Gives what makes voices of recordings, or says why the model has none. Reads its weights when it is first asked.
pub type VoiceEncoderSource = Arc<dyn Fn() -> Result<Arc<dyn EncodeVoice>, BackendError> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(frames: u32) -> VoicePrompt {
        let frame = |code| CodecFrame(Box::new([code]));
        VoicePrompt {
            x_vector: vec![0.0],
            reference: Some(VoiceReference {
                frames: (0..frames).map(frame).collect(),
                text: vec![1],
            }),
        }
    }

    #[test]
    fn the_end_of_a_recording_leads_and_a_vector_alone_has_none() {
        assert_eq!(prompt(3).lead().len(), 3);
        let lead = prompt(100).lead();
        assert_eq!((lead.len(), lead[0].0[0], lead[24].0[0]), (25, 75, 99));
        let vector = VoicePrompt {
            reference: None,
            ..prompt(1)
        };
        assert!(vector.lead().is_empty());
        assert_eq!(
            prompt_rows(Some(&prompt(5))),
            4,
            "beside one token of the transcript"
        );
        assert_eq!((prompt_rows(Some(&vector)), prompt_rows(None)), (0, 0));
    }
}
