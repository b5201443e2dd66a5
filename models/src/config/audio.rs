//! Audio encoder section of `config.json`, read when an encoder is loaded.

use std::cell::RefCell;

use super::fields::Fields;
use super::read::{FILE, MOST_HEADS, MOST_LAYERS, finished, parsed};
use crate::checkpoint::LoadError;

/// Convolutions that each halve time and frequency.
pub(crate) const CONVOLUTIONS: usize = 3;
/// Samples of 5 minutes at 16 kHz.
const DEFAULT_SAMPLES: usize = 4_800_000;
const PREPROCESSOR: &str = "preprocessor_config.json";
/// Frames in a chunk or a window, most.
const MOST_FRAMES: usize = 1 << 16;

/// Rows that are left of `n` after one convolution.
pub(crate) fn shortened(n: usize) -> usize {
    n.div_ceil(2)
}

/// The audio encoder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AudioConfig {
    /// Width of the rows inside.
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) ffn: usize,
    pub(crate) mel_bins: usize,
    /// Channels of the convolutions.
    pub(crate) channels: usize,
    /// Width of the rows that come out, the thinker's.
    pub(crate) output: usize,
    /// Half the frames of a chunk.
    half_chunk: usize,
    /// Frames in an attention window.
    window: usize,
    /// Samples of one utterance, most.
    pub(crate) max_samples: usize,
}

impl AudioConfig {
    /// Reads and checks `config.json` and, if there is one, `preprocessor_config.json`.
    pub(crate) fn parse(json: &[u8], preprocessor: Option<&[u8]>) -> Result<Self, LoadError> {
        let value = parsed(FILE, json)?;
        let problems = RefCell::new(Vec::new());
        let thinker = Fields::root(FILE, &value, &problems).section("thinker_config");
        let section = thinker.section("audio_config");
        let mut config = Self {
            hidden: section.count(&["d_model"]),
            layers: section.count_to(&["encoder_layers"], MOST_LAYERS),
            heads: section.count_to(&["encoder_attention_heads"], MOST_HEADS),
            ffn: section.count(&["encoder_ffn_dim"]),
            mel_bins: section.count_to(&["num_mel_bins"], 1024),
            channels: section.count(&["downsample_hidden_size"]),
            output: section.count(&["output_dim"]),
            half_chunk: section.count_to(&["n_window"], MOST_FRAMES),
            window: section.count_to(&["n_window_infer"], MOST_FRAMES),
            max_samples: DEFAULT_SAMPLES,
        };
        config.check(&section, thinker.section("text_config").count(&["hidden_size"]));
        let preprocessor = preprocessor.map(|json| parsed(PREPROCESSOR, json)).transpose()?;
        if let Some(value) = &preprocessor {
            config.max_samples = front_end(&Fields::root(PREPROCESSOR, value, &problems), &config);
        }
        finished(problems)?;
        Ok(config)
    }

    fn check(&self, section: &Fields<'_>, hidden: usize) {
        if !self.hidden.is_multiple_of(self.heads) || !self.hidden.is_multiple_of(2) {
            let heads = self.heads;
            section.wrong(
                "d_model",
                format!("is {}, expected an even multiple of {heads} heads", self.hidden),
            );
        }
        if self.output != hidden {
            let reason = format!("is {}, but the thinker's hidden_size is {hidden}", self.output);
            section.wrong("output_dim", reason);
        }
        if !self.window.is_multiple_of(self.chunk_frames()) {
            let reason = format!(
                "is {}, expected a multiple of {} frames",
                self.window,
                self.chunk_frames()
            );
            section.wrong("n_window_infer", reason);
        }
        if section
            .text("activation_function")
            .is_some_and(|act| act != "gelu")
        {
            section.wrong("activation_function", "only gelu is supported");
        }
    }

    /// Frames of a chunk that is convolved on its own.
    pub(crate) fn chunk_frames(&self) -> usize {
        2 * self.half_chunk
    }

    /// Number of rows for `frames` frames.
    pub(crate) fn rows_of(&self, frames: usize) -> usize {
        let rows = |frames| (0..CONVOLUTIONS).fold(frames, |n, _| shortened(n));
        frames / self.chunk_frames() * rows(self.chunk_frames()) + rows(frames % self.chunk_frames())
    }

    /// Rows that attend to each other if the widest chunk has `widest` frames.
    pub(crate) fn window_rows(&self, widest: usize) -> usize {
        (self.rows_of(widest) * (self.window / self.chunk_frames())).max(1)
    }
}

/// The spectrogram must be the one that is computed here; returns how many samples an utterance may have.
fn front_end(root: &Fields<'_>, config: &AudioConfig) -> usize {
    for (field, expected) in [
        ("feature_size", config.mel_bins),
        ("n_fft", 400),
        ("hop_length", 160),
        ("sampling_rate", 16_000),
    ] {
        let found = root.count_or(&[field], expected, usize::MAX);
        if found != expected {
            root.wrong(field, format!("is {found}, only {expected} is supported"));
        }
    }
    root.count_or(&["n_samples"], DEFAULT_SAMPLES, 1 << 28)
}
