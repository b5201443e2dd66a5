//! Weights of layers whose operations take more than a matrix.

use super::{Params, Taps};

/// A causal convolution as a matrix over its taps.
pub struct Conv<P: Params> {
    pub matrix: P::Matrix,
    pub taps: Taps,
}

/// A causal convolution of every channel for itself.
pub struct Depthwise<P: Params> {
    /// `[taps, channels]`.
    pub weight: P::Vector,
    pub bias: P::Vector,
    pub taps: Taps,
}

/// A channel-wise `x + sin(x * a)^2 * b`.
pub struct Snake<P: Params> {
    pub a: P::Vector,
    pub b: P::Vector,
}

/// A recurrent layer (LSTM) that reads a signal in both directions, with as many units in each.
pub struct BiLstm<P: Params> {
    /// `[8 * units, in]`: input, forget, cell and output gates of the first direction, then of the second, with the sum
    /// of their biases.
    pub input: P::Matrix,
    /// `[4 * units, units]` for each direction.
    pub hidden: [P::Matrix; 2],
    pub units: usize,
}

/// Function that rows pass on their way into an operation, channel by channel.
pub enum Act<'a, P: Params> {
    None,
    /// `max(x, slope * x)`.
    Leaky(f32),
    Snake(&'a Snake<P>),
}

impl<P: Params> Clone for Act<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Params> Copy for Act<'_, P> {}

/// Rows of a whole signal that a convolution sees beyond its ends (they are zeros), and its stride.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    pub before: usize,
    pub after: usize,
    pub step: usize,
}

impl Reach {
    /// As many rows as there are, each seeing as much on both sides.
    pub fn centred(taps: Taps) -> Self {
        let half = taps.past() / 2;
        Self {
            before: half,
            after: half,
            step: 1,
        }
    }

    /// Rows that a signal of `len` rows becomes.
    pub(crate) fn rows(self, taps: Taps, len: usize) -> usize {
        let seen = taps.past() + 1;
        (len + self.before + self.after)
            .checked_sub(seen)
            .map_or(0, |rest| rest / self.step + 1)
    }
}
