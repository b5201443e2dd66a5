//! Sampling of words and speech.

use omni_proto::v1;

/// Sampling parameters. Absent fields leave the choice to the model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sampling {
    /// The same seed gives the same output.
    pub seed: Option<u64>,
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// Keep the smallest set of outputs with this probability.
    pub top_p: Option<f32>,
    /// Keep this many most likely outputs.
    pub top_k: Option<i32>,
    /// Above 1 discourages repetition.
    pub repetition_penalty: Option<f32>,
    /// Most outputs per response: text tokens of the words, codec frames of the speech.
    pub max_tokens: Option<u32>,
}

impl Sampling {
    /// Absent as a whole when nothing is chosen.
    pub(crate) fn to_proto(self) -> Option<v1::SamplingParams> {
        let sampling = v1::SamplingParams {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            max_tokens: self.max_tokens,
        };
        (sampling != v1::SamplingParams::default()).then_some(sampling)
    }
}
