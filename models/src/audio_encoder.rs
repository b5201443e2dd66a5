//! Audio encoder of the thinker: 16 kHz samples in, rows for the places of audio in a prompt out.
//!
//! Samples become a log-mel spectrogram, a convolution shortens it to 13 rows per second, and a transformer that looks
//! both ways inside windows of a few seconds makes the rows that stand for the audio. Nothing is remembered between
//! two calls. The spectrogram's scale depends on the loudest moment of the whole utterance, so an utterance is encoded
//! when it is over.

mod mel;
mod net;

use std::sync::Arc;

use omni_backend::{Backend, ComputeError, DryRun, Params};
use omni_engine::{Answer, ModelError, OneShotModel, SeqId};

use crate::checkpoint::{Checkpoint, LoadError};
use crate::config::AudioConfig;
use crate::loader::Loader;

use mel::{HOP, LogMel};
pub(crate) use net::{NAME, Tower};

/// Samples per second that the encoder takes.
pub const AUDIO_SAMPLE_RATE: u32 = 16_000;

/// Audio that cannot be encoded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AudioError {
    /// Too short to give a row.
    #[error("audio has {found} samples at 16 kHz, at least {least} are needed")]
    TooShort {
        /// Samples given.
        found: usize,
        /// Samples needed.
        least: usize,
    },
    /// Longer than the checkpoint was made for.
    #[error("audio has {found} samples at 16 kHz, at most {most} are allowed")]
    TooLong {
        /// Samples given.
        found: usize,
        /// Samples allowed.
        most: usize,
    },
    /// A sample that is infinite or none.
    #[error("audio sample {index} is not a number or infinite")]
    NotFinite {
        /// Its place.
        index: usize,
    },
    /// The computation failed.
    #[error("audio encoder: {0}")]
    Compute(String),
    /// The device is unusable until the process restarts.
    #[error("audio encoder: {0}")]
    Lost(String),
}

impl From<ComputeError> for AudioError {
    fn from(error: ComputeError) -> Self {
        match error {
            ComputeError::Lost(reason) => Self::Lost(reason),
            error => Self::Compute(error.to_string()),
        }
    }
}

/// The weights over one backend.
struct Parts<B: Backend> {
    b: B,
    tower: Tower<B>,
}

trait Encode: Send + Sync {
    /// Rows of a spectrogram `[frames, mel bins]`.
    fn encode(&self, mel: &[f32]) -> Result<Vec<f32>, AudioError>;
}

/// The audio encoder's weights. Clones share them; calls do not disturb each other.
#[derive(Clone, derive_more::Debug)]
#[debug("AudioEncoder {{ limits: {:?}, .. }}", self.limits)]
pub struct AudioEncoder {
    parts: Arc<dyn Encode>,
    mel: LogMel,
    limits: AudioLimits,
}

/// Input and output of an audio encoder, known before its weights are read.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioLimits(AudioConfig);

impl AudioLimits {
    pub(crate) fn new(config: AudioConfig) -> Self {
        Self(config)
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.0.output
    }

    /// Number of rows for `samples` samples.
    pub fn rows_of(&self, samples: usize) -> usize {
        self.0.rows_of(samples / HOP)
    }

    /// Samples that one call takes, least: one frame.
    pub fn min_samples(&self) -> usize {
        HOP
    }

    /// Samples that one call takes, most.
    pub fn max_samples(&self) -> usize {
        self.0.max_samples
    }
}

impl AudioEncoder {
    pub(crate) fn load<B: Backend>(
        checkpoint: &Checkpoint,
        config: &AudioConfig,
        b: &B,
    ) -> Result<Self, LoadError> {
        let tower = Tower::load(&Loader::new(checkpoint, b), config)?;
        Ok(Self {
            parts: Arc::new(Parts { b: b.clone(), tower }),
            mel: LogMel::new(config.mel_bins),
            limits: AudioLimits::new(config.clone()),
        })
    }

    /// Input and output of the encoder.
    pub fn limits(&self) -> &AudioLimits {
        &self.limits
    }

    /// Rows `[rows, width]` of mono samples at [`AUDIO_SAMPLE_RATE`], in [-1, 1].
    ///
    /// # Errors
    /// [`AudioError`] if there are too few or too many samples, if one is no number, or if the computation fails.
    pub fn encode(&self, samples: &[f32]) -> Result<Arc<[f32]>, AudioError> {
        let rows = self.parts.encode(&self.log_mel(samples)?)?;
        Ok(rows.into())
    }

    /// The log-mel spectrogram `[frames, mel bins]`, a frame being 10 ms.
    ///
    /// # Errors
    /// [`AudioError`] if there are too few or too many samples, or if one is no number.
    pub fn log_mel(&self, samples: &[f32]) -> Result<Vec<f32>, AudioError> {
        self.check(samples)?;
        Ok(self.mel.frames(samples))
    }

    fn check(&self, samples: &[f32]) -> Result<(), AudioError> {
        let found = samples.len();
        let most = self.limits.max_samples();
        if found < HOP {
            return Err(AudioError::TooShort { found, least: HOP });
        }
        if found > most {
            return Err(AudioError::TooLong { found, most });
        }
        if let Some(index) = samples.iter().position(|s| !s.is_finite()) {
            return Err(AudioError::NotFinite { index });
        }
        Ok(())
    }
}

impl OneShotModel for AudioEncoder {
    /// Mono samples at [`AUDIO_SAMPLE_RATE`].
    type Input = Arc<[f32]>;
    /// Rows `[rows, width]`.
    type Output = Arc<[f32]>;

    /// Frames of 10 ms.
    fn cost(&self, input: &Arc<[f32]>) -> Result<u32, ModelError> {
        self.check(input)
            .map_err(|e| ModelError::Rejected(e.to_string()))?;
        Ok(u32::try_from(input.len() / HOP).unwrap_or(u32::MAX))
    }

    fn run(&mut self, batch: &[(SeqId, &Arc<[f32]>)]) -> Result<Vec<Answer<Arc<[f32]>>>, ModelError> {
        let encode = |(_, samples): &(SeqId, &Arc<[f32]>)| match self.encode(samples) {
            Err(AudioError::Lost(reason)) => Err(ModelError::Lost(reason)),
            encoded => Ok(encoded.map(|rows| vec![rows]).map_err(|e| e.to_string())),
        };
        batch.iter().map(encode).collect()
    }
}

impl<B: Backend> Encode for Parts<B> {
    fn encode(&self, mel: &[f32]) -> Result<Vec<f32>, AudioError> {
        let rows = self.tower.forward(&self.b, mel)?;
        match rows.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(AudioError::Compute(format!(
                "number {i} of the rows is infinite or none"
            ))),
            None => Ok(rows),
        }
    }
}

/// Checks the checkpoint's tensors against the encoder that its configuration describes.
pub(crate) fn check(checkpoint: &Checkpoint, config: &AudioConfig) -> Result<(), LoadError> {
    let dry = Loader::new(checkpoint, &DryRun);
    nets(&dry, config)?;
    dry.finish()
}

/// Loads the encoder.
pub(crate) fn nets<P: Params>(l: &Loader<'_, P>, config: &AudioConfig) -> Result<Tower<P>, LoadError> {
    Tower::load(l, config)
}
