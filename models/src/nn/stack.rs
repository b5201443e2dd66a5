//! A stack of decoder layers: the body of the thinker, of the talker, of the code predictor and of code2wav's first
//! part.
//!
//! `x += attention(norm(x)); x += ffn(norm(x))` per layer, with grouped-query attention, rotary positions (the two
//! halves of a head rotate against each other), optional norms on query and key heads and optional residual scales.

use omni_backend::{Attention, AttentionShape, Batch, Norm, Params, Products, Result, RowIndexing};

use crate::checkpoint::LoadError;
use crate::config::StackConfig;
use crate::loader::Loader;
use omni_backend::Angles;

use super::ffn::Ffn;

struct Layer<P: Params> {
    attn_norm: P::Vector,
    qkv: P::Matrix,
    qk_norm: Option<(P::Vector, P::Vector)>,
    out: P::Matrix,
    attn_scale: Option<P::Vector>,
    ffn_norm: P::Vector,
    ffn: Ffn<P>,
    ffn_scale: Option<P::Vector>,
}

/// The layers and the norm that follows them.
pub(crate) struct Stack<P: Params> {
    layers: Vec<Layer<P>>,
    norm: P::Vector,
    shape: AttentionShape,
    angles: Angles,
}

/// Rows to capture on their way through the layers.
pub(crate) struct Tap<'a> {
    /// The layer whose input is wanted; as many as there are layers: the output after the final norm.
    pub(crate) layer: usize,
    /// Rows of the batch.
    pub(crate) rows: &'a [u32],
}

impl<P: Params> Stack<P> {
    /// Loads `{name}.layers.*` and `{name}.norm`.
    pub(crate) fn load(
        l: &Loader<'_, P>,
        name: &str,
        c: &StackConfig,
    ) -> std::result::Result<Self, LoadError> {
        let shape = AttentionShape {
            heads: c.heads,
            kv_heads: c.kv_heads,
            head_dim: c.head_dim,
            eps: c.eps,
            window: c.window,
        };
        let layer = |i| Layer::load(l, &format!("{name}.layers.{i}"), c, &shape, i);
        Ok(Self {
            layers: (0..c.ffn.len())
                .map(layer)
                .collect::<std::result::Result<_, _>>()?,
            norm: l.vector(&format!("{name}.norm.weight"), c.hidden)?,
            shape,
            angles: Angles::new(c.head_dim, c.rope_theta, c.mrope),
        })
    }
}

impl<P: Params> Layer<P> {
    fn load(
        l: &Loader<'_, P>,
        name: &str,
        c: &StackConfig,
        shape: &AttentionShape,
        index: usize,
    ) -> std::result::Result<Self, LoadError> {
        let attn = format!("{name}.self_attn");
        let qkv = [
            ("q_proj", shape.q_width()),
            ("k_proj", shape.kv_width()),
            ("v_proj", shape.kv_width()),
        ];
        let qkv = qkv.map(|(part, out)| (format!("{attn}.{part}"), out));
        let vector = |part: &str, len| l.vector(&format!("{name}.{part}"), len);
        let scale = |part: &str| c.layer_scale.then(|| vector(part, c.hidden)).transpose();
        let qk_norm = if c.qk_norm {
            Some((
                vector("self_attn.q_norm.weight", c.head_dim)?,
                vector("self_attn.k_norm.weight", c.head_dim)?,
            ))
        } else {
            None
        };
        Ok(Self {
            attn_norm: vector("input_layernorm.weight", c.hidden)?,
            qkv: l.stacked(&qkv, c.hidden)?,
            qk_norm,
            out: l.linear(&format!("{attn}.o_proj"), c.hidden, shape.q_width(), false)?,
            attn_scale: scale("self_attn_layer_scale.scale")?,
            ffn_norm: vector("post_attention_layernorm.weight", c.hidden)?,
            ffn: Ffn::load(l, &format!("{name}.mlp"), c.hidden, c.ffn[index])?,
            ffn_scale: scale("mlp_layer_scale.scale")?,
        })
    }
}

impl<B: Products + RowIndexing + Attention> Stack<B> {
    /// A cache of `slots` positions for every layer.
    pub(crate) fn kv(&self, b: &B, slots: usize) -> Result<Vec<B::Kv>> {
        self.layers
            .iter()
            .map(|_| b.kv(slots, self.shape.kv_width()))
            .collect()
    }

    /// `x [rows of the batch, hidden]` through all layers, without the final norm.
    pub(crate) fn forward(&self, b: &B, x: B::Rows, batch: &Batch, kv: &mut [B::Kv]) -> Result<B::Rows> {
        let nothing = Tap { layer: 0, rows: &[] };
        Ok(self.forward_tapped(b, x, batch, kv, &nothing)?.0)
    }

    /// As [`Stack::forward`], with the tapped rows `[tapped, hidden]`.
    pub(crate) fn forward_tapped(
        &self,
        b: &B,
        mut x: B::Rows,
        batch: &Batch,
        kv: &mut [B::Kv],
        tap: &Tap<'_>,
    ) -> Result<(B::Rows, Option<B::Rows>)> {
        let places = b.places(batch, &self.angles, &self.shape)?;
        let mut tapped = None;
        let norm = |weight| Norm {
            weight,
            eps: self.shape.eps,
        };
        for (i, (layer, kv)) in self.layers.iter().zip(kv).enumerate() {
            if i == tap.layer && !tap.rows.is_empty() {
                tapped = Some(b.gather(&x, tap.rows)?);
            }
            let qkv = b.norm_linear(norm(&layer.attn_norm), &layer.qkv, &x)?;
            let norms = layer.qk_norm.as_ref().map(|(q, k)| (q, k));
            let heads = b.attention(&self.shape, norms, qkv, &places, batch, kv)?;
            x = b.linear_add(x, layer.attn_scale.as_ref(), &layer.out, &heads)?;
            x = layer
                .ffn
                .forward(b, x, norm(&layer.ffn_norm), layer.ffn_scale.as_ref())?;
        }
        if tap.layer >= self.layers.len() && !tap.rows.is_empty() {
            tapped = Some(self.norm(b, &b.gather(&x, tap.rows)?)?);
        }
        Ok((x, tapped))
    }

    /// The norm after the last layer.
    pub(crate) fn norm(&self, b: &B, x: &B::Rows) -> Result<B::Rows> {
        b.rms_norm(&self.norm, self.shape.eps, x)
    }

    /// The norm after the last layer, to be applied.
    pub(crate) fn last_norm(&self) -> Norm<'_, B> {
        Norm {
            weight: &self.norm,
            eps: self.shape.eps,
        }
    }

    /// A product with the output of [`Stack::norm`].
    pub(crate) fn norm_linear(&self, b: &B, w: &B::Matrix, x: &B::Rows) -> Result<B::Rows> {
        b.norm_linear(self.last_norm(), w, x)
    }
}
