//! Token choice on the device against the rules in f64.
//!
//! Values before the softmax are bit-identical to the device's. Their exponentials are not: at most 32 temperatures
//! from the largest, rounding `(value - largest) / temperature` to f32 makes a difference of at most 32 / 2^24, and
//! weights are cut at 2^-45. So wherever a sum is compared with a number, every outcome is accepted that the rules
//! allow with that number changed by 1e-5 of the total; usually there is one.

use proptest::prelude::*;

use super::sample::uniform;
use super::{Lab, each_type, numbers, rounded};
use crate::kernels::{MAX_TEXT_VOCAB, Text, TextChange, TextRow};
use crate::{Address, Float};

const OFF: f64 = 1e-5;
const FAILED: u32 = 1 << 31;

fn changed(logits: &[f32], row: &TextRow, changes: &[TextChange]) -> Vec<f32> {
    let mut values = logits.to_vec();
    for change in changes {
        let Some(value) = values.get_mut(change.id as usize) else {
            continue;
        };
        let finite = |v: f32| v.clamp(f32::MIN, f32::MAX);
        if change.said {
            *value = finite(if *value < 0.0 {
                *value * row.repetition_penalty
            } else {
                *value / row.repetition_penalty
            });
        }
        *value = finite(*value - change.less);
        if change.hidden {
            *value = f32::NEG_INFINITY;
        }
    }
    values
}

/// The tokens that are right.
fn right(logits: &[f32], row: &TextRow, changes: &[TextChange]) -> Vec<u32> {
    if let Some(bad) = logits.iter().position(|l| !l.is_finite()) {
        return vec![FAILED | bad as u32];
    }
    let values = changed(logits, row, changes);
    let mut order: Vec<(u32, f32)> = (0..).zip(values).filter(|(_, v)| v.is_finite()).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let Some(&(best, most)) = order.first() else {
        return vec![0];
    };
    if row.temperature <= 0.0 {
        // Zeros of both signs are equal.
        let equal = order.iter().filter(|(_, v)| *v == most).map(|(id, _)| *id);
        return vec![equal.min().unwrap_or(best)];
    }
    let k = row.top_k as usize;
    if k > 0 && k < order.len() {
        let smallest = order[k - 1].1;
        order.retain(|(_, v)| *v >= smallest);
    }
    let temperature = f64::from(row.temperature);
    let weights: Vec<f64> = order
        .iter()
        .map(|(_, v)| (f64::from(v - most) / temperature).exp())
        .collect();
    let normal: f64 = weights.iter().sum();
    let mut right = Vec::new();
    let offs = [-OFF, 0.0, OFF];
    for (min_off, p_off) in offs.iter().flat_map(|a| offs.map(|b| (a, b))) {
        let min_p = f64::from(row.min_p) * (1.0 + min_off);
        let mut kept = weights.partition_point(|w| *w >= min_p).max(1);
        let may_go = (1.0 - f64::from(row.top_p) + p_off) * normal;
        let mut gone = 0.0;
        while row.top_p < 1.0 && kept > 1 {
            gone += weights[kept - 1];
            if gone > may_go {
                break;
            }
            kept -= 1;
        }
        let total: f64 = weights[..kept].iter().sum();
        let at = |u: f64| {
            let mut left = u * total;
            for (i, weight) in weights[..kept].iter().enumerate() {
                if left < *weight {
                    return i;
                }
                left -= weight;
            }
            kept - 1
        };
        let u = f64::from(uniform(row.seed, row.step, row.group));
        right.extend(order[at(u - OFF)..=at(u + OFF)].iter().map(|(id, _)| *id));
    }
    right
}

fn log_probability(logits: &[f32], id: u32) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|l| f64::from(l - most).exp()).sum();
    f64::from(logits[id as usize] - most) - sum.ln()
}

fn plain() -> TextRow {
    TextRow {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
        seed: 1,
        step: 2,
        group: 1 << 16,
        logits: 0,
        changes_from: 0,
        changes: 0,
        logprob: false,
    }
}

