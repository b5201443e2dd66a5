use proptest::prelude::*;

use super::Lab;
use super::pointwise::silu;
use super::{close, each_type, numbers, rounded};
use crate::Address;
use crate::kernels::{Activation, COUNTERS, Gated, GatedBeside, Linear, Scratch};

/// `x W^T`, in f64.
pub(super) fn product(x: &[f32], w: &[f32], inputs: usize) -> Vec<f32> {
    let dot =
        |x: &[f32], w: &[f32]| -> f64 { x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum() };
    let row = |x: &[f32]| w.chunks(inputs).map(|w| dot(x, w) as f32).collect::<Vec<_>>();
    x.chunks(inputs).flat_map(row).collect()
}

/// Every row as `norm` leaves it, in the precision of the sums.
pub(super) fn normed(x: &[f32], norm: &[f32], eps: f32) -> Vec<f32> {
    let row = |row: &[f32]| {
        let mean = row.iter().map(|v| v * v).sum::<f32>() / row.len() as f32;
        let factor = 1.0 / (mean + eps).sqrt();
        row.iter()
            .zip(norm)
            .map(|(v, w)| v * factor * w)
            .collect::<Vec<_>>()
    };
    x.chunks(norm.len()).flat_map(row).collect()
}

/// Scratch memory through which blocks share the inputs, of `bytes` bytes.
pub(super) fn scratch(lab: &Lab, bytes: usize) -> Scratch {
    Scratch {
        partial: if bytes > 0 {
            lab.floats(&vec![f32::NAN; bytes / 4])
        } else {
            Address::NONE
        },
        counters: lab.words(&[0; COUNTERS]),
    }
}

