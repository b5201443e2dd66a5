//! Element-wise operations and norms, written so that the compiler makes vector code of them.
#![expect(
    unsafe_code,
    reason = "entering functions compiled for instructions that have been detected"
)]

use std::f32::consts::{FRAC_1_PI, LOG2_E};

for_each_isa! {
    /// `x += a * y`.
    pub(super) fn axpy(x: &mut [f32], y: &[f32], a: f32) = axpy_body;
    /// `x += y * z`.
    pub(super) fn multiply_add(x: &mut [f32], y: &[f32], z: &[f32]) = multiply_add_body;
    /// `x = x / (1 + exp(-x))`.
    pub(super) fn silu(x: &mut [f32]) = silu_body;
    /// `out = silu(gate) * up`.
    pub(super) fn gated(out: &mut [f32], gate: &[f32], up: &[f32]) = gated_body;
    /// `x = x / 2 * (1 + erf(x / sqrt 2))`.
    pub(super) fn gelu(x: &mut [f32]) = gelu_body;
    /// `out = x + sin(x * a)^2 * b`, `a` and `b` per column.
    pub(super) fn snake(out: &mut [f32], x: &[f32], a: &[f32], b: &[f32]) = snake_body;
    /// `x += sin(x * a)^2 * b`, `a` and `b` per column.
    pub(super) fn snake_in_place(x: &mut [f32], a: &[f32], b: &[f32]) = snake_in_place_body;
    /// `out = w * x / rms(x)` per row of `w.len()` columns.
    pub(super) fn rms_norm(out: &mut [f32], x: &[f32], w: &[f32], eps: f32) = rms_norm_body;
    /// `x = w * (x - mean) / deviation + bias` per row of `w.len()` columns.
    pub(super) fn layer_norm(x: &mut [f32], w: &[f32], bias: &[f32], eps: f32) = layer_norm_body;
    /// `x = max(x, slope * x)`.
    pub(super) fn leaky(x: &mut [f32], slope: f32) = leaky_body;
    /// `out = max(y, slope * y)`, `y` being `x * a + b` per column.
    pub(super) fn affine_leaky(out: &mut [f32], x: &[f32], a: &[f32], b: &[f32], slope: f32) = affine_leaky_body;
    /// `out = y + sin(y * snake.0)^2 * snake.1`, `y` being `x * a + b`, all per column.
    pub(super) fn affine_snake(out: &mut [f32], x: &[f32], a: &[f32], b: &[f32], snake: (&[f32], &[f32])) = affine_snake_body;
    /// `x = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
    pub(super) fn gelu_tanh(x: &mut [f32]) = gelu_tanh_body;
    /// Adds the rows of `x` to `sums`.
    pub(super) fn add_columns(sums: &mut [f32], x: &[f32]) = add_columns_body;
    /// Adds the squares of the rows of `x` less `mean` to `sums`.
    pub(super) fn add_squares(sums: &mut [f32], x: &[f32], mean: &[f32]) = add_squares_body;
    /// A step of an LSTM: `gates` are those of input, forget, cell and output.
    pub(super) fn lstm(h: &mut [f32], c: &mut [f32], gates: &[f32]) = lstm_body;
}

#[inline(always)]
pub(super) fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Adding and subtracting this rounds to the nearest whole number (below 2^22 in size).
const ROUND: f32 = 12_582_912.0;

/// `e^x` to 2 units in the last place; below -87 it is `e^-87`, above 88 it is `e^88`. (Cephes, `expf`.)
#[inline(always)]
pub(super) fn exp<const FUSED: bool>(x: f32) -> f32 {
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = fma::<FUSED>(x, LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<FUSED>(n, -0.693_359_4, x);
    let r = fma::<FUSED>(n, 2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_5e-2, 1.666_666_6e-1, 0.5] {
        p = fma::<FUSED>(p, r, c);
    }
    let p = fma::<FUSED>(p * r, r, r + 1.0);
    let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    p * f32::from_bits(power)
}

/// `sin(x)^2`, good to 1e-6 for arguments up to some 100,000: reduced by whole multiples of pi, which the square does
/// not see. (Coefficients: SLEEF, `sinf_u35`.)
#[inline(always)]
fn sin_squared<const FUSED: bool>(x: f32) -> f32 {
    let n = fma::<FUSED>(x, FRAC_1_PI, ROUND) - ROUND;
    let r = fma::<FUSED>(n, -3.140_625, x);
    let r = fma::<FUSED>(n, -9.670_257_6e-4, r);
    let r = fma::<FUSED>(n, -6.278_33e-7, r);
    let s = r * r;
    let mut p = 2.608_316e-6;
    for c in [-1.981_069e-4, 8.333_079e-3, -1.666_666e-1] {
        p = fma::<FUSED>(p, s, c);
    }
    let sin = fma::<FUSED>(p * s, r, r);
    sin * sin
}

/// The error function to 2e-7. (Abramowitz and Stegun, 7.1.26.)
#[inline(always)]
fn erf<const FUSED: bool>(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / fma::<FUSED>(a, 0.327_591_1, 1.0);
    let mut p = 1.061_405_4;
    for c in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        p = fma::<FUSED>(p, t, c);
    }
    (1.0 - p * t * exp::<FUSED>(-a * a)).copysign(x)
}

