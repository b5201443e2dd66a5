use proptest::prelude::*;

use super::linear::product;
use super::{Lab, close, each_type, numbers, rounded};
use crate::Address;
use crate::kernels::{Activation, Convolve, Depthwise, Linear, Pad, Remember, Scratch, Signals};

/// Pasts of every stream, at scattered places, with the kernels' description of them.
pub(super) fn signals(lab: &Lab, lens: &[usize], pasts: &[Vec<f32>], keep: usize) -> (Signals, Vec<Address>) {
    let pasts: Vec<Address> = pasts.iter().map(|p| lab.rows(p)).collect();
    let words: Vec<u32> = pasts
        .iter()
        .flat_map(|p| [p.0 as u32, (p.0 >> 32) as u32])
        .collect();
    let mut from = vec![0];
    for len in lens {
        from.push(from[from.len() - 1] + *len as u32);
    }
    let signals = Signals {
        from: lab.words(&from),
        lacking: Address::NONE,
        past: lab.words(&words),
        count: lens.len() as u32,
        rows: from[lens.len()],
        keep: keep as u32,
    };
    (signals, pasts)
}

/// The pasts of `streams` streams, each of `keep` rows.
pub(super) fn pasts(streams: usize, keep: usize, width: usize) -> Vec<Vec<f32>> {
    (0..streams).map(|s| numbers(keep * width, 50 + s)).collect()
}

/// `[past | x]` of every signal.
pub(super) fn padded(x: &[f32], lens: &[usize], pasts: &[Vec<f32>], width: usize) -> Vec<Vec<f32>> {
    let mut rest = x;
    let signal = |(&len, past): (&usize, &Vec<f32>)| {
        let (now, others) = rest.split_at(len * width);
        rest = others;
        [past, now].concat()
    };
    lens.iter().zip(pasts).map(signal).collect()
}

