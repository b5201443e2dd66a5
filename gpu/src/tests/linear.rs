use proptest::prelude::*;

use super::pointwise::silu;
use super::{close, each_type, numbers, rounded};
use crate::Address;
use crate::kernels::{Activation, Gated, Linear};

/// `x W^T`, in f64.
pub(super) fn product(x: &[f32], w: &[f32], inputs: usize) -> Vec<f32> {
    let dot =
        |x: &[f32], w: &[f32]| -> f64 { x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum() };
    let row = |x: &[f32]| w.chunks(inputs).map(|w| dot(x, w) as f32).collect::<Vec<_>>();
    x.chunks(inputs).flat_map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn products_with_everything_around_them(
        rows in prop_oneof![1_usize..20, 20_usize..140],
        outputs in 1_usize..90,
        inputs in prop_oneof![1_usize..200, Just(256), Just(1088)],
        extras in any::<[bool; 4]>(),
    ) {
        let [with_bias, with_scale, with_add, with_activation] = extras;
        let (x, w) = (numbers(rows * inputs, 1), numbers(outputs * inputs, 2));
        let (bias, scale, add) = (numbers(outputs, 3), numbers(outputs, 4), numbers(rows * outputs, 5));
        each_type(
            |lab| {
                let out = if with_add { lab.rows(&add) } else { lab.room(rows * outputs) };
                let linear = Linear {
                    out,
                    x: lab.rows(&x),
                    w: lab.rows(&w),
                    bias: if with_bias { lab.floats(&bias) } else { Address::NONE },
                    scale: if with_scale { lab.floats(&scale) } else { Address::NONE },
                    add: if with_add { out } else { Address::NONE },
                    rows: rows as u32,
                    outputs: outputs as u32,
                    inputs: inputs as u32,
                    activation: if with_activation { Activation::Silu } else { Activation::None },
                };
                lab.run(&linear.launch(lab.float));
                lab.read(out, rows * outputs)
            },
            |float, got| {
                let [x, w, add] = [&x, &w, &add].map(|v| rounded(float, v));
                let mut expected = product(&x, &w, inputs);
                for (i, v) in expected.iter_mut().enumerate() {
                    let n = i % outputs;
                    *v += if with_bias { bias[n] } else { 0.0 };
                    *v = if with_activation { silu(*v) } else { *v };
                    *v *= if with_scale { scale[n] } else { 1.0 };
                    *v += if with_add { add[i] } else { 0.0 };
                }
                // Terms of either sign: the error grows with their number.
                let size = (inputs as f32).sqrt().max(1.0);
                let scaled = |v: &[f32]| v.iter().map(|v| v / size).collect::<Vec<_>>();
                close("product", float, &scaled(&got), &scaled(&expected));
            },
        );
    }

    #[test]
    fn gated_products(
        rows in 1_usize..9,
        half in 1_usize..60,
        inputs in prop_oneof![1_usize..200, Just(256), Just(1088), Just(3200)],
    ) {
        let x: Vec<f32> = numbers(rows * inputs, 1);
        let w: Vec<f32> = numbers(2 * half * inputs, 2).iter().map(|w| w / (inputs as f32).sqrt()).collect();
        each_type(
            |lab| {
                let out = lab.room(rows * half);
                let (x, w, rows, half, inputs) = (lab.rows(&x), lab.rows(&w), rows as u32, half as u32, inputs as u32);
                lab.run(&Gated { out, x, w, rows, half, inputs }.launch(lab.float));
                lab.read(out, (rows * half) as usize)
            },
            |float, got| {
                let both = product(&rounded(float, &x), &rounded(float, &w), inputs);
                let expected = both.chunks(2 * half).flat_map(|r| (0..half).map(|c| silu(r[c]) * r[half + c]));
                close("gated", float, &got, &expected.collect::<Vec<_>>());
            },
        );
    }
}

#[test]
fn a_row_is_the_same_whatever_it_is_multiplied_with() {
    let (inputs, outputs) = (3400, 37);
    let (x, w) = (numbers(8 * inputs, 1), numbers(outputs * inputs, 2));
    each_type(
        |lab| {
            let mut results = Vec::new();
            for rows in [1, 2, 3, 4, 7, 8] {
                let out = lab.room(rows * outputs);
                let linear = Linear {
                    out,
                    x: lab.rows(&x[..rows * inputs]),
                    w: lab.rows(&w),
                    bias: Address::NONE,
                    scale: Address::NONE,
                    add: Address::NONE,
                    rows: rows as u32,
                    outputs: outputs as u32,
                    inputs: inputs as u32,
                    activation: Activation::None,
                };
                lab.run(&linear.launch(lab.float));
                results.push(lab.read(out, rows * outputs));
            }
            results
        },
        |_, results| {
            for r in &results {
                assert_eq!(r[..], results[5][..r.len()]);
            }
        },
    );
}
