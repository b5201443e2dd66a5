//! Voice encoder: from a recording to a voice prompt, the speaker's vector and the recording's codec frames.
//!
//! A recording is encoded once, when its voice is made, so everything runs on the CPU, over the whole recording.

mod codec;
mod config;
mod mel;
mod quantizer;
mod signal;
mod speaker;

use std::time::Duration;

use omni_backend::Weights;
use omni_backend::{ComputeError, Cpu, DryRun};

use crate::checkpoint::{Checkpoint, LoadError};
use crate::config::FILE;
use crate::loader::Loader;

use self::codec::CodecEncoder;
use self::mel::SpeakerMel;
use self::speaker::SpeakerEncoder;
use super::CODEC_CONFIG;

/// Samples per second of a recording that becomes a voice.
pub const VOICE_SAMPLE_RATE: u32 = 24_000;
/// A recording that is shorter says too little of a voice.
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest recording: in context each frame takes a position, and the memory of one pass must fit.
const LONGEST: Duration = Duration::from_secs(60);

/// Reason why a recording does not become a voice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VoiceError {
    /// Too short or too long.
    #[error("a recording of {found:?}, expected {SHORTEST:?} to {LONGEST:?}")]
    Length {
        /// Its duration.
        found: Duration,
    },
    /// A sample is no number.
    #[error("sample {index} of the recording is not finite")]
    NotFinite {
        /// Index of the sample.
        index: usize,
    },
    /// The computation failed.
    #[error("the recording could not be encoded: {0}")]
    Compute(String),
}

impl From<ComputeError> for VoiceError {
    fn from(error: ComputeError) -> Self {
        Self::Compute(error.to_string())
    }
}

/// The encoders of a checkpoint that clones voices.
#[derive(derive_more::Debug)]
#[debug("VoiceEncoder {{ .. }}")]
pub struct VoiceEncoder {
    b: Cpu,
    mel: SpeakerMel,
    speaker: SpeakerEncoder<Cpu>,
    codec: CodecEncoder<Cpu>,
}

/// Asks for the tensors of both encoders that the configuration of `checkpoint` describes: the speaker's of `own`, the
/// codec's of `its`.
pub(crate) fn encoder_nets(
    checkpoint: &Checkpoint,
    own: &Loader<'_, DryRun>,
    its: &Loader<'_, DryRun>,
) -> Result<(), LoadError> {
    let (speaker, encoder) =
        config::configs(&checkpoint.required(FILE)?, &checkpoint.required(CODEC_CONFIG)?)?;
    SpeakerEncoder::load(own, &speaker)?;
    CodecEncoder::load(its, &encoder)?;
    Ok(())
}

impl VoiceEncoder {
    /// Checks the tensors of both encoders by name and shape, then reads them.
    pub(crate) fn load(checkpoint: &Checkpoint, codec: &Checkpoint) -> Result<Self, LoadError> {
        let own = Loader::new(checkpoint, &DryRun);
        let its = Loader::new(codec, &DryRun);
        encoder_nets(checkpoint, &own, &its)?;
        let configs = config::configs(&checkpoint.required(FILE)?, &checkpoint.required(CODEC_CONFIG)?)?;
        let (speaker, encoder) = &configs;
        let mut problems = own.problems();
        problems.extend(its.problems());
        LoadError::unless_empty(problems)?;
        let b = Cpu::new(Weights::Stored);
        Ok(Self {
            mel: SpeakerMel::new(speaker.bands),
            speaker: SpeakerEncoder::load(&Loader::new(checkpoint, &b), speaker)?,
            codec: CodecEncoder::load(&Loader::new(codec, &b), encoder)?,
            b,
        })
    }

    /// The spectrogram `[frames, bands]` that the speaker encoder sees.
    ///
    /// # Errors
    /// [`VoiceError`] if the recording is too short or too long, or if a sample or a result is no number.
    pub fn mel(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        check(samples)?;
        Ok(self.mel.frames(samples))
    }

    /// The speaker's vector, as wide as the talker.
    ///
    /// # Errors
    /// As of [`VoiceEncoder::mel`].
    pub fn x_vector(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        let vector = self.speaker.forward(&self.b, self.mel(samples)?)?;
        if vector.iter().all(|v| v.is_finite()) {
            Ok(vector)
        } else {
            Err(VoiceError::Compute(
                "the speaker's vector has a number that is not finite".into(),
            ))
        }
    }

    /// All codes of every frame; the last frame may be cut short.
    ///
    /// # Errors
    /// As of [`VoiceEncoder::mel`].
    pub fn frames(&self, samples: &[f32]) -> Result<Vec<Vec<u32>>, VoiceError> {
        check(samples)?;
        Ok(self.codec.forward(&self.b, samples)?)
    }
}

fn check(samples: &[f32]) -> Result<(), VoiceError> {
    let found = Duration::from_secs_f64(samples.len() as f64 / f64::from(VOICE_SAMPLE_RATE));
    if !(SHORTEST..=LONGEST).contains(&found) {
        return Err(VoiceError::Length { found });
    }
    match samples.iter().position(|s| !s.is_finite()) {
        Some(index) => Err(VoiceError::NotFinite { index }),
        None => Ok(()),
    }
}
