//! Products of factors that are rounded: to 14 bits, to bytes and to bf16.

use half::bf16;

use super::*;

#[test]
fn products_of_14_bits_are_near_those_of_f32_and_rows_do_not_depend_on_each_other() {
    for isa in Isa::available().into_iter().filter(|isa| isa.multiplies_int16()) {
        for (outputs, depth, taps) in [(16, 32, 1), (40, 64, 1), (96, 32, 7), (150, 64, 2), (130, 96, 3)] {
            let inputs = taps * depth;
            let w = tensor(vec![outputs, inputs], &numbers(outputs * inputs, 1), false);
            let bias = numbers(outputs, 2);
            let parts = std::slice::from_ref(&w);
            let matrix = Matrix::pack(isa, Weights::RoundedProducts, parts, Some(&bias));
            assert!(matches!(matrix.storage(), Panels::Int16(_)));
            let data = numbers((40 + taps) * depth, 3);
            let x = windows(&data, taps, depth);
            let mut single = Vec::new();
            for rows in [1, 2, 3, 4, 5, 6, 7, 37] {
                let segment = Segment { src: 0, dst: 0, rows };
                let mut out = vec![0.0; rows * outputs];
                multiply(isa, &matrix, &x, &[segment], &mut out);
                let expected = plain(&x, segment, &w.to_f32(), &bias, outputs);
                for (i, (got, expected)) in out.iter().zip(expected).enumerate() {
                    // Each product is off by a 16,000th at most, and these by chance.
                    let tolerance = 3e-4 * (inputs as f64).sqrt();
                    assert!(
                        (f64::from(*got) - expected).abs() < tolerance,
                        "{outputs} of {taps} x {depth}, {rows} rows: number {i} is {got}, expected {expected}"
                    );
                }
                if rows == 1 {
                    single.clone_from(&out);
                }
                assert!(
                    out[..outputs] == single[..],
                    "a row is the same to the bit in every batch"
                );
            }
        }
    }
}

#[test]
fn sums_of_the_largest_whole_numbers_do_not_overflow() {
    for isa in Isa::available() {
        for weights in [Weights::RoundedProducts, Weights::Int8, Weights::Int4] {
            for sign in [1.0, -1.0] {
                // One weight that is largest below zero makes all others of four bits the largest that there is.
                let mut row = [1.0; 32];
                row[31] = -8.0 / 7.0;
                let w = tensor(vec![16, 32], &row.repeat(16), false);
                let matrix = Matrix::pack(isa, weights, std::slice::from_ref(&w), None);
                // And the low bytes of these are the least.
                let mut data = [sign * (126.0 * 256.0 + 128.0) / 32_512.0; 32];
                data[0] = sign;
                let x = windows(&data, 1, 32);
                let mut out = [0.0; 16];
                let all = Segment {
                    src: 0,
                    dst: 0,
                    rows: 1,
                };
                multiply(isa, &matrix, &x, &[all], &mut out);
                let expected = plain(&x, all, &w.to_f32(), &[0.0; 16], 16);
                for (got, expected) in out.iter().zip(expected) {
                    let off = (f64::from(*got) / expected - 1.0).abs();
                    assert!(off < 0.01, "{isa:?} {weights:?}: {got}, expected {expected}");
                }
            }
        }
    }
}

/// Group sums are integers, and everything after them has one order.
#[test]
fn quantised_products_are_the_same_to_the_bit_with_all_instructions_that_multiply_bytes() {
    let isas: Vec<Isa> = Isa::available()
        .into_iter()
        .filter(|isa| isa.multiplies_bytes())
        .collect();
    for weights in [Weights::Int8, Weights::Int4] {
        let w = tensor(vec![64, 96], &numbers(64 * 96, 1), true);
        let data = numbers(3 * 96, 2);
        let products = isas.iter().map(|&isa| {
            let matrix = Matrix::pack(isa, weights, std::slice::from_ref(&w), None);
            let mut out = vec![0.0; 3 * 64];
            let all = Segment {
                src: 0,
                dst: 0,
                rows: 3,
            };
            multiply(isa, &matrix, &windows(&data, 1, 96), &[all], &mut out);
            out.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        });
        let products: Vec<_> = products.collect();
        assert!(
            products.windows(2).all(|pair| pair[0] == pair[1]),
            "{weights:?} {isas:?}"
        );
    }
}

#[test]
fn products_of_bf16_are_the_sums_of_rounded_factors_and_rows_do_not_depend_on_each_other() {
    let isa = Isa::best();
    let layouts = [
        (pack::Layout::Pairs, isa.multiplies_pairs()),
        (pack::Layout::Amx, isa.has_amx()),
    ];
    let round = |v: &f32| bf16::from_f32(*v).to_f32();
    for (layout, _) in layouts.into_iter().filter(|(_, has)| *has) {
        for (outputs, depth, taps) in [
            (32, 32, 1),
            (40, 64, 1),
            (96, 32, 7),
            (150, 16, 2),
            (130, 64, 3),
            (61, 96, 1),
        ] {
            if matches!(layout, pack::Layout::Amx) && depth % 32 != 0 {
                continue;
            }
            let w = tensor(
                vec![outputs, taps * depth],
                &numbers(outputs * taps * depth, 1),
                false,
            );
            let bias = numbers(outputs, 2);
            let matrix = Matrix::pack_as(isa, layout, std::slice::from_ref(&w), Some(&bias));
            let weights: Vec<f32> = w.to_f32().iter().map(round).collect();
            let data = numbers((70 + taps) * depth, 3);
            let rounded: Vec<f32> = data.iter().map(round).collect();
            let mut single = Vec::new();
            for rows in [1, 2, 4, 5, 12, 13, 16, 17, 32, 37, 65] {
                let segment = Segment { src: 0, dst: 0, rows };
                let mut out = vec![0.0; rows * outputs];
                multiply(isa, &matrix, &windows(&data, taps, depth), &[segment], &mut out);
                let expected = plain(&windows(&rounded, taps, depth), segment, &weights, &bias, outputs);
                // The columns of the last, narrow panel are not rounded.
                let wide = matrix.panels() * 32;
                for (i, (got, expected)) in out.iter().zip(expected).enumerate() {
                    let tolerance = if i % outputs < wide { 2e-4 } else { 2e-1 };
                    assert!(
                        (f64::from(*got) - expected).abs() < tolerance,
                        "{layout:?}, {outputs} of {taps} x {depth}, {rows} rows: number {i} is {got}, expected {expected}"
                    );
                }
                if rows == 1 {
                    single.clone_from(&out);
                }
                assert!(
                    out[..outputs] == single[..],
                    "{layout:?}: a row is the same to the bit in every batch"
                );
            }
        }
    }
}
