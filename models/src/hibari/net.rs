//! The networks: two text encoders, durations, prosody, and the decoder.

use std::fmt;

use omni_backend::{Act, AttentionShape, Conv, Depthwise, Params, Reach, Result, Taps, WholeSignals};

use crate::checkpoint::LoadError;
use crate::hibari::config::{HibariConfig, TextConfig};
use crate::loader::Loader;

type Load<T> = std::result::Result<T, LoadError>;

const EPS: f32 = 1e-5;
const TEXT_KERNEL: usize = 5;
const KERNEL: usize = 7;
/// Frames on each side that a decoded frame depends on, with eight blocks and the convolution before them.
pub(super) const HALO: usize = 9 * (KERNEL / 2);
/// Spectra of a frame: size and phase of the harmonics, size of the noise, size and phase of the rest.
pub(super) const PARTS: usize = 5;
/// Of what the prosody net gives, in Hz and as loudness.
const PITCH_SCALE: f32 = 100.0;
const ENERGY_SCALE: f32 = 5.0;

struct Norm<P: Params>(P::Vector, P::Vector);

/// A ConvNeXt block.
struct Block<P: Params> {
    depthwise: Depthwise<P>,
    norm: Norm<P>,
    widen: P::Matrix,
    narrow: P::Matrix,
    gamma: P::Vector,
}

struct TextEncoder<P: Params> {
    embedding: P::Table,
    blocks: Vec<Block<P>>,
    shape: AttentionShape,
    layers: usize,
    norm1: Norm<P>,
    qkv: P::Matrix,
    out: P::Matrix,
    norm2: Norm<P>,
    linear1: P::Matrix,
    linear2: P::Matrix,
    norm: Norm<P>,
}

pub(super) struct Net<P: Params> {
    acoustic: TextEncoder<P>,
    prosody: TextEncoder<P>,
    durations: (Conv<P>, Conv<P>),
    prosody_in: Conv<P>,
    prosody_blocks: Vec<Block<P>>,
    prosody_out: Conv<P>,
    enter: Conv<P>,
    blocks: Vec<Block<P>>,
    norm: Norm<P>,
    head: P::Matrix,
}

impl<P: Params> fmt::Debug for Net<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

fn norm<P: Params>(l: &Loader<'_, P>, name: &str, width: usize) -> Load<Norm<P>> {
    Ok(Norm(
        l.vector(&format!("{name}.weight"), width)?,
        l.vector(&format!("{name}.bias"), width)?,
    ))
}

impl<P: Params> Block<P> {
    fn load(l: &Loader<'_, P>, name: &str, (width, inner): (usize, usize), taps: Taps) -> Load<Self> {
        let depthwise = l.depthwise(&format!("{name}.dw"), width, taps.taps)?;
        Ok(Self {
            depthwise: Depthwise { taps, ..depthwise },
            norm: norm(l, &format!("{name}.norm"), width)?,
            widen: l.linear(&format!("{name}.pw1"), inner, width, true)?,
            narrow: l.linear(&format!("{name}.pw2"), width, inner, true)?,
            gamma: l.vector(&format!("{name}.gamma"), width)?,
        })
    }
}

impl<P: Params> TextEncoder<P> {
    fn load(l: &Loader<'_, P>, name: &str, tokens: usize, c: &TextConfig) -> Load<Self> {
        let width = c.width;
        let taps = Taps {
            taps: TEXT_KERNEL,
            dilation: 1,
        };
        let block = |i| Block::load(l, &format!("{name}.convs.{i}"), (width, 2 * width), taps);
        let attention = format!("{name}.attn.self_attn");
        Ok(Self {
            embedding: l.table(&format!("{name}.emb.weight"), tokens, width)?,
            blocks: (0..2).map(block).collect::<Load<_>>()?,
            shape: AttentionShape {
                heads: c.heads,
                kv_heads: c.heads,
                head_dim: width / c.heads,
                eps: EPS,
                window: None,
            },
            layers: c.layers,
            norm1: norm(l, &format!("{name}.attn.norm1"), width)?,
            qkv: l.matrix(
                &format!("{attention}.in_proj_weight"),
                &format!("{attention}.in_proj_bias"),
                3 * width,
                width,
            )?,
            out: l.linear(&format!("{attention}.out_proj"), width, width, true)?,
            norm2: norm(l, &format!("{name}.attn.norm2"), width)?,
            linear1: l.linear(&format!("{name}.attn.linear1"), 2 * width, width, true)?,
            linear2: l.linear(&format!("{name}.attn.linear2"), width, 2 * width, true)?,
            norm: norm(l, &format!("{name}.norm"), width)?,
        })
    }
}

