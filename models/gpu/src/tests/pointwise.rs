use proptest::prelude::*;

use super::{Lab, close, each_type, numbers, rounded};
use crate::kernels::{Activate, Activation, Add, FromF32, Snake, Swiglu, ToF32};
use crate::{Address, Float, Launch};

/// Runs a launch with an output of `made` elements and input `x`.
fn map(
    x: &[f32],
    made: usize,
    launch: impl Fn(&Lab, Address, Address) -> Launch,
    expected: impl Fn(&[f32]) -> Vec<f32>,
) {
    each_type(
        |lab| {
            let out = lab.room(made);
            lab.run(&launch(lab, out, lab.rows(x)));
            lab.read(out, made)
        },
        |float, got| close("made", float, &got, &expected(&rounded(float, x))),
    );
}

pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// By the series of the error function, in f64.
fn gelu(x: f32) -> f32 {
    let z = f64::from(x) / 2_f64.sqrt();
    let mut term = z;
    let mut sum = z;
    for n in 1..60 {
        term *= -z * z / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    let erf = sum * 2.0 / std::f64::consts::PI.sqrt();
    (0.5 * f64::from(x) * (1.0 + erf)) as f32
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sums_are_scaled_per_channel(rows in 1_u32..9, width in 1_u32..300, scaled in any::<bool>()) {
        let count = rows * width;
        let x = numbers(count as usize, 1);
        let y = numbers(count as usize, 2);
        let scale = numbers(width as usize, 3);
        each_type(
            |lab| {
                let x = lab.rows(&x);
                let y = lab.rows(&y);
                let scale = if scaled { lab.floats(&scale) } else { Address::NONE };
                lab.run(&Add { out: x, x, y, scale, count, width }.launch(lab.float));
                lab.read(x, count as usize)
            },
            |float, got| {
                let x = rounded(float, &x);
                let y = rounded(float, &y);
                let factor = |i: usize| if scaled { scale[i % width as usize] } else { 1.0 };
                let expected: Vec<f32> = (0..x.len()).map(|i| x[i] + factor(i) * y[i]).collect();
                close("sum", float, &got, &expected);
            },
        );
    }

    #[test]
    fn activations_are_what_they_are_called(count in 1_u32..5000) {
        let x: Vec<f32> = numbers(count as usize, 1).iter().map(|v| 4.0 * v).collect();
        for (activation, f) in [(Activation::Silu, silu as fn(f32) -> f32), (Activation::Gelu, gelu), (Activation::None, |x| x)] {
            let made = |lab: &Lab, out, x| Activate { out, x, count, activation }.launch(lab.float);
            map(&x, count as usize, made, |x| x.iter().map(|&v| f(v)).collect());
        }
    }

    #[test]
    fn gates_open_for_their_own_halves(rows in 1_u32..5, half in 1_u32..300) {
        let x = numbers((rows * 2 * half) as usize, 1);
        let made = |lab: &Lab, out, x| Swiglu { out, x, rows, half }.launch(lab.float);
        map(&x, (rows * half) as usize, made, |x| {
            let pair = |row: &[f32]| (0..half as usize).map(|c| silu(row[c]) * row[half as usize + c]).collect::<Vec<_>>();
            x.chunks(2 * half as usize).flat_map(pair).collect()
        });
    }

    #[test]
    fn snakes_bend_per_channel(rows in 1_u32..5, width in 1_u32..100) {
        let x = numbers((rows * width) as usize, 1);
        let a = numbers(width as usize, 2);
        let b = numbers(width as usize, 3);
        let count = rows * width;
        let made = |lab: &Lab, out, x| Snake { out, x, a: lab.floats(&a), b: lab.floats(&b), count, width }.launch(lab.float);
        map(&x, count as usize, made, |x| {
            let bent = |(i, v): (usize, &f32)| {
                let c = i % width as usize;
                v + (v * a[c]).sin().powi(2) * b[c]
            };
            x.iter().enumerate().map(bent).collect()
        });
    }

    #[test]
    fn types_convert_there_and_back(count in 1_u32..2000) {
        let x = numbers(count as usize, 1);
        each_type(
            |lab| {
                let narrow = lab.room(count as usize);
                let wide = lab.floats(&x);
                lab.run(&FromF32 { out: narrow, x: wide, count }.launch(lab.float));
                let back = lab.floats(&x);
                lab.run(&ToF32 { out: back, x: narrow, count }.launch(lab.float));
                (lab.read(narrow, count as usize), lab.read_floats(back, count as usize))
            },
            |float, (narrow, back)| {
                assert_eq!(narrow, rounded(float, &x));
                assert_eq!(back, narrow);
            },
        );
    }
}

#[test]
fn rounding_to_bf16_is_to_nearest_even() {
    let values = [
        1.0_f32,
        1.003_906_2,
        1.011_718_8,
        -1.5,
        3.4e38,
        f32::INFINITY,
        1e-40,
        0.0,
    ];
    each_type(
        |lab| {
            let out = lab.room(values.len());
            let from = FromF32 {
                out,
                x: lab.floats(&values),
                count: values.len() as u32,
            };
            lab.run(&from.launch(lab.float));
            lab.read(out, values.len())
        },
        |float, got| assert_eq!(got, rounded(float, &values)),
    );
    let lab = Lab::new(Float::Bf16, crate::Order::Forwards);
    let out = lab.room(1);
    lab.run(
        &FromF32 {
            out,
            x: lab.floats(&[f32::NAN]),
            count: 1,
        }
        .launch(Float::Bf16),
    );
    assert!(lab.read(out, 1)[0].is_nan());
}
