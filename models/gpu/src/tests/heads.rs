use std::cell::RefCell;

use proptest::prelude::*;

use super::{Lab, close, each_type, numbers, rounded};
use crate::Address;
use crate::kernels::{Attend, Attention, NO_ROW, RotateAndStore};

/// `[queries | keys | values]` of a layer.
#[derive(Debug, Clone, Copy)]
struct Heads {
    heads: usize,
    kv_heads: usize,
    dim: usize,
}

impl Heads {
    fn kv_width(self) -> usize {
        self.kv_heads * self.dim
    }

    fn q_width(self) -> usize {
        self.heads * self.dim
    }

    fn width(self) -> usize {
        self.q_width() + 2 * self.kv_width()
    }
}

fn heads() -> impl Strategy<Value = Heads> {
    let dims = prop_oneof![Just(8_usize), Just(16), Just(48), Just(64), Just(128), Just(12)];
    (
        1_usize..4,
        prop_oneof![Just(1_usize), Just(2), Just(3), Just(4), Just(8)],
        dims,
    )
        .prop_map(|(kv_heads, group, dim)| Heads {
            heads: kv_heads * group,
            kv_heads,
            dim,
        })
}

/// The head after its norm and rotation.
fn rotated(head: &[f32], norm: Option<&[f32]>, angles: &[f32], eps: f32) -> Vec<f32> {
    let dim = head.len();
    let half = head.len() / 2;
    let mean = head.iter().map(|v| v * v).sum::<f32>() / dim as f32;
    let root = (mean + eps).sqrt();
    let v: Vec<f32> = (0..dim)
        .map(|c| norm.map_or(head[c], |n| head[c] / root * n[c]))
        .collect();
    let turn = |c: usize| {
        let (sin, cos) = angles[c % half].sin_cos();
        if c < half {
            v[c] * cos - v[c + half] * sin
        } else {
            v[c] * cos + v[c - half] * sin
        }
    };
    (0..dim).map(turn).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn heads_are_rotated_stored_and_attended_in_one_launch_as_in_two(
        h in heads(), rows in 1_usize..5, normed in any::<bool>(), blocks in 1_usize..4,
    ) {
        attends_as_in_two(h, rows, normed, blocks, "attend_");
    }

    #[test]
    fn heads_are_rotated_and_stored(h in heads(), rows in 1_usize..5, normed in any::<bool>()) {
        let capacity = 7;
        let qkv = numbers(rows * h.width(), 1);
        let angles = numbers(rows * h.dim / 2, 2);
        let angles: Vec<f32> = angles.iter().map(|a| a * 400.0).collect();
        let q_norm = numbers(h.dim, 3);
        let k_norm = numbers(h.dim, 4);
        // The last row has no place.
        let slots: Vec<u32> = (0..rows).map(|r| if r + 1 == rows { NO_ROW } else { (r as u32 * 3 + 2) % 7 }).collect();
        let cache = numbers(capacity * h.kv_width(), 5);
        each_type(
            |lab| {
                let norms = normed.then_some([&q_norm[..], &k_norm[..]]);
                let rotate = rotate_and_store(lab, h, [&qkv, &cache, &angles], norms, &slots);
                lab.run(&rotate.launch(lab.float));
                let size = capacity * h.kv_width();
                (lab.read(rotate.qkv, rows * h.width()), lab.read(rotate.k, size), lab.read(rotate.v, size))
            },
            |float, (got, k, v)| {
                let before = rounded(float, &qkv);
                let cache = rounded(float, &cache);
                let mut expected = before.clone();
                let mut new_k = cache.clone();
                let mut new_v = cache;
                for (r, row) in before.chunks(h.width()).enumerate() {
                    let angles = &angles[r * h.dim / 2..][..h.dim / 2];
                    let (queries, rest) = row.split_at(h.q_width());
                    let (keys, values) = rest.split_at(h.kv_width());
                    let turn = |heads: &[f32], norm: &[f32]| -> Vec<f32> {
                        heads.chunks(h.dim).flat_map(|head| rotated(head, normed.then_some(norm), angles, EPS)).collect()
                    };
                    expected[r * h.width()..][..h.q_width()].copy_from_slice(&turn(queries, &q_norm));
                    if slots[r] != NO_ROW {
                        let at = slots[r] as usize * h.kv_width();
                        new_k[at..at + h.kv_width()].copy_from_slice(&turn(keys, &k_norm));
                        new_v[at..at + h.kv_width()].copy_from_slice(values);
                    }
                }
                close("queries", float, &got, &expected);
                close("keys", float, &k, &new_k);
                close("values", float, &v, &new_v);
            },
        );
    }

    #[test]
    fn rows_attend_to_their_own_keys(
        h in heads(),
        ranges in prop::collection::vec((0_u32..40, 0_u32..90), 1..6),
        shift in 0_u32..4,
        splits in 1_u32..5,
        paged in any::<bool>(),
    ) {
        rows_attend(h, &ranges, paged.then_some(shift), splits, "attention_");
    }
}

