//! The kernels against candle's operations, on every instruction set that this machine has, and those of a GPU run on
//! the processor.

mod whole;

use candle_core::Device;
use proptest::prelude::*;

use super::*;
use crate::Candle;
use crate::sampling::{Limits, Sampling, chosen};
use crate::weights::Weights;

fn candle() -> Candle {
    Candle::new(Device::Cpu, candle_core::DType::F32)
}

#[cfg(feature = "emulator")]
fn gpu() -> crate::Gpu<omni_gpu::Emulated> {
    crate::Gpu::new(omni_gpu::Emulated::default(), omni_gpu::Float::F32, false)
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
    let channels = 12;
    let out = 20;
    let taps = Taps { taps: 7, dilation: 3 };
    let matrix = b.matrix(&[host(&[out, taps.taps * channels], 1)], Some(&host(&[out], 2)))?;
    let conv = Conv { matrix, taps };
    let snake = Snake {
        a: b.vector(&host(&[channels], 3))?,
        b: b.vector(&host(&[channels], 4))?,
    };
    let plain = Depthwise {
        weight: b.vector(&host(&[7, channels], 5))?,
        bias: b.vector(&host(&[channels], 6))?,
        taps: Taps { taps: 7, dilation: 1 },
    };
    let mut dilated = b.past(taps, channels)?;
    let mut near = b.past(plain.taps, channels)?;
    b.grow_past(&mut dilated, 3)?;
    b.grow_past(&mut near, 3)?;
    let mut outputs = Vec::new();
    let mut before = [0; 2];
    for (i, lens) in lens.iter().enumerate() {
        let part = |(stream, signal): (u32, usize)| Part {
            stream,
            before: before[signal],
            frames: lens[signal],
        };
        let signals = b.signals([(2, 0), (1, 1)].map(part).to_vec())?;
        let x = b.rows(channels, numbers(lens.iter().sum::<usize>() * channels, 7 + i))?;
        let y = b.conv(&conv, Some(&snake), &x, &signals, &mut dilated)?;
        outputs.push(b.host(&y)?);
        outputs.push(b.host(&b.depthwise(&plain, &x, &signals, &mut near)?)?);
        before = [before[0] + lens[0], before[1] + lens[1]];
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
        let angles = Angles::new(shape.head_dim, 100.0, None);
        let rope = b.places(&batch, &angles, shape)?;
        let norms = norms.as_ref().map(|(q, k)| (q, k));
        outputs.push(b.host(&b.attention(shape, norms, qkv, &rope, &batch, &mut kv)?)?);
    }
    Ok(outputs)
}

/// The operations without memory, one after another.
fn operations<B: Backend>(b: &B, rows: usize, width: usize) -> Result<Vec<Vec<f32>>> {
    let x = || b.rows(2 * width, numbers(rows * 2 * width, 30));
    let vector = |seed| b.vector(&host(&[2 * width], seed));
    let w = vector(31)?;
    let bias = vector(32)?;
    let table = b.table(host(&[9, width], 33))?;
    let index: Vec<u32> = (0..)
        .take(rows)
        .map(|i: u32| i * 5 % 3 % u32::try_from(rows).unwrap_or(1))
        .collect();
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
        b.scatter_add(b.zeros(3, 2 * width)?, &index, &x()?)?,
        b.reshape(x()?, width)?,
        b.lookup(&table, &b.ids(2, vec![8, 1, 0, 1, 8, 1])?, 0)?,
        b.lookup_mean(&table, &b.ids(3, vec![1, 2, 3, 8, 8, 0])?)?,
    ];
    results.iter().map(|r| b.host(r)).collect()
}

/// A mixture of experts with a shared one, of which some rows' scores tie.
fn mix<B: Backend>(
    b: &B,
    rows: usize,
    experts: usize,
    top_k: usize,
    normalise: bool,
) -> Result<Vec<Vec<f32>>> {
    let hidden = 24;
    let inner = 12;
    let expert = |i: usize| {
        let up = host(&[inner, hidden], 41 + 2 * i);
        let gate_up = b.matrix(&[host(&[inner, hidden], 40 + 2 * i), up], None)?;
        Ok((gate_up, b.matrix(&[host(&[hidden, inner], 90 + i)], None)?))
    };
    let made = b.experts((0..experts).map(expert).collect::<Result<_>>()?)?;
    let scores = (0..rows * (experts + 1))
        .map(|i| (i * 37 % 11) as f32 / 3.0)
        .collect();
    let scores = b.rows(experts + 1, scores)?;
    let x = b.rows(hidden, numbers(rows * hidden, 50))?;
    let shared = b.rows(hidden, numbers(rows * hidden, 51))?;
    let routing = Routing {
        experts,
        top_k: top_k.min(experts),
        normalise,
    };
    Ok(vec![b.host(&b.mixture(
        &made,
        routing,
        &scores,
        &x,
        Some(&shared),
    )?)?])
}

