//! Recording of steps as graphs, and steps that cannot be recorded.

mod paged;
mod tokens;

use omni_gpu::{Emulated, Float};

use super::*;
use crate::host::{HostTensor, Recipe, Uniform};
use crate::ops::*;
use crate::sampling::{Choice, Limits, Sampling};
use crate::{Matrices, Tables};

const KEY: StepKey = StepKey {
    stage: "test",
    rows: 4,
    also: 0,
    ends: 0,
};

fn gpu(graphs: bool) -> Gpu<Emulated> {
    Gpu::new(Emulated::default(), Float::F32, graphs)
}

#[test]
fn random_weights_are_those_of_the_processor_to_the_last_bit() {
    let made = |rows: usize, tensor| {
        let uniform = Uniform {
            seed: 11,
            tensor,
            gain: 1.0,
            inputs: 9,
        };
        HostTensor::made(vec![rows, 9], Recipe::Uniform(uniform))
    };
    for float in [Float::F32, Float::Bf16] {
        let b = Gpu::new(Emulated::default(), float, false);
        let table = b.table(made(100, 1)).expect("a table");
        let ids = b.ids(1, (0..100).collect()).expect("ids");
        let rows = b.lookup(&table, &ids, 0).expect("rows");
        assert_eq!(
            b.host(&rows).expect("numbers"),
            made(100, 1).to_f32(),
            "{float:?}"
        );
        // Two tensors behind each other, the second at an odd place; each unit vector finds a column.
        let matrix = b.matrix(&[made(5, 2), made(3, 3)], None).expect("a matrix");
        let units = (0..81).map(|i| if i % 10 == 0 { 1.0 } else { 0.0 }).collect();
        let columns = b
            .linear(&matrix, &b.rows(9, units).expect("rows"))
            .expect("columns");
        let stacked = [made(5, 2).to_f32(), made(3, 3).to_f32()].concat();
        let expected: Vec<f32> = (0..72).map(|i| stacked[i % 8 * 9 + i / 8]).collect();
        assert_eq!(b.host(&columns).expect("numbers"), expected, "{float:?}");
    }
}

/// Ten rows to look up, and the weights of a norm.
struct Net {
    table: Table<Emulated>,
    norm: Vector<Emulated>,
}

fn net(b: &Gpu<Emulated>) -> Net {
    let values: Vec<f32> = (0..40).map(|i| i as f32 - 15.0).collect();
    let table = b.table(HostTensor::from_f32(vec![10, 4], &values));
    let norm = b.vector(&HostTensor::from_f32(vec![4], &[1.0, 2.0, 3.0, 4.0]));
    Net {
        table: table.expect("a table"),
        norm: norm.expect("a vector"),
    }
}

/// Four rows of the table, normalised, and `more` times again.
fn step(b: &Gpu<Emulated>, net: &Net, ids: [u32; 4], more: usize) -> Vec<f32> {
    let rows = b.step(KEY, |b| {
        let mut x = b.lookup(&net.table, &b.ids(1, ids.to_vec())?, 0)?;
        for _ in 0..=more {
            x = b.rms_norm(&net.norm, 1e-6, &x)?;
        }
        Ok(x)
    });
    b.host(&rows.expect("the step computes"))
        .expect("it can be looked at")
}

#[test]
fn steps_that_are_alike_are_replayed_with_what_they_bring() {
    let plain = gpu(false);
    let graphs = gpu(true);
    let without = net(&plain);
    let with = net(&graphs);
    for ids in [[0, 1, 2, 3], [9, 9, 0, 5], [4, 3, 2, 1]] {
        assert_eq!(step(&graphs, &with, ids, 0), step(&plain, &without, ids, 0));
    }
    let figures = graphs.figures().expect("a GPU");
    assert_eq!((figures.graphs, figures.replays, figures.fallbacks), (1, 2, 0));
    assert_eq!(figures.replayed_launches, 2 * figures.recorded_launches);
    assert_eq!(plain.figures().expect("a GPU").graphs, 0);
}

#[test]
fn a_step_that_differs_is_right_and_told_and_no_graph_any_more() {
    let plain = gpu(false);
    let graphs = gpu(true);
    let without = net(&plain);
    let with = net(&graphs);
    // As recorded; with one operation more; with one less than the graph has; as recorded again.
    for more in [1, 2, 0, 1] {
        let ids = [3, 1, 4, 1];
        assert_eq!(
            step(&graphs, &with, ids, more),
            step(&plain, &without, ids, more),
            "{more}"
        );
    }
    let figures = graphs.figures().expect("a GPU");
    assert_eq!((figures.graphs, figures.replays, figures.fallbacks), (1, 0, 3));
    assert_eq!(
        graphs.take_fallbacks(),
        [
            "a step of test, sizes 4 and 0, is launched without a graph: its operations differ from those that were recorded"
        ]
    );
    assert!(graphs.take_fallbacks().is_empty(), "a reason is told once");
}

