//! Whole signals: convolutions that see both ends, norms over time, recurrent layers.
//!
//! Rows are shared among threads in blocks whose size depends on nothing but the operation, so that neither the batch
//! nor the number of threads changes a bit.

use std::ops::Range;

use rayon::prelude::*;

use super::gemm::{self, Lhs, Matrix, Segment};
use super::{Cpu, Rows, pointwise};
use crate::Result;
use crate::layers::{Act, BiLstm, Conv, Depthwise, Reach};
use crate::ops::{Products, WholeSignals};

/// Rows of a block: with the rows before and after that a convolution sees, they stay in a core's second cache.
const BLOCK: usize = 192;
/// Multiply-adds or numbers below which one thread does everything.
const SHARED: usize = 1 << 16;
const EPS: f64 = 1e-5;

/// Changes of a signal's numbers before it is convolved.
struct Before<'a> {
    /// Factor and summand of every channel.
    affine: Option<(Vec<f32>, Vec<f32>)>,
    act: Act<'a, Cpu>,
}

/// Blocks of `0 .. rows`.
fn blocks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows)
        .step_by(BLOCK)
        .map(move |from| from..rows.min(from + BLOCK))
}

/// Runs every job, on all threads if there is enough to do.
fn each<T: Send>(jobs: Vec<T>, numbers: usize, run: impl Fn(T) + Send + Sync) {
    if numbers < SHARED || jobs.len() < 2 {
        jobs.into_iter().for_each(run);
    } else {
        jobs.into_par_iter().with_max_len(1).for_each(run);
    }
}

impl Cpu {
    fn pass(&self, before: &Before<'_>, out: &mut [f32], x: &[f32]) {
        let isa = self.isa;
        match (&before.affine, before.act) {
            (None, Act::Snake(snake)) => pointwise::snake(isa, out, x, &snake.a, &snake.b),
            (None, act) => {
                out.copy_from_slice(x);
                if let Act::Leaky(slope) = act {
                    pointwise::leaky(isa, out, slope);
                }
            }
            (Some((a, b)), Act::Snake(snake)) => {
                pointwise::affine_snake(isa, out, x, a, b, (&snake.a, &snake.b));
            }
            (Some((a, b)), Act::Leaky(slope)) => pointwise::affine_leaky(isa, out, x, a, b, slope),
            (Some((a, b)), Act::None) => pointwise::affine_leaky(isa, out, x, a, b, 1.0),
        }
    }

    /// Mean and squared deviation of every channel of a signal.
    fn moments(&self, x: &[f32], width: usize) -> Vec<(f64, f64)> {
        let rows = x.len() / width;
        let of_block = |block: Range<usize>| {
            let count = block.len();
            let x = &x[block.start * width..block.end * width];
            let mut mean = vec![0.0; width];
            pointwise::add_columns(self.isa, &mut mean, x);
            mean.iter_mut().for_each(|sum| *sum /= count as f32);
            let mut squares = vec![0.0; width];
            pointwise::add_squares(self.isa, &mut squares, x, &mean);
            (count, mean, squares)
        };
        let parts: Vec<_> = if x.len() < SHARED {
            blocks(rows).map(of_block).collect()
        } else {
            let blocks: Vec<_> = blocks(rows).collect();
            blocks.into_par_iter().map(of_block).collect()
        };
        let joined = |channel: usize| {
            let mut count = 0.0;
            let mut mean = 0.0;
            let mut squares = 0.0;
            for (more, their_mean, their_squares) in &parts {
                let more = *more as f64;
                let apart = f64::from(their_mean[channel]) - mean;
                mean += apart * more / (count + more);
                squares += f64::from(their_squares[channel]) + apart * apart * count * more / (count + more);
                count += more;
            }
            (mean, squares / count)
        };
        (0..width).map(joined).collect()
    }

    /// Factor and summand of every channel by which a signal is normalised and styled.
    #[expect(clippy::cast_possible_truncation, reason = "sums of f32 in f64")]
    fn styled(&self, style: &[f32], x: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (gains, shifts) = style.split_at(style.len() / 2);
        let moments = self.moments(x, gains.len());
        let channels = moments.into_iter().zip(gains).zip(shifts);
        let both = channels.map(|(((mean, variance), &gain), &shift)| {
            let factor = (1.0 + f64::from(gain)) / (variance + EPS).sqrt();
            (factor as f32, (f64::from(shift) - mean * factor) as f32)
        });
        both.unzip()
    }

