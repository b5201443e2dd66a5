//! Qwen3-TTS 12 Hz: what differs from the other families.
//!
//! Five checkpoints were published: 0.6B and 1.7B with voices of their own (CustomVoice), 0.6B and 1.7B that clone
//! (Base), and 1.7B whose voice is described in words (VoiceDesign). The talker is a dense stack, text embeddings are
//! its own, and the vocoder is the decoder of a codec in `speech_tokenizer/`, whose encoder turns recordings into
//! codes.

mod config;
mod encoder;
mod generation;
mod prompt;
mod quantizer;

pub(crate) use config::{CODEC_CONFIG, Kind, Qwen3TtsConfig, config, repository};
pub(crate) use encoder::encoder_nets;
pub use encoder::{VOICE_SAMPLE_RATE, VoiceEncoder, VoiceError};
pub(crate) use generation::defaults;
pub(crate) use prompt::prompt;
pub(crate) use quantizer::Quantizer;