const EPS: f32 = 1e-6;

/// Runs the kernel on a row per slot, with keys and values both in `cache`.
fn rotate_and_store(
    lab: &Lab,
    h: Heads,
    [qkv, cache, angles]: [&[f32]; 3],
    norms: Option<[&[f32]; 2]>,
    slots: &[u32],
) -> RotateAndStore {
    let norms = norms.map(|norms| norms.map(|norm| lab.floats(norm)));
    let [q_norm, k_norm] = norms.unwrap_or([Address::NONE; 2]);
    RotateAndStore {
        qkv: lab.rows(qkv),
        k: lab.rows(cache),
        v: lab.rows(cache),
        q_norm,
        k_norm,
        angles: lab.floats(angles),
        slots: lab.words(slots),
        rows: slots.len() as u32,
        heads: h.heads as u32,
        kv_heads: h.kv_heads as u32,
        head_dim: h.dim as u32,
        capacity: (cache.len() / h.kv_width()) as u32,
        eps: EPS,
    }
}

/// `Attend` by the kernel of that name gives what its two parts give, as launches of their own.
fn attends_as_in_two(h: Heads, rows: usize, normed: bool, blocks: usize, kernel: &str) {
    // Every row has as many blocks of four keys; its new key is the last, and the last row has none.
    let keys = blocks * 4;
    let capacity = rows * keys;
    let qkv = numbers(rows * h.width(), 1);
    let angles: Vec<f32> = numbers(rows * h.dim / 2, 2).iter().map(|a| a * 400.0).collect();
    let q_norm = numbers(h.dim, 3);
    let k_norm = numbers(h.dim, 4);
    let slots: Vec<u32> = (0..rows)
        .map(|r| {
            if r + 1 == rows {
                NO_ROW
            } else {
                ((r + 1) * keys - 1) as u32
            }
        })
        .collect();
    let cache = numbers(capacity * h.kv_width(), 5);
    let table: Vec<u32> = (0..(rows * blocks) as u32).collect();
    let ranges: Vec<u32> = (0..rows)
        .flat_map(|r| [(r * blocks) as u32, (r % 2) as u32, keys as u32])
        .collect();
    let all = |lab: &Lab, fused: bool| {
        let norms = normed.then_some([&q_norm[..], &k_norm[..]]);
        let rotate = rotate_and_store(lab, h, [&qkv, &cache, &angles], norms, &slots);
        let RotateAndStore { qkv: at, k, v, .. } = rotate;
        let out = lab.room(rows * h.q_width());
        let attention = Attention {
            out,
            partial: Address::NONE,
            q: at,
            k,
            v,
            table: lab.words(&table),
            ranges: lab.words(&ranges),
            rows: rows as u32,
            heads: h.heads as u32,
            kv_heads: h.kv_heads as u32,
            head_dim: h.dim as u32,
            q_stride: h.width() as u32,
            kv_stride: h.kv_width() as u32,
            shift: 2,
            splits: 1,
            part: 128,
            scale: 0.3,
        };
        let attend = Attend { rotate, attention }.launch(lab.float);
        assert!(attend.kernel.name.starts_with(kernel), "{}", attend.kernel.name);
        let apart = [rotate.launch(lab.float), attention.launches(lab.float).0];
        if fused {
            lab.run(&attend);
        } else {
            apart.iter().for_each(|launch| lab.run(launch));
        }
        let size = capacity * h.kv_width();
        (
            lab.read(out, rows * h.q_width()),
            lab.read(k, size),
            lab.read(v, size),
        )
    };
    each_type(
        |lab| {
            let fused = all(lab, true);
            let apart = all(lab, false);
            (fused, apart)
        },
        |float, (fused, apart)| assert_eq!(fused, apart, "{float:?}"),
    );
}

