//! Models as they are served: embedded, random, tiny checkpoints, on emulated devices.

mod devices;
mod embedded_voice;
mod qwen3_tts;
mod random_model;