impl<P: Params> Net<P> {
    pub(super) fn load(l: &Loader<'_, P>, c: &HibariConfig) -> Load<Self> {
        let width = c.prosody.width;
        let prosody_block = |(i, &dilation): (usize, &usize)| {
            let taps = Taps {
                taps: KERNEL,
                dilation,
            };
            Block::load(l, &format!("pn.pro.{i}"), (width, 2 * width), taps)
        };
        let taps = Taps {
            taps: KERNEL,
            dilation: 1,
        };
        let block = |i| Block::load(l, &format!("m.dec.{i}"), (c.width, c.inner), taps);
        Ok(Self {
            acoustic: TextEncoder::load(l, "m.text", c.tokens, &c.acoustic)?,
            prosody: TextEncoder::load(l, "pn.text", c.tokens, &c.prosody)?,
            durations: (
                l.conv("pn.dur.0", width, width, 3, 1)?,
                l.conv("pn.dur.2", 1, width, 1, 1)?,
            ),
            prosody_in: l.conv("pn.pro_in", width, width, 1, 1)?,
            prosody_blocks: c
                .dilations
                .iter()
                .enumerate()
                .map(prosody_block)
                .collect::<Load<_>>()?,
            prosody_out: l.conv("pn.pro_out", 4, width, 1, 1)?,
            enter: l.conv("m.dec_in", c.width, c.acoustic.width + 2, KERNEL, 1)?,
            blocks: (0..c.layers).map(block).collect::<Load<_>>()?,
            norm: norm(l, "m.dec_norm", c.width)?,
            head: l.linear("m.head", PARTS * (c.n_fft / 2 + 1), c.width, true)?,
        })
    }
}

impl<B: WholeSignals> Block<B> {
    fn forward(&self, b: &B, x: B::Rows, lens: &[usize]) -> Result<B::Rows> {
        let y = b.convolve_depthwise(&self.depthwise, &x, lens)?;
        let y = b.layer_norm(&self.norm.0, &self.norm.1, EPS, &y)?;
        let y = b.linear_gelu(&self.widen, &y)?;
        b.linear_add(x, Some(&self.gamma), &self.narrow, &y)
    }
}

impl<B: WholeSignals> TextEncoder<B> {
    fn forward(&self, b: &B, ids: &[u32], lens: &[usize]) -> Result<B::Rows> {
        let mut x = b.lookup(&self.embedding, &b.ids(1, ids.to_vec())?, 0)?;
        for block in &self.blocks {
            x = block.forward(b, x, lens)?;
        }
        for _ in 0..self.layers {
            let y = b.layer_norm(&self.norm1.0, &self.norm1.1, EPS, &x)?;
            let y = b.attention_within(&self.shape, &b.linear(&self.qkv, &y)?, lens)?;
            x = b.linear_add(x, None, &self.out, &y)?;
            let y = b.layer_norm(&self.norm2.0, &self.norm2.1, EPS, &x)?;
            let y = b.linear_gelu(&self.linear1, &y)?;
            x = b.linear_add(x, None, &self.linear2, &y)?;
        }
        b.layer_norm(&self.norm.0, &self.norm.1, EPS, &x)
    }
}

impl<B: WholeSignals> Net<B> {
    /// Outputs of both encoders for every id.
    pub(super) fn read(&self, b: &B, ids: &[u32], lens: &[usize]) -> Result<(B::Rows, B::Rows)> {
        Ok((
            self.acoustic.forward(b, ids, lens)?,
            self.prosody.forward(b, ids, lens)?,
        ))
    }

    /// `[ids, 1]`: logarithms of one more than the frames of every id.
    pub(super) fn log_durations(&self, b: &B, prosody: &B::Rows, lens: &[usize]) -> Result<B::Rows> {
        let (first, second) = &self.durations;
        let x = b.convolve(first, Act::None, prosody, lens, Reach::centred(first.taps))?;
        b.linear(&second.matrix, &b.gelu(x)?)
    }

    /// `[frames, 4]`: pitch of both halves of a frame, then their loudness.
    pub(super) fn prosody(&self, b: &B, frames: &B::Rows, lens: &[usize]) -> Result<B::Rows> {
        let mut x = b.linear(&self.prosody_in.matrix, frames)?;
        for block in &self.prosody_blocks {
            x = block.forward(b, x, lens)?;
        }
        b.linear(&self.prosody_out.matrix, &x)
    }

    /// The rows `kept` of the decoder's spectra, `[kept, PARTS * bins]`.
    pub(super) fn decode(&self, b: &B, x: &B::Rows, lens: &[usize], kept: &[u32]) -> Result<B::Rows> {
        let mut x = b.convolve(&self.enter, Act::None, x, lens, Reach::centred(self.enter.taps))?;
        for block in &self.blocks {
            x = block.forward(b, x, lens)?;
        }
        let x = b.layer_norm(&self.norm.0, &self.norm.1, EPS, &b.gather(&x, kept)?)?;
        b.linear(&self.head, &x)
    }
}

/// The pitch in Hz, and the decoder's input, of both halves of every frame.
pub(super) fn features(acoustic: &[f32], prosody: &[f32], width: usize) -> (Vec<f32>, Vec<f32>) {
    let mut pitch = Vec::with_capacity(2 * acoustic.len() / width);
    let mut features = Vec::with_capacity(2 * acoustic.len() / width * (width + 2));
    for (acoustic, prosody) in acoustic.chunks(width).zip(prosody.chunks(4)) {
        for half in 0..2 {
            let hertz = prosody[half] * PITCH_SCALE;
            let energy = prosody[2 + half] * ENERGY_SCALE;
            features.extend_from_slice(acoustic);
            features.extend([hertz.max(0.0).ln_1p() / 5.0, energy / 5.0]);
            pitch.push(hertz);
        }
    }
    (pitch, features)
}
