//! Signals of a whole recording, and convolutions over them that see both ends.

use omni_backend::{Params, Products, Result};

use crate::checkpoint::LoadError;
use crate::loader::Loader;
use crate::mel::mirrored;

/// Rows over time, `[time, channels]`.
#[derive(Debug, Clone)]
pub(super) struct Signal {
    pub(super) values: Vec<f32>,
    pub(super) channels: usize,
}

/// Padding of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    Zeros,
    /// The signal, mirrored.
    Mirror,
    /// The first and the last row.
    Edge,
}

/// Parameters of a convolution over a signal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stride {
    pub(super) taps: usize,
    pub(super) step: usize,
    pub(super) dilation: usize,
    pub(super) beyond: Beyond,
}

/// A convolution over a whole signal.
pub(super) struct WholeConv<P: Params> {
    matrix: P::Matrix,
    out: usize,
    stride: Stride,
}

/// Numbers that are laid out for a product at once.
const LAID_OUT: usize = 1 << 22;

impl Signal {
    pub(super) fn new(values: Vec<f32>, channels: usize) -> Self {
        Self { values, channels }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() / self.channels
    }

    pub(super) fn map(mut self, f: impl Fn(f32) -> f32) -> Self {
        self.values.iter_mut().for_each(|v| *v = f(*v));
        self
    }

    /// The sum with a signal of this shape.
    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.values
            .iter_mut()
            .zip(&other.values)
            .for_each(|(v, o)| *v += o);
        self
    }

    /// Channels `from .. from + count`.
    pub(super) fn channels(&self, from: usize, count: usize) -> Self {
        let rows = self.values.chunks(self.channels);
        let values = rows.flat_map(|row| &row[from..from + count]).copied();
        Self::new(values.collect(), count)
    }

    /// The channels of all `parts`, which are as long as each other.
    pub(super) fn beside(parts: &[&Self]) -> Self {
        let len = parts.first().map_or(0, |part| part.len());
        let channels = parts.iter().map(|part| part.channels).sum();
        let mut values = Vec::with_capacity(len * channels);
        for t in 0..len {
            for part in parts {
                values.extend_from_slice(&part.values[t * part.channels..(t + 1) * part.channels]);
            }
        }
        Self::new(values, channels)
    }
}

impl<P: Params> WholeConv<P> {
    /// Loads `{name}.weight` of shape `[out, in, taps]`, with `{name}.bias` if `bias`.
    pub(super) fn load(
        l: &Loader<'_, P>,
        name: &str,
        (out, inputs): (usize, usize),
        stride: Stride,
        bias: bool,
    ) -> std::result::Result<Self, LoadError> {
        let matrix = l.conv_matrix(name, out, inputs, stride.taps, bias)?;
        Ok(Self { matrix, out, stride })
    }
}

impl<B: Products> WholeConv<B> {
    /// Row `t` of the result sees the rows `t * step - before + tap * dilation`; there are `len` of them.
    pub(super) fn forward(&self, b: &B, x: &Signal, before: usize, len: usize) -> Result<Signal> {
        let Stride {
            taps, step, dilation, ..
        } = self.stride;
        let width = taps * x.channels;
        let rows = (LAID_OUT / width.max(1)).max(1);
        let mut values = Vec::with_capacity(len * self.out);
        for from in (0..len).step_by(rows) {
            let count = rows.min(len - from);
            let mut laid_out = Vec::with_capacity(count * width);
            for t in from..from + count {
                let first = (t * step) as isize - before as isize;
                for tap in 0..taps {
                    self.lay_out(x, first + (tap * dilation) as isize, &mut laid_out);
                }
            }
            let product = b.linear(&self.matrix, &b.rows(width, laid_out)?)?;
            values.extend(b.host(&product)?);
        }
        Ok(Signal::new(values, self.out))
    }

    fn lay_out(&self, x: &Signal, at: isize, out: &mut Vec<f32>) {
        let len = x.len();
        let channels = x.channels;
        let inside = usize::try_from(at).ok().filter(|&at| at < len);
        let at = match (inside, self.stride.beyond) {
            (Some(at), _) => at,
            (None, Beyond::Zeros) => return out.resize(out.len() + channels, 0.0),
            (None, Beyond::Mirror) => mirrored(at, len),
            (None, Beyond::Edge) => usize::try_from(at).map_or(0, |at| at.min(len - 1)),
        };
        out.extend_from_slice(&x.values[at * channels..(at + 1) * channels]);
    }

    /// Centred convolution: as many rows as `x`.
    pub(super) fn centred(&self, b: &B, x: &Signal) -> Result<Signal> {
        let seen = (self.stride.taps - 1) * self.stride.dilation;
        self.forward(b, x, seen / 2, x.len())
    }

    /// A row for every `step` rows begun, each seeing nothing after its own `step` rows but what lies beyond the end.
    pub(super) fn causal(&self, b: &B, x: &Signal) -> Result<Signal> {
        let seen = (self.stride.taps - 1) * self.stride.dilation + 1;
        let before = seen - self.stride.step;
        self.forward(b, x, before, x.len().div_ceil(self.stride.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_channels_make_the_whole_again() {
        let whole = Signal::new((0..12_u8).map(f32::from).collect(), 4);
        let left = whole.channels(0, 1);
        let right = whole.channels(1, 3);
        assert_eq!((left.values.as_slice(), left.len()), (&[0.0, 4.0, 8.0][..], 3));
        assert_eq!(Signal::beside(&[&left, &right]).values, whole.values);
    }
}
