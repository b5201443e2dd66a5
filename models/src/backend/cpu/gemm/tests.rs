use half::bf16;

use super::*;
use crate::checkpoint::{DType, HostTensor};

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
                let matrix = Matrix::pack(isa, std::slice::from_ref(&w), Some(&bias));
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

#[test]
fn a_row_is_the_same_to_the_bit_whatever_its_batch() {
    for isa in Isa::available() {
        for half in [false, true] {
            let (outputs, depth, rows) = (144, 96, 23);
            let w = tensor(vec![outputs, depth], &numbers(outputs * depth, 4), half);
            let matrix = Matrix::pack(isa, &[w], None);
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
        let (channels, taps, dilation, rows, outputs) = (5, 7, 3, 20, 21);
        let w = tensor(
            vec![outputs, taps * channels],
            &numbers(outputs * taps * channels, 6),
            false,
        );
        let bias = numbers(outputs, 7);
        let matrix = Matrix::pack(isa, std::slice::from_ref(&w), Some(&bias));
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

#[test]
fn large_products_are_the_same_on_many_threads() {
    let isa = Isa::best();
    let (outputs, depth, rows) = (1100, 1024, 17);
    let w = tensor(vec![outputs, depth], &numbers(outputs * depth, 9), true);
    let matrix = Matrix::pack(isa, &[w], None);
    let data = numbers(rows * depth, 10);
    let x = Lhs {
        data: &data,
        row_stride: depth,
        taps: 1,
        tap_stride: 0,
        depth,
    };
    let product = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a pool");
        let mut out = vec![0.0; rows * outputs];
        pool.install(|| multiply(isa, &matrix, &x, &[Segment { src: 0, dst: 0, rows }], &mut out));
        out
    };
    assert!(product(1) == product(3));
}
