//! The kernels against candle's operations, on every instruction set that this machine has.

use candle_core::Device;
use proptest::prelude::*;

use super::*;
use crate::backend::Candle;

fn candle() -> Candle {
    Candle::new(Device::Cpu, candle_core::DType::F32)
}

/// Small numbers that repeat with no short period.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
        .collect()
}

fn host(shape: &[usize], seed: usize) -> HostTensor {
    HostTensor::from_f32(shape.to_vec(), &numbers(shape.iter().product(), seed))
}

fn close(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}: count");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (g - e).abs() <= 2e-5 * e.abs().max(1.0),
            "{what}[{i}]: {g}, expected {e}"
        );
    }
}

/// A stream of steps through one backend: two signals of changing lengths through a dilated convolution with Snake,
/// and a depthwise one.
fn convolve<B: Backend>(b: &B, lens: &[[usize; 2]]) -> Result<Vec<Vec<f32>>> {
    let (channels, out, taps) = (12, 20, Taps { taps: 7, dilation: 3 });
    let matrix = b.matrix(&[host(&[out, taps.taps * channels], 1)], Some(&host(&[out], 2)))?;
    let conv = Conv { matrix, taps };
    let snake = Snake {
        a: b.vector(&host(&[channels], 3))?,
        b: b.vector(&host(&[channels], 4))?,
    };
    let (depth, bias) = (
        b.vector(&host(&[7, channels], 5))?,
        b.vector(&host(&[channels], 6))?,
    );
    let plain = Taps { taps: 7, dilation: 1 };
    let past = |t: Taps| -> Result<[B::Rows; 2]> {
        Ok([b.zeros(t.past(), channels)?, b.zeros(t.past(), channels)?])
    };
    let (mut dilated, mut near): ([B::Rows; 2], [B::Rows; 2]) = (past(taps)?, past(plain)?);
    let mut outputs = Vec::new();
    for (i, lens) in lens.iter().enumerate() {
        let x = b.rows(channels, numbers(lens.iter().sum::<usize>() * channels, 7 + i))?;
        let y = b.conv(&conv, Some(&snake), &x, lens, &mut dilated.each_mut())?;
        outputs.push(b.host(&y)?);
        outputs.push(b.host(&b.depthwise(&depth, &bias, plain, &x, lens, &mut near.each_mut())?)?);
    }
    Ok(outputs)
}

/// Two steps of attention: two sequences with different pasts, cached in scattered rows.
fn attend<B: Backend>(b: &B, shape: &AttentionShape, norms: bool, lens: [usize; 2]) -> Result<Vec<Vec<f32>>> {
    let mut kv = b.kv(200, shape.kv_width())?;
    let norms = if norms {
        Some((
            b.vector(&host(&[shape.head_dim], 20))?,
            b.vector(&host(&[shape.head_dim], 21))?,
        ))
    } else {
        None
    };
    let mut outputs = Vec::new();
    for starts in [[0, 0], lens] {
        let mut batch = Batch::default();
        for (i, (start, len)) in (0_u32..).zip(starts.into_iter().zip(lens)) {
            let first = shape.window.map_or(0, |w| (start + 1).saturating_sub(w));
            batch.push(start, len, first, |p| {
                (u32::try_from(p).unwrap_or(0) * 7 % 100) * 2 + i
            });
        }
        let width = shape.q_width() + 2 * shape.kv_width();
        let qkv = b.rows(width, numbers(lens.iter().sum::<usize>() * width, 22 + starts[0]))?;
        let half = shape.head_dim / 2;
        let turns = batch
            .axes()
            .iter()
            .flat_map(|axes| (0..half).map(|j| axes[0] as f32 / (j + 1) as f32));
        let angles = turns.collect();
        let rope = b.rope(angles, shape.head_dim)?;
        let norms = norms.as_ref().map(|(q, k)| (q, k));
        outputs.push(b.host(&b.attention(shape, norms, qkv, &rope, &batch, &mut kv)?)?);
    }
    Ok(outputs)
}

