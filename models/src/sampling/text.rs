//! Choosing a text token: what the codes' sampling does, and the penalties that text needs.
//!
//! Order: repetition penalty (over prompt and generated tokens), frequency and presence penalties (over generated
//! tokens), minimum length, temperature, min-p, top-k, top-p, softmax, draw: as vLLM does it.

use std::collections::BTreeMap;

use super::{Draw, NotFinite, SamplingError, argmax, draw, id, penalise};

/// How to choose a token of text from its logits. The default is greedy, without penalties.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextSampling {
    /// Divides the logits; 0 takes the most likely token (greedy).
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens (and those that tie with the last of them); 0 keeps all.
    pub top_k: u32,
    /// Keeps the most likely tokens until their probabilities reach `top_p`, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// Drops tokens less likely than `min_p` times the likeliest, in [0, 1]; 0 keeps all.
    pub min_p: f32,
    /// Divides (or, if negative, multiplies) the logits of tokens in the prompt or already generated; 1 changes
    /// nothing.
    pub repetition_penalty: f32,
    /// Taken from the logits of tokens already generated, in [-2, 2].
    pub presence_penalty: f32,
    /// Taken from the logits of tokens already generated, as often as they were, in [-2, 2].
    pub frequency_penalty: f32,
    /// Tokens that must come before one that ends the text may be chosen.
    pub min_tokens: u32,
}

impl Default for TextSampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            min_tokens: 0,
        }
    }
}

impl TextSampling {
    /// Checks every setting's range.
    ///
    /// # Errors
    /// [`SamplingError`] for the first setting outside its range.
    pub fn validate(&self) -> Result<(), SamplingError> {
        const PENALTY: &str = "a number from -2 to 2";
        let penalty = |v: f32| (-2.0..=2.0).contains(&v);
        let repetition = self.repetition_penalty;
        let checks = [
            (
                "temperature",
                self.temperature,
                self.temperature.is_finite() && self.temperature >= 0.0,
                "a number of at least 0",
            ),
            (
                "top_p",
                self.top_p,
                self.top_p > 0.0 && self.top_p <= 1.0,
                "a number above 0 and at most 1",
            ),
            (
                "min_p",
                self.min_p,
                (0.0..=1.0).contains(&self.min_p),
                "a number from 0 to 1",
            ),
            (
                "repetition_penalty",
                repetition,
                repetition.is_finite() && repetition > 0.0,
                "a number above 0",
            ),
            (
                "presence_penalty",
                self.presence_penalty,
                penalty(self.presence_penalty),
                PENALTY,
            ),
            (
                "frequency_penalty",
                self.frequency_penalty,
                penalty(self.frequency_penalty),
                PENALTY,
            ),
        ];
        SamplingError::first(&checks)
    }
}

/// What has been said so far, and what would end it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    /// Tokens of the prompt.
    pub(crate) prompt: &'a [u32],
    /// Tokens generated so far (repeats allowed).
    pub(crate) generated: &'a [u32],
    /// Tokens that end the text.
    pub(crate) ends: &'a [u32],
}

