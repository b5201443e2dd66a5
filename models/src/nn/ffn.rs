//! Feed-forward layers: a gated pair, a mixture of such experts, and the two-layer projections.

use omni_backend::{Norm, Params, Products, Result, Routing};

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

/// A routed mixture of experts beside an always-used one.
pub(crate) struct Mixture<P: Params> {
    /// `[experts (+ 1: the shared expert's gate), hidden]`.
    router: P::Matrix,
    experts: P::Experts,
    shared: Option<Gated<P>>,
    routing: Routing,
}

impl<B: Products> Mixture<B> {
    /// `x` plus `scale` times the mixture of experts of its normalised rows.
    fn forward(&self, b: &B, x: B::Rows, norm: Norm<'_, B>, scale: Option<&B::Vector>) -> Result<B::Rows> {
        let mixture = omni_backend::Mixture {
            router: &self.router,
            experts: &self.experts,
            shared: self.shared.as_ref().map(|s| (&s.gate_up, &s.down)),
            routing: self.routing,
        };
        match scale {
            None => b.norm_mixture_add(x, norm, &mixture),
            Some(_) => omni_backend::add_mixture(b, x, norm, &mixture, scale),
        }
    }
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
        let expert = |i| {
            let gated = Gated::load(l, &format!("{name}.experts.{i}"), hidden, intermediate)?;
            Ok((gated.gate_up, gated.down))
        };
        let matrices = (0..experts)
            .map(expert)
            .collect::<std::result::Result<_, LoadError>>()?;
        let shared = (shared > 0).then(|| Gated::load(l, &format!("{name}.shared_expert"), hidden, shared));
        Ok(Self::Mixture(Mixture {
            router: l.router(&router, hidden)?,
            experts: l.experts(&format!("{name}.experts"), matrices)?,
            shared: shared.transpose()?,
            routing: Routing {
                experts,
                top_k,
                normalise,
            },
        }))
    }
}

impl<B: Products> Ffn<B> {
    /// `x` plus `scale` times the layer's output for its normalised rows.
    pub(crate) fn forward(
        &self,
        b: &B,
        x: B::Rows,
        norm: Norm<'_, B>,
        scale: Option<&B::Vector>,
    ) -> Result<B::Rows> {
        match self {
            Self::Dense(gated) => {
                let inner = b.norm_gated(norm, &gated.gate_up, &x)?;
                b.linear_add(x, scale, &gated.down, &inner)
            }
            Self::Mixture(mixture) => mixture.forward(b, x, norm, scale),
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

impl<B: Products> Mlp<B> {
    pub(crate) fn forward(&self, b: &B, x: &B::Rows) -> Result<B::Rows> {
        b.linear(&self.fc2, &b.linear_silu(&self.fc1, x)?)
    }
}