#[inline(always)]
fn axpy_body<const FUSED: bool>(x: &mut [f32], y: &[f32], a: f32) {
    for (x, y) in x.iter_mut().zip(y) {
        *x = fma::<FUSED>(a, *y, *x);
    }
}

#[inline(always)]
fn multiply_add_body<const FUSED: bool>(x: &mut [f32], y: &[f32], z: &[f32]) {
    for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
        *x = fma::<FUSED>(*y, *z, *x);
    }
}

#[inline(always)]
fn silu_body<const FUSED: bool>(x: &mut [f32]) {
    for x in x {
        *x /= 1.0 + exp::<FUSED>(-*x);
    }
}

#[inline(always)]
fn gated_body<const FUSED: bool>(out: &mut [f32], gate: &[f32], up: &[f32]) {
    for ((out, g), u) in out.iter_mut().zip(gate).zip(up) {
        *out = g / (1.0 + exp::<FUSED>(-g)) * u;
    }
}

#[inline(always)]
fn gelu_body<const FUSED: bool>(x: &mut [f32]) {
    for x in x {
        *x *= 0.5 * (1.0 + erf::<FUSED>(*x * std::f32::consts::FRAC_1_SQRT_2));
    }
}

/// Widest pattern that [`Pattern`] makes.
const PATTERN: usize = 256;

/// A row of parameters, repeated until it fills whole vectors.
///
/// Rows of few columns (12, 24) would otherwise be computed one number at a time, at their ends or altogether.
struct Pattern {
    values: [f32; PATTERN],
    /// 0 if a single row fills whole vectors, or if repeating it would be too long.
    len: usize,
}

impl Pattern {
    #[inline(always)]
    fn of(row: &[f32]) -> Self {
        let mut values = [0.0; PATTERN];
        let mut len = row.len();
        while !len.is_multiple_of(LANES) && len < PATTERN {
            len += row.len();
        }
        if len == row.len() || len > PATTERN {
            return Self { values, len: 0 };
        }
        for part in values[..len].chunks_exact_mut(row.len()) {
            part.copy_from_slice(row);
        }
        Self { values, len }
    }

    /// The pattern, or `row` itself where there is none.
    #[inline(always)]
    fn row<'a>(&'a self, row: &'a [f32]) -> &'a [f32] {
        match self.len {
            0 => row,
            len => &self.values[..len],
        }
    }
}

#[inline(always)]
fn snake_body<const FUSED: bool>(out: &mut [f32], x: &[f32], a: &[f32], b: &[f32]) {
    let wide_a = Pattern::of(a);
    let wide_b = Pattern::of(b);
    let a = wide_a.row(a);
    let b = wide_b.row(b);
    for (out, x) in out.chunks_mut(a.len()).zip(x.chunks(a.len())) {
        for (((out, &x), &a), &b) in out.iter_mut().zip(x).zip(a).zip(b) {
            *out = fma::<FUSED>(sin_squared::<FUSED>(x * a), b, x);
        }
    }
}

#[inline(always)]
fn snake_in_place_body<const FUSED: bool>(x: &mut [f32], a: &[f32], b: &[f32]) {
    let wide_a = Pattern::of(a);
    let wide_b = Pattern::of(b);
    let a = wide_a.row(a);
    let b = wide_b.row(b);
    for x in x.chunks_mut(a.len()) {
        for ((x, &a), &b) in x.iter_mut().zip(a).zip(b) {
            *x = fma::<FUSED>(sin_squared::<FUSED>(*x * a), b, *x);
        }
    }
}

const LANES: usize = 16;

/// Sum of `f(x[i])` in an order that vectorises.
#[inline(always)]
pub(super) fn sum<const FUSED: bool>(x: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut acc = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (acc, x) in acc.iter_mut().zip(chunk) {
            *acc = f(*acc, *x);
        }
    }
    for (acc, x) in acc.iter_mut().zip(rest) {
        *acc = f(*acc, *x);
    }
    fold(acc)
}

/// Sum of the lanes, halves onto halves.
#[inline(always)]
pub(super) fn fold(mut acc: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            acc[i] += acc[i + half];
        }
        half /= 2;
    }
    acc[0]
}

