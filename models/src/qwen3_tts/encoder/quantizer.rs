//! Residual vector quantisation: the nearest vector of a codebook, then the nearest of the next one to the remainder.

use omni_backend::host::HostTensor;
use omni_backend::{Params, Products, Result};

use crate::checkpoint::LoadError;
use crate::loader::Loader;

use super::config::CodecEncoderConfig;
use super::signal::Signal;

type Load<T> = std::result::Result<T, LoadError>;

struct Codebook<P: Params> {
    /// Codebook as a matrix; its products with a row give the distances.
    matrix: P::Matrix,
    /// `[codes, width]`.
    vectors: Vec<f32>,
    /// Half of every vector's square.
    halves: Vec<f32>,
}

/// One half of the quantizer: codebooks after each other behind a projection.
struct Branch<P: Params> {
    projection: P::Matrix,
    codebooks: Vec<Codebook<P>>,
}

/// The first code has a branch of its own, all others share one.
pub(super) struct ResidualQuantizer<P: Params> {
    branches: [Branch<P>; 2],
    width: usize,
}

impl<P: Params> Codebook<P> {
    fn load(l: &Loader<'_, P>, name: &str, c: &CodecEncoderConfig) -> Load<Self> {
        let vectors: HostTensor = l.codebook_rows(name, "embed_sum", c.codebook, c.width)?;
        let matrix = l.matrix_of(name, &vectors)?;
        // A dry run has no values.
        let vectors = if P::DRY { Vec::new() } else { vectors.to_f32() };
        let half = |row: &[f32]| row.iter().map(|v| v * v).sum::<f32>() / 2.0;
        Ok(Self {
            matrix,
            halves: vectors.chunks(c.width).map(half).collect(),
            vectors,
        })
    }
}

impl<P: Params> Branch<P> {
    /// Loads the first `used` of `all` codebooks.
    fn load(
        l: &Loader<'_, P>,
        name: &str,
        c: &CodecEncoderConfig,
        (used, all): (usize, usize),
    ) -> Load<Self> {
        // The decoder's side of the projections.
        l.unused(&format!("{name}.output_proj.weight"), &[c.hidden, c.width, 1])?;
        let mut codebooks = Vec::new();
        for layer in 0..all {
            let name = format!("{name}.layers.{layer}.codebook");
            l.unused(&format!("{name}.initialized"), &[1])?;
            if layer < used {
                codebooks.push(Codebook::load(l, &name, c)?);
            } else {
                l.unused(&format!("{name}.embed_sum"), &[c.codebook, c.width])?;
                l.unused(&format!("{name}.cluster_usage"), &[c.codebook])?;
            }
        }
        Ok(Self {
            projection: l.conv_matrix(&format!("{name}.input_proj"), c.width, c.hidden, 1, false)?,
            codebooks,
        })
    }
}

impl<P: Params> ResidualQuantizer<P> {
    pub(super) fn load(l: &Loader<'_, P>, name: &str, c: &CodecEncoderConfig) -> Load<Self> {
        let branch = |part: &str, counts| {
            Branch::load(l, &format!("{name}.{part}_residual_vector_quantizer"), c, counts)
        };
        Ok(Self {
            branches: [
                branch("semantic", (1, 1))?,
                branch("acoustic", (c.groups - 1, c.quantizers - 1))?,
            ],
            width: c.width,
        })
    }
}

impl<B: Products> ResidualQuantizer<B> {
    /// All codes of every row.
    pub(super) fn codes(&self, b: &B, x: Signal) -> Result<Vec<Vec<u32>>> {
        let mut frames = vec![Vec::new(); x.len()];
        let rows = b.rows(x.channels, x.values)?;
        for branch in &self.branches {
            let mut rest = b.host(&b.linear(&branch.projection, &rows)?)?;
            for codebook in &branch.codebooks {
                let nearness = b.host(&b.linear(&codebook.matrix, &b.rows(self.width, rest.clone())?)?)?;
                let nearness = nearness.chunks(codebook.halves.len());
                for ((rest, nearness), frame) in rest.chunks_mut(self.width).zip(nearness).zip(&mut frames) {
                    let code = codebook.nearest(nearness);
                    let vector = &codebook.vectors[code * self.width..(code + 1) * self.width];
                    rest.iter_mut().zip(vector).for_each(|(r, v)| *r -= v);
                    frame.push(u32::try_from(code).unwrap_or(u32::MAX));
                }
            }
        }
        Ok(frames)
    }
}

impl<P: Params> Codebook<P> {
    /// The code whose vector is nearest to a row with these products; the lowest in a tie.
    ///
    /// `|r - e|^2 / 2 = |r|^2 / 2 - r e + |e|^2 / 2`, whose first term is the same for all.
    fn nearest(&self, products: &[f32]) -> usize {
        let distances = products.iter().zip(&self.halves).map(|(p, half)| half - p);
        let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.map_or(0, |(code, _)| code)
    }
}
