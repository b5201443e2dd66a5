//! The codec's encoder: from samples to the codes of frames. Convolutions that shorten, a causal transformer, and a
//! split residual quantizer. (Mimi; Défossez et al., "Moshi", 2024.)

use omni_backend::Angles;
use omni_backend::{Attention, AttentionShape, Batch, Normalisation, Params, Products, Result};

use crate::checkpoint::LoadError;
use crate::loader::Loader;

use super::config::{CodecEncoderConfig, DOWNSAMPLE};
use super::quantizer::ResidualQuantizer;
use super::signal::{Beyond, Signal, Stride, WholeConv};

type Load<T> = std::result::Result<T, LoadError>;

/// In front of all its tensors' names.
pub(super) const NAME: &str = "encoder.";

/// A residual unit, and the convolution that shortens.
struct Stage<P: Params> {
    unit: (WholeConv<P>, WholeConv<P>),
    shorten: WholeConv<P>,
}

struct Norm<P: Params> {
    weight: P::Vector,
    bias: P::Vector,
}

struct Layer<P: Params> {
    attn_norm: Norm<P>,
    qkv: P::Matrix,
    out: P::Matrix,
    attn_scale: P::Vector,
    ffn_norm: Norm<P>,
    fc1: P::Matrix,
    fc2: P::Matrix,
    ffn_scale: P::Vector,
}

pub(super) struct CodecEncoder<P: Params> {
    config: CodecEncoderConfig,
    first: WholeConv<P>,
    stages: Vec<Stage<P>>,
    last: WholeConv<P>,
    layers: Vec<Layer<P>>,
    shape: AttentionShape,
    angles: Angles,
    downsample: WholeConv<P>,
    quantizer: ResidualQuantizer<P>,
}

fn conv<P: Params>(
    l: &Loader<'_, P>,
    name: &str,
    shape: (usize, usize),
    taps: usize,
    step: usize,
) -> Load<WholeConv<P>> {
    let stride = Stride {
        taps,
        step,
        dilation: 1,
        beyond: Beyond::Zeros,
    };
    WholeConv::load(
        l,
        &format!("{NAME}encoder.layers.{name}.conv"),
        shape,
        stride,
        true,
    )
}

impl<P: Params> Norm<P> {
    fn load(l: &Loader<'_, P>, name: &str, width: usize) -> Load<Self> {
        Ok(Self {
            weight: l.vector(&format!("{name}.weight"), width)?,
            bias: l.vector(&format!("{name}.bias"), width)?,
        })
    }
}

impl<P: Params> Layer<P> {
    fn load(l: &Loader<'_, P>, index: usize, c: &CodecEncoderConfig) -> Load<Self> {
        let name = format!("{NAME}encoder_transformer.layers.{index}");
        let hidden = c.hidden;
        let width = c.heads * c.head_dim;
        let qkv = ["q_proj", "k_proj", "v_proj"].map(|part| (format!("{name}.self_attn.{part}"), width));
        let linear = |part: &str, out, inputs| l.linear(&format!("{name}.{part}"), out, inputs, false);
        Ok(Self {
            attn_norm: Norm::load(l, &format!("{name}.input_layernorm"), hidden)?,
            qkv: l.stacked(&qkv, hidden)?,
            out: linear("self_attn.o_proj", hidden, width)?,
            attn_scale: l.vector(&format!("{name}.self_attn_layer_scale.scale"), hidden)?,
            ffn_norm: Norm::load(l, &format!("{name}.post_attention_layernorm"), hidden)?,
            fc1: linear("mlp.fc1", c.ffn, hidden)?,
            fc2: linear("mlp.fc2", hidden, c.ffn)?,
            ffn_scale: l.vector(&format!("{name}.mlp_layer_scale.scale"), hidden)?,
        })
    }
}

