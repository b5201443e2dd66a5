//! Positions of a batch's rows, and attention over them.

use omni_gpu::Device;
use omni_gpu::kernels::{Attend, Attention, RANGE, RotateAndStore};

use super::command_stream::Place;
use super::{Gpu, Kv, Rows, Vector, small};
use crate::angles::Angles;
use crate::{AttentionShape, Batch, Result};
use omni_gpu::{Address, Memory};

/// Inputs from a batch that all layers share.
pub struct Places<D: Device> {
    /// `[rows, head_dim / 2]` of f32.
    angles: Place<D>,
    /// The cache row of every row's own keys and values.
    slots: Place<D>,
    /// The blocks of all sequences' keys.
    table: Place<D>,
    /// Logarithm of the cache rows of a block.
    shift: u32,
    /// Per row and window: start of its blocks in `table`, and the range of visible keys.
    ranges: Place<D>,
    /// Keys that a row sees, most, as far as launches depend on it.
    most: u32,
    /// `true` if every row is of a sequence of its own, so that none sees the new key of another.
    apart: bool,
}

impl<D: Device> Gpu<D> {
    pub(super) fn prepare(&self, batch: &Batch, angles: &Angles, window: Option<usize>) -> Result<Places<D>> {
        let rows = batch.rows();
        let mut table = Vec::new();
        let mut slots = Vec::with_capacity(rows);
        let mut ranges = Vec::with_capacity(rows * RANGE);
        for span in batch.spans() {
            let begin = small(table.len());
            table.extend_from_slice(batch.table(span));
            slots.extend(batch.new_slots(span));
            for query in span.start..span.start + span.len {
                let end = query + 1 - span.first_key;
                let from = window.map_or(0, |window| end.saturating_sub(window));
                ranges.extend([begin, small(from), small(end)]);
            }
        }
        // Batches of one size upload equally many words, for any lengths of their sequences.
        table.resize(table.len().max(batch.table_room()), 0);
        let bits = angles.of(batch).into_iter().map(f32::to_bits);
        Ok(Places {
            angles: self.bring(bits)?,
            slots: self.bring(slots.into_iter())?,
            table: self.bring(table.into_iter())?,
            shift: batch.shift(),
            ranges: self.bring(ranges.into_iter())?,
            most: small(batch.keys()),
            // Within a window, steps of one size have sequences of any lengths, and their launches must not depend
            // on those.
            apart: window.is_none() && !batch.may_share_keys(),
        })
    }

    pub(super) fn attend(
        &self,
        shape: &AttentionShape,
        norms: Option<(&Vector<D>, &Vector<D>)>,
        qkv: &Rows<D>,
        places: &Places<D>,
        kv: &Kv<D>,
    ) -> Result<Rows<D>> {
        let norm = |which: Option<&Vector<D>>| which.map_or(Address::NONE, |v| v.values.address());
        let rotate = RotateAndStore {
            qkv: qkv.address(),
            k: kv.keys.address(),
            v: kv.values.address(),
            q_norm: norm(norms.map(|(q, _)| q)),
            k_norm: norm(norms.map(|(_, k)| k)),
            angles: places.angles.address(),
            slots: places.slots.address(),
            rows: small(qkv.rows),
            heads: small(shape.heads),
            kv_heads: small(shape.kv_heads),
            head_dim: small(shape.head_dim),
            capacity: small(kv.slots),
            eps: shape.eps,
        };
        let keys = Keys {
            k: kv.keys.address(),
            v: kv.values.address(),
            stride: kv.width,
            table: places.table.address(),
            shift: places.shift,
            ranges: places.ranges.address(),
            most: places.most,
        };
        self.heads(shape, qkv, &keys, Some((rotate, places.apart)))
    }

    /// Every row over all rows of its block.
    pub(super) fn attend_within(
        &self,
        shape: &AttentionShape,
        qkv: &Rows<D>,
        lens: &[usize],
    ) -> Result<Rows<D>> {
        let mut ranges = Vec::with_capacity(qkv.rows * RANGE);
        let mut begin = 0;
        for &len in lens {
            ranges.extend([begin, 0, small(len)].repeat(len));
            begin += small(len);
        }
        let ranges = self.bring(ranges.into_iter())?;
        let part = |from: usize| qkv.address().offset(from * self.float.bytes());
        let keys = Keys {
            k: part(shape.q_width()),
            v: part(shape.q_width() + shape.kv_width()),
            stride: qkv.width,
            table: Address::NONE,
            shift: 0,
            ranges: ranges.address(),
            most: small(lens.iter().copied().max().unwrap_or(0)),
        };
        self.heads(shape, qkv, &keys, None)
    }

    /// `first`: what makes the queries and keys, and whether no row sees the new key of another.
    fn heads(
        &self,
        shape: &AttentionShape,
        qkv: &Rows<D>,
        keys: &Keys,
        first: Option<(RotateAndStore, bool)>,
    ) -> Result<Rows<D>> {
        let out = self.scratch(qkv.rows, shape.q_width())?;
        let rows = small(qkv.rows);
        let heads = small(shape.heads);
        let dim = small(shape.head_dim);
        let kv_heads = small(shape.kv_heads);
        let (splits, part) = Attention::parts(rows, kv_heads, keys.most);
        let partial = Attention::partial_bytes(rows, heads, dim, splits);
        let partial = (partial > 0).then(|| self.commands().take(partial)).transpose()?;
        let attention = Attention {
            out: out.address(),
            partial: partial.as_ref().map_or(Address::NONE, Place::address),
            q: qkv.address(),
            k: keys.k,
            v: keys.v,
            table: keys.table,
            ranges: keys.ranges,
            rows,
            heads,
            kv_heads,
            head_dim: dim,
            q_stride: small(qkv.width),
            kv_stride: small(keys.stride),
            shift: keys.shift,
            splits,
            part,
            scale: 1.0 / (shape.head_dim as f32).sqrt(),
        };
        if let Some((rotate, apart)) = first {
            if apart && splits == 1 {
                return self
                    .launch(Attend { rotate, attention }.launch(self.float))
                    .map(|()| out);
            }
            self.launch(rotate.launch(self.float))?;
        }
        let (attend, merge) = attention.launches(self.float);
        self.launch(attend)?;
        if let Some(merge) = merge {
            self.launch(merge)?;
        }
        Ok(out)
    }
}

/// Addresses of keys and values.
struct Keys {
    k: Address,
    v: Address,
    /// Numbers from row to row.
    stride: usize,
    table: Address,
    /// Logarithm of the rows of a block that the table names.
    shift: u32,
    ranges: Address,
    /// Keys that a row sees, most.
    most: u32,
}