    /// Changes of the signals before a convolution: one value, or one a signal.
    fn before<'a>(
        &self,
        style: Option<&Rows>,
        act: Act<'a, Self>,
        x: &Rows,
        lens: &[usize],
    ) -> Vec<Before<'a>> {
        let mut from = 0;
        let one = |(i, &len): (usize, &usize)| {
            let signal = x.range(from, from + len);
            from += len;
            let affine = style.map(|style| self.styled(style.range(i, i + 1), signal));
            Before { affine, act }
        };
        lens.iter().enumerate().map(one).collect()
    }

    /// Convolves the signals; `before` has a value for each. The results are added to `plus`.
    fn convolved(
        &self,
        conv: &Conv<Self>,
        before: &[Before<'_>],
        x: &Rows,
        lens: &[usize],
        reach: Reach,
        plus: Option<&Rows>,
    ) -> Rows {
        let (w, taps, width) = (&conv.matrix, conv.taps, x.width());
        let rows = |len: &usize| reach.rows(taps, *len);
        let padded_len = |len: usize| reach.before + len + reach.after;
        // The signals with zeros around them.
        let mut padded = Rows::scratch(lens.iter().map(|&len| padded_len(len)).sum(), width);
        let mut jobs = Vec::new();
        let mut rest = padded.data_mut();
        let mut from = 0;
        for (&len, before) in lens.iter().zip(before) {
            let (signal, others) = rest.split_at_mut(padded_len(len) * width);
            rest = others;
            let (zeros, signal) = signal.split_at_mut(reach.before * width);
            zeros.fill(0.0);
            let (mut signal, zeros) = signal.split_at_mut(len * width);
            zeros.fill(0.0);
            for block in blocks(len) {
                let (out, others) = signal.split_at_mut(block.len() * width);
                signal = others;
                jobs.push((before, out, x.range(from + block.start, from + block.end)));
            }
            from += len;
        }
        each(jobs, x.data().len(), |(before, out, x)| self.pass(before, out, x));
        let mut out = Rows::scratch(lens.iter().map(rows).sum(), w.outputs());
        let numbers = out.rows() * w.inputs() * w.outputs();
        let mut jobs = Vec::new();
        let mut rest = out.data_mut();
        let mut start = 0;
        let mut rest_of_plus = plus.map(Rows::data);
        for &len in lens {
            let signal = &padded.data()[start * width..(start + padded_len(len)) * width];
            start += padded_len(len);
            for block in blocks(reach.rows(taps, len)) {
                let (out, others) = rest.split_at_mut(block.len() * w.outputs());
                rest = others;
                let last = (block.end - 1) * reach.step + taps.past() + 1;
                let plus = rest_of_plus.map(|plus| plus.split_at(out.len()));
                rest_of_plus = plus.map(|(_, others)| others);
                let x = &signal[block.start * reach.step * width..last * width];
                jobs.push((x, plus.map(|(own, _)| own), out));
            }
        }
        let step = reach.step * width;
        each(jobs, numbers, |(x, plus, out)| {
            self.multiply_taps(conv, x, (width, step), out);
            if let Some(plus) = plus {
                pointwise::axpy(self.isa, out, plus, 1.0);
            }
        });
        out
    }

    /// Multiplies a block's rows, `step` numbers apart, with the taps from each on.
    fn multiply_taps(&self, conv: &Conv<Self>, x: &[f32], (width, step): (usize, usize), out: &mut [f32]) {
        let (w, taps): (&Matrix, _) = (&conv.matrix, conv.taps);
        let rows = out.len() / w.outputs();
        if w.needs_groups() && !width.is_multiple_of(gemm::GROUP_OF_INPUTS) {
            let mut windows = Vec::with_capacity(rows * w.inputs());
            for row in 0..rows {
                for tap in 0..taps.taps {
                    let at = row * step + tap * taps.dilation * width;
                    windows.extend_from_slice(&x[at..at + width]);
                }
            }
            let lhs = Lhs {
                data: &windows,
                row_stride: w.inputs(),
                taps: 1,
                tap_stride: 0,
                depth: w.inputs(),
            };
            let all = Segment { src: 0, dst: 0, rows };
            return gemm::multiply(self.isa, w, &lhs, &[all], out);
        }
        // Neighbouring taps are one long run of numbers.
        let (count, depth) = if taps.dilation == 1 {
            (1, taps.taps * width)
        } else {
            (taps.taps, width)
        };
        let lhs = Lhs {
            data: x,
            row_stride: step,
            taps: count,
            tap_stride: taps.dilation * width,
            depth,
        };
        let all = Segment { src: 0, dst: 0, rows };
        gemm::multiply(self.isa, w, &lhs, &[all], out);
    }

    /// One direction of an LSTM over the gates `[rows, 8 * units]`: rows of `units`, at their places.
    fn run(&self, lstm: &BiLstm<Self>, gates: &Rows, lens: &[usize], backward: bool) -> Rows {
        let units = lstm.units;
        let hidden = &lstm.hidden[usize::from(backward)];
        let mut out = Rows::scratch(gates.rows(), units);
        // The longest come first, so that those that still run are the first rows.
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(lens.len());
        let mut from = 0;
        for &len in lens {
            order.push((len, from));
            from += len;
        }
        order.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
        let mut h = vec![0.0; lens.len() * units];
        let mut c = h.clone();
        let mut sums = vec![0.0; lens.len() * 4 * units];
        for step in 0..order.first().map_or(0, |(len, _)| *len) {
            let running = order.iter().take_while(|(len, _)| *len > step).count();
            let lhs = Lhs {
                data: &h,
                row_stride: units,
                taps: 1,
                tap_stride: 0,
                depth: units,
            };
            let all = Segment {
                src: 0,
                dst: 0,
                rows: running,
            };
            gemm::multiply(self.isa, hidden, &lhs, &[all], &mut sums);
            for (i, &(len, from)) in order[..running].iter().enumerate() {
                let row = from + if backward { len - 1 - step } else { step };
                let sums = &mut sums[i * 4 * units..(i + 1) * 4 * units];
                let half = usize::from(backward) * 4 * units;
                let input = &gates.range(row, row + 1)[half..half + 4 * units];
                pointwise::axpy(self.isa, sums, input, 1.0);
                let h = &mut h[i * units..(i + 1) * units];
                pointwise::lstm(self.isa, h, &mut c[i * units..(i + 1) * units], sums);
                out.data_mut()[row * units..(row + 1) * units].copy_from_slice(h);
            }
        }
        out
    }
}