prop_compose! {
    fn settings()(
        temperature in prop_oneof![Just(0.0_f32), 0.05_f32..2.0, Just(1e-30_f32), Just(1e30_f32)],
        top_k in prop_oneof![Just(0_u32), 1_u32..60, Just(4000)],
        top_p in prop_oneof![Just(1.0_f32), 0.05_f32..1.0],
        min_p in prop_oneof![Just(0.0_f32), 0.0_f32..1.0],
        repetition_penalty in prop_oneof![Just(1.0_f32), 0.8_f32..1.5],
        seed in any::<u64>(),
        step in 0_u32..1000,
        logprob in any::<bool>(),
    ) -> TextRow {
        TextRow { temperature, top_k, top_p, min_p, repetition_penalty, seed, step, logprob, ..plain() }
    }
}

prop_compose! {
    fn change()(id in 0_u32..250, said in any::<bool>(), less in -3.0_f32..3.0, hidden in prop::bool::weighted(0.1)) -> TextChange {
        TextChange { id, said, less, hidden }
    }
}

/// Tokens and log-probabilities, of rows whose logits and changes are those of their places.
fn choose(
    lab: &Lab,
    logits: &[f32],
    vocab: usize,
    rows: &[TextRow],
    changes: &[TextChange],
) -> Vec<(u32, f32)> {
    let count = rows.len() as u32;
    let stride = 3;
    let out = lab.words(&vec![77; rows.len() * 3]);
    let words = |changes: &[TextChange]| changes.iter().flat_map(TextChange::words).collect::<Vec<_>>();
    let text = Text {
        out,
        scratch: lab.device.room(Text::scratch_bytes(count, vocab as u32)),
        logits: lab.rows(logits),
        settings: lab.words(&rows.iter().flat_map(TextRow::words).collect::<Vec<_>>()),
        changes: match changes {
            [] => Address::NONE,
            changes => lab.words(&words(changes)),
        },
        rows: count,
        vocab: vocab as u32,
        stride,
    };
    for launch in text.launches(lab.float) {
        lab.run(&launch);
    }
    let words = lab.read_words(out, rows.len() * 3);
    words.chunks(3).map(|w| (w[0], f32::from_bits(w[1]))).collect()
}

