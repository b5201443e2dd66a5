//! Audio formats in and out, resampling, speed, silence, joining, levels, where speech is, and the playback-continuity
//! simulation. No async, no tensors.
//!
//! Samples come in as `f32` in `[-1, 1]` or as 16-bit integers, one channel; they go out as bytes, as other samples or
//! as plain measurements. Nothing here reads a clock, opens a file by name or knows of requests: a server and a client
//! use the very same values.

mod activity;
mod click;
mod continuity;
mod decode;
mod encode;
mod follow;
mod format;
mod g711;
mod gain;
mod joiner;
mod level;
mod loudness;
mod pcm;
mod render;
mod resample;
mod silence;
mod stretch;
mod trim;
mod units;
mod wav;

pub use activity::{SpeechChange, SpeechDetector, SpeechThresholds};
pub use click::{Join, worst_join};
pub use continuity::{Continuity, ContinuityReport};
pub use decode::{DecodeError, Decoder, InputEncoding, InputFormat};
pub use encode::{Chunk, Encoder};
pub use follow::{Expected, Follower, Timbre};
pub use format::{Encoding, Format, FormatError, FrameError};
pub use gain::{Gain, GainError};
pub use joiner::Joiner;
pub use level::Level;
pub use loudness::{Loudness, LoudnessError};
pub use pcm::{encode_f32le, encode_s16le, f32_from_f32le, from_i16, i16_from_s16le, to_i16};
pub use render::{Renderer, Rendering, Timeline};
pub use resample::Resampler;
pub use silence::{LeadingSilence, leading_silence, trailing_silence};
pub use stretch::{Speed, SpeedError, Stretcher};
pub use trim::{TrimReport, TrimSettings, Trimmer};
pub use units::{Frames, RateError, SampleRate, Samples, SamplesPerFrame};
pub use wav::{WAV_HEADER_LEN, Wav, WavError, WavHeader};