/// Chooses a token. `logits` is scratch afterwards.
pub(crate) fn sample_text(
    logits: &mut [f32],
    s: &TextSampling,
    said: Said<'_>,
    place: Draw,
) -> Result<u32, NotFinite> {
    if let Some(id) = logits.iter().position(|l| !l.is_finite()) {
        return Err(NotFinite { id: Some(id) });
    }
    penalise(logits, s.repetition_penalty, [said.prompt, said.generated]);
    penalise_counts(logits, s, said.generated);
    if said.generated.len() < s.min_tokens as usize {
        for &end in said.ends {
            if let Some(logit) = logits.get_mut(end as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    if s.temperature <= 0.0 {
        return Ok(id(argmax(logits)));
    }
    Ok(draw(logits, s.temperature, s.top_k, s.top_p, s.min_p, place))
}

fn penalise_counts(logits: &mut [f32], s: &TextSampling, generated: &[u32]) {
    if s.presence_penalty == 0.0 && s.frequency_penalty == 0.0 {
        return;
    }
    let mut counts = BTreeMap::new();
    for &id in generated {
        *counts.entry(id).or_insert(0_u32) += 1;
    }
    for (id, count) in counts {
        if let Some(logit) = logits.get_mut(id as usize) {
            *logit -= s.presence_penalty + s.frequency_penalty * count as f32;
            *logit = logit.clamp(f32::MIN, f32::MAX);
        }
    }
}

/// Natural logarithm of the probability that `logits`, as computed, give to `id`.
pub(crate) fn log_probability(logits: &[f32], id: u32) -> f32 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|l| (l - max).exp()).sum();
    logits
        .get(id as usize)
        .map_or(f32::NEG_INFINITY, |l| l - max - sum.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Draw = Draw {
        seed: 7,
        step: 0,
        group: 0,
    };

    fn nothing() -> Said<'static> {
        Said {
            prompt: &[],
            generated: &[],
            ends: &[],
        }
    }

    fn greedy(logits: &[f32], s: TextSampling, said: Said<'_>) -> u32 {
        sample_text(&mut logits.to_vec(), &s, said, PLACE).expect("finite")
    }

    #[test]
    fn repetition_is_counted_over_the_prompt_and_the_reply() {
        let s = TextSampling {
            repetition_penalty: 2.0,
            ..TextSampling::default()
        };
        let logits = [4.0, 3.0, 2.5];
        assert_eq!(greedy(&logits, s, nothing()), 0);
        let prompt = Said {
            prompt: &[0],
            ..nothing()
        };
        assert_eq!(greedy(&logits, s, prompt), 1);
        let both = Said {
            generated: &[1, 1],
            ..prompt
        };
        assert_eq!(greedy(&logits, s, both), 2);
    }

    #[test]
    fn presence_counts_once_and_frequency_every_time() {
        let logits = [3.0, 1.5];
        let said = Said {
            generated: &[0, 0, 0],
            ..nothing()
        };
        let presence = TextSampling {
            presence_penalty: 1.0,
            ..TextSampling::default()
        };
        let frequency = TextSampling {
            frequency_penalty: 1.0,
            ..TextSampling::default()
        };
        assert_eq!(greedy(&logits, presence, said), 0);
        assert_eq!(greedy(&logits, frequency, said), 1);
        assert_eq!(greedy(&logits, frequency, nothing()), 0);
    }

    #[test]
    fn no_end_is_chosen_before_the_minimum() {
        let s = TextSampling {
            min_tokens: 2,
            ..TextSampling::default()
        };
        let logits = [1.0, 9.0, 8.0];
        let after = |generated| Said {
            generated,
            ends: &[1, 2, 900],
            ..nothing()
        };
        assert_eq!(greedy(&logits, s, after(&[0])), 0);
        assert_eq!(greedy(&logits, s, after(&[0, 0])), 1);
    }

    #[test]
    fn min_p_drops_what_is_far_less_likely_than_the_best() {
        let s = TextSampling {
            temperature: 1.0,
            min_p: 0.5,
            ..TextSampling::default()
        };
        // Half as likely as the best is -0.69: the second stays, the third goes.
        let logits = [0.0, -0.6, -0.8];
        let mut drawn: Vec<u32> = (0..200)
            .map(|step| {
                let place = Draw { step, ..PLACE };
                sample_text(&mut logits.to_vec(), &s, nothing(), place).expect("finite")
            })
            .collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [0, 1]);
    }

    #[test]
    fn probabilities_are_those_of_the_softmax() {
        let logits = [1.0_f32, 2.0, -1.0];
        let total: f32 = logits.iter().map(|l| l.exp()).sum();
        for id in 0..3 {
            let expected = logits[id as usize].exp() / total;
            assert!((log_probability(&logits, id).exp() - expected).abs() < 1e-6);
        }
        assert_eq!(log_probability(&logits, 9), f32::NEG_INFINITY);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let plain = TextSampling::default();
        let cases = [
            (
                TextSampling { min_p: 1.5, ..plain },
                "min_p is 1.5, expected a number from 0 to 1",
            ),
            (
                TextSampling {
                    presence_penalty: f32::NAN,
                    ..plain
                },
                "presence_penalty is NaN, expected a number from -2 to 2",
            ),
            (
                TextSampling {
                    frequency_penalty: -3.0,
                    ..plain
                },
                "frequency_penalty is -3, expected a number from -2 to 2",
            ),
        ];
        for (s, expected) in cases {
            assert_eq!(s.validate().expect_err("out of range").to_string(), expected);
        }
        assert_eq!(plain.validate(), Ok(()));
    }
}
