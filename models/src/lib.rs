//! Qwen3-Omni and Qwen3-TTS: checkpoints, tokenizer, thinker, talker, code predictor, code2wav. Kokoro and hibari: voices
//! that read phonemes, an utterance or a chunk at a time.
//!
//! Flows in: a checkpoint in Hugging Face layout, prompts, text token ids, codec frames. Flows out: text tokens, codec
//! frames and samples, through the engine's traits [`omni_engine::ArModel`] and [`omni_engine::ChunkModel`]. Owns
//! weights, caches and per-sequence numbers. Never starts a thread of its own, never knows about requests, sockets or
//! clocks.

mod audio_encoder;
mod chat;
mod checkpoint;
mod code2wav;
mod computed;
mod config;
mod family;
mod floor;
mod hibari;
mod kokoro;
mod loader;
mod mel;
mod nn;
mod paged;
mod phonemes;
mod qwen3_tts;
mod random;
mod spectrum;
mod speech;
mod talker;
#[cfg(feature = "testing")]
pub mod testing;
mod thinker;
mod thinker_model;
#[cfg(test)]
mod tiny;
mod tokenizer;
mod topology;

pub use audio_encoder::{AUDIO_SAMPLE_RATE, AudioEncoder, AudioError, AudioLimits};
pub use chat::{ChatError, ChatPiece, ChatPrompt, ChatTemplate, Message, MessagePart, Role, TalkerPrompt};
pub use checkpoint::{Checkpoint, CheckpointSource, LoadError, Problem, loading_progress};
pub use code2wav::Code2Wav;
pub use config::{GenerationDefaults, TextTokens, VoiceSource};
pub use floor::{CountedFloor, Mixture, StageFloor, counted_floor};
pub use hibari::{Hibari, HibariSpeech, HibariText};
pub use kokoro::{Kokoro, KokoroSpeech, KokoroText, KokoroVoice};
pub use omni_backend::sampling::{Sampling, SamplingError, TextSampling};
pub use omni_backend::{GpuFigures, TellFallback, Weights, share_small_products};
pub use phonemes::{PhonemeError, SpokenWord, spoken_words};
pub use qwen3_tts::{VOICE_SAMPLE_RATE, VoiceEncoder, VoiceError};
pub use random::{RandomModel, RandomNameError};
pub use speech::{DType, Kernels, Language, LoadOptions, Parts, SpeechLimits, SpeechModel, probe_gpu};
pub use talker::{KvOptions, Talker, TalkerRequest, UserRow, Voice};
pub use thinker::{HiddenRows, PromptPiece, Thinker, ThinkerRequest, ThinkerToken};
pub use thinker_model::{ThinkerLimits, ThinkerModel};
pub use tokenizer::{TextDecoder, TokenizeError, Tokenizer};
pub use topology::{CODE2WAV, ENCODER, FAMILIES, GRAPHS, QWEN3_OMNI, TALKER, THINKER, stage_meant};
