//! Keys and values in the blocks of a paged cache.

use omni_gpu::{Copies as _, Memory as _};

use super::*;
use crate::angles::Angles;
use crate::{AttentionShape, Batch};

const SHAPE: AttentionShape = AttentionShape {
    heads: 4,
    kv_heads: 2,
    head_dim: 8,
    eps: 1e-6,
    window: None,
};
/// Rows of a block: 4.
const SHIFT: u32 = 2;
const BLOCKS: usize = 12;
/// Rows that steps are filled up to.
const ROWS: usize = 4;

/// A sequence's part of a step: first position, positions, blocks.
type Part<'a> = (usize, usize, &'a [u32]);

/// Form in which a batch names its keys.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Blocks,
    Rows,
}

struct Layer {
    b: Gpu<Emulated>,
    form: Form,
    kv: Kv<Emulated>,
    angles: Angles,
}

impl Layer {
    fn new(graphs: bool, form: Form) -> Self {
        let b = gpu(graphs);
        let kv = b.kv(BLOCKS << SHIFT, SHAPE.kv_width()).expect("memory");
        let angles = Angles::new(SHAPE.head_dim, 1e4, None);
        Self { b, form, kv, angles }
    }

    fn batch(&self, parts: &[Part<'_>]) -> Batch {
        let mut batch = match self.form {
            Form::Blocks => Batch::in_blocks(SHIFT),
            Form::Rows => Batch::default(),
        };
        for &(start, len, blocks) in parts {
            match self.form {
                Form::Blocks => batch.push_blocks(start, len, |i| blocks[i], |p| [p as u32; 3]),
                Form::Rows => batch.push(start, len, 0, |p| {
                    (blocks[p >> SHIFT] << SHIFT) + (p as u32 & ((1 << SHIFT) - 1))
                }),
            }
        }
        batch
    }

    /// Attention of the parts' rows, over numbers derived from `seed` and place.
    fn run(&mut self, parts: &[Part<'_>], seed: usize, step: Option<StepKey>) -> Vec<f32> {
        let real: usize = parts.iter().map(|(_, len, _)| len).sum();
        let mut parts = parts.to_vec();
        if step.is_some() {
            // Padding rows, in the padding block.
            parts.resize(parts.len() + ROWS - real, (0, 1, &[0]));
        }
        let mut batch = self.batch(&parts);
        if step.is_some() {
            batch.make_room(64);
        }
        let width = SHAPE.q_width() + 2 * SHAPE.kv_width();
        let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
        let values: Vec<f32> = (0..batch.rows() * width).map(number).collect();
        let angles = &self.angles;
        let kv = &mut self.kv;
        let attend = |b: &Gpu<Emulated>| {
            let qkv = b.rows(width, values)?;
            let places = b.places(&batch, angles, &SHAPE)?;
            b.attention(&SHAPE, None, qkv, &places, &batch, kv)
        };
        let out = match step {
            Some(key) => self.b.step(key, attend),
            None => attend(&self.b),
        };
        let mut out = self.b.host(&out.expect("it computes")).expect("rows");
        out.truncate(real * SHAPE.q_width());
        out
    }
}

/// Two sequences that share the first block, and continue in blocks that change at every step, as after preemptions.
/// Returns the rows of each step.
fn talk(layer: &mut Layer) -> Vec<Vec<f32>> {
    let mut rows = vec![
        layer.run(&[(0, 5, &[3, 1])], 1, None),
        layer.run(&[(4, 2, &[3, 5])], 2, None),
        layer.run(&[(5, 1, &[3, 1]), (6, 1, &[3, 5])], 3, Some(KEY)),
        layer.run(&[(7, 1, &[3, 5]), (6, 1, &[3, 1])], 4, Some(KEY)),
    ];
    for (seed, first) in (5..).zip([7, 2, 9]) {
        // The second has left; the first is recomputed in other blocks and continues alone.
        let blocks = [first, 11, 4];
        rows.push(layer.run(&[(0, 8, &blocks)], seed, None));
        rows.push(layer.run(&[(8, 1, &blocks)], seed + 10, Some(KEY)));
    }
    rows
}

#[test]
fn blocks_are_the_rows_that_they_stand_for() {
    let rows = talk(&mut Layer::new(false, Form::Rows));
    assert_eq!(talk(&mut Layer::new(false, Form::Blocks)), rows);
}

#[test]
fn a_graph_goes_on_with_other_tables() {
    let launched = talk(&mut Layer::new(false, Form::Blocks));
    let mut layer = Layer::new(true, Form::Blocks);
    assert_eq!(talk(&mut layer), launched);
    let figures = layer.b.figures().expect("a GPU");
    assert_eq!((figures.graphs, figures.replays, figures.fallbacks), (1, 4, 0));
}

#[test]
fn rows_that_fill_a_step_up_touch_block_0_only() {
    let mut layer = Layer::new(true, Form::Blocks);
    let before = {
        talk(&mut layer);
        let device = layer.b.commands();
        let mut bytes = vec![0; layer.kv.keys.bytes()];
        device
            .device
            .download(layer.kv.keys.address(), &mut bytes)
            .expect("keys");
        bytes
    };
    layer.run(&[], 77, Some(KEY));
    let mut after = vec![0; before.len()];
    let commands = layer.b.commands();
    commands
        .device
        .download(layer.kv.keys.address(), &mut after)
        .expect("keys");
    let block = (SHAPE.kv_width() * 4) << SHIFT;
    assert_ne!(before[..block], after[..block]);
    assert_eq!(before[block..], after[block..]);
}

#[test]
fn slots_are_found_through_blocks() {
    let mut batch = Batch::in_blocks(SHIFT);
    batch.push_blocks(5, 2, |i| [3, 1][i], |p| [p as u32; 3]);
    batch.push_blocks(0, 1, |_| 7, |p| [p as u32; 3]);
    let first = batch.spans()[0];
    let second = batch.spans()[1];
    assert_eq!(batch.slots(&first), [12, 13, 14, 15, 4, 5, 6]);
    assert_eq!(batch.slots(&second), [28]);
    assert_eq!(batch.new_slots(&first).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(
        (batch.table(&first), batch.table(&second)),
        (&[3, 1][..], &[7][..])
    );
    // A later addition must not change the blocks returned before.
    batch.push_blocks(0, 2, |_| 2, |p| [p as u32; 3]);
    let third = batch.spans()[2];
    assert_eq!(batch.slots(&third), [8, 9]);
}
