use proptest::prelude::*;

use super::{close, each_type, numbers, rounded};
use crate::Address;
use crate::kernels::{Copy, Fill, Gather, LookupMean, LookupSum, NO_ROW, PairRows, Put, ScatterAdd, Take};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gathered_rows_are_those_named(
        rows in 1_usize..20,
        stride in 1_usize..4,
        width in 1_usize..600,
        index in prop::collection::vec(any::<u32>(), 1..20),
    ) {
        let x = numbers(rows * width, 1);
        // Some name nothing.
        let index: Vec<u32> = index.iter().map(|&i| if i % 5 == 0 { NO_ROW } else { i % rows as u32 }).collect();
        each_type(
            |lab| {
                let out = lab.room(index.len() * width);
                let count = index.len() as u32;
                let apart = index.iter().flat_map(|&i| std::iter::once(i).chain(std::iter::repeat_n(3, stride - 1)));
                let x = lab.rows(&x);
                let index = lab.words(&apart.collect::<Vec<_>>());
                let rows = rows as u32;
                let width = width as u32;
                let stride = stride as u32;
                lab.run(&Gather { out, x, index, stride, count, rows, width }.launch(lab.float));
                lab.read(out, (count * width) as usize)
            },
            |float, got| {
                let x = rounded(float, &x);
                let row = |&i: &u32| if i == NO_ROW { vec![0.0; width] } else { x[i as usize * width..][..width].to_vec() };
                assert_eq!(got, index.iter().flat_map(row).collect::<Vec<_>>());
            },
        );
    }

    #[test]
    fn rows_are_paired_with_those_of_a_table(
        count in 1_usize..8,
        stride in 1_usize..4,
        width in prop_oneof![1_usize..300, Just(1024)],
        seed in any::<u32>(),
    ) {
        let rows = 5;
        let table_rows = 9;
        let x = numbers(rows * width, 1);
        let table = numbers(table_rows * width, 2);
        // Some name nothing.
        let name = |i: usize, most: usize| if (i as u32 + seed).is_multiple_of(5) { NO_ROW } else { ((i * 7 + seed as usize) % most) as u32 };
        let index: Vec<u32> = (0..count).map(|i| name(i, rows)).collect();
        let ids: Vec<u32> = (0..count * stride).map(|i| name(i + 3, table_rows)).collect();
        each_type(
            |lab| {
                let out = lab.room(2 * count * width);
                let pairs = PairRows {
                    out,
                    x: lab.rows(&x),
                    table: lab.rows(&table),
                    index: lab.words(&index),
                    ids: lab.words(&ids),
                    count: count as u32,
                    rows: rows as u32,
                    table_rows: table_rows as u32,
                    stride: stride as u32,
                    width: width as u32,
                };
                lab.run(&pairs.launch(lab.float));
                lab.read(out, 2 * count * width)
            },
            |float, got| {
                let x = rounded(float, &x);
                let table = rounded(float, &table);
                let row = |of: &[f32], i: u32| of.chunks(width).nth(i as usize).map_or_else(|| vec![0.0; width], <[f32]>::to_vec);
                let expected: Vec<f32> = (0..count).flat_map(|i| [row(&x, index[i]), row(&table, ids[i * stride])].concat()).collect();
                assert_eq!(got, expected);
            },
        );
    }

    #[test]
    fn words_are_copied_and_filled(words in 1_u32..5000) {
        each_type(
            |lab| {
                let values: Vec<u32> = (0..words).collect();
                let from = lab.words(&values);
                let to = lab.words(&values);
                lab.run(&Fill { to, word: 7, words }.launch());
                let filled = lab.read_words(to, words as usize);
                lab.run(&Copy { to, from, words }.launch());
                (filled, lab.read_words(to, words as usize))
            },
            |_, (filled, copied)| {
                assert!(filled.iter().all(|&w| w == 7));
                assert!(copied.iter().copied().eq(0..words));
            },
        );
    }

    #[test]
    fn scattered_rows_add_up(
        rows in 1_usize..12,
        width in 1_usize..300,
        index in prop::collection::vec(any::<u32>(), 1..20),
        weighted in any::<bool>(),
        unique in any::<bool>(),
    ) {
        let index: Vec<u32> = if unique {
            (0..rows as u32).rev().filter(|i| i % 3 != 1).chain([NO_ROW]).collect()
        } else {
            index.iter().map(|i| i % (rows as u32 + 1)).collect()
        };
        let acc = numbers(rows * width, 1);
        let x = numbers(index.len() * width, 2);
        let weight = numbers(index.len(), 3);
        each_type(
            |lab| {
                let at = lab.rows(&acc);
                let scatter = ScatterAdd {
                    acc: at,
                    x: lab.rows(&x),
                    index: lab.words(&index),
                    weight: if weighted { lab.floats(&weight) } else { Address::NONE },
                    count: index.len() as u32,
                    rows: rows as u32,
                    width: width as u32,
                    unique,
                };
                lab.run(&scatter.launch(lab.float));
                lab.read(at, rows * width)
            },
            |float, got| {
                let mut acc = rounded(float, &acc);
                let x = rounded(float, &x);
                for (i, &row) in index.iter().enumerate().filter(|(_, row)| (**row as usize) < rows) {
                    let factor = if weighted { weight[i] } else { 1.0 };
                    for c in 0..width {
                        let at = row as usize * width + c;
                        acc[at] = rounded(float, &[acc[at] + factor * x[i * width + c]])[0];
                    }
                }
                close("acc", float, &got, &acc);
            },
        );
    }

    #[test]
    fn lookups_are_averaged(count in 1_usize..6, group in 1_usize..17, width in 1_usize..200) {
        let table = numbers(20 * width, 1);
        // One of them does not exist.
        let ids: Vec<u32> = (0..count * group).map(|i| (i * 11 % 21) as u32).collect();
        each_type(
            |lab| {
                let out = lab.room(count * width);
                let mean = LookupMean {
                    out,
                    table: lab.rows(&table),
                    ids: lab.words(&ids),
                    count: count as u32,
                    group: group as u32,
                    rows: 20,
                    width: width as u32,
                };
                lab.run(&mean.launch(lab.float));
                lab.read(out, count * width)
            },
            |float, got| {
                let table = rounded(float, &table);
                let row = |id: u32, c: usize| table.get(id as usize * width + c).copied().unwrap_or(0.0);
                let mean = |ids: &[u32], c| ids.iter().map(|&id| row(id, c)).sum::<f32>() / group as f32;
                let expected = ids.chunks(group).flat_map(|ids| (0..width).map(move |c| mean(ids, c)));
                close("mean", float, &got, &expected.collect::<Vec<_>>());
            },
        );
    }

    #[test]
    fn lookups_in_many_tables_are_summed(count in 1_usize..5, groups in 1_usize..16, width in 1_usize..200, indexed in any::<bool>(), picked in any::<bool>()) {
        let tables: Vec<Vec<f32>> = (0..groups).map(|g| numbers((5 + g) * width, g)).collect();
        let rows = 8;
        let stride = groups + 2;
        let acc = numbers(rows * width, 99);
        let ids: Vec<u32> = (0..count * stride).map(|i| (i * 7 % 9) as u32).collect();
        let index: Vec<u32> = (0..count as u32).map(|i| 7 - 2 * i).collect();
        // The first names no ids.
        let from: Vec<u32> = (0..count as u32).map(|i| if i == 0 { NO_ROW } else { i - 1 }).collect();
        each_type(
            |lab| {
                let at = lab.rows(&acc);
                let pairs = tables.iter().flat_map(|t| [lab.rows(t).0, (t.len() / width) as u64]);
                let pairs: Vec<u32> = pairs.flat_map(|p| [p as u32, (p >> 32) as u32]).collect();
                let sum = LookupSum {
                    acc: at,
                    tables: lab.words(&pairs),
                    ids: lab.words(&ids),
                    index: if indexed { lab.words(&index) } else { Address::NONE },
                    from: if picked { lab.words(&from) } else { Address::NONE },
                    count: count as u32,
                    rows: rows as u32,
                    width: width as u32,
                    groups: groups as u32,
                    stride: stride as u32,
                    id_rows: count as u32,
                };
                lab.run(&sum.launch(lab.float));
                lab.read(at, rows * width)
            },
            |float, got| {
                let mut acc = rounded(float, &acc);
                for i in 0..count {
                    let row = if indexed { index[i] as usize } else { i };
                    let of_ids = if picked { from[i] } else { i as u32 };
                    if of_ids == NO_ROW {
                        continue;
                    }
                    for c in 0..width {
                        let of = |g: usize| rounded(float, &tables[g]).get(ids[of_ids as usize * stride + g] as usize * width + c).copied();
                        acc[row * width + c] += (0..groups).map(|g| of(g).unwrap_or(0.0)).sum::<f32>();
                    }
                }
                close("sum", float, &got, &acc);
            },
        );
    }
}

#[test]
fn rows_of_words_are_put_and_taken_by_index() {
    each_type(
        |lab| {
            let to = lab.words(&[7; 8]);
            let out = lab.words(&[0; 8]);
            let from = lab.words(&[10, 11, 12, 13, 0x7f80_0001, 0xffff_ffff]);
            let index = lab.words(&[3, NO_ROW, 0]);
            let put = Put {
                to,
                from,
                index,
                count: 3,
                rows: 4,
                width: 2,
            };
            lab.run(&put.launch());
            let index = lab.words(&[0, 1, 3, 4]);
            let take = Take {
                to: out,
                from: to,
                index,
                count: 4,
                rows: 4,
                width: 2,
            };
            lab.run(&take.launch());
            (lab.read_words(to, 8), lab.read_words(out, 8))
        },
        |_, (put, taken)| {
            assert_eq!(put, [0x7f80_0001, 0xffff_ffff, 7, 7, 7, 7, 10, 11]);
            assert_eq!(taken, [0x7f80_0001, 0xffff_ffff, 7, 7, 10, 11, NO_ROW, NO_ROW]);
        },
    );
}
