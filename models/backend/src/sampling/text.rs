//! Sampling of text tokens: as for codes, plus penalties.
//!
//! Order as in vLLM: repetition penalty (over prompt and generated tokens), frequency and presence penalties (over
//! generated tokens), minimum length, temperature, min-p, top-k, top-p, softmax, draw.

use std::collections::BTreeMap;

use super::{Draw, NotFinite, SamplingError, argmax, draw, id, penalised};

/// Sampling parameters of a text token. The default is greedy, without penalties.
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

/// Tokens of the prompt and of the reply, each with how often it is in the reply.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Counts of single tokens, kept only if there are penalties.
    counts: Option<BTreeMap<u32, u32>>,
    generated: usize,
}

impl Tally {
    /// Tally of a reply to `prompt` before its first token.
    pub fn new(sampling: &TextSampling, prompt: &[u32]) -> Self {
        let counts = sampling.penalises();
        Self {
            counts: counts.then(|| prompt.iter().map(|&id| (id, 0)).collect()),
            generated: 0,
        }
    }

    /// A token of the reply.
    pub fn add(&mut self, token: u32) {
        self.generated += 1;
        if let Some(counts) = &mut self.counts {
            *counts.entry(token).or_insert(0) += 1;
        }
    }
}

/// Text so far, and the tokens that would end it.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    pub tally: &'a Tally,
    /// Tokens that end the text.
    pub ends: &'a [u32],
}

/// Change of one token's logit before the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    pub id: u32,
    /// `true` if the repetition penalty, which comes first, applies to it.
    pub said: bool,
    /// Amount subtracted from its logit then.
    pub(crate) less: f32,
    /// `true` if it cannot be chosen.
    pub hidden: bool,
}

impl TextSampling {
    #[expect(clippy::float_cmp, reason = "exactly 1 and 0 are the neutral settings")]
    fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// The changes of the logits of `vocab` tokens, in order of id, none twice.
    #[expect(clippy::float_cmp, reason = "exactly 1 and 0 are the neutral settings")]
    pub(crate) fn changes(&self, said: Said<'_>, vocab: usize) -> Vec<Change> {
        let repeats = self.repetition_penalty != 1.0;
        let change = |(&id, &count): (&u32, &u32)| Change {
            id,
            said: repeats,
            less: match count {
                0 => 0.0,
                count => self.presence_penalty + self.frequency_penalty * count as f32,
            },
            hidden: false,
        };
        let counts = said.tally.counts.iter().flatten();
        let mut changes: Vec<Change> = counts
            .map(change)
            .filter(|c| (c.said || c.less != 0.0) && (c.id as usize) < vocab)
            .collect();
        if said.tally.generated < self.min_tokens as usize {
            for &id in said.ends.iter().filter(|&&id| (id as usize) < vocab) {
                match changes.binary_search_by_key(&id, |c| c.id) {
                    Ok(at) => changes[at].hidden = true,
                    Err(at) => changes.insert(
                        at,
                        Change {
                            id,
                            said: false,
                            less: 0.0,
                            hidden: true,
                        },
                    ),
                }
            }
        }
        changes
    }
}

/// Choice of a token, and the outputs besides it.
#[derive(Debug, Clone, Copy)]
pub struct TextChoice<'a> {
    pub sampling: &'a TextSampling,
    pub said: Said<'a>,
    pub place: Draw,
    /// `true` if its log-probability is returned.
    pub logprob: bool,
}

/// A token that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen {
    pub token: u32,
    /// See [`log_probability`].
    pub logprob: Option<f32>,
}

impl TextChoice<'_> {
    /// The token for these logits.
    pub(crate) fn make(&self, logits: &[f32]) -> Result<Chosen, NotFinite> {
        let token = sample_text(&mut logits.to_vec(), self.sampling, self.said, self.place)?;
        Ok(Chosen {
            token,
            logprob: self.logprob.then(|| log_probability(logits, token)),
        })
    }
}

/// Chooses a token. `logits` is scratch afterwards.
fn sample_text(logits: &mut [f32], s: &TextSampling, said: Said<'_>, place: Draw) -> Result<u32, NotFinite> {
    if let Some(id) = logits.iter().position(|l| !l.is_finite()) {
        return Err(NotFinite { id: Some(id) });
    }
    for change in s.changes(said, logits.len()) {
        let logit = &mut logits[change.id as usize];
        if change.said {
            *logit = penalised(*logit, s.repetition_penalty);
        }
        *logit = (*logit - change.less).clamp(f32::MIN, f32::MAX);
        if change.hidden {
            *logit = f32::NEG_INFINITY;
        }
    }
    if s.temperature <= 0.0 {
        return Ok(id(argmax(logits)));
    }
    Ok(draw(logits, s.temperature, s.top_k, s.top_p, s.min_p, place))
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

    /// The token after `prompt` and `generated`.
    fn after(logits: &[f32], s: TextSampling, [prompt, generated]: [&[u32]; 2], place: Draw) -> u32 {
        let mut tally = Tally::new(&s, prompt);
        generated.iter().for_each(|&id| tally.add(id));
        let said = Said {
            tally: &tally,
            ends: &[1, 2, 900],
        };
        sample_text(&mut logits.to_vec(), &s, said, place).expect("finite")
    }

    fn greedy(logits: &[f32], s: TextSampling, said: [&[u32]; 2]) -> u32 {
        after(logits, s, said, PLACE)
    }

    #[test]
    fn repetition_is_counted_over_the_prompt_and_the_reply() {
        let s = TextSampling {
            repetition_penalty: 2.0,
            ..TextSampling::default()
        };
        let logits = [4.0, 3.0, 2.5];
        assert_eq!(greedy(&logits, s, [&[], &[]]), 0);
        assert_eq!(greedy(&logits, s, [&[0, 7], &[]]), 1);
        assert_eq!(greedy(&logits, s, [&[0], &[1, 1]]), 2);
    }

    #[test]
    fn presence_counts_once_and_frequency_every_time() {
        let logits = [3.0, 1.5];
        let said: [&[u32]; 2] = [&[0], &[0, 0, 0]];
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
        assert_eq!(greedy(&logits, frequency, [&[0], &[]]), 0);
    }

    #[test]
    fn no_end_is_chosen_before_the_minimum() {
        let s = TextSampling {
            min_tokens: 2,
            ..TextSampling::default()
        };
        let logits = [1.0, 9.0, 8.0];
        assert_eq!(greedy(&logits, s, [&[], &[0]]), 0);
        assert_eq!(greedy(&logits, s, [&[], &[0, 0]]), 1);
    }

    #[test]
    fn a_token_that_ends_and_was_said_is_changed_once() {
        let s = TextSampling {
            repetition_penalty: 1.5,
            frequency_penalty: 0.5,
            min_tokens: 9,
            ..TextSampling::default()
        };
        let mut tally = Tally::new(&s, &[4, 8, 4]);
        [2, 2, 800].into_iter().for_each(|id| tally.add(id));
        let said = Said {
            tally: &tally,
            ends: &[2, 3, 3, 700],
        };
        let change = |id, less, hidden| Change {
            id,
            said: id != 3,
            less,
            hidden,
        };
        let expected = [
            change(2, 1.0, true),
            change(3, 0.0, true),
            change(4, 0.0, false),
            change(8, 0.0, false),
        ];
        assert_eq!(s.changes(said, 100), expected);
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
                after(&logits, s, [&[], &[]], place)
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
