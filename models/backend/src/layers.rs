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
