//! Feed-forward layers: a gated pair, a mixture of such experts, and the two-layer projections.

use crate::backend::{Backend, Params, Result};
use crate::checkpoint::LoadError;
use crate::config::FfnConfig;
use crate::loader::Loader;

/// `down(silu(gate(x)) * up(x))`.
pub(crate) struct Gated<P: Params> {
    gate_up: P::Matrix,
    down: P::Matrix,
}

impl<P: Params> Gated<P> {
    fn load(
        l: &Loader<'_, P>,
        name: &str,
        hidden: usize,
        intermediate: usize,
    ) -> std::result::Result<Self, LoadError> {
        let parts = [
            (format!("{name}.gate_proj"), intermediate),
            (format!("{name}.up_proj"), intermediate),
        ];
        Ok(Self {
            gate_up: l.stacked(&parts, hidden)?,
            down: l.linear(&format!("{name}.down_proj"), hidden, intermediate, false)?,
        })
    }
}

impl<B: Backend> Gated<B> {
    fn forward(&self, b: &B, x: &B::Rows) -> Result<B::Rows> {
        b.linear(&self.down, &b.swiglu(&b.linear(&self.gate_up, x)?)?)
    }
}

/// A routed mixture of experts beside an always-used one.
pub(crate) struct Mixture<P: Params> {
    /// `[experts (+ 1: the shared expert's gate), hidden]`.
    router: P::Matrix,
    experts: Vec<Gated<P>>,
    shared: Option<Gated<P>>,
    hidden: usize,
    top_k: usize,
    normalise: bool,
}

impl<B: Backend> Mixture<B> {
    fn forward(&self, b: &B, x: &B::Rows, rows: usize) -> Result<B::Rows> {
        let scores = b.host(&b.linear(&self.router, x)?)?;
        let width = self.experts.len() + usize::from(self.shared.is_some());
        let chosen = self.route(&scores, width);
        let mut y = b.zeros(rows, self.hidden)?;
        if let Some(shared) = &self.shared {
            let gates: Vec<f32> = scores.chunks(width).map(|s| sigmoid(s[width - 1])).collect();
            let all: Vec<u32> = (0..).take(rows).collect();
            y = b.scatter_add(y, &all, Some(&gates), &shared.forward(b, x)?)?;
        }
        for (expert, (index, weight)) in self.experts.iter().zip(&chosen) {
            if index.is_empty() {
                continue;
            }
            let out = if index.len() == rows {
                expert.forward(b, x)?
            } else {
                expert.forward(b, &b.gather(x, index)?)?
            };
            y = b.scatter_add(y, index, Some(weight), &out)?;
        }
        Ok(y)
    }

    /// For every expert, its rows and their weights.
    fn route(&self, scores: &[f32], width: usize) -> Vec<(Vec<u32>, Vec<f32>)> {
        let experts = self.experts.len();
        let mut chosen = vec![(Vec::new(), Vec::new()); experts];
        for (row, scores) in (0..).zip(scores.chunks(width)) {
            let mut probabilities = softmax(&scores[..experts]);
            probabilities.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            probabilities.truncate(self.top_k);
            let sum: f32 = if self.normalise {
                probabilities.iter().map(|p| p.1).sum()
            } else {
                1.0
            };
            for (expert, p) in probabilities {
                chosen[expert].0.push(row);
                chosen[expert].1.push(p / sum);
            }
        }
        chosen
    }
}

fn softmax(scores: &[f32]) -> Vec<(usize, f32)> {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f32> = scores.iter().map(|s| (s - max).exp()).collect();
    let sum: f32 = exps.iter().sum();
    exps.into_iter().map(|e| e / sum).enumerate().collect()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The feed-forward part of a decoder layer.
pub(crate) enum Ffn<P: Params> {
    Dense(Gated<P>),
    Mixture(Mixture<P>),
}

impl<P: Params> Ffn<P> {
    pub(crate) fn load(
        l: &Loader<'_, P>,
        name: &str,
        hidden: usize,
        config: FfnConfig,
    ) -> std::result::Result<Self, LoadError> {
        let (experts, top_k, intermediate, shared, normalise) = match config {
            FfnConfig::Dense { intermediate } => {
                return Ok(Self::Dense(Gated::load(l, name, hidden, intermediate)?));
            }
            FfnConfig::Moe {
                experts,
                top_k,
                intermediate,
                shared,
                normalise,
            } => (experts, top_k, intermediate, shared, normalise),
        };
        let mut router = vec![(format!("{name}.gate"), experts)];
        if shared > 0 {
            router.push((format!("{name}.shared_expert_gate"), 1));
        }
        let expert = |i| Gated::load(l, &format!("{name}.experts.{i}"), hidden, intermediate);
        let shared = (shared > 0).then(|| Gated::load(l, &format!("{name}.shared_expert"), hidden, shared));
        Ok(Self::Mixture(Mixture {
            router: l.stacked(&router, hidden)?,
            experts: (0..experts).map(expert).collect::<std::result::Result<_, _>>()?,
            shared: shared.transpose()?,
            hidden,
            top_k,
            normalise,
        }))
    }
}

impl<B: Backend> Ffn<B> {
    pub(crate) fn forward(&self, b: &B, x: &B::Rows, rows: usize) -> Result<B::Rows> {
        match self {
            Self::Dense(gated) => gated.forward(b, x),
            Self::Mixture(mixture) => mixture.forward(b, x, rows),
        }
    }
}

/// `fc2(silu(fc1(x)))` with biases.
pub(crate) struct Mlp<P: Params> {
    fc1: P::Matrix,
    fc2: P::Matrix,
}

impl<P: Params> Mlp<P> {
    pub(crate) fn load(
        l: &Loader<'_, P>,
        name: &str,
        inputs: usize,
        inner: usize,
        out: usize,
    ) -> std::result::Result<Self, LoadError> {
        Ok(Self {
            fc1: l.linear(&format!("{name}.linear_fc1"), inner, inputs, true)?,
            fc2: l.linear(&format!("{name}.linear_fc2"), out, inner, true)?,
        })
    }
}

impl<B: Backend> Mlp<B> {
    pub(crate) fn forward(&self, b: &B, x: &B::Rows) -> Result<B::Rows> {
        b.linear(&self.fc2, &b.silu(b.linear(&self.fc1, x)?)?)
    }
}
