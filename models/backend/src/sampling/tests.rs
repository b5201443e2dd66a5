use proptest::prelude::*;

use super::*;

const DRAW: Draw = Draw {
    seed: 1,
    step: 2,
    group: 3,
};

/// The plain form: probabilities `[vocab]` after all rules, each rule over the whole vocabulary, in f64.
fn reference(logits: &[f32], s: &Sampling, limits: Limits<'_>) -> Vec<f64> {
    let mut l: Vec<f64> = logits.iter().map(|&l| f64::from(l)).collect();
    let mut seen: Vec<u32> = limits.generated.to_vec();
    seen.sort_unstable();
    seen.dedup();
    let penalty = f64::from(s.repetition_penalty);
    for id in seen {
        let l = &mut l[id as usize];
        *l = if *l < 0.0 { *l * penalty } else { *l / penalty };
    }
    let end = limits.end.expect("set") as usize;
    if limits.generated.len() < s.min_tokens as usize {
        l[end] = f64::NEG_INFINITY;
    }
    for (id, l) in l.iter_mut().enumerate() {
        if id >= limits.suppress_from.expect("set") && id != end {
            *l = f64::NEG_INFINITY;
        }
    }
    l.iter_mut().for_each(|l| *l /= f64::from(s.temperature));
    let mut sorted = l.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    if s.top_k > 0 {
        let threshold = sorted[(s.top_k as usize).min(sorted.len()) - 1];
        l.iter_mut().for_each(|l| {
            if *l < threshold {
                *l = f64::NEG_INFINITY;
            }
        });
    }
    let p = softmax(&l);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut cumulative = 0.0;
    let last = order[order.len() - 1];
    for id in order {
        cumulative += p[id];
        if s.top_p < 1.0 && cumulative <= 1.0 - f64::from(s.top_p) && id != last {
            l[id] = f64::NEG_INFINITY;
        }
    }
    softmax(&l)
}

fn softmax(l: &[f64]) -> Vec<f64> {
    let max = l.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp: Vec<f64> = l.iter().map(|l| (l - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

prop_compose! {
    fn settings()(
        temperature in 0.2_f32..2.0,
        top_k in 0_u32..40,
        top_p in 0.3_f32..1.0,
        repetition_penalty in 0.8_f32..1.5,
        min_tokens in 0_u32..6,
    ) -> Sampling {
        Sampling { temperature, top_k, top_p, repetition_penalty, min_tokens }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn frequencies_are_the_reference_probabilities(
        s in settings(),
        logits in prop::collection::vec(-4.0_f32..4.0, 30),
        generated in prop::collection::vec(0_u32..30, 0..8),
    ) {
        let limits = Limits { generated: &generated, suppress_from: Some(22), end: Some(25) };
        let expected = reference(&logits, &s, limits);
        let mut counts = vec![0_u32; logits.len()];
        let draws = 4000;
        for step in 0..draws {
            let id = sample(&mut logits.clone(), &s, limits, Draw { step, ..DRAW }).expect("finite");
            counts[id as usize] += 1;
        }
        for (id, (&count, p)) in counts.iter().zip(expected).enumerate() {
            prop_assert!(p > 0.0 || count == 0, "{id} is impossible and was drawn {count} times");
            let mean = p * f64::from(draws);
            let deviation = (p * (1.0 - p) * f64::from(draws)).sqrt();
            let off = (f64::from(count) - mean).abs();
            prop_assert!(off <= 6.0 * deviation + 3.0, "{id}: drawn {count} times, expected {mean}");
        }
    }

    #[test]
    fn greedy_takes_the_likeliest_of_the_reference(
        s in settings(),
        mut logits in prop::collection::vec(-4.0_f32..4.0, 30),
        generated in prop::collection::vec(0_u32..30, 0..8),
    ) {
        let limits = Limits { generated: &generated, suppress_from: Some(22), end: Some(25) };
        let expected = reference(&logits, &Sampling { top_p: 1.0, ..s }, limits);
        let id = sample(&mut logits, &s.greedy(), limits, DRAW).expect("finite");
        let best = expected.iter().copied().fold(0.0, f64::max);
        prop_assert!((expected[id as usize] - best).abs() < 1e-6);
    }
}

fn plain() -> Sampling {
    Sampling {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        repetition_penalty: 1.0,
        min_tokens: 0,
    }
}

#[test]
fn the_first_of_equals_wins_when_greedy() {
    let mut logits = [0.0, 5.0, 5.0, 1.0];
    assert_eq!(
        sample(&mut logits, &plain().greedy(), Limits::default(), DRAW),
        Ok(1)
    );
}

#[test]
fn ties_with_the_last_of_the_top_k_stay() {
    let s = Sampling { top_k: 1, ..plain() };
    let drawn: std::collections::BTreeSet<u32> = (0..200)
        .filter_map(|step| {
            sample(
                &mut [1.0, 3.0, 3.0, 0.0],
                &s,
                Limits::default(),
                Draw { step, ..DRAW },
            )
            .ok()
        })
        .collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn top_p_keeps_the_likeliest_even_if_alone_above() {
    let s = Sampling {
        top_p: 0.01,
        ..plain()
    };
    for step in 0..50 {
        assert_eq!(
            sample(&mut [0.0, 1.0, 0.5], &s, Limits::default(), Draw { step, ..DRAW }),
            Ok(1)
        );
    }
}

#[test]
fn extreme_penalties_leave_something_to_draw() {
    let s = Sampling {
        repetition_penalty: 1e-38,
        ..plain()
    };
    let limits = Limits {
        generated: &[0, 1],
        ..Limits::default()
    };
    let drawn: std::collections::BTreeSet<u32> = (0..50)
        .filter_map(|step| sample(&mut [30.0, 31.0, 5.0], &s, limits, Draw { step, ..DRAW }).ok())
        .collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn logits_that_are_no_numbers_are_an_error() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(
            sample(&mut [0.0, bad], &plain(), Limits::default(), DRAW),
            Err(NotFinite { id: Some(1) })
        );
    }
}

#[test]
fn draws_differ_by_seed_step_and_group() {
    let numbers =
        [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (1 + (1 << 40), 2, 3)].map(|(a, b, c)| uniform(a, b, c));
    for (i, a) in numbers.iter().enumerate() {
        assert!((0.0..1.0).contains(a));
        assert!(numbers[..i].iter().all(|b| a != b), "{numbers:?}");
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let cases = [
        (
            Sampling {
                temperature: -1.0,
                ..plain()
            },
            "temperature is -1, expected a number of at least 0",
        ),
        (
            Sampling {
                top_p: 0.0,
                ..plain()
            },
            "top_p is 0, expected a number above 0 and at most 1",
        ),
        (
            Sampling {
                repetition_penalty: 0.0,
                ..plain()
            },
            "repetition_penalty is 0, expected a number above 0",
        ),
    ];
    for (s, expected) in cases {
        assert_eq!(s.validate().expect_err("out of range").to_string(), expected);
    }
    assert_eq!(plain().validate(), Ok(()));
}
