//! Behaviour of the speech path, on a tiny checkpoint with reference outputs.
//!
//! `data/qwen3-omni-tiny` holds random weights in the published layout and the outputs of Hugging Face transformers
//! 4.57.3 for them (`goldens.safetensors`); `data/qwen3-tts-tiny-*` the same of qwen-tts 0.1.1.

mod batched_equals_single;
mod broken_checkpoints;
mod broken_configs;
mod chat;
mod embedded;
mod embedded_thinker;
mod float_types;
mod floor;
mod golden;
mod gpu;
mod gpu_overlap;
mod gpu_prepared;
mod gpu_text;
mod hearing;
mod limits;
mod parity;
mod preemption;
mod quantised;
mod qwen3_tts;
mod qwen3_tts_loading;
mod random;
mod requests;
mod resumed;
mod seeds;
mod streaming_equals_whole;
mod support;
mod text_decoder;
mod thinker;
mod thinker_loading;
mod thinker_support;
mod tokenizer_forms;