/// Rows that see keys `from` to `from + len` get the means of the values that the reference gives, by the kernel of
/// that name.
fn rows_attend(h: Heads, ranges: &[(u32, u32)], paged: Option<u32>, splits: u32, kernel: &str) {
    let rows = ranges.len();
    let (paged, shift) = (paged.is_some(), paged.unwrap_or(0));
    let blocks = 160 >> shift;
    // Blocks in an order of their own; every row sees another part of the table.
    let table: Vec<u32> = (0..blocks).map(|i| (i * 7 + 3) % blocks).collect();
    let ranges: Vec<[u32; 3]> = ranges
        .iter()
        .map(|&(from, len)| [if paged { 2 } else { 9 }, from, (from + len).min(120)])
        .collect();
    let q = numbers(rows * h.width(), 1);
    let k = numbers(160 * h.kv_width(), 2);
    let v = numbers(160 * h.kv_width(), 3);
    let scale = 1.0 / (h.dim as f32).sqrt();
    each_type(
        |lab| {
            let parts = (splits, 120_u32.div_ceil(splits));
            let attention = attention(
                lab,
                h,
                &ranges,
                paged.then_some((&table, shift)),
                parts,
                [&q, &k, &v],
            );
            let (attend, merge) = attention.launches(lab.float);
            assert!(attend.kernel.name.starts_with(kernel), "{}", attend.kernel.name);
            for launch in [Some(attend), merge].iter().flatten() {
                lab.run(launch);
            }
            lab.read(attention.out, rows * h.q_width())
        },
        |float, got| {
            let [q, k, v] = [&q, &k, &v].map(|x| rounded(float, x));
            let mut expected = Vec::new();
            for (r, &[begin, from, to]) in ranges.iter().enumerate() {
                let slot = |key: u32| {
                    if paged {
                        ((table[(begin + (key >> shift)) as usize] << shift) + (key & ((1 << shift) - 1)))
                            as usize
                    } else {
                        (begin + key) as usize
                    }
                };
                for head in 0..h.heads {
                    let kv_head = head / (h.heads / h.kv_heads);
                    let query = &q[r * h.width() + head * h.dim..][..h.dim];
                    let of = |pool: &[f32], key| {
                        pool[slot(key) * h.kv_width() + kv_head * h.dim..][..h.dim].to_vec()
                    };
                    let scores: Vec<f32> = (from..to)
                        .map(|key| of(&k, key).iter().zip(query).map(|(k, q)| k * q).sum::<f32>() * scale)
                        .collect();
                    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let weights: Vec<f32> = scores.iter().map(|s| (s - most).exp()).collect();
                    let total: f32 = weights.iter().sum();
                    let mut sum = vec![0.0; h.dim];
                    for (key, weight) in (from..to).zip(&weights) {
                        for (s, v) in sum.iter_mut().zip(of(&v, key)) {
                            *s += weight / total * v;
                        }
                    }
                    expected.extend(sum);
                }
            }
            close("heads", float, &got, &expected);
        },
    );
}

#[test]
fn blocks_of_several_heads_attend_to_their_own_keys() {
    for (dim, paged) in [(12, None), (16, Some(2)), (128, Some(1))] {
        let h = Heads {
            heads: 16,
            kv_heads: 2,
            dim,
        };
        let ranges =
            |rows: u32| -> Vec<(u32, u32)> { (0..rows).map(|row| (row % 5, 1 + 7 * row % 40)).collect() };
        rows_attend(h, &ranges(16), paged, 1, "attention_2_");
        rows_attend(h, &ranges(32), paged, 1, "attention_4_");
        rows_attend(h, &ranges(8), paged, 4, "attention_4_");
    }
}

#[test]
fn blocks_of_several_heads_rotate_store_and_attend_in_one_launch_as_in_two() {
    for (dim, normed) in [(12, true), (16, false), (128, true)] {
        let h = Heads {
            heads: 16,
            kv_heads: 2,
            dim,
        };
        attends_as_in_two(h, 16, normed, 2, "attend_2_");
        attends_as_in_two(h, 32, normed, 2, "attend_4_");
    }
}