/// Every other one a multiple of eight, which kernels move eight elements at once of.
fn widths() -> impl Strategy<Value = usize> {
    prop_oneof![1_usize..300, (1_usize..38).prop_map(|eighths| 8 * eighths)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn signals_follow_their_pasts(
        lens in prop::collection::vec(0_usize..9, 1..6),
        keep in 0_usize..7,
        width in widths(),
        bent in any::<bool>(),
        lacking in prop::option::of(0_usize..5),
    ) {
        let rows: usize = lens.iter().sum();
        let x = numbers(rows * width, 1);
        let a = numbers(width, 2);
        let b = numbers(width, 3);
        let before = pasts(lens.len(), keep, width);
        each_type(
            |lab| {
                let (mut signals, pasts) = signals(lab, &lens, &before, keep);
                if let Some(lacking) = lacking {
                    let rows: Vec<u32> = lens.iter().map(|&len| lacking.min(len) as u32).collect();
                    signals.lacking = lab.words(&rows);
                }
                let size = (rows + lens.len() * keep) * width;
                let out = lab.room(size);
                let width = width as u32;
                let (a, b) = if bent { (lab.floats(&a), lab.floats(&b)) } else { (Address::NONE, Address::NONE) };
                lab.run(&Pad { out, x: lab.rows(&x), signals, a, b, width }.launch(lab.float));
                lab.run(&Remember { padded: out, signals, width }.launch(lab.float));
                let after: Vec<f32> = pasts.iter().flat_map(|p| lab.read(*p, keep * width as usize)).collect();
                (lab.read(out, size), after)
            },
            |float, (got, after)| {
                let x = rounded(float, &x);
                let bend = |(i, v): (usize, &f32)| if bent { v + (v * a[i % width]).sin().powi(2) * b[i % width] } else { *v };
                let x: Vec<f32> = x.iter().enumerate().map(bend).collect();
                let before: Vec<Vec<f32>> = before.iter().map(|p| rounded(float, p)).collect();
                let mut expected = padded(&x, &lens, &before, width);
                for (signal, len) in expected.iter_mut().zip(&lens) {
                    let zeros = lacking.unwrap_or(0).min(*len) * width;
                    signal[keep * width..][..zeros].fill(0.0);
                }
                close("padded", float, &got, &expected.concat());
                let last: Vec<f32> = expected.iter().flat_map(|s| s[s.len() - keep * width..].to_vec()).collect();
                close("past", float, &after, &last);
            },
        );
    }

    #[test]
    fn channels_are_convolved_each_for_itself(
        lens in prop::collection::vec(0_usize..9, 1..6),
        taps in 1_usize..8,
        dilation in 1_usize..4,
        width in widths(),
    ) {
        let rows = lens.iter().sum::<usize>();
        let keep = (taps - 1) * dilation;
        let x = numbers(rows * width, 1);
        let w = numbers(taps * width, 2);
        let bias = numbers(width, 3);
        let before = pasts(lens.len(), keep, width);
        let whole = padded(&x, &lens, &before, width);
        each_type(
            |lab| {
                let (signals, _) = signals(lab, &lens, &before, keep);
                let out = lab.room(rows * width);
                let depthwise = Depthwise {
                    out,
                    padded: lab.rows(&whole.concat()),
                    w: lab.floats(&w),
                    bias: lab.floats(&bias),
                    signals,
                    taps: taps as u32,
                    dilation: dilation as u32,
                    width: width as u32,
                };
                lab.run(&depthwise.launch(lab.float));
                lab.read(out, rows * width)
            },
            |float, got| {
                let mut expected = Vec::new();
                for (signal, &len) in whole.iter().zip(&lens) {
                    let signal = rounded(float, signal);
                    for row in 0..len {
                        let at = |t: usize, c: usize| signal[(row + t * dilation) * width + c];
                        expected.extend((0..width).map(|c| bias[c] + (0..taps).map(|t| at(t, c) * w[t * width + c]).sum::<f32>()));
                    }
                }
                close("convolved", float, &got, &expected);
            },
        );
    }

    #[test]
    fn windows_are_multiplied_where_they_are(
        lens in prop::collection::vec(0_usize..40, 1..5),
        taps in 1_usize..8,
        dilation in 1_usize..4,
        channels in prop_oneof![1_usize..20, Just(32), Just(96)],
        outputs in 1_usize..70,
        snake in any::<bool>(),
    ) {
        let factors = numbers(outputs, 4);
        let others = numbers(outputs, 5);
        let rows = lens.iter().sum::<usize>();
        let keep = (taps - 1) * dilation;
        let inputs = taps * channels;
        let x = numbers(rows * channels, 1);
        let w: Vec<f32> = numbers(outputs * inputs, 2).iter().map(|w| w / (inputs as f32).sqrt()).collect();
        let bias = numbers(outputs, 3);
        let whole = padded(&x, &lens, &pasts(lens.len(), keep, channels), channels);
        each_type(
            |lab| {
                let (signals, _) = signals(lab, &lens, &pasts(lens.len(), keep, channels), keep);
                let out = lab.room(rows * outputs);
                let linear = Linear {
                    out,
                    x: lab.rows(&whole.concat()),
                    w: lab.rows(&w),
                    bias: lab.floats(&bias),
                    scale: if snake { lab.floats(&factors) } else { Address::NONE },
                    shift: if snake { lab.floats(&others) } else { Address::NONE },
                    add: Address::NONE,
                    norm: Address::NONE,
                    eps: 0.0,
                    scratch: Scratch::default(),
                    rows: rows as u32,
                    outputs: outputs as u32,
                    inputs: inputs as u32,
                    activation: if snake { Activation::Snake } else { Activation::None },
                };
                let convolve = Convolve { linear, signals, channels: channels as u32, dilation: dilation as u32 };
                lab.run(&convolve.launch(lab.float));
                lab.read(out, rows * outputs)
            },
            |float, got| {
                let mut windows = Vec::new();
                for (signal, &len) in whole.iter().zip(&lens) {
                    for row in 0..len {
                        windows.extend((0..taps).flat_map(|t| &signal[(row + t * dilation) * channels..][..channels]));
                    }
                }
                let mut expected = product(&rounded(float, &windows), &rounded(float, &w), inputs);
                for (i, v) in expected.iter_mut().enumerate() {
                    let n = i % outputs;
                    *v += bias[n];
                    *v += if snake { (*v * factors[n]).sin().powi(2) * others[n] } else { 0.0 };
                }
                close("convolved", float, &got, &expected);
            },
        );
    }
}
