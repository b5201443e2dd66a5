//! Whole signals.

use candle_core::{D, Tensor};

use super::Candle;
use crate::Result;
use crate::layers::{Act, BiLstm, Conv, Depthwise, Reach};
use crate::ops::{Activations, Pointwise, Products, WholeSignals};

const EPS: f64 = 1e-5;

impl Candle {
    fn pass(&self, act: Act<'_, Self>, x: Tensor) -> Result<Tensor> {
        match act {
            Act::None => Ok(x),
            Act::Leaky(slope) => self.leaky(slope, x),
            Act::Snake(snake) => self.snake(snake, x),
        }
    }

    /// `of` for every signal, its results one after another.
    fn each(
        &self,
        x: &Tensor,
        lens: &[usize],
        of: impl Fn(usize, Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut from = 0;
        let mut signals = Vec::with_capacity(lens.len());
        for (i, &len) in lens.iter().enumerate() {
            signals.push(of(i, x.narrow(0, from, len)?)?);
            from += len;
        }
        if signals.is_empty() {
            return Ok(x.clone());
        }
        Ok(Tensor::cat(&signals, 0)?)
    }

    /// One direction over the rows of a signal.
    fn run(&self, lstm: &BiLstm<Self>, gates: &Tensor, backward: bool) -> Result<Tensor> {
        let units = lstm.units;
        let hidden = &lstm.hidden[usize::from(backward)];
        let gates = gates.narrow(1, usize::from(backward) * 4 * units, 4 * units)?;
        let mut h = self.zeros(1, units)?;
        let mut c = h.clone();
        let mut rows = Vec::new();
        let len = gates.dim(0)?;
        for step in 0..len {
            let row = if backward { len - 1 - step } else { step };
            let sums = (gates.narrow(0, row, 1)? + self.linear(hidden, &h)?)?;
            let gate = |n: usize| sums.narrow(1, n * units, units);
            let sigmoid = |n: usize| candle_nn::ops::sigmoid(&gate(n)?);
            c = ((sigmoid(1)? * c)? + (sigmoid(0)? * gate(2)?.tanh()?)?)?;
            h = (sigmoid(3)? * c.tanh()?)?;
            rows.push(h.clone());
        }
        if backward {
            rows.reverse();
        }
        Ok(Tensor::cat(&rows, 0)?)
    }
}

impl WholeSignals for Candle {
    fn convolve(
        &self,
        conv: &Conv<Self>,
        act: Act<'_, Self>,
        x: &Tensor,
        lens: &[usize],
        reach: Reach,
    ) -> Result<Tensor> {
        self.each(x, lens, |_, x| {
            let taps = conv.taps;
            let len = x.dim(0)?;
            let width = x.dim(1)?;
            let x = self.pass(act, x)?.pad_with_zeros(0, reach.before, reach.after)?;
            let rows = reach.rows(taps, len);
            let index = (0..rows)
                .flat_map(|row| (0..taps.taps).map(move |tap| row * reach.step + tap * taps.dilation));
            let index: Vec<u32> = index.map(|row| u32::try_from(row).unwrap_or(u32::MAX)).collect();
            let windows = x.index_select(&self.indices(&index)?, 0)?;
            self.linear(&conv.matrix, &windows.reshape((rows, taps.taps * width))?)
        })
    }

    fn adapt_convolve(
        &self,
        conv: &Conv<Self>,
        style: &Tensor,
        act: Act<'_, Self>,
        x: &Tensor,
        lens: &[usize],
        plus: Option<&Tensor>,
    ) -> Result<Tensor> {
        let x = self.adapt(style, act, x, lens)?;
        let y = self.convolve(conv, Act::None, &x, lens, Reach::centred(conv.taps))?;
        match plus {
            Some(plus) => Ok((y + plus)?),
            None => Ok(y),
        }
    }

    fn adapt(&self, style: &Tensor, act: Act<'_, Self>, x: &Tensor, lens: &[usize]) -> Result<Tensor> {
        let width = x.dim(1)?;
        self.each(x, lens, |i, x| {
            let centred = x.broadcast_sub(&x.mean_keepdim(0)?)?;
            let variance = centred.sqr()?.mean_keepdim(0)?;
            let normal = centred.broadcast_div(&(variance + EPS)?.sqrt()?)?;
            let style = style.narrow(0, i, 1)?;
            let gain = (style.narrow(D::Minus1, 0, width)? + 1.0)?;
            let shift = style.narrow(D::Minus1, width, width)?;
            self.pass(act, normal.broadcast_mul(&gain)?.broadcast_add(&shift)?)
        })
    }

    fn convolve_depthwise(&self, conv: &Depthwise<Self>, x: &Tensor, lens: &[usize]) -> Result<Tensor> {
        let taps = conv.taps;
        let w = conv.weight.reshape((taps.taps, x.dim(1)?))?;
        self.each(x, lens, |_, x| {
            let len = x.dim(0)?;
            let edge = taps.past() / 2;
            let padded = x.pad_with_zeros(0, edge, edge)?;
            let mut sum = x.zeros_like()?.broadcast_add(&conv.bias)?;
            for tap in 0..taps.taps {
                let seen = padded.narrow(0, tap * taps.dilation, len)?;
                sum = (sum + seen.broadcast_mul(&w.narrow(0, tap, 1)?)?)?;
            }
            Ok(sum)
        })
    }

    fn bilstm(&self, lstm: &BiLstm<Self>, x: &Tensor, lens: &[usize]) -> Result<Tensor> {
        let gates = self.linear(&lstm.input, x)?;
        self.each(&gates, lens, |_, gates| {
            let both = [self.run(lstm, &gates, false)?, self.run(lstm, &gates, true)?];
            Ok(Tensor::cat(&both, 1)?)
        })
    }

    fn leaky(&self, slope: f32, x: Tensor) -> Result<Tensor> {
        Ok(x.maximum(&(&x * f64::from(slope))?)?)
    }

    fn gelu_tanh(&self, x: Tensor) -> Result<Tensor> {
        Ok(x.gelu()?)
    }
}
