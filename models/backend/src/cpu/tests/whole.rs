//! Whole signals against candle.

use super::*;
use crate::{Act, BiLstm, Reach, WholeSignals};

const CHANNELS: usize = 20;

/// Every operation on signals of these lengths.
fn outputs<B: WholeSignals>(b: &B, lens: &[usize]) -> Result<Vec<Vec<f32>>> {
    let rows = lens.iter().sum::<usize>();
    let x = b.rows(CHANNELS, numbers(rows * CHANNELS, 1))?;
    let snake = Snake {
        a: b.vector(&host(&[CHANNELS], 2))?,
        b: b.vector(&host(&[CHANNELS], 3))?,
    };
    let style = b.rows(2 * CHANNELS, numbers(lens.len() * 2 * CHANNELS, 4))?;
    let mut outputs = Vec::new();
    let mut keep = |rows: B::Rows| -> Result<B::Rows> {
        outputs.push(b.host(&rows)?);
        Ok(rows)
    };
    for (i, taps) in [(3, 1), (7, 3), (1, 1), (4, 2)].into_iter().enumerate() {
        let taps = Taps {
            taps: taps.0,
            dilation: taps.1,
        };
        let weight = host(&[CHANNELS, taps.taps * CHANNELS], 5 + i);
        let matrix = b.matrix(&[weight], Some(&host(&[CHANNELS], 9)))?;
        let conv = Conv { matrix, taps };
        for act in [Act::None, Act::Leaky(0.2), Act::Snake(&snake)] {
            if taps.taps % 2 == 1 {
                keep(b.convolve(&conv, act, &x, lens, Reach::centred(taps))?)?;
                keep(b.adapt_convolve(&conv, &style, act, &x, lens, Some(&x))?)?;
            }
            let reach = Reach {
                before: taps.past(),
                after: 2,
                step: 3,
            };
            keep(b.convolve(&conv, act, &x, lens, reach)?)?;
            keep(b.adapt(&style, act, &x, lens)?)?;
        }
    }
    let depthwise = Depthwise {
        weight: b.vector(&host(&[5, CHANNELS], 10))?,
        bias: b.vector(&host(&[CHANNELS], 11))?,
        taps: Taps { taps: 5, dilation: 2 },
    };
    keep(b.convolve_depthwise(&depthwise, &x, lens)?)?;
    let units = 6;
    let lstm = BiLstm {
        input: b.matrix(&[host(&[8 * units, CHANNELS], 12)], Some(&host(&[8 * units], 13)))?,
        hidden: [
            b.matrix(&[host(&[4 * units, units], 14)], None)?,
            b.matrix(&[host(&[4 * units, units], 15)], None)?,
        ],
        units,
    };
    keep(b.bilstm(&lstm, &x, lens)?)?;
    let x = keep(b.leaky(0.1, x)?)?;
    keep(b.gelu_tanh(x)?)?;
    Ok(outputs)
}

#[test]
fn whole_signals_are_those_of_candle() {
    let lens = [9, 400, 1];
    let expected = outputs(&candle(), &lens).expect("computed");
    for isa in Isa::available() {
        let cpu = Cpu {
            isa,
            weights: Weights::Stored,
        };
        for (i, (got, expected)) in outputs(&cpu, &lens)
            .expect("computed")
            .iter()
            .zip(&expected)
            .enumerate()
        {
            assert_eq!(got.len(), expected.len(), "output {i}");
            // A signal of one row has no deviation: what is divided by is the small number that is added to it.
            let worst = got
                .iter()
                .zip(expected)
                .map(|(g, e)| (g - e).abs() / e.abs().max(1.0));
            let worst = worst.fold(0.0, f32::max);
            assert!(worst < 1e-3, "{isa:?}, output {i}: {worst} apart");
        }
    }
}

#[test]
fn a_batch_changes_no_bit_of_a_whole_signal() {
    let cpu = Cpu::new(Weights::Stored);
    let together = outputs(&cpu, &[300, 7]).expect("computed");
    let alone = outputs(&cpu, &[300]).expect("computed");
    for (together, alone) in together.iter().zip(&alone) {
        // Styles and rows of the first signal are the same.
        let count = alone.len();
        if together[..count] != alone[..] {
            let first = together.iter().zip(alone).position(|(a, b)| a != b);
            panic!("{first:?} of {count} numbers differs");
        }
    }
}
