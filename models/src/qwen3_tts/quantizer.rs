//! From a frame's codes to the first rows of the codec's decoder.

use omni_backend::Conv;
use omni_backend::{Backend, Params, Result, Signals, Taps};

use crate::checkpoint::LoadError;
use crate::config::Code2WavConfig;
use crate::loader::Loader;

const NAME: &str = "decoder.quantizer";
/// Taps of the convolution behind the quantizer.
const KERNEL: usize = 3;

/// A split residual quantizer: the vector of the first code and the sum of the others' vectors, each through a
/// projection of its own. Then a convolution and the projections around the transformer.
pub(crate) struct Quantizer<P: Params> {
    first: P::Table,
    rest: Vec<P::Table>,
    first_projection: P::Matrix,
    rest_projection: P::Matrix,
    conv: Conv<P>,
    input: P::Matrix,
    output: P::Matrix,
    groups: usize,
    width: usize,
}

impl<P: Params> Quantizer<P> {
    /// Loads the quantizer of `width` numbers; `latent` are the channels behind its convolution.
    pub(crate) fn load(
        l: &Loader<'_, P>,
        c: &Code2WavConfig,
        width: usize,
        latent: usize,
    ) -> std::result::Result<Self, LoadError> {
        let inner = width / 2;
        let hidden = c.stack.hidden;
        let codebook = |part: &str, layer: usize| {
            let name = format!("{NAME}.{part}.vq.layers.{layer}._codebook");
            l.codebook(&name, "embedding_sum", c.codebook, inner)
        };
        for part in ["rvq_first", "rvq_rest"] {
            // The encoder's side of the projections, which decoding has no use for.
            l.unused(&format!("{NAME}.{part}.input_proj.weight"), &[inner, width, 1])?;
        }
        let projection =
            |part: &str| l.conv_matrix(&format!("{NAME}.{part}.output_proj"), width, inner, 1, false);
        let rest = 0..c.groups - 1;
        Ok(Self {
            first: codebook("rvq_first", 0)?,
            rest: rest
                .map(|layer| codebook("rvq_rest", layer))
                .collect::<std::result::Result<_, _>>()?,
            first_projection: projection("rvq_first")?,
            rest_projection: projection("rvq_rest")?,
            conv: l.conv("decoder.pre_conv.conv", latent, width, KERNEL, 1)?,
            input: l.linear("decoder.pre_transformer.input_proj", hidden, latent, true)?,
            output: l.linear("decoder.pre_transformer.output_proj", latent, hidden, true)?,
            groups: c.groups,
            width,
        })
    }

    /// Memory of the convolution: its taps, and the width of its rows.
    pub(crate) fn past(&self) -> (Taps, usize) {
        (self.conv.taps, self.width)
    }
}

impl<B: Backend> Quantizer<B> {
    /// Rows `[frames, hidden]` for the transformer, of the frames `codes [frames, groups]`.
    pub(crate) fn enter(
        &self,
        b: &B,
        codes: &[u32],
        signals: &Signals<B>,
        past: &mut B::Past,
    ) -> Result<B::Rows> {
        let frames = codes.chunks(self.groups);
        let first = b.ids(1, frames.clone().map(|codes| codes[0]).collect())?;
        let rest = b.ids(
            self.groups - 1,
            frames.flat_map(|codes| &codes[1..]).copied().collect(),
        )?;
        let count = codes.len() / self.groups;
        let first = b.lookup(&self.first, &first, 0)?;
        let tables: Vec<_> = self.rest.iter().collect();
        let rest = b.lookup_add(b.zeros(count, self.width / 2)?, &tables, &rest, None)?;
        let x = b.linear(&self.first_projection, &first)?;
        let x = b.add(x, &b.linear(&self.rest_projection, &rest)?, None)?;
        let x = b.conv(&self.conv, None, &x, signals, past)?;
        b.linear(&self.input, &x)
    }

    /// Projects the transformer's rows to those that are upsampled.
    pub(crate) fn leave(&self, b: &B, x: &B::Rows) -> Result<B::Rows> {
        b.linear(&self.output, x)
    }
}