fn left_as_found(lab: &Lab, scratch: Scratch) {
    assert!(
        lab.read_words(scratch.counters, COUNTERS).iter().all(|c| *c == 0),
        "counters are not zero again"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn products_with_everything_around_them(
        rows in prop_oneof![1_usize..20, 20_usize..140],
        outputs in 1_usize..90,
        inputs in prop_oneof![1_usize..200, Just(256), Just(1088)],
        extras in any::<[bool; 5]>(),
    ) {
        let [with_bias, with_scale, with_add, with_activation, shared] = extras;
        let x = numbers(rows * inputs, 1);
        let w = numbers(outputs * inputs, 2);
        let bias = numbers(outputs, 3);
        let scale = numbers(outputs, 4);
        let add = numbers(rows * outputs, 5);
        each_type(
            |lab| {
                let out = if with_add { lab.rows(&add) } else { lab.room(rows * outputs) };
                let mut linear = Linear {
                    out,
                    x: lab.rows(&x),
                    w: lab.rows(&w),
                    bias: if with_bias { lab.floats(&bias) } else { Address::NONE },
                    scale: if with_scale { lab.floats(&scale) } else { Address::NONE },
                    shift: Address::NONE,
                    add: if with_add { out } else { Address::NONE },
                    norm: Address::NONE,
                    eps: 0.0,
                    scratch: Scratch::default(),
                    rows: rows as u32,
                    outputs: outputs as u32,
                    inputs: inputs as u32,
                    activation: if with_activation { Activation::Silu } else { Activation::None },
                };
                if shared {
                    linear.scratch = scratch(lab, linear.scratch_bytes(lab.float));
                }
                lab.run(&linear.launch(lab.float));
                if shared {
                    left_as_found(lab, linear.scratch);
                }
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
        rows in prop_oneof![1_usize..9, 9_usize..70, Just(130)],
        half in 1_usize..60,
        inputs in prop_oneof![1_usize..200, Just(256), Just(1088), Just(3200)],
        shared in any::<bool>(),
    ) {
        let x: Vec<f32> = numbers(rows * inputs, 1);
        let w: Vec<f32> = numbers(2 * half * inputs, 2).iter().map(|w| w / (inputs as f32).sqrt()).collect();
        each_type(
            |lab| {
                let out = lab.room(rows * half);
                let x = lab.rows(&x);
                let w = lab.rows(&w);
                let rows = rows as u32;
                let half = half as u32;
                let inputs = inputs as u32;
                let norm = Address::NONE;
                let eps = 0.0;
                let none = Scratch::default();
                let mut gated = Gated { out, x, w, norm, eps, scratch: none, rows, half, inputs };
                if shared {
                    gated.scratch = scratch(lab, gated.scratch_bytes(lab.float));
                }
                lab.run(&gated.launch(lab.float));
                if shared {
                    left_as_found(lab, gated.scratch);
                }
                lab.read(out, (rows * half) as usize)
            },
            |float, got| {
                let both = product(&rounded(float, &x), &rounded(float, &w), inputs);
                let expected = both.chunks(2 * half).flat_map(|r| (0..half).map(|c| silu(r[c]) * r[half + c]));
                close("gated", float, &got, &expected.collect::<Vec<_>>());
            },
        );
    }

    #[test]
    fn products_of_rows_that_are_normalised_on_their_way(
        rows in 1_usize..9,
        outputs in 1_usize..60,
        inputs in prop_oneof![1_usize..200, Just(256), Just(1088), Just(3200)],
    ) {
        let x = numbers(rows * inputs, 1);
        let norm = numbers(inputs, 3);
        let eps = 1e-5;
        let w: Vec<f32> = numbers(2 * outputs * inputs, 2).iter().map(|w| w / (inputs as f32).sqrt()).collect();
        let add = numbers(rows * outputs, 4);
        each_type(
            |lab| {
                let [plain, gated] = [lab.room(rows * outputs), lab.room(rows * outputs)];
                let at_x = lab.rows(&x);
                let w = lab.rows(&w);
                let at_norm = lab.floats(&norm);
                let linear = Linear {
                    out: plain,
                    x: at_x,
                    w,
                    bias: Address::NONE,
                    scale: Address::NONE,
                    shift: Address::NONE,
                    add: lab.rows(&add),
                    norm: at_norm,
                    eps,
                    scratch: Scratch::default(),
                    rows: rows as u32,
                    outputs: outputs as u32,
                    inputs: inputs as u32,
                    activation: Activation::None,
                };
                lab.run(&linear.launch(lab.float));
                let of_pair = Gated {
                    out: gated,
                    x: at_x,
                    w,
                    norm: at_norm,
                    eps,
                    scratch: Scratch::default(),
                    rows: rows as u32,
                    half: outputs as u32,
                    inputs: inputs as u32,
                };
                lab.run(&of_pair.launch(lab.float));
                (lab.read(plain, rows * outputs), lab.read(gated, rows * outputs))
            },
            |float, (plain, gated)| {
                let both = product(&normed(&rounded(float, &x), &norm, eps), &rounded(float, &w), inputs);
                let add = rounded(float, &add);
                let rows = both.chunks(2 * outputs);
                let expected = rows.clone().flat_map(|r| r[..outputs].to_vec()).zip(&add).map(|(v, a)| v + a);
                close("normed", float, &plain, &expected.collect::<Vec<_>>());
                let expected = rows.flat_map(|r| (0..outputs).map(|c| silu(r[c]) * r[outputs + c]));
                close("normed and gated", float, &gated, &expected.collect::<Vec<_>>());
            },
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn two_products_side_by_side_are_what_each_is_alone(
        rows in 1_usize..9,
        half in 1_usize..60,
        outputs in 1_usize..60,
        inputs in prop_oneof![1_usize..200, Just(256), Just(1088), Just(3200)],
    ) {
        let x = numbers(rows * inputs, 1);
        let norm = numbers(inputs, 3);
        let eps = 1e-5;
        let of_gated = numbers(2 * half * inputs, 2);
        let of_other = numbers(outputs * inputs, 5);
        each_type(
            |lab| {
                let made = || [lab.room(rows * half), lab.room(rows * outputs)];
                let alone = made();
                let beside = made();
                let x = lab.rows(&x);
                let norm = lab.floats(&norm);
                let mut gated = Gated {
                    out: alone[0],
                    x,
                    w: lab.rows(&of_gated),
                    norm,
                    eps,
                    scratch: Scratch::default(),
                    rows: rows as u32,
                    half: half as u32,
                    inputs: inputs as u32,
                };
                let linear = Linear {
                    out: alone[1],
                    x,
                    w: lab.rows(&of_other),
                    bias: Address::NONE,
                    scale: Address::NONE,
                    shift: Address::NONE,
                    add: Address::NONE,
                    norm,
                    eps,
                    scratch: Scratch::default(),
                    rows: rows as u32,
                    outputs: outputs as u32,
                    inputs: inputs as u32,
                    activation: Activation::None,
                };
                lab.run(&gated.launch(lab.float));
                lab.run(&linear.launch(lab.float));
                gated.out = beside[0];
                let both = GatedBeside { gated, out: beside[1], w: linear.w, outputs: outputs as u32 };
                lab.run(&both.launch(lab.float));
                let read = |[gated, other]: [Address; 2]| [lab.read(gated, rows * half), lab.read(other, rows * outputs)];
                (read(alone), read(beside))
            },
            |_, (alone, beside)| assert_eq!(alone, beside),
        );
    }
}

#[test]
fn a_row_is_the_same_whatever_it_is_multiplied_with() {
    let inputs = 3400;
    let outputs = 37;
    let x = numbers(8 * inputs, 1);
    let w = numbers(outputs * inputs, 2);
    let norm = numbers(inputs, 3);
    let each = |lab: &Lab, normed: bool| {
        let mut results = Vec::new();
        for rows in [1, 2, 3, 4, 7, 8] {
            let out = lab.room(rows * outputs);
            let linear = Linear {
                out,
                x: lab.rows(&x[..rows * inputs]),
                w: lab.rows(&w),
                bias: Address::NONE,
                scale: Address::NONE,
                shift: Address::NONE,
                add: Address::NONE,
                norm: if normed { lab.floats(&norm) } else { Address::NONE },
                eps: 1e-5,
                scratch: Scratch::default(),
                rows: rows as u32,
                outputs: outputs as u32,
                inputs: inputs as u32,
                activation: Activation::None,
            };
            lab.run(&linear.launch(lab.float));
            results.push(lab.read(out, rows * outputs));
        }
        results
    };
    for normed in [false, true] {
        each_type(
            |lab| each(lab, normed),
            |_, results| {
                for r in &results {
                    assert_eq!(r[..], results[5][..r.len()]);
                }
            },
        );
    }
}

/// Few tiles and many inputs: their blocks meet in device memory, whichever comes last.
#[test]
fn blocks_that_share_inputs_add_them_up_in_their_order() {
    for (rows, outputs, inputs) in [(16, 40, 2048), (33, 100, 1536), (150, 200, 1024)] {
        let x = numbers(rows * inputs, 1);
        let w = numbers(outputs * inputs, 2);
        each_type(
            |lab| {
                let out = lab.room(rows * outputs);
                let mut linear = Linear::product(
                    out,
                    lab.rows(&x),
                    lab.rows(&w),
                    [rows as u32, outputs as u32, inputs as u32],
                );
                let bytes = linear.scratch_bytes(lab.float);
                assert_eq!(bytes > 0, lab.float == crate::Float::Bf16);
                linear.scratch = scratch(lab, bytes);
                let launch = linear.launch(lab.float);
                assert_eq!(launch.grid.0[2] > 1, bytes > 0);
                lab.run(&launch);
                left_as_found(lab, linear.scratch);
                // Counters are ready for the next.
                lab.run(&launch);
                lab.read(out, rows * outputs)
            },
            |float, got| {
                let expected = product(&rounded(float, &x), &rounded(float, &w), inputs);
                let scaled = |v: &[f32]| v.iter().map(|v| v / (inputs as f32).sqrt()).collect::<Vec<_>>();
                close("product", float, &scaled(&got), &scaled(&expected));
            },
        );
    }
}

/// Its tiles are 96 wide, not a multiple of a pass: prefetching must stop at the matrix's end.
#[test]
fn a_gated_product_asks_for_nothing_beyond_its_matrix() {
    let rows = 70;
    let half = 48;
    let inputs = 64;
    let x = numbers(rows * inputs, 1);
    let w = numbers(2 * half * inputs, 2);
    let lab = Lab::new(crate::Float::Bf16, crate::Order::Forwards);
    let out = lab.room(rows * half);
    let gated = Gated {
        out,
        x: lab.rows(&x),
        w: lab.rows(&w),
        norm: Address::NONE,
        eps: 0.0,
        scratch: Scratch::default(),
        rows: rows as u32,
        half: half as u32,
        inputs: inputs as u32,
    };
    let launch = gated.launch(lab.float);
    assert_eq!(launch.kernel.name, "gemm_128x96");
    lab.run(&launch);
    let [x, w] = [&x, &w].map(|v| rounded(lab.float, v));
    let both = product(&x, &w, inputs);
    let expected = both
        .chunks(2 * half)
        .flat_map(|r| (0..half).map(|c| silu(r[c]) * r[half + c]));
    let scaled = |v: &[f32]| v.iter().map(|v| v / inputs as f32).collect::<Vec<_>>();
    let expected: Vec<f32> = expected.collect();
    close(
        "gated",
        lab.float,
        &scaled(&lab.read(out, rows * half)),
        &scaled(&expected),
    );
}
