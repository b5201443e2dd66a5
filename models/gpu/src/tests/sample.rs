//! Sampling on the device against the host's version of the same rules. Probabilities are summed in the same order,
//! so they are bit-identical.

use proptest::prelude::*;

use super::{Lab, each_type, numbers, rounded};
use crate::kernels::{Argmax, Embedded, MAX_SAMPLED, NO_ROW, Sample, SampleRow};
use crate::{Address, Float, Order};

/// Philox-4x32-10, with products in 64 bits.
pub(super) fn philox(mut c: [u32; 4], seed: u64) -> [u32; 4] {
    let mut k = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [
            (b >> 32) as u32 ^ c[1] ^ k[0],
            b as u32,
            (a >> 32) as u32 ^ c[3] ^ k[1],
            a as u32,
        ];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

pub(super) fn uniform(seed: u64, step: u32, group: u32) -> f32 {
    (philox([step, group, 0, 0], seed)[0] >> 8) as f32 / 16_777_216.0
}

/// The host's choice.
fn choose(logits: &[f32], row: &SampleRow, generated: &[u32], also: Option<u32>) -> u32 {
    if logits.iter().any(|l| !l.is_finite()) {
        return NO_ROW;
    }
    let mut l = logits.to_vec();
    let mut seen: Vec<u32> = generated.iter().copied().chain(also).collect();
    seen.sort_unstable();
    seen.dedup();
    for id in seen {
        let Some(l) = l.get_mut(id as usize) else { continue };
        let changed = if *l < 0.0 {
            *l * row.repetition_penalty
        } else {
            *l / row.repetition_penalty
        };
        *l = changed.clamp(f32::MIN, f32::MAX);
    }
    for (id, l) in l.iter_mut().enumerate() {
        let id = id as u32;
        let hidden = if id == row.end {
            (generated.len() as u32) < row.min_tokens
        } else {
            id >= row.suppress_from
        };
        if hidden {
            *l = f32::NEG_INFINITY;
        }
    }
    if row.temperature <= 0.0 {
        let best = (0..l.len()).fold(0, |best, i| if l[i] > l[best] { i } else { best });
        return best as u32;
    }
    let mut kept: Vec<(u32, f32)> = (0..).zip(l).filter(|(_, l)| l.is_finite()).collect();
    kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let k = row.top_k as usize;
    if k > 0 && k < kept.len() {
        let threshold = kept[k - 1].1;
        kept.retain(|(_, l)| *l >= threshold);
    }
    let most = kept.first().map_or(0.0, |k| k.1);
    let mut sum = 0.0;
    for (_, l) in &mut kept {
        *l = ((*l - most) / row.temperature).exp();
        sum += *l;
    }
    kept.iter_mut().for_each(|(_, p)| *p /= sum);
    let mut dropped = 0.0;
    while row.top_p < 1.0 && kept.len() > 1 {
        dropped += kept[kept.len() - 1].1;
        if dropped > 1.0 - row.top_p {
            break;
        }
        kept.pop();
    }
    let mut left = uniform(row.seed, row.step, row.group) * kept.iter().map(|(_, p)| p).sum::<f32>();
    for &(id, p) in &kept {
        if left < p {
            return id;
        }
        left -= p;
    }
    kept.last().map_or(0, |k| k.0)
}

fn plain() -> SampleRow {
    SampleRow {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        repetition_penalty: 1.0,
        min_tokens: 0,
        suppress_from: u32::MAX,
        end: u32::MAX,
        generated_from: 0,
        generated: 0,
        said: u32::MAX,
        seed: 1,
        step: 2,
        group: 3,
        logits: 0,
    }
}

prop_compose! {
    fn settings()(
        temperature in prop_oneof![Just(0.0_f32), 0.2_f32..2.0],
        top_k in 0_u32..60,
        top_p in prop_oneof![Just(1.0_f32), 0.05_f32..1.0],
        repetition_penalty in prop_oneof![Just(1.0_f32), 0.8_f32..1.5],
        min_tokens in 0_u32..6,
        suppressed in any::<[bool; 2]>(),
        seed in any::<u64>(),
        step in 0_u32..1000,
    ) -> SampleRow {
        let [from, end] = suppressed;
        SampleRow {
            temperature,
            top_k,
            top_p,
            repetition_penalty,
            min_tokens,
            suppress_from: if from { 20 } else { u32::MAX },
            end: if end { 25 } else { u32::MAX },
            seed,
            step,
            ..plain()
        }
    }
}

/// Ids that the device is told it chose before.
const SAID: [u32; 4] = [3, 11, 24, 4_000_000];

/// Every row chooses from the row of logits that it names.
fn sample(lab: &Lab, logits: &[f32], rows: &[SampleRow], generated: &[u32]) -> Vec<u32> {
    sample_and_embed(lab, logits, rows, generated, None)
}

fn sample_and_embed(
    lab: &Lab,
    logits: &[f32],
    rows: &[SampleRow],
    generated: &[u32],
    embedded: Option<Embedded>,
) -> Vec<u32> {
    let count = rows.len();
    let stride = 3;
    let out = lab.words(&vec![77; count * stride]);
    let of_all = 1 + rows.iter().map(|row| row.logits as usize).max().unwrap_or(0);
    let sample = Sample {
        out,
        logits: lab.rows(logits),
        settings: lab.words(&rows.iter().flat_map(SampleRow::words).collect::<Vec<_>>()),
        generated: if generated.is_empty() {
            Address::NONE
        } else {
            lab.words(generated)
        },
        said: if rows.iter().all(|row| row.said == u32::MAX) {
            Address::NONE
        } else {
            lab.words(&SAID)
        },
        embedded,
        rows: count as u32,
        vocab: (logits.len() / of_all) as u32,
        stride: stride as u32,
    };
    lab.run(&sample.launch(lab.float));
    lab.read_words(out, count * stride)
        .into_iter()
        .step_by(stride)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn ids_are_those_of_the_host(
        settings in prop::collection::vec(settings(), 1..5),
        vocab in prop_oneof![30_usize..200, Just(1088), Just(3072)],
        generated in prop::collection::vec(0_u32..60, 0..12),
        said in prop::option::of(prop::collection::vec(0..SAID.len(), 4)),
        coarse in any::<bool>(),
        seed in 0_usize..1000,
    ) {
        // Coarse logits tie.
        let logits: Vec<f32> = numbers(settings.len() * vocab, seed)
            .iter()
            .map(|l| if coarse { (l * 8.0).round() / 2.0 } else { l * 6.0 })
            .collect();
        // Every row has a part of the ids, one more than the other.
        let rows: Vec<SampleRow> = settings
            .iter()
            .enumerate()
            .map(|(i, s)| SampleRow {
                generated_from: i as u32,
                generated: (generated.len() as u32).saturating_sub(2 * i as u32),
                // Some rows have one more, which the device knows.
                said: said.as_ref().filter(|_| i % 3 != 1).map_or(u32::MAX, |said| said[i] as u32),
                // The last row of logits is the first row's.
                logits: (settings.len() - 1 - i) as u32,
                ..*s
            })
            .collect();
        each_type(
            |lab| sample(lab, &logits, &rows, &generated),
            |float, got| {
                let logits = rounded(float, &logits);
                for (i, row) in rows.iter().enumerate() {
                    let before = &generated[row.generated_from.min(generated.len() as u32) as usize..][..row.generated as usize];
                    let also = SAID.get(row.said as usize).copied();
                    let own = &logits[row.logits as usize * vocab..][..vocab];
                    let expected = choose(own, row, before, also);
                    assert_eq!(got[i], expected, "row {i}: {row:?}");
                }
            },
        );
    }

    #[test]
    fn argmax_takes_the_first_of_equals(rows in 1_usize..4, vocab in 1_usize..3000, seed in 0_usize..100) {
        let logits: Vec<f32> = numbers(rows * vocab, seed).iter().map(|l| (l * 4.0).round()).collect();
        each_type(
            |lab| {
                let out = lab.words(&vec![0; 2 * rows]);
                let rows = rows as u32;
                let vocab = vocab as u32;
                lab.run(&Argmax { out, logits: lab.rows(&logits), rows, vocab, stride: 2 }.launch(lab.float));
                lab.read_words(out, 2 * rows as usize)
            },
            |_, got| {
                for (row, got) in logits.chunks(vocab).zip(got.chunks(2)) {
                    let best = (0..vocab).fold(0, |best, i| if row[i] > row[best] { i } else { best });
                    assert_eq!(got[0] as usize, best);
                }
            },
        );
    }
}

#[test]
fn a_row_that_is_not_finite_fails_alone() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let logits = [0.0, 1.0, 2.0, 0.0, bad, 2.0, 5.0, 1.0, 2.0];
        each_type(
            |lab| {
                let greedy = SampleRow {
                    temperature: 0.0,
                    ..plain()
                };
                let rows = [0, 1, 2].map(|logits| SampleRow { logits, ..greedy });
                let sampled = sample(lab, &logits, &rows, &[]);
                let out = lab.words(&[0; 3]);
                let logits = lab.rows(&logits);
                lab.run(
                    &Argmax {
                        out,
                        logits,
                        rows: 3,
                        vocab: 3,
                        stride: 1,
                    }
                    .launch(lab.float),
                );
                (sampled, lab.read_words(out, 3))
            },
            |_, (sampled, best)| {
                assert_eq!(sampled, [2, NO_ROW, 0]);
                assert_eq!(best, sampled);
            },
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_chosen_ids_rows_of_a_table_come_with_them(width in prop_oneof![1_usize..300, Just(1024)], few in any::<bool>(), seed in 0_usize..100) {
        let vocab = 40;
        let width_ = width as u32;
        let ids = if few { 20 } else { 40 };
        let mut logits: Vec<f32> = numbers(3 * vocab, seed).iter().map(|l| l * 4.0).collect();
        // This row fails and has no id.
        logits[vocab + 7] = f32::NAN;
        let table = numbers(ids * width, seed + 1);
        let rows = [(0.0, 0), (1.0, 1), (1.0, 2)];
        let rows = rows.map(|(temperature, logits)| SampleRow { temperature, logits, seed: seed as u64, ..plain() });
        each_type(
            |lab| {
                let out = lab.room(rows.len() * width);
                let embedded = Embedded { out, table: lab.rows(&table), ids: ids as u32, width: width_ };
                let chosen = sample_and_embed(lab, &logits, &rows, &[], Some(embedded));
                (chosen, lab.read(out, rows.len() * width))
            },
            |float, (chosen, embedded)| {
                let logits = rounded(float, &logits);
                let table = rounded(float, &table);
                for (i, (row, got)) in rows.iter().zip(embedded.chunks(width)).enumerate() {
                    let id = choose(&logits[i * vocab..][..vocab], row, &[], None);
                    assert_eq!(chosen[i], id);
                    let expected = table.chunks(width).nth(id as usize).map_or_else(|| vec![0.0; width], <[f32]>::to_vec);
                    assert_eq!(got, expected, "row {i}, id {id}");
                }
            },
        );
    }
}

#[test]
fn nothing_but_suppressed_ids_gives_the_first() {
    each_type(
        |lab| {
            let none = SampleRow {
                suppress_from: 0,
                ..plain()
            };
            sample(
                lab,
                &[1.0; 8],
                &[
                    none,
                    SampleRow {
                        temperature: 0.0,
                        logits: 1,
                        ..none
                    },
                ],
                &[],
            )
        },
        |_, got| assert_eq!(got, [0, 0]),
    );
}

#[test]
fn too_many_ids_are_refused() {
    let lab = Lab::new(Float::F32, Order::Forwards);
    let vocab = MAX_SAMPLED + 1;
    let out = lab.words(&[0]);
    let logits = lab.rows(&vec![0.0; vocab as usize]);
    let settings = lab.words(&plain().words());
    let sample = |vocab| Sample {
        out,
        logits,
        settings,
        generated: Address::NONE,
        said: Address::NONE,
        embedded: None,
        rows: 1,
        vocab,
        stride: 1,
    };
    assert!(lab.device.launch(&sample(vocab).launch(Float::F32)).is_err());
    lab.run(&sample(MAX_SAMPLED).launch(Float::F32));
}