#[test]
fn a_step_with_fewer_operations_than_recorded_does_not_run_the_rest() {
    let plain = gpu(false);
    let graphs = gpu(true);
    let without = net(&plain);
    let with = net(&graphs);
    for more in [3, 1] {
        let ids = [3, 1, 4, 1];
        assert_eq!(
            step(&graphs, &with, ids, more),
            step(&plain, &without, ids, more),
            "{more}"
        );
    }
    assert_eq!(graphs.figures().expect("a GPU").fallbacks, 1);
}

#[test]
fn memory_that_moves_makes_a_new_graph_and_is_no_difference() {
    let b = gpu(true);
    let net = net(&b);
    let mut kv = b.kv(4, 4).expect("memory");
    let ids = [0, 1, 2, 3];
    let expected = step(&b, &net, ids, 0);
    b.grow(&mut kv, 100).expect("memory");
    assert_eq!(step(&b, &net, ids, 0), expected);
    assert_eq!(step(&b, &net, ids, 0), expected);
    let figures = b.figures().expect("a GPU");
    assert_eq!((figures.graphs, figures.replays, figures.fallbacks), (2, 1, 0));
}

#[test]
fn a_step_that_brings_too_much_is_launched_without_a_graph() {
    let b = gpu(true);
    // Three times two megabytes; the staging area holds four.
    let values = |from: u32| (from..from + 500_000).map(|i| i as f32).collect::<Vec<f32>>();
    let rows = b.step(KEY, |b| {
        let x = [0, 500_000, 1_000_000].map(|from| b.rows(1000, values(from)));
        let first = |x: Result<Rows<Emulated>>| b.gather(&x?, &[1]);
        x.map(first).into_iter().collect::<Result<Vec<_>>>()
    });
    for (i, rows) in rows.expect("the step computes").iter().enumerate() {
        let got = b.host(rows).expect("rows");
        assert_eq!(
            (got[0], got[999]),
            (500_000.0 * i as f32 + 1000.0, 500_000.0 * i as f32 + 1999.0)
        );
    }
    assert_eq!(b.figures().expect("a GPU").fallbacks, 1);
}

#[test]
fn what_a_step_brings_beside_is_not_overwritten_by_what_it_gave_back_before() {
    let b = gpu(true);
    let net = net(&b);
    let got = b.step(KEY, |b| {
        // A place that is given back before anything is launched.
        drop(b.rms_norm(&net.norm, 1e-6, &b.rows(4, vec![9.0; 64])?)?);
        let large = b.rows(1000, vec![1.0; 1_100_000])?;
        let small = b.rows(4, (0..64).map(|i| i as f32).collect())?;
        Ok((b.gather(&large, &[7])?, b.gather(&small, &[0, 15])?))
    });
    let (large, small) = got.expect("the step computes");
    assert_eq!(b.host(&large).expect("rows")[..2], [1.0, 1.0]);
    assert_eq!(
        b.host(&small).expect("rows"),
        [0.0, 1.0, 2.0, 3.0, 60.0, 61.0, 62.0, 63.0]
    );
}

#[test]
fn a_step_that_is_looked_into_fails_and_the_next_one_does_not() {
    let b = gpu(true);
    let net = net(&b);
    let looked = b.step(KEY, |b| b.host(&b.lookup(&net.table, &b.ids(1, vec![1])?, 0)?));
    assert_eq!(
        looked.expect_err("nothing is computed yet").to_string(),
        "what a step computes cannot be looked at before its end"
    );
    assert_eq!(step(&b, &net, [0; 4], 0).len(), 16);
    assert_eq!(b.figures().expect("a GPU").fallbacks, 0);
}

#[test]
fn a_step_that_is_like_no_other_is_launched_when_all_of_it_is_known() {
    let b = gpu(true);
    let net = net(&b);
    let normed = |b: &Gpu<Emulated>| b.rms_norm(&net.norm, 1e-6, &b.rows(4, vec![3.0; 64])?);
    let before = b.figures().expect("a GPU");
    let alone = normed(&b).expect("rows");
    let once = b.step_once(KEY.stage, |b| {
        let launched = b.figures().expect("a GPU").launches;
        let rows = normed(b)?;
        assert_eq!(
            b.figures().expect("a GPU").launches,
            launched,
            "nothing is launched yet"
        );
        Ok(rows)
    });
    let after = b.figures().expect("a GPU");
    assert_eq!((after.launches - before.launches, after.graphs), (2, 0));
    let once = once.expect("a step");
    assert_eq!(b.host(&once).expect("rows"), b.host(&alone).expect("rows"));
    // Its result is still held, so the next one is launched one by one.
    let next = b.step_once(KEY.stage, normed).expect("a step");
    assert_eq!(b.host(&next).expect("rows"), b.host(&alone).expect("rows"));
}