#[inline(always)]
fn rms_norm_body<const FUSED: bool>(out: &mut [f32], x: &[f32], w: &[f32], eps: f32) {
    for (out, x) in out.chunks_exact_mut(w.len()).zip(x.chunks_exact(w.len())) {
        let squares = sum::<FUSED>(x, |acc, x| fma::<FUSED>(x, x, acc));
        let scale = 1.0 / (squares / w.len() as f32 + eps).sqrt();
        for ((out, x), w) in out.iter_mut().zip(x).zip(w) {
            *out = w * (x * scale);
        }
    }
}

#[inline(always)]
fn layer_norm_body<const FUSED: bool>(x: &mut [f32], w: &[f32], bias: &[f32], eps: f32) {
    let n = w.len() as f32;
    for x in x.chunks_exact_mut(w.len()) {
        let mean = sum::<FUSED>(x, |acc, x| acc + x) / n;
        let variance = sum::<FUSED>(x, |acc, x| fma::<FUSED>(x - mean, x - mean, acc)) / n;
        let scale = 1.0 / (variance + eps).sqrt();
        for ((x, w), b) in x.iter_mut().zip(w).zip(bias) {
            *x = fma::<FUSED>((*x - mean) * scale, *w, *b);
        }
    }
}

#[inline(always)]
fn leaky_body<const FUSED: bool>(x: &mut [f32], slope: f32) {
    for x in x {
        *x = x.max(slope * *x);
    }
}

#[inline(always)]
fn affine_leaky_body<const FUSED: bool>(out: &mut [f32], x: &[f32], a: &[f32], b: &[f32], slope: f32) {
    for (out, x) in out.chunks_exact_mut(a.len()).zip(x.chunks_exact(a.len())) {
        for (((out, &x), &a), &b) in out.iter_mut().zip(x).zip(a).zip(b) {
            let y = fma::<FUSED>(x, a, b);
            *out = y.max(slope * y);
        }
    }
}

#[inline(always)]
fn affine_snake_body<const FUSED: bool>(
    out: &mut [f32],
    x: &[f32],
    a: &[f32],
    b: &[f32],
    (frequency, size): (&[f32], &[f32]),
) {
    for (out, x) in out.chunks_exact_mut(a.len()).zip(x.chunks_exact(a.len())) {
        let columns = a.iter().zip(b).zip(frequency).zip(size);
        for ((out, &x), (((&a, &b), &frequency), &size)) in out.iter_mut().zip(x).zip(columns) {
            let y = fma::<FUSED>(x, a, b);
            *out = fma::<FUSED>(sin_squared::<FUSED>(y * frequency), size, y);
        }
    }
}

#[inline(always)]
fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FUSED>(-x))
}

#[inline(always)]
fn tanh<const FUSED: bool>(x: f32) -> f32 {
    1.0 - 2.0 / (1.0 + exp::<FUSED>(2.0 * x))
}

#[inline(always)]
fn gelu_tanh_body<const FUSED: bool>(x: &mut [f32]) {
    /// `2 * sqrt(2 / pi)`.
    const TWICE: f32 = 1.595_769;
    for x in x {
        let inner = fma::<FUSED>(0.044_715 * *x * *x, *x, *x);
        *x *= sigmoid::<FUSED>(TWICE * inner);
    }
}

#[inline(always)]
fn add_columns_body<const FUSED: bool>(sums: &mut [f32], x: &[f32]) {
    for x in x.chunks_exact(sums.len()) {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += x;
        }
    }
}

#[inline(always)]
fn add_squares_body<const FUSED: bool>(sums: &mut [f32], x: &[f32], mean: &[f32]) {
    for x in x.chunks_exact(sums.len()) {
        for ((sum, x), mean) in sums.iter_mut().zip(x).zip(mean) {
            *sum = fma::<FUSED>(x - mean, x - mean, *sum);
        }
    }
}

#[inline(always)]
fn lstm_body<const FUSED: bool>(h: &mut [f32], c: &mut [f32], gates: &[f32]) {
    let units = h.len();
    let (input, rest) = gates.split_at(units);
    let (forget, rest) = rest.split_at(units);
    let (cell, output) = rest.split_at(units);
    let gates = input.iter().zip(forget).zip(cell).zip(output);
    for ((h, c), (((input, forget), cell), output)) in h.iter_mut().zip(c).zip(gates) {
        let kept = sigmoid::<FUSED>(*forget) * *c;
        *c = fma::<FUSED>(sigmoid::<FUSED>(*input), tanh::<FUSED>(*cell), kept);
        *h = sigmoid::<FUSED>(*output) * tanh::<FUSED>(*c);
    }
}

#[cfg(test)]
mod tests;