impl WholeSignals for Cpu {
    fn convolve(
        &self,
        conv: &Conv<Self>,
        act: Act<'_, Self>,
        x: &Rows,
        lens: &[usize],
        reach: Reach,
    ) -> Result<Rows> {
        Ok(self.convolved(conv, &self.before(None, act, x, lens), x, lens, reach, None))
    }

    fn adapt_convolve(
        &self,
        conv: &Conv<Self>,
        style: &Rows,
        act: Act<'_, Self>,
        x: &Rows,
        lens: &[usize],
        plus: Option<&Rows>,
    ) -> Result<Rows> {
        let before = self.before(Some(style), act, x, lens);
        Ok(self.convolved(conv, &before, x, lens, Reach::centred(conv.taps), plus))
    }

    fn adapt(&self, style: &Rows, act: Act<'_, Self>, x: &Rows, lens: &[usize]) -> Result<Rows> {
        let mut out = Rows::scratch(x.rows(), x.width());
        let mut rest = out.data_mut();
        let mut from = 0;
        for (before, &len) in self.before(Some(style), act, x, lens).iter().zip(lens) {
            let (signal, others) = rest.split_at_mut(len * x.width());
            rest = others;
            self.pass(before, signal, x.range(from, from + len));
            from += len;
        }
        Ok(out)
    }

    fn convolve_depthwise(&self, conv: &Depthwise<Self>, x: &Rows, lens: &[usize]) -> Result<Rows> {
        let taps = conv.taps;
        let width = x.width();
        let before = taps.past() / 2;
        let mut out = Rows::with_capacity(x.data().len(), width);
        let mut from = 0;
        for &len in lens {
            let signal = x.range(from, from + len);
            from += len;
            for row in 0..len {
                let at = out.data().len();
                out.buffer().extend_from_slice(&conv.bias);
                for (tap, w) in conv.weight.chunks(width).enumerate() {
                    // Beyond the ends there is nothing to add.
                    let seen = (row + tap * taps.dilation)
                        .checked_sub(before)
                        .filter(|row| *row < len);
                    if let Some(row) = seen {
                        let x = &signal[row * width..(row + 1) * width];
                        pointwise::multiply_add(self.isa, &mut out.data_mut()[at..], x, w);
                    }
                }
            }
        }
        Ok(out)
    }

    fn bilstm(&self, lstm: &BiLstm<Self>, x: &Rows, lens: &[usize]) -> Result<Rows> {
        let gates = self.linear(&lstm.input, x)?;
        let (first, second) = rayon::join(
            || self.run(lstm, &gates, lens, false),
            || self.run(lstm, &gates, lens, true),
        );
        let units = lstm.units;
        let mut out = Rows::with_capacity(gates.rows() * 2 * units, 2 * units);
        for (first, second) in first.data().chunks(units).zip(second.data().chunks(units)) {
            out.buffer().extend_from_slice(first);
            out.buffer().extend_from_slice(second);
        }
        Ok(out)
    }

    fn leaky(&self, slope: f32, mut x: Rows) -> Result<Rows> {
        pointwise::leaky(self.isa, x.data_mut(), slope);
        Ok(x)
    }

    fn gelu_tanh(&self, mut x: Rows) -> Result<Rows> {
        pointwise::gelu_tanh(self.isa, x.data_mut());
        Ok(x)
    }
}
