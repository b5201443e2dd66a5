//! The engine's steps as the networks' batches: positions, and where their keys and values lie in the paged cache.

use std::ops::Range;

use omni_backend::Batch;
use omni_engine::{KvSpec, ModelError, SeqStep};

use crate::talker::KvOptions;

/// The cache that `kv` asks for, for sequences of at most `max_positions`, and its rows.
pub(crate) fn spec(kv: KvOptions, max_positions: usize) -> Result<(KvSpec, usize), ModelError> {
    let slots = kv.block_size as usize * kv.num_blocks as usize;
    if slots == 0 {
        return Err(ModelError::Rejected(
            "a key-value cache of no blocks or of empty blocks".into(),
        ));
    }
    let max_len = offset(max_positions.min(slots));
    let block_size = kv.block_size;
    let num_blocks = kv.num_blocks;
    let spec = KvSpec {
        block_size,
        num_blocks,
        max_len,
    };
    Ok((spec, slots))
}

/// The positions that a step computes.
pub(crate) fn positions(step: &SeqStep<'_>) -> Range<usize> {
    let start = step.start as usize;
    start..start + step.len as usize
}

/// An empty batch of sequences whose keys and values are in the paged cache. Where the size of its blocks is a power of
/// two the batch knows them as blocks; else every cache row is one of its own.
pub(crate) fn batch(spec: &KvSpec) -> Batch {
    if spec.block_size.is_power_of_two() {
        return Batch::in_blocks(spec.block_size.trailing_zeros());
    }
    Batch::default()
}

/// Adds one sequence's step to a batch that [`batch`] made; `axes(p)` is where position `p` stands in time, height and
/// width.
pub(crate) fn push(
    batch: &mut Batch,
    spec: &KvSpec,
    step: &SeqStep<'_>,
    axes: impl Fn(usize) -> [u32; 3],
) -> Result<(), ModelError> {
    let size = spec.block_size as usize;
    let blocks = step.blocks;
    let Range { start, end } = positions(step);
    let wrong = blocks.iter().any(|b| b.0 >= spec.num_blocks);
    if start == end || wrong || blocks.len() * size < end {
        let held = blocks.len();
        return Err(ModelError::Compute(format!(
            "sequence {}: positions {start}..{end} cannot be computed in {held} blocks of {size}",
            step.seq.0
        )));
    }
    let slot = |p: usize| blocks[p / size].0 * spec.block_size + offset(p % size);
    // A block of the batch may be one cache row.
    let per_block = 1 << batch.shift();
    let first = |i: usize| slot(i * per_block) / offset(per_block);
    batch.push_blocks(start, end - start, first, axes);
    Ok(())
}

/// Pads a batch of single positions to `rows` with rows whose keys and values are never read, in the reserved block
/// 0. They are identical, so their order of writing does not matter.
pub(crate) fn fill(batch: &mut Batch, rows: usize) {
    for _ in batch.rows()..rows {
        batch.push_blocks(0, 1, |_| 0, |_| [0; 3]);
    }
}

pub(crate) fn offset(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}