#[test]
fn a_device_that_is_lost_is_told_from_a_step_that_failed() {
    let call = "cuStreamSynchronize";
    let reason = String::from("an illegal address");
    let lost = GpuError::Lost {
        call,
        reason: reason.clone(),
    };
    let told = omni_engine::ModelError::from(ComputeError::from(lost));
    assert!(matches!(told, omni_engine::ModelError::Lost(_)), "{told:?}");
    let failed = GpuError::Driver { call, reason };
    let told = omni_engine::ModelError::from(ComputeError::from(failed));
    assert!(matches!(told, omni_engine::ModelError::Compute(_)), "{told:?}");
}

#[test]
fn prompts_of_many_sizes_leave_the_steps_without_prompts_their_graphs_and_others_theirs_to_prompts() {
    let b = gpu(true);
    let net = net(&b);
    let step = |also, ends| {
        let key = StepKey { also, ends, ..KEY };
        let rows = b.step(key, |b| b.rms_norm(&net.norm, 1e-6, &b.rows(4, vec![9.0; 16])?));
        drop(rows.expect("a step"));
    };
    let graphs = || b.figures().expect("a GPU").graphs;
    // More of one kind than are remembered of it.
    for (many, other) in [(1, 0), (0, 1)] {
        step(1_000, other);
        (0..300).for_each(|also| step(also, many));
        let before = graphs();
        step(1_000, other);
        assert_eq!(graphs(), before, "the other kind is known still");
        step(0, many);
        assert_eq!(graphs(), before + 1, "the oldest of its own is not");
    }
}

#[test]
fn a_choice_outside_of_its_logits_is_refused_before_it_is_launched() {
    let b = gpu(false);
    let sampling = Sampling {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        repetition_penalty: 1.0,
        min_tokens: 0,
    };
    let choice = |said| Choice {
        sampling: &sampling,
        limits: Limits::default(),
        seed: 1,
        step: 0,
        said,
    };
    let logits = b.rows(4, vec![1.0; 8]).expect("two rows");
    let sample_into = |column, rows: &[u32], said, room| {
        let mut ids = b.ids(1, vec![0; room]).expect("ids");
        let before = b.ids(1, vec![0; 2]).expect("ids");
        let choices = vec![choice(said); 2];
        let done = b.sample_of(&logits, rows, &choices, Some(&before), &mut ids, column);
        done.map_err(|e| e.to_string())
    };
    let sample = |rows: &[u32], said, room| sample_into(0, rows, said, room);
    assert_eq!(sample(&[1, 0], Some(1), 2), Ok(()));
    let refused = |reason: &str| Err(reason.to_owned());
    assert_eq!(sample(&[1, 2], None, 2), refused("row 2 of 2 rows of logits"));
    assert_eq!(sample(&[1], None, 2), refused("2 choices from 1 rows of logits"));
    assert_eq!(sample(&[0, 0], None, 1), refused("row 1 of 1 rows of chosen ids"));
    assert_eq!(
        sample(&[0, 0], Some(2), 2),
        refused("row 2 of 2 rows of ids that were chosen before")
    );
    assert_eq!(
        sample_into(1, &[0, 1], None, 2),
        refused("column 1 of 1 columns of chosen ids")
    );
}

#[test]
fn pairs_of_rows_of_different_widths_are_refused() {
    let b = gpu(false);
    let table = net(&b).table;
    let ids = b.ids(1, vec![3]).expect("ids");
    let pair = |x: usize, width| {
        let rows = b.rows(x, vec![1.0; x]).expect("a row");
        let pairs = b.pair_with_lookup(width, &rows, &[0], &table, &ids);
        pairs
            .map(|pairs| b.host(&pairs).expect("numbers"))
            .map_err(|e| e.to_string())
    };
    assert_eq!(pair(4, 4).map(|pairs| pairs.len()), Ok(8));
    for (x, width) in [(5, 5), (5, 4), (4, 5)] {
        let reason = format!("pairs of rows of {x} and 4 elements, expected {width}");
        assert_eq!(pair(x, width), Err(reason));
    }
}
