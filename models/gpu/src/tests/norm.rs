use proptest::prelude::*;

use super::{close, each_type, numbers, rounded};
use crate::Address;
use crate::kernels::{LayerNorm, RmsNorm};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rms_norm_adds_and_normalises(rows in 1_usize..5, width in 1_usize..700, add in any::<bool>(), scaled in any::<bool>()) {
        let x = numbers(rows * width, 1);
        let y = numbers(rows * width, 2);
        let scale = numbers(width, 3);
        let weight = numbers(width, 4);
        let eps = 1e-5;
        each_type(
            |lab| {
                let out = lab.room(rows * width);
                let at = lab.rows(&x);
                let norm = RmsNorm {
                    out,
                    x: at,
                    y: if add { lab.rows(&y) } else { Address::NONE },
                    scale: if scaled { lab.floats(&scale) } else { Address::NONE },
                    weight: lab.floats(&weight),
                    rows: rows as u32,
                    width: width as u32,
                    eps,
                };
                lab.run(&norm.launch(lab.float));
                (lab.read(at, rows * width), lab.read(out, rows * width))
            },
            |float, (sum, normal)| {
                let x = rounded(float, &x);
                let y = rounded(float, &y);
                let factor = |c: usize| if scaled { scale[c % width] } else { 1.0 };
                let added = |i: usize| if add { x[i] + factor(i) * y[i] } else { x[i] };
                let expected: Vec<f32> = (0..rows * width).map(added).collect();
                close("sum", float, &sum, &expected);
                let expected = rounded(float, &expected);
                let normalised = expected.chunks(width).flat_map(|row| {
                    let mean = row.iter().map(|v| v * v).sum::<f32>() / width as f32;
                    let root = (mean + eps).sqrt();
                    row.iter().zip(&weight).map(move |(v, w)| v / root * w)
                });
                close("norm", float, &normal, &normalised.collect::<Vec<_>>());
            },
        );
    }

    #[test]
    fn layer_norm_centres(rows in 1_usize..5, width in 1_usize..700) {
        let x: Vec<f32> = numbers(rows * width, 1).iter().map(|v| v + 3.0).collect();
        let weight = numbers(width, 3);
        let bias = numbers(width, 4);
        let eps = 1e-5;
        each_type(
            |lab| {
                let out = lab.room(rows * width);
                let rows = rows as u32;
                let width = width as u32;
                let x = lab.rows(&x);
                let weight = lab.floats(&weight);
                let bias = lab.floats(&bias);
                lab.run(&LayerNorm { out, x, weight, bias, rows, width, eps }.launch(lab.float));
                lab.read(out, (rows * width) as usize)
            },
            |float, normal| {
                let x = rounded(float, &x);
                let mut expected = Vec::new();
                for row in x.chunks(width) {
                    let mean = row.iter().sum::<f32>() / width as f32;
                    let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / width as f32;
                    let root = (variance + eps).sqrt();
                    expected.extend((0..width).map(|c| (row[c] - mean) / root * weight[c] + bias[c]));
                }
                close("norm", float, &normal, &expected);
            },
        );
    }
}

#[test]
fn without_an_output_only_the_sum_is_made() {
    let x = numbers(32, 1);
    let y = numbers(32, 2);
    each_type(
        |lab| {
            let at = lab.rows(&x);
            let sum = RmsNorm {
                out: Address::NONE,
                x: at,
                y: lab.rows(&y),
                scale: Address::NONE,
                weight: Address::NONE,
                rows: 2,
                width: 16,
                eps: 0.0,
            };
            lab.run(&sum.launch(lab.float));
            lab.read(at, 32)
        },
        |float, sum| {
            let x = rounded(float, &x);
            let y = rounded(float, &y);
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
            close("sum", float, &sum, &expected);
        },
    );
}
