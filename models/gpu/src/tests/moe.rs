use proptest::prelude::*;

use super::linear::product;
use super::pointwise::silu;
use super::{close, each_type, numbers, rounded};
use crate::Address;
use crate::kernels::{
    Combine, Dispatch, ExpertDown, ExpertGated, ExpertLinear, Linear, NO_ROW, Route, SharedExpert,
};

/// Ids, weights and gate of one row, as the host routes.
fn routed(scores: &[f32], experts: usize, top_k: usize, normalise: bool) -> (Vec<u32>, Vec<f32>, f32) {
    let most = scores[..experts]
        .iter()
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f32> = scores[..experts].iter().map(|s| (s - most).exp()).collect();
    let sum: f32 = exps.iter().sum();
    let mut p: Vec<(u32, f32)> = (0..).zip(exps.iter().map(|e| e / sum)).collect();
    p.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    p.truncate(top_k);
    let chosen: f32 = if normalise {
        p.iter().map(|p| p.1).sum()
    } else {
        1.0
    };
    let gate = scores.get(experts).map_or(0.0, |s| 1.0 / (1.0 + (-s).exp()));
    (
        p.iter().map(|p| p.0).collect(),
        p.iter().map(|p| p.1 / chosen).collect(),
        gate,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_go_to_their_likeliest_experts(
        rows in 1_usize..6,
        experts in prop_oneof![2_usize..20, Just(64), Just(128)],
        top_k in 1_usize..9,
        shared in any::<bool>(),
        normalise in any::<bool>(),
        seed in 0_usize..50,
    ) {
        let top_k = top_k.min(experts);
        let width = experts + usize::from(shared);
        // Some tie.
        let scores: Vec<f32> = numbers(rows * width, seed).iter().map(|s| (s * 40.0).round() / 10.0).collect();
        each_type(
            |lab| {
                let ids = lab.words(&vec![0; rows * top_k]);
                let weights = lab.floats(&vec![0.0; rows * top_k]);
                let gates = lab.floats(&vec![0.0; rows]);
                let route = Route {
                    ids,
                    weights,
                    gates: if shared { gates } else { Address::NONE },
                    scores: lab.rows(&scores),
                    rows: rows as u32,
                    experts: experts as u32,
                    width: width as u32,
                    top_k: top_k as u32,
                    normalise,
                };
                lab.run(&route.launch(lab.float));
                (lab.read_words(ids, rows * top_k), lab.read_floats(weights, rows * top_k), lab.read_floats(gates, rows))
            },
            |float, (ids, weights, gates)| {
                let expected = rounded(float, &scores);
                for (r, row) in expected.chunks(width).enumerate() {
                    let (e_ids, e_weights, gate) = routed(row, experts, top_k, normalise);
                    assert_eq!(ids[r * top_k..][..top_k], e_ids);
                    close("weights", crate::Float::F32, &weights[r * top_k..][..top_k], &e_weights);
                    close("gate", crate::Float::F32, &gates[r..=r], &[if shared { gate } else { 0.0 }]);
                }
            },
        );
    }

    #[test]
    fn experts_compute_their_rows(
        rows in 1_usize..4,
        hidden in prop_oneof![1_usize..80, Just(256), Just(1088)],
        half in prop_oneof![1_usize..40, Just(64)],
        top_k in prop_oneof![Just(2_usize), Just(5), Just(8)],
        shared in 0_usize..3,
        shared_half in prop_oneof![1_usize..40, Just(96), Just(768)],
        added in any::<bool>(),
        normed in any::<bool>(),
    ) {
        let experts = 9;
        let x = numbers(rows * hidden, 1);
        let scaled = |n: usize, seed, by: usize| numbers(n, seed).iter().map(|w| w / (by as f32).sqrt()).collect::<Vec<_>>();
        let gate_up = scaled(experts * 2 * half * hidden, 2, hidden);
        let down = scaled(experts * hidden * half, 3, half);
        // The last has one expert only.
        let mut ids: Vec<u32> = (0..rows * top_k).map(|i| (i * 3 % experts) as u32).collect();
        ids[rows * top_k - 1] = NO_ROW;
        let weights = numbers(rows * top_k, 4);
        let gates = numbers(rows, 5);
        let others = numbers(rows * hidden, 6);
        let add = numbers(rows * hidden, 7);
        let shared_h = numbers(rows * shared_half, 8);
        let shared_w = scaled(hidden * shared_half, 9, shared_half);
        let norm = numbers(hidden, 10);
        let eps = 1e-5;
        each_type(
            |lab| {
                let h = lab.room(rows * top_k * half);
                let out = lab.rows(&add);
                let at_ids = lab.words(&ids);
                let top_k_ = top_k as u32;
                let experts_ = experts as u32;
                let first = ExpertGated {
                    out: h,
                    x: lab.rows(&x),
                    w: lab.rows(&gate_up),
                    ids: at_ids,
                    norm: if normed { lab.floats(&norm) } else { Address::NONE },
                    eps,
                    rows: rows as u32,
                    experts: experts_,
                    top_k: top_k_,
                    half: half as u32,
                    inputs: hidden as u32,
                };
                lab.run(&first.launch(lab.float));
                let second = ExpertDown {
                    out,
                    h,
                    w: lab.rows(&down),
                    ids: at_ids,
                    weights: lab.floats(&weights),
                    shared: match shared {
                        0 => SharedExpert::None,
                        1 => SharedExpert::Rows(lab.rows(&others)),
                        _ => SharedExpert::Half { h: lab.rows(&shared_h), w: lab.rows(&shared_w), inputs: shared_half as u32 },
                    },
                    gates: lab.floats(&gates),
                    add: if added { out } else { Address::NONE },
                    rows: rows as u32,
                    experts: experts_,
                    top_k: top_k_,
                    outputs: hidden as u32,
                    inputs: half as u32,
                };
                lab.run(&second.launch(lab.float));
                (lab.read(h, rows * top_k * half), lab.read(out, rows * hidden))
            },
            |float, (h, out)| {
                let [x, gate_up, down, others, add] = [&x, &gate_up, &down, &others, &add].map(|v| rounded(float, v));
                let others = match shared {
                    0 => vec![0.0; rows * hidden],
                    1 => others,
                    _ => product(&rounded(float, &shared_h), &rounded(float, &shared_w), shared_half),
                };
                let x = if normed { super::linear::normed(&x, &norm, eps) } else { x };
                let mut expected = vec![0.0; rows * hidden];
                for (i, e) in expected.iter_mut().enumerate() {
                    *e = if added { add[i] } else { 0.0 } + gates[i / hidden] * others[i];
                }
                for (pair, &id) in ids.iter().enumerate() {
                    let made = &h[pair * half..][..half];
                    if id == NO_ROW {
                        assert!(made.iter().all(|h| *h == 0.0));
                        continue;
                    }
                    let id = id as usize;
                    let row = pair / top_k;
                    let both = product(&x[row * hidden..][..hidden], &gate_up[id * 2 * half * hidden..][..2 * half * hidden], hidden);
                    let gated: Vec<f32> = (0..half).map(|c| silu(both[c]) * both[half + c]).collect();
                    close("first half", float, made, &gated);
                    // Continues from the device's result, so that only one product's rounding is compared.
                    let second = product(made, &down[id * hidden * half..][..hidden * half], half);
                    for (e, y) in expected[row * hidden..].iter_mut().zip(second) {
                        *e += weights[pair] * y;
                    }
                }
                close("second half", float, &out, &expected);
            },
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn pairs_are_put_in_the_order_of_their_experts(
        rows in 1_usize..200,
        experts in 1_usize..20,
        top_k in 1_usize..4,
        seed in 0_usize..100,
    ) {
        let inputs = 24;
        let outputs = 40;
        let pairs = rows * top_k;
        let ids: Vec<u32> = (0..pairs)
            .map(|i| (i * i * 7 + i * seed) % (experts + 1))
            .map(|e| if e == experts { NO_ROW } else { e as u32 })
            .collect();
        let x = numbers(rows * inputs, 1);
        let w = numbers(experts * outputs * inputs, 2);
        let weights = numbers(pairs, 3);
        let tile_count = Dispatch::tiles(rows as u32, experts as u32, top_k as u32);
        each_type(
            |lab| {
                let [order, places] = [0; 2].map(|_| lab.words(&vec![0; pairs]));
                let tiles = lab.words(&vec![0; 3 * tile_count as usize]);
                let at_ids = lab.words(&ids);
                let rows = rows as u32;
                let experts = experts as u32;
                let top_k = top_k as u32;
                lab.run(&Dispatch { order, places, tiles, ids: at_ids, rows, experts, top_k }.launch());
                let y = lab.room(pairs * outputs);
                let linear = Linear::product(y, lab.rows(&x), lab.rows(&w), [pairs as u32, outputs as u32, inputs as u32]);
                let tile = Dispatch::tile(rows, experts, top_k);
                lab.run(&ExpertLinear { linear, half: 0, index: order, tiles, tile, tile_count }.launch(lab.float));
                let out = lab.room(rows as usize * outputs);
                let combine = Combine {
                    out,
                    y,
                    places,
                    weights: lab.floats(&weights),
                    shared: Address::NONE,
                    gates: Address::NONE,
                    add: Address::NONE,
                    rows,
                    top_k,
                    width: outputs as u32,
                };
                lab.run(&combine.launch(lab.float));
                (lab.read_words(tiles, 3 * tile_count as usize), lab.read_words(places, pairs), lab.read(out, rows as usize * outputs))
            },
            |float, (tiles, places, out)| {
                let most = Dispatch::tile(rows as u32, experts as u32, top_k as u32);
                // Every pair is in one tile of its expert.
                for (pair, &id) in ids.iter().enumerate() {
                    let place = places[pair];
                    let holds = |t: &&[u32]| t[1] <= place && place < t[2];
                    let tile: Vec<_> = tiles.chunks(3).filter(holds).collect();
                    if id == NO_ROW {
                        assert_eq!(place, NO_ROW);
                    } else {
                        assert!(tile.len() == 1 && tile[0][0] == id && tile[0][2] - tile[0][1] <= most);
                    }
                }
                let x = rounded(float, &x);
                let w = rounded(float, &w);
                let mut expected = vec![0.0; rows * outputs];
                for (pair, &id) in ids.iter().enumerate().filter(|(_, id)| **id != NO_ROW) {
                    let row = pair / top_k;
                    let of = outputs * inputs;
                    let y = product(&x[row * inputs..][..inputs], &w[id as usize * of..][..of], inputs);
                    for (e, y) in expected[row * outputs..].iter_mut().zip(rounded(float, &y)) {
                        *e += weights[pair] * y;
                    }
                }
                close("combined", float, &out, &expected);
            },
        );
    }
}

#[test]
fn scores_that_are_no_numbers_choose_nobody() {
    each_type(
        |lab| {
            let ids = lab.words(&[9; 4]);
            let weights = lab.floats(&[9.0; 4]);
            let scores = lab.rows(&[f32::NAN; 6]);
            let rows = 2;
            let experts = 3;
            let width = 3;
            let top_k = 2;
            let route = Route {
                ids,
                weights,
                gates: Address::NONE,
                scores,
                rows,
                experts,
                width,
                top_k,
                normalise: false,
            };
            lab.run(&route.launch(lab.float));
            (lab.read_words(ids, 4), lab.read_floats(weights, 4))
        },
        |_, (ids, weights)| {
            assert_eq!(ids, [NO_ROW; 4]);
            assert_eq!(weights, [0.0; 4]);
        },
    );
}
