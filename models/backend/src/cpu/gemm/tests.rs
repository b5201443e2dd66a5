use half::bf16;

use super::*;
use crate::host::{DType, HostTensor};
use crate::weights::Weights;

mod rounded;

/// Small numbers that repeat with no short period.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
        .collect()
}

fn tensor(shape: Vec<usize>, values: &[f32], half: bool) -> HostTensor {
    if !half {
        return HostTensor::from_f32(shape, values);
    }
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
        .collect();
    HostTensor::stored(DType::Bf16, shape, bytes.into())
}

fn plain(x: &Lhs<'_>, s: Segment, w: &[f32], bias: &[f32], outputs: usize) -> Vec<f64> {
    let k = x.taps * x.depth;
    let at = |m: usize, i: usize| x.data[s.src + m * x.row_stride + i / x.depth * x.tap_stride + i % x.depth];
    let cell = |m: usize, n: usize| {
        let products = (0..k).map(|i| f64::from(at(m, i)) * f64::from(w[n * k + i]));
        f64::from(bias[n]) + products.sum::<f64>()
    };
    (0..s.rows)
        .flat_map(|m| (0..outputs).map(move |n| (m, n)))
        .map(|(m, n)| cell(m, n))
        .collect()
}

#[test]
fn equals_the_plain_sum_for_every_shape_and_instruction_set() {
    for isa in Isa::available() {
        for half in [false, true] {
            for (outputs, depth) in [
                (1, 3),
                (7, 16),
                (16, 5),
                (17, 9),
                (32, 64),
                (40, 33),
                (65, 12),
                (150, 20),
            ] {
                let w = tensor(vec![outputs, depth], &numbers(outputs * depth, 1), half);
                let bias = numbers(outputs, 2);
                let matrix = Matrix::pack(isa, Weights::Stored, std::slice::from_ref(&w), Some(&bias));
                for rows in (0..=14).chain([25]) {
                    let data = numbers(rows * depth, 3);
                    let x = Lhs {
                        data: &data,
                        row_stride: depth,
                        taps: 1,
                        tap_stride: 0,
                        depth,
                    };
                    let segment = Segment { src: 0, dst: 0, rows };
                    let mut out = vec![f32::NAN; rows * outputs];
                    multiply(isa, &matrix, &x, &[segment], &mut out);
                    for (got, expected) in out.iter().zip(plain(&x, segment, &w.to_f32(), &bias, outputs)) {
                        let error = (f64::from(*got) - expected).abs();
                        assert!(
                            error < 1e-4,
                            "{isa:?} {half} {outputs}x{depth} {rows}: {got} {expected}"
                        );
                    }
                }
            }
        }
    }
}

/// `w [.., inputs]` as its quantised form reads, but for the columns that are never quantised: the last ones, if a
/// vector holds them.
fn quantised(bits: Bits, isa: Isa, w: &[f32], inputs: usize) -> Vec<f32> {
    let outputs = w.len() / inputs;
    let lanes = pack::lanes(isa);
    let rest = outputs % (2 * lanes);
    let kept = if rest <= lanes { outputs - rest } else { outputs };
    let groups = w[..kept * inputs].as_chunks().0;
    let mut scales = vec![bf16::ZERO; groups.len()];
    let mut weights = vec![[0_u8; quant::GROUP]; groups.len()];
    quant::scale::quantise(isa, bits, groups, &mut scales, &mut weights);
    let pairs = scales.iter().zip(weights);
    let back = pairs
        .flat_map(|(scale, weights)| weights.map(|weight| f32::from(weight.cast_signed()) * scale.to_f32()));
    back.chain(w[kept * inputs..].iter().copied()).collect()
}