fn check(float: Float, logits: &[f32], vocab: usize, row: &TextRow, changes: &[TextChange], got: (u32, f32)) {
    let logits = rounded(float, &logits[row.logits as usize * vocab..][..vocab]);
    let changes = &changes[row.changes_from as usize..][..row.changes as usize];
    let right = right(&logits, row, changes);
    assert!(
        right.contains(&got.0),
        "{float:?}: {} is none of {right:?}: {row:?}, {changes:?}",
        got.0
    );
    let expected = if row.logprob && got.0 & FAILED == 0 {
        log_probability(&logits, got.0)
    } else {
        0.0
    };
    let difference = (f64::from(got.1) - expected).abs();
    assert!(
        difference <= 1e-5 * expected.abs().max(1.0),
        "{} instead of {expected}",
        got.1
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tokens_are_those_of_the_rules_whatever_they_are_chosen_with(
        settings in prop::collection::vec(settings(), 1..4),
        vocab in prop_oneof![1_usize..40, 30_usize..300, Just(1088), Just(4097), Just(9000)],
        changes in prop::collection::vec(change(), 0..30),
        kind in 0..3,
        seed in 0_usize..1000,
    ) {
        // Coarse logits tie; flat ones are more than there is room for in one bin.
        let logits: Vec<f32> = numbers(settings.len() * vocab, seed)
            .iter()
            .map(|l| match kind {
                0 => l * 9.0,
                1 => (l * 8.0).round() / 2.0,
                _ => 1.5,
            })
            .collect();
        let mut changes = changes;
        changes.sort_by_key(|c| c.id);
        changes.dedup_by_key(|c| c.id);
        // Every row has another part of the changes, and the logits of another row.
        let count = settings.len() as u32;
        let rows: Vec<TextRow> = (0..)
            .zip(&settings)
            .map(|(i, s)| TextRow {
                logits: count - 1 - i,
                changes_from: i.min(changes.len() as u32),
                changes: (changes.len() as u32).saturating_sub(2 * i),
                ..*s
            })
            .collect();
        each_type(
            |lab| {
                let all = choose(lab, &logits, vocab, &rows, &changes);
                for (row, got) in rows.iter().zip(&all) {
                    let alone = choose(lab, &logits, vocab, &[*row], &changes);
                    assert_eq!((alone[0].0, alone[0].1.to_bits()), (got.0, got.1.to_bits()), "alone and together: {row:?}");
                }
                all
            },
            |float, got| {
                for (row, got) in rows.iter().zip(got) {
                    check(float, &logits, vocab, row, &changes, got);
                }
            },
        );
    }
}

#[test]
fn vocabularies_of_published_models_and_the_largest_are_chosen_from() {
    for (vocab, kind) in [(151_936_usize, 0), (151_936, 1), (MAX_TEXT_VOCAB as usize, 0)] {
        let draw = |seed, step, top_k, top_p| TextRow {
            temperature: 0.7,
            top_k,
            top_p,
            seed,
            step,
            logprob: true,
            ..plain()
        };
        let rows = [
            draw(1, 2, 0, 1.0),
            draw(3, 4, 20, 0.8),
            draw(5, 6, 0, 0.95),
            TextRow {
                temperature: 0.0,
                ..plain()
            },
        ];
        // Peaked, as a trained network's; or flat.
        let logits: Vec<f32> = numbers(vocab, 7)
            .iter()
            .zip(numbers(vocab, 8))
            .map(|(a, b)| match kind {
                0 => 9.0 * (a + b) + (a * b * 31.0).sin(),
                _ => 2.0,
            })
            .collect();
        let change = |id| TextChange {
            id,
            said: false,
            less: 1.0,
            hidden: false,
        };
        let changes: Vec<TextChange> = (0..vocab as u32).step_by(5000).map(change).collect();
        let rows = rows.map(|row| TextRow {
            changes: changes.len() as u32,
            ..row
        });
        each_type(
            |lab| choose(lab, &logits, vocab, &rows, &changes),
            |float, got| {
                for (row, got) in rows.iter().zip(got) {
                    check(float, &logits, vocab, row, &changes, got);
                }
            },
        );
    }
}

#[test]
fn a_row_that_is_not_finite_fails_alone_and_says_where() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut logits = vec![1.0; 3 * 5000];
        logits[3] = 2.0;
        logits[5000 + 4500] = bad;
        logits[5000 + 4700] = f32::NAN;
        logits[10_000..].fill(bad);
        let row = |logits, temperature| TextRow {
            logits,
            temperature,
            logprob: true,
            ..plain()
        };
        each_type(
            |lab| {
                let rows = [row(0, 0.0), row(1, 0.0), row(1, 1.0), row(2, 1.0), row(0, 1e-9)];
                choose(lab, &logits, 5000, &rows, &[])
                    .iter()
                    .map(|(id, _)| *id)
                    .collect::<Vec<_>>()
            },
            |_, got| assert_eq!(got, [3, FAILED | 4500, FAILED | 4500, FAILED, 3]),
        );
    }
}

#[test]
fn nothing_but_hidden_tokens_gives_the_first() {
    let hide = |id| TextChange {
        id,
        said: true,
        less: 0.5,
        hidden: true,
    };
    let changes: Vec<TextChange> = (0..40).map(hide).collect();
    let row = |temperature| TextRow {
        temperature,
        changes: 40,
        ..plain()
    };
    each_type(
        |lab| choose(lab, &[1.0; 40], 40, &[row(0.0), row(1.0)], &changes),
        |_, got| assert_eq!(got, [(0, 0.0); 2]),
    );
}

#[test]
fn more_tokens_than_weights_can_be_added_up_for_are_refused() {
    let text = |vocab| Text {
        out: Address::NONE,
        scratch: Address::NONE,
        logits: Address::NONE,
        settings: Address::NONE,
        changes: Address::NONE,
        rows: 1,
        vocab,
        stride: 2,
    };
    let first = |vocab| text(vocab).launches(Float::F32)[0].flaw();
    assert!(first(MAX_TEXT_VOCAB + 1).is_some());
    assert_eq!(first(MAX_TEXT_VOCAB), None);
}