/// The operations without memory, one after another.
fn operations<B: Backend>(b: &B, rows: usize, width: usize) -> Result<Vec<Vec<f32>>> {
    let x = || b.rows(2 * width, numbers(rows * 2 * width, 30));
    let vector = |seed| b.vector(&host(&[2 * width], seed));
    let (w, bias) = (vector(31)?, vector(32)?);
    let table = b.table(host(&[9, width], 33))?;
    let index: Vec<u32> = (0..)
        .take(rows)
        .map(|i: u32| i * 5 % 3 % u32::try_from(rows).unwrap_or(1))
        .collect();
    let weights = numbers(rows, 34);
    let results = [
        b.rms_norm(&w, 1e-6, &x()?)?,
        b.layer_norm(&w, &bias, 1e-6, &x()?)?,
        b.add(x()?, &x()?, Some(&w))?,
        b.add(x()?, &x()?, None)?,
        b.silu(x()?)?,
        b.gelu(x()?)?,
        b.swiglu(&x()?)?,
        b.snake(
            &Snake {
                a: vector(35)?,
                b: vector(36)?,
            },
            x()?,
        )?,
        b.gather(&x()?, &index)?,
        b.scatter_add(b.zeros(3, 2 * width)?, &index, Some(&weights), &x()?)?,
        b.reshape(x()?, width)?,
        b.lookup(&table, &[8, 0, 8])?,
        b.lookup_mean(&table, &[1, 2, 3, 8, 8, 0], 3)?,
    ];
    results.iter().map(|r| b.host(r)).collect()
}

fn compare(what: &str, got: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        close(&format!("{what}, result {i}"), got, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn convolutions_equal_candles(lens in prop::collection::vec([0..30_usize, 0..30_usize], 1..5)) {
        let expected = convolve(&candle(), &lens).expect("candle computes");
        for isa in Isa::available() {
            compare(&format!("{isa:?}"), &convolve(&Cpu { isa }, &lens).expect("computes"), &expected);
        }
    }

    #[test]
    fn attention_equals_candles(
        kv_heads in 1..3_usize,
        group in 1..4_usize,
        head_dim in prop::sample::select(vec![2_usize, 8, 32, 48, 64]),
        window in prop::option::of(1..9_usize),
        norms: bool,
        lens in [1..12_usize, 1..12_usize],
    ) {
        let shape = AttentionShape { heads: kv_heads * group, kv_heads, head_dim, eps: 1e-6, window };
        let expected = attend(&candle(), &shape, norms, lens).expect("candle computes");
        for isa in Isa::available() {
            compare(&format!("{isa:?}"), &attend(&Cpu { isa }, &shape, norms, lens).expect("computes"), &expected);
        }
    }

    #[test]
    fn attention_inside_blocks_equals_candles(
        heads in 1..4_usize,
        head_dim in prop::sample::select(vec![2_usize, 8, 40, 64]),
        lens in prop::collection::vec(1..20_usize, 1..4),
    ) {
        let shape = AttentionShape { heads, kv_heads: heads, head_dim, eps: 0.0, window: None };
        let (rows, width) = (lens.iter().sum::<usize>(), 3 * heads * head_dim);
        let values = numbers(rows * width, 40);
        let within = |b: &Cpu| b.host(&b.attention_within(&shape, &b.rows(width, values.clone())?, &lens)?);
        let b = candle();
        let qkv = b.rows(width, values.clone()).expect("rows");
        let expected = b.attention_within(&shape, &qkv, &lens).and_then(|x| b.host(&x)).expect("candle computes");
        for isa in Isa::available() {
            close(&format!("{isa:?}"), &within(&Cpu { isa }).expect("computes"), &expected);
        }
    }

    #[test]
    fn other_operations_equal_candles(rows in 1..9_usize, width in 1..40_usize) {
        let expected = operations(&candle(), rows, width).expect("candle computes");
        for isa in Isa::available() {
            compare(&format!("{isa:?}"), &operations(&Cpu { isa }, rows, width).expect("computes"), &expected);
        }
    }
}

#[test]
fn ids_outside_a_table_are_errors() {
    let b = Cpu::new();
    let table = b.table(host(&[9, 4], 1)).expect("a table");
    let error = b.lookup(&table, &[9]).expect_err("no such row");
    assert_eq!(error.to_string(), "id 9 is outside a table of [9, 4]");
}
