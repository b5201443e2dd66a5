//! Signals with their past in front, as convolutions read them.

use crate::layers::Snake;
use crate::{Signals, Taps};

use super::held::Past;
use super::{Cpu, Rows, pointwise};

/// Signals one after another with their past in front of each.
pub(super) struct Padded {
    pub(super) rows: Rows,
    /// Row at which each signal's past begins.
    pub(super) starts: Vec<usize>,
}

impl Cpu {
    /// Lays out `[past | x]` per signal, `x` through `act`, and keeps the last rows as the new past.
    pub(super) fn pad(
        &self,
        taps: Taps,
        act: Option<&Snake<Self>>,
        x: &Rows,
        signals: &Signals<Self>,
        past: &mut Past,
    ) -> Padded {
        let width = x.width();
        let keep = taps.past();
        let lens = signals.lens();
        let mut rows = Rows::scratch(x.rows() + lens.len() * keep, width);
        let mut starts = Vec::with_capacity(lens.len());
        let mut from = 0;
        let mut rest = rows.data_mut();
        for (i, (&len, part)) in lens.iter().zip(signals.parts()).enumerate() {
            let past = past.of(part.stream);
            starts.push(from + i * keep);
            let (signal, others) = rest.split_at_mut((keep + len) * width);
            rest = others;
            let (before, now) = signal.split_at_mut(keep * width);
            before.copy_from_slice(past);
            let x = x.range(from, from + len);
            match act {
                Some(snake) => pointwise::snake(self.isa, now, x, &snake.a, &snake.b),
                None => now.copy_from_slice(x),
            }
            past.copy_from_slice(&signal[len * width..]);
            from += len;
        }
        Padded { rows, starts }
    }
}

impl Padded {
    /// The windows of all rows, copied to lie one after another.
    pub(super) fn windows(&self, taps: Taps, lens: &[usize]) -> Rows {
        let width = taps.taps * self.rows.width();
        let mut windows = Rows::with_capacity(lens.iter().sum::<usize>() * width, width);
        let out = windows.buffer();
        for (&start, &len) in self.starts.iter().zip(lens) {
            for row in start..start + len {
                for tap in 0..taps.taps {
                    let at = row + tap * taps.dilation;
                    out.extend_from_slice(self.rows.range(at, at + 1));
                }
            }
        }
        windows
    }
}
