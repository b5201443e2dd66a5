//! From logits to a code: the reference implementation's order of operations, with random numbers that depend on
//! nothing but the request.
//!
//! Order: repetition penalty, minimum length, suppressed ids, temperature, top-k, top-p, softmax, draw.
//! (Hugging Face transformers, `generation/logits_process.py`.)

mod text;

use crate::philox::uniform;
#[cfg(any(feature = "cuda", feature = "emulator"))]
pub(crate) use text::Change;
pub(crate) use text::Chosen;
pub use text::TextSampling;
pub use text::{Said, Tally, TextChoice};

/// Sampling parameters of a code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the most likely code (greedy).
    pub temperature: f32,
    /// Keeps the `top_k` most likely codes (and those that tie with the last of them); 0 keeps all.
    pub top_k: u32,
    /// Keeps the most likely codes until their probabilities reach `top_p`, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// Divides (or, if negative, multiplies) the logits of codes already generated; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Codes that must come before the end may be chosen.
    pub min_tokens: u32,
}

/// A sampling setting outside its range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{field} is {found}, expected {expected}")]
pub struct SamplingError {
    /// Name of the setting.
    pub field: &'static str,
    /// Its value.
    pub found: f32,
    /// Its range, in words.
    pub expected: &'static str,
}

impl Sampling {
    /// Greedy variant: always the most likely code.
    #[must_use]
    pub fn greedy(self) -> Self {
        Self {
            temperature: 0.0,
            ..self
        }
    }

    /// Checks every setting's range.
    ///
    /// # Errors
    /// [`SamplingError`] for the first setting outside its range.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let finite = |v: f32| v.is_finite();
        let checks = [
            (
                "temperature",
                self.temperature,
                finite(self.temperature) && self.temperature >= 0.0,
                "a number of at least 0",
            ),
            (
                "top_p",
                self.top_p,
                self.top_p > 0.0 && self.top_p <= 1.0,
                "a number above 0 and at most 1",
            ),
            (
                "repetition_penalty",
                self.repetition_penalty,
                finite(self.repetition_penalty) && self.repetition_penalty > 0.0,
                "a number above 0",
            ),
        ];
        SamplingError::first(&checks)
    }
}

impl SamplingError {
    /// The first failed check of (setting, value, in range, the range in words).
    fn first(checks: &[(&'static str, f32, bool, &'static str)]) -> Result<(), Self> {
        match checks.iter().find(|(.., ok, _)| !ok) {
            Some(&(field, found, _, expected)) => Err(Self {
                field,
                found,
                expected,
            }),
            None => Ok(()),
        }
    }
}

/// The place of one draw in one request's stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    pub seed: u64,
    /// Codec frame or text token, from 0.
    pub step: u32,
    /// Code within the frame, from 0.
    pub group: u32,
}

/// Limits of a choice besides the sampling parameters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits<'a> {
    /// Codes already generated (repeats allowed).
    pub generated: &'a [u32],
    /// Ids from here on are never chosen, except `end`.
    pub suppress_from: Option<usize>,
    /// The id that ends the sequence.
    pub end: Option<u32>,
}

/// All that decides the choice of one row's id besides its logits.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    pub sampling: &'a Sampling,
    pub limits: Limits<'a>,
    pub seed: u64,
    /// Codec frame, from 0.
    pub step: u32,
    /// Row of the ids given to [`Sampler::sample`](crate::Sampler::sample) with one more code that counts as
    /// generated, if only the device knows it yet.
    pub said: Option<u32>,
}

/// Set in a failure that stands in the place of an id; the other bits are the position of the offending logit, or all
/// set where that is not known.
const FAILED: u32 = 1 << 31;

impl<'a> Choice<'a> {
    /// The codes that a repetition penalty counts, `None` if there is no penalty.
    pub fn counted(&self) -> Option<&'a [u32]> {
        #[expect(clippy::float_cmp, reason = "exactly 1 is the neutral setting")]
        let penalised = self.sampling.repetition_penalty != 1.0;
        penalised.then_some(self.limits.generated)
    }

    /// The id for code `group` of the frame, or a failure in its place, see [`chosen`]. `logits` is scratch afterwards.
    pub(crate) fn make(&self, logits: &mut [f32], group: usize) -> u32 {
        let place = Draw {
            seed: self.seed,
            step: self.step,
            group: id(group),
        };
        sample(logits, self.sampling, self.limits, place)
            .unwrap_or_else(|e| FAILED | e.id.map_or(!FAILED, id))
    }
}

/// The id from `Choice::make`, or an error. Other rows continue when one fails, and the failed row stays in the
/// batch until its frame ends.
pub fn chosen(raw: u32) -> Result<u32, NotFinite> {
    if raw & FAILED == 0 {
        return Ok(raw);
    }
    let id = raw & !FAILED;
    let id = (id != !FAILED).then_some(id as usize);
    Err(NotFinite { id })
}