/// Ids chosen from the same logits with all kinds of settings, one row containing NaN.
fn choose<B: Backend>(b: &B, seed: u64) -> Result<Vec<u32>> {
    let rows = 12;
    let vocab = 130;
    let mut logits: Vec<f32> = numbers(rows * vocab, 60).into_iter().map(|v| 4.0 * v).collect();
    logits[7 * vocab + 3] = f32::INFINITY;
    let generated: Vec<u32> = (0..20).map(|i| i * 13 % 130).collect();
    let samplings: Vec<Sampling> = (0..rows)
        .map(|i| Sampling {
            temperature: [0.0, 0.9, 1.3][i % 3],
            top_k: [0, 5, 50, 1][i % 4],
            top_p: [1.0, 0.8, 0.3][i / 4],
            repetition_penalty: [1.0, 1.3][i % 2],
            min_tokens: [0, 30][i / 6],
        })
        .collect();
    let choice = |(i, sampling)| Choice {
        sampling,
        limits: Limits {
            generated: &generated,
            suppress_from: Some(120),
            end: Some(125),
        },
        seed,
        step: i,
        said: None,
    };
    let choices: Vec<Choice<'_>> = (0..).zip(&samplings).map(choice).collect();
    let mut ids = b.ids(2, vec![0; 2 * rows])?;
    b.sample(&b.rows(vocab, logits)?, &choices, None, &mut ids, 1)?;
    Ok(b.host_ids(&ids)?
        .into_iter()
        .map(|id| chosen(id).unwrap_or(u32::MAX))
        .collect())
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
            compare(&format!("{isa:?}"), &convolve(&Cpu { isa, weights: Weights::Stored }, &lens).expect("computes"), &expected);
        }
        #[cfg(feature = "emulator")]
        compare("gpu", &convolve(&gpu(), &lens).expect("computes"), &expected);
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
            compare(&format!("{isa:?}"), &attend(&Cpu { isa, weights: Weights::Stored }, &shape, norms, lens).expect("computes"), &expected);
        }
        #[cfg(feature = "emulator")]
        compare("gpu", &attend(&gpu(), &shape, norms, lens).expect("computes"), &expected);
    }

    #[test]
    fn attention_inside_blocks_equals_candles(
        heads in 1..4_usize,
        head_dim in prop::sample::select(vec![2_usize, 8, 40, 64]),
        lens in prop::collection::vec(1..20_usize, 1..4),
    ) {
        let shape = AttentionShape { heads, kv_heads: heads, head_dim, eps: 0.0, window: None };
        let rows = lens.iter().sum::<usize>();
        let width = 3 * heads * head_dim;
        let values = numbers(rows * width, 40);
        let within = |b: &Cpu| b.host(&b.attention_within(&shape, &b.rows(width, values.clone())?, &lens)?);
        let b = candle();
        let qkv = b.rows(width, values.clone()).expect("rows");
        let expected = b.attention_within(&shape, &qkv, &lens).and_then(|x| b.host(&x)).expect("candle computes");
        for isa in Isa::available() {
            close(&format!("{isa:?}"), &within(&Cpu { isa, weights: Weights::Stored }).expect("computes"), &expected);
        }
        #[cfg(feature = "emulator")]
        {
            let b = gpu();
            let qkv = b.rows(width, values.clone()).expect("rows");
            let got = b.attention_within(&shape, &qkv, &lens).and_then(|x| b.host(&x)).expect("computes");
            close("gpu", &got, &expected);
        }
    }

    #[test]
    fn mixtures_equal_candles(rows in 1..50_usize, experts in 1..10_usize, top_k in 1..4_usize, normalise: bool) {
        let expected = mix(&candle(), rows, experts, top_k, normalise).expect("candle computes");
        for isa in Isa::available() {
            let got = mix(&Cpu { isa, weights: Weights::Stored }, rows, experts, top_k, normalise).expect("computes");
            compare(&format!("{isa:?}"), &got, &expected);
        }
        #[cfg(feature = "emulator")]
        compare("gpu", &mix(&gpu(), rows, experts, top_k, normalise).expect("computes"), &expected);
    }

    #[test]
    fn choices_equal_candles(seed: u64) {
        let expected = choose(&candle(), seed).expect("candle computes");
        prop_assert_eq!(&choose(&Cpu::new(Weights::Stored), seed).expect("computes"), &expected);
        #[cfg(feature = "emulator")]
        prop_assert_eq!(&choose(&gpu(), seed).expect("computes"), &expected);
    }

    #[test]
    fn other_operations_equal_candles(rows in 1..9_usize, width in 1..40_usize) {
        let expected = operations(&candle(), rows, width).expect("candle computes");
        for isa in Isa::available() {
            compare(&format!("{isa:?}"), &operations(&Cpu { isa, weights: Weights::Stored }, rows, width).expect("computes"), &expected);
        }
        #[cfg(feature = "emulator")]
        compare("gpu", &operations(&gpu(), rows, width).expect("computes"), &expected);
    }
}

#[test]
fn ids_outside_a_table_are_errors() {
    let b = Cpu::new(Weights::Stored);
    let table = b.table(host(&[9, 4], 1)).expect("a table");
    let error = b
        .ids(1, vec![9])
        .and_then(|ids| b.lookup(&table, &ids, 0))
        .map(|_| ())
        .expect_err("no such row");
    assert_eq!(error.to_string(), "id 9 is outside a table of [9, 4]");
}
