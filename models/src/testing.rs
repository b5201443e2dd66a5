//! Test helpers shared with `omni-gpu`, which runs the same checks on a device: reference outputs, and driving the
//! networks as an engine would.
//!
//! Nothing is judged here: the caller gets results, or the model's own error. Asking for a reference that does not
//! exist panics.

mod goldens;
mod reference;
mod speech;
mod text;
mod tts;
mod written;

pub use goldens::{Goldens, deviation, farthest};
pub use reference::{
    EmbeddedCase, Heard, Prompted, TINY, ThinkerCase, codes_by_frame, embedded_cases, thinker_cases, tiny,
    tiny_prompt,
};
pub use speech::{
    Run, decode, decode_together, frames, greedy, kv, request, sampled, speak, speak_together, step, tokens,
};
pub use text::{Reply, ask, audio_prompt, say, text_tokens};
pub use tts::{LONG_RECORDINGS, TINY_TTS, TINY_TTS_BASE, file_of, published_window, tts_prompt};
pub use written::{WriteError, write_random};

/// Applies the repetition penalty to logits `[vocab]`, as sampling does: once to each id in `said`.
pub fn penalise(logits: &mut [f32], penalty: f32, said: &[u32]) {
    omni_backend::sampling::penalise(logits, penalty, said);
}