/// Logits that cannot be sampled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a logit is not a number or infinite{}", of(*id))]
pub struct NotFinite {
    /// The first such, if that is known.
    pub id: Option<usize>,
}

fn of(id: Option<usize>) -> String {
    id.map_or_else(String::new, |id| format!(" (id {id})"))
}

/// Chooses an id. `logits` is scratch afterwards.
pub fn sample(logits: &mut [f32], s: &Sampling, limits: Limits<'_>, place: Draw) -> Result<u32, NotFinite> {
    if let Some(id) = logits.iter().position(|l| !l.is_finite()) {
        return Err(NotFinite { id: Some(id) });
    }
    penalise(logits, s.repetition_penalty, limits.generated);
    restrict(logits, s, limits);
    if s.temperature <= 0.0 {
        return Ok(id(argmax(logits)));
    }
    Ok(draw(logits, s.temperature, s.top_k, s.top_p, 0.0, place))
}

/// Draws an id from the remaining logits.
fn draw(logits: &[f32], temperature: f32, k: u32, p: f32, min_p: f32, place: Draw) -> u32 {
    let mut kept = top_k(logits, k as usize);
    kept.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    softmax(&mut kept, temperature);
    if let Some(&(_, best)) = kept.first() {
        kept.retain(|(_, p)| *p >= min_p * best);
    }
    top_p(&mut kept, p);
    id(choose(&kept, uniform(place.seed, place.step, place.group)))
}

fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

pub fn penalise(logits: &mut [f32], penalty: f32, said: &[u32]) {
    #[expect(clippy::float_cmp, reason = "exactly 1 is the neutral setting")]
    if penalty == 1.0 {
        return;
    }
    let mut seen = vec![false; logits.len()];
    for &id in said {
        let id = id as usize;
        if let Some(logit) = logits.get_mut(id)
            && !std::mem::replace(&mut seen[id], true)
        {
            *logit = penalised(*logit, penalty);
        }
    }
}

fn penalised(logit: f32, penalty: f32) -> f32 {
    let changed = if logit < 0.0 {
        logit * penalty
    } else {
        logit / penalty
    };
    // Two infinite logits would have no difference.
    changed.clamp(f32::MIN, f32::MAX)
}

fn restrict(logits: &mut [f32], s: &Sampling, limits: Limits<'_>) {
    let end = limits
        .end
        .map(|end| end as usize)
        .filter(|&end| end < logits.len());
    let ending = end.map(|end| logits[end]);
    if let Some(from) = limits.suppress_from {
        let from = from.min(logits.len());
        logits[from..].fill(f32::NEG_INFINITY);
    }
    if let Some((end, logit)) = end.zip(ending) {
        let early = limits.generated.len() < s.min_tokens as usize;
        logits[end] = if early { f32::NEG_INFINITY } else { logit };
    }
}

/// The first of the largest, as the reference does.
fn argmax(logits: &[f32]) -> usize {
    let mut best = 0;
    for (i, &l) in logits.iter().enumerate() {
        if l > logits[best] {
            best = i;
        }
    }
    best
}

/// Ids and logits of the `k` largest and of those that tie with the last of them, in no order. 0 keeps all.
fn top_k(logits: &[f32], k: usize) -> Vec<(usize, f32)> {
    let mut kept: Vec<_> = logits
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, l)| l.is_finite())
        .collect();
    if k == 0 || k >= kept.len() {
        return kept;
    }
    let (_, &mut (_, threshold), _) = kept.select_nth_unstable_by(k - 1, |a, b| b.1.total_cmp(&a.1));
    kept.retain(|(_, l)| *l >= threshold);
    kept
}

/// Logits, largest first, to probabilities.
fn softmax(kept: &mut [(usize, f32)], temperature: f32) {
    let Some(&(_, max)) = kept.first() else { return };
    let mut sum = 0.0;
    for (_, l) in kept.iter_mut() {
        *l = ((*l - max) / temperature).exp();
        sum += *l;
    }
    for (_, l) in kept.iter_mut() {
        *l /= sum;
    }
}

/// Drops the least likely while those dropped sum to at most `1 - p`; keeps one at least.
fn top_p(kept: &mut Vec<(usize, f32)>, p: f32) {
    if p >= 1.0 {
        return;
    }
    let mut dropped = 0.0;
    while kept.len() > 1 {
        dropped += kept[kept.len() - 1].1;
        if dropped > 1.0 - p {
            break;
        }
        kept.pop();
    }
}

/// Inverse of the cumulative distribution at `u` in [0, 1).
fn choose(kept: &[(usize, f32)], u: f32) -> usize {
    let total: f32 = kept.iter().map(|(_, p)| p).sum();
    let mut left = u * total;
    for &(id, p) in kept {
        if left < p {
            return id;
        }
        left -= p;
    }
    kept.last().map_or(0, |&(id, _)| id)
}

#[cfg(test)]
mod tests;