#[test]
fn a_few_rows_are_the_same_to_the_last_bit_whatever_their_neighbours_see() {
    let h = Heads {
        heads: 4,
        kv_heads: 2,
        dim: 16,
    };
    let q = numbers(2 * h.width(), 1);
    let k = numbers(700 * h.kv_width(), 2);
    let v = numbers(700 * h.kv_width(), 3);
    let width = h.q_width();
    let one = [0, 3, 260];
    let other = [0, 0, 700];
    let seen = |rows: &[[u32; 3]], most| {
        let parts = Attention::parts(rows.len() as u32, h.kv_heads as u32, most);
        let got = RefCell::new(Vec::new());
        each_type(
            |lab| attend(lab, h, rows, None, parts, [&q, &k, &v]),
            |_, all| got.borrow_mut().push(all[..width].to_vec()),
        );
        got.into_inner()
    };
    let alone = seen(&[one], 512);
    assert!(!alone.is_empty() && alone == seen(&[one, other], 1024));
}

#[test]
fn heads_are_the_same_to_the_last_bit_however_many_a_block_has() {
    let h = Heads {
        heads: 8,
        kv_heads: 2,
        dim: 128,
    };
    // A row with several bunches of keys, and others that only make the launch larger.
    let seen = |rows: usize, kernel: &str| {
        let ranges: Vec<[u32; 3]> = (0..rows)
            .map(|row| if row == 0 { [0, 1, 150] } else { [0, 0, 1] })
            .collect();
        let q = numbers(rows * h.width(), 1);
        let k = numbers(150 * h.kv_width(), 2);
        let v = numbers(150 * h.kv_width(), 3);
        let got = RefCell::new(Vec::new());
        each_type(
            |lab| {
                let attention = attention(lab, h, &ranges, None, (1, 150), [&q, &k, &v]);
                let launch = attention.launches(lab.float).0;
                assert!(launch.kernel.name.starts_with(kernel), "{}", launch.kernel.name);
                lab.run(&launch);
                lab.read(attention.out, h.q_width())
            },
            |_, all| got.borrow_mut().push(all),
        );
        got.into_inner()
    };
    let one = seen(1, "attention_1_");
    assert!(!one.is_empty() && one == seen(32, "attention_2_"));
    assert!(one == seen(64, "attention_4_"));
}

fn attend(
    lab: &Lab,
    h: Heads,
    ranges: &[[u32; 3]],
    table: Option<(&Vec<u32>, u32)>,
    parts: (u32, u32),
    rows: [&Vec<f32>; 3],
) -> Vec<f32> {
    let attention = attention(lab, h, ranges, table, parts, rows);
    let (attend, merge) = attention.launches(lab.float);
    lab.run(&attend);
    if let Some(merge) = merge {
        lab.run(&merge);
    }
    lab.read(attention.out, ranges.len() * h.q_width())
}

fn attention(
    lab: &Lab,
    h: Heads,
    ranges: &[[u32; 3]],
    table: Option<(&Vec<u32>, u32)>,
    (splits, part): (u32, u32),
    [q, k, v]: [&Vec<f32>; 3],
) -> Attention {
    let rows = ranges.len() as u32;
    let heads = h.heads as u32;
    let kv_heads = h.kv_heads as u32;
    let head_dim = h.dim as u32;
    let partial = Attention::partial_bytes(rows, heads, head_dim, splits);
    let out = lab.room(ranges.len() * h.q_width());
    Attention {
        out,
        partial: if partial > 0 {
            lab.floats(&vec![f32::NAN; partial / 4])
        } else {
            Address::NONE
        },
        q: lab.rows(q),
        k: lab.rows(k),
        v: lab.rows(v),
        table: table.map_or(Address::NONE, |(table, _)| lab.words(table)),
        ranges: lab.words(&ranges.concat()),
        rows,
        heads,
        kv_heads,
        head_dim,
        q_stride: h.width() as u32,
        kv_stride: h.kv_width() as u32,
        shift: table.map_or(0, |(_, shift)| shift),
        splits,
        part,
        scale: 1.0 / (head_dim as f32).sqrt(),
    }
}