impl<P: Params> CodecEncoder<P> {
    pub(super) fn load(l: &Loader<'_, P>, c: &CodecEncoderConfig) -> Load<Self> {
        // Activations have numbers in the published list of layers, too: three per stage.
        let stage = |(i, &ratio): (usize, &usize)| {
            let at = 1 + 3 * i;
            let channels = c.filters << i;
            let inner = (channels / c.compress).max(1);
            Ok(Stage {
                unit: (
                    conv(
                        l,
                        &format!("{at}.block.1"),
                        (inner, channels),
                        c.residual_kernel,
                        1,
                    )?,
                    conv(l, &format!("{at}.block.3"), (channels, inner), 1, 1)?,
                ),
                shorten: conv(
                    l,
                    &(at + 2).to_string(),
                    (2 * channels, channels),
                    2 * ratio,
                    ratio,
                )?,
            })
        };
        let last = 2 + 3 * c.ratios.len();
        let downsample = Stride {
            taps: 2 * DOWNSAMPLE,
            step: DOWNSAMPLE,
            dilation: 1,
            beyond: Beyond::Edge,
        };
        Ok(Self {
            first: conv(l, "0", (c.filters, 1), c.kernel, 1)?,
            stages: c.ratios.iter().enumerate().map(stage).collect::<Load<_>>()?,
            last: conv(
                l,
                &last.to_string(),
                (c.hidden, c.filters << c.ratios.len()),
                c.last_kernel,
                1,
            )?,
            layers: (0..c.layers).map(|i| Layer::load(l, i, c)).collect::<Load<_>>()?,
            shape: AttentionShape {
                heads: c.heads,
                kv_heads: c.heads,
                head_dim: c.head_dim,
                eps: 0.0,
                // The reference implementation has a window in its configuration and, without FlashAttention, does not
                // use it.
                window: None,
            },
            angles: Angles::new(c.head_dim, c.theta, None),
            downsample: WholeConv::load(
                l,
                &format!("{NAME}downsample.conv"),
                (c.hidden, c.hidden),
                downsample,
                false,
            )?,
            quantizer: ResidualQuantizer::load(l, &format!("{NAME}quantizer"), c)?,
            config: c.clone(),
        })
    }
}

fn elu(v: f32) -> f32 {
    if v > 0.0 { v } else { v.exp_m1() }
}

impl<B: Products + Normalisation + Attention> CodecEncoder<B> {
    /// The codes of every frame of a recording; the last frame may be cut short.
    pub(super) fn forward(&self, b: &B, samples: &[f32]) -> Result<Vec<Vec<u32>>> {
        let mut x = self.first.causal(b, &Signal::new(samples.to_vec(), 1))?;
        for stage in &self.stages {
            let h = stage.unit.0.causal(b, &x.clone().map(elu))?.map(elu);
            x = x.plus(&stage.unit.1.causal(b, &h)?).map(elu);
            x = stage.shorten.causal(b, &x)?;
        }
        let x = self.last.causal(b, &x.map(elu))?;
        let x = self.downsample.causal(b, &self.transform(b, x)?)?;
        let mut frames = self.quantizer.codes(b, x)?;
        frames.truncate(samples.len().div_ceil(self.config.samples_per_frame()));
        Ok(frames)
    }

    fn transform(&self, b: &B, x: Signal) -> Result<Signal> {
        let len = x.len();
        let width = x.channels;
        let mut batch = Batch::default();
        batch.push(0, len, 0, |p| u32::try_from(p).unwrap_or(u32::MAX));
        let places = b.places(&batch, &self.angles, &self.shape)?;
        let mut x = b.rows(width, x.values)?;
        let norm = |norm: &Norm<B>, x: &B::Rows| b.layer_norm(&norm.weight, &norm.bias, self.config.eps, x);
        for layer in &self.layers {
            let mut kv = b.kv(len, self.shape.kv_width())?;
            let qkv = b.linear(&layer.qkv, &norm(&layer.attn_norm, &x)?)?;
            let heads = b.attention(&self.shape, None, qkv, &places, &batch, &mut kv)?;
            x = b.add(x, &b.linear(&layer.out, &heads)?, Some(&layer.attn_scale))?;
            let h = b.gelu(b.linear(&layer.fc1, &norm(&layer.ffn_norm, &x)?)?)?;
            x = b.add(x, &b.linear(&layer.fc2, &h)?, Some(&layer.ffn_scale))?;
        }
        Ok(Signal::new(b.host(&x)?, width))
    }
}
