//! Sampling and length of an answer, by the names of OpenAI's API, vLLM and Ollama.

use omni_services::settings::SamplingRequest;

use crate::error::ApiError;
use crate::lean::Scalar;

/// A whole number of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(i128);

impl Number {
    pub(super) fn value(self) -> i128 {
        self.0
    }
}

impl Scalar for Number {
    const EXPECTED: &'static str = "a whole number";

    fn whole(value: i128) -> Option<Self> {
        Some(Self(value))
    }

    fn real(value: f64) -> Option<Self> {
        // Beyond the precision of a double the nearest value will do.
        (value.fract() == 0.0).then_some(Self(value as i128))
    }
}

/// Sampling parameters of a caller.
pub(super) struct Drawing {
    pub(super) temperature: Option<f32>,
    pub(super) top_p: Option<f32>,
    pub(super) top_k: Option<Number>,
    pub(super) min_p: Option<f32>,
    pub(super) frequency_penalty: Option<f32>,
    pub(super) presence_penalty: Option<f32>,
    pub(super) repetition_penalty: Option<f32>,
    pub(super) repeat_penalty: Option<f32>,
    pub(super) seed: Option<Number>,
    pub(super) max_completion_tokens: Option<Number>,
    pub(super) max_tokens: Option<Number>,
}

impl Drawing {
    /// Converts to the service's request.
    pub(super) fn request(self) -> Result<SamplingRequest, ApiError> {
        // The likeliest token alone makes up any share of the probabilities.
        let greedy = self.top_p == Some(0.0);
        // The service would use another name for it.
        if let Some(penalty) = self
            .repeat_penalty
            .filter(|penalty| *penalty <= 0.0 || *penalty > 10.0)
        {
            let problem = format!("repeat_penalty is {penalty}; expected a number above 0 and at most 10");
            return Err(ApiError::invalid(Some("repeat_penalty"), problem));
        }
        Ok(SamplingRequest {
            temperature: if greedy { Some(0.0) } else { self.temperature },
            top_p: self.top_p.filter(|_| !greedy),
            // 0 for Ollama and -1 for vLLM keep all tokens.
            top_k: self
                .top_k
                .map(|most| i32::try_from(most.0.max(0)).unwrap_or(i32::MAX)),
            min_p: self.min_p,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            repetition_penalty: self.repetition_penalty.or(self.repeat_penalty),
            // Any number is a seed; the mapping does not matter as long as it is constant.
            seed: self.seed.map(|seed| seed.0 as u64),
            max_tokens: limit(self.max_completion_tokens).or(limit(self.max_tokens)),
        })
    }
}

/// Most tokens. Programs send 0 and negative numbers for no limit.
fn limit(most: Option<Number>) -> Option<u32> {
    let most = most?.0;
    (most > 0).then(|| u32::try_from(most).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_written_in_several_ways() {
        for (most, expected) in [
            (-2, None),
            (-1, None),
            (0, None),
            (1, Some(1)),
            (5_000_000_000, Some(u32::MAX)),
        ] {
            assert_eq!(limit(Some(Number(most))), expected, "{most}");
        }
    }
}