#[test]
fn a_quantised_product_is_that_of_the_weights_as_they_were_rounded() {
    for isa in Isa::available() {
        for bits in [Bits::Eight, Bits::Four] {
            for (outputs, depth) in [
                (16, 32),
                (17, 32),
                (32, 64),
                (40, 96),
                (65, 32),
                (150, 128),
                (256, 64),
            ] {
                let w = tensor(vec![outputs, depth], &numbers(outputs * depth, 1), true);
                let rounded = quantised(bits, isa, &w.to_f32(), depth);
                let bias = numbers(outputs, 2);
                let parts = std::slice::from_ref(&w);
                let layouts = [pack::Layout::Quantised(bits), pack::Layout::Bytes(bits)];
                for layout in &layouts[..if isa.multiplies_bytes() { 2 } else { 1 }] {
                    let matrix = Matrix::pack_as(isa, *layout, parts, Some(&bias));
                    // Largest error of a sum of 128 terms, where activations are rounded to 16 bits.
                    let tolerance = if matches!(matrix.storage(), Panels::Bytes(..)) {
                        1e-3
                    } else {
                        1e-4
                    };
                    for rows in (0..=8).chain([13]) {
                        let data = numbers(rows * depth, 3);
                        let x = Lhs {
                            data: &data,
                            row_stride: depth,
                            taps: 1,
                            tap_stride: 0,
                            depth,
                        };
                        let segment = Segment { src: 0, dst: 0, rows };
                        let mut out = vec![f32::NAN; rows * outputs];
                        multiply(isa, &matrix, &x, &[segment], &mut out);
                        for (got, expected) in out.iter().zip(plain(&x, segment, &rounded, &bias, outputs)) {
                            let error = (f64::from(*got) - expected).abs();
                            assert!(
                                error < tolerance,
                                "{isa:?} {layout:?} {outputs}x{depth} {rows}: {got} {expected}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn weights_are_multiplied_as_bytes_where_the_processor_does_that() {
    let isa = Isa::best();
    let w = tensor(vec![64, 64], &numbers(64 * 64, 1), true);
    for (weights, bits) in [(Weights::Int8, Bits::Eight), (Weights::Int4, Bits::Four)] {
        let matrix = Matrix::pack(isa, weights, std::slice::from_ref(&w), None);
        let as_bytes = matches!(matrix.storage(), Panels::Bytes(found, _) if *found == bits);
        assert_eq!(as_bytes, isa.multiplies_bytes());
    }
}

#[test]
fn an_activation_that_is_no_number_or_infinite_makes_no_product_that_is_one() {
    for isa in Isa::available() {
        for weights in [Weights::Int8, Weights::Int4, Weights::RoundedProducts] {
            let w = tensor(vec![64, 96], &numbers(64 * 96, 1), true);
            let matrix = Matrix::pack(isa, weights, std::slice::from_ref(&w), None);
            for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut data = numbers(2 * 96, 2);
                data[40] = broken;
                let x = Lhs {
                    data: &data,
                    row_stride: 96,
                    taps: 1,
                    tap_stride: 0,
                    depth: 96,
                };
                let mut out = vec![0.0; 2 * 64];
                multiply(
                    isa,
                    &matrix,
                    &x,
                    &[Segment {
                        src: 0,
                        dst: 0,
                        rows: 2,
                    }],
                    &mut out,
                );
                let (first, second) = out.split_at(64);
                assert!(
                    first.iter().all(|v| !v.is_finite()),
                    "{isa:?} {weights:?} {broken}"
                );
                assert!(
                    second.iter().all(|v| v.is_finite()),
                    "{isa:?} {weights:?} {broken}"
                );
            }
        }
    }
}

#[test]
fn rows_of_zeros_and_of_the_least_and_largest_numbers_stay_what_they_are() {
    let w = tensor(vec![32, 32], &[1.0; 32 * 32], true);
    for (isa, weights) in Isa::available()
        .into_iter()
        .flat_map(|isa| [(isa, Weights::Int8), (isa, Weights::Int4)])
    {
        let matrix = Matrix::pack(isa, weights, std::slice::from_ref(&w), None);
        for (value, expected) in [
            (0.0, 0.0),
            (1e-30, 32e-30),
            (-1.0, -32.0),
            (1e30, 32e30),
            (1e-44, 0.0),
        ] {
            let data = [value; 32];
            let x = Lhs {
                data: &data,
                row_stride: 32,
                taps: 1,
                tap_stride: 0,
                depth: 32,
            };
            let mut out = [f32::NAN; 32];
            multiply(
                isa,
                &matrix,
                &x,
                &[Segment {
                    src: 0,
                    dst: 0,
                    rows: 1,
                }],
                &mut out,
            );
            for got in out {
                let error = (f64::from(got) - expected).abs();
                assert!(
                    error <= expected.abs() * 0.01 + 1e-40,
                    "{isa:?} {weights:?} {value}: {got}"
                );
            }
        }
    }
}

#[test]
fn a_matrix_that_is_no_whole_groups_wide_is_kept_as_stored() {
    let isa = Isa::best();
    let w = tensor(vec![40, 48], &numbers(40 * 48, 1), false);
    for weights in [Weights::Int8, Weights::Int4] {
        let matrix = Matrix::pack(isa, weights, std::slice::from_ref(&w), None);
        assert!(matches!(matrix.storage(), Panels::F32(_)));
    }
}

#[test]
fn f32_weights_are_rounded_to_bf16_where_that_is_asked_for() {
    let isa = Isa::best();
    let values = numbers(64 * 20, 1);
    let product = |half: bool, weights: Weights| {
        let w = tensor(vec![64, 20], &values, half);
        let matrix = Matrix::pack(isa, weights, &[w], None);
        let data = numbers(3 * 20, 2);
        let x = Lhs {
            data: &data,
            row_stride: 20,
            taps: 1,
            tap_stride: 0,
            depth: 20,
        };
        let mut out = vec![0.0; 3 * 64];
        multiply(
            isa,
            &matrix,
            &x,
            &[Segment {
                src: 0,
                dst: 0,
                rows: 3,
            }],
            &mut out,
        );
        out
    };
    assert!(product(false, Weights::Bf16) == product(true, Weights::Stored));
    assert!(product(true, Weights::F32) == product(true, Weights::Stored));
    assert!(product(false, Weights::Bf16) != product(false, Weights::Stored));
}

#[test]
fn a_row_is_the_same_to_the_bit_whatever_its_batch() {
    for isa in Isa::available() {
        for (half, weights) in [
            (false, Weights::Stored),
            (true, Weights::Stored),
            (true, Weights::Int8),
            (true, Weights::Int4),
        ] {
            let outputs = 144;
            let depth = 96;
            let rows = 23;
            let w = tensor(vec![outputs, depth], &numbers(outputs * depth, 4), half);
            let matrix = Matrix::pack(isa, weights, &[w], None);
            let data = numbers(rows * depth, 5);
            let x = Lhs {
                data: &data,
                row_stride: depth,
                taps: 1,
                tap_stride: 0,
                depth,
            };
            let product = |src: usize, rows: usize| {
                let mut out = vec![0.0; rows * outputs];
                multiply(
                    isa,
                    &matrix,
                    &x,
                    &[Segment {
                        src: src * depth,
                        dst: 0,
                        rows,
                    }],
                    &mut out,
                );
                out
            };
            let all = product(0, rows);
            for size in 1..rows {
                let part = product(rows - size, size);
                assert!(
                    part == all[(rows - size) * outputs..],
                    "{isa:?}: {size} rows differ from {rows}"
                );
            }
        }
    }
}

#[test]
fn taps_reach_back_by_their_stride() {
    for isa in Isa::available() {
        let channels = 5;
        let taps = 7;
        let dilation = 3;
        let rows = 20;
        let outputs = 21;
        let w = tensor(
            vec![outputs, taps * channels],
            &numbers(outputs * taps * channels, 6),
            false,
        );
        let bias = numbers(outputs, 7);
        let matrix = Matrix::pack(isa, Weights::Stored, std::slice::from_ref(&w), Some(&bias));
        let data = numbers((rows + (taps - 1) * dilation) * channels, 8);
        let x = Lhs {
            data: &data,
            row_stride: channels,
            taps,
            tap_stride: dilation * channels,
            depth: channels,
        };
        let segment = Segment { src: 0, dst: 0, rows };
        let mut out = vec![0.0; rows * outputs];
        multiply(isa, &matrix, &x, &[segment], &mut out);
        for (got, expected) in out.iter().zip(plain(&x, segment, &w.to_f32(), &bias, outputs)) {
            assert!(
                (f64::from(*got) - expected).abs() < 1e-4,
                "{isa:?}: {got} {expected}"
            );
        }
    }
}

/// Its panels are as wide as the vectors that it is packed for: others would read beyond their end.
#[test]
fn a_matrix_is_multiplied_only_by_the_instructions_that_it_is_packed_for() {
    let w = tensor(vec![40, 8], &numbers(40 * 8, 6), false);
    let x = numbers(8, 7);
    for packed in Isa::available() {
        let matrix = Matrix::pack(packed, Weights::Stored, std::slice::from_ref(&w), None);
        for isa in Isa::available() {
            let multiplied = std::panic::catch_unwind(|| {
                let x = Lhs {
                    data: &x,
                    row_stride: 8,
                    taps: 1,
                    tap_stride: 0,
                    depth: 8,
                };
                let segment = Segment {
                    src: 0,
                    dst: 0,
                    rows: 1,
                };
                multiply(isa, &matrix, &x, &[segment], &mut [0.0; 40]);
            });
            assert_eq!(
                multiplied.is_ok(),
                pack::lanes(isa) == pack::lanes(packed),
                "{packed:?} {isa:?}"
            );
        }
    }
}

#[test]
fn large_products_are_the_same_on_many_threads() {
    let isa = Isa::best();
    let outputs = 1100;
    let depth = 1024;
    let w = tensor(vec![outputs, depth], &numbers(outputs * depth, 9), true);
    for (rows, weights) in [
        (1, Weights::Stored),
        (2, Weights::Int8),
        (1, Weights::Int4),
        (17, Weights::Stored),
    ] {
        let matrix = Matrix::pack(isa, weights, std::slice::from_ref(&w), None);
        let data = numbers(rows * depth, 10);
        let product = || {
            let mut out = vec![0.0; rows * outputs];
            let all = Segment { src: 0, dst: 0, rows };
            multiply(isa, &matrix, &windows(&data, 1, depth), &[all], &mut out);
            out
        };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("a pool").install(product)
        };
        let alone = on(1);
        assert!(alone == on(3), "{rows} rows, {weights:?}");
        // A thread of no pool, as those of stages are, again and again.
        let stage = std::thread::scope(|scope| {
            let stage = scope.spawn(|| {
                threads::share_small_products();
                assert!((0..20).all(|_| product() == alone));
                product()
            });
            stage.join().expect("no panic")
        });
        assert!(alone == stage, "{rows} rows, {weights:?}");
    }
}

/// `taps` of `depth` numbers each at neighbouring places of `data`.
fn windows(data: &[f32], taps: usize, depth: usize) -> Lhs<'_> {
    Lhs {
        data,
        row_stride: depth,
        taps,
        tap_stride: depth,
        depth,
    }
}
