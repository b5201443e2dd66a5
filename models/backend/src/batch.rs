//! The positions that a step computes, of one or many sequences, and where their keys and values lie.

use std::sync::OnceLock;

/// One sequence's part of a batch: queries at positions `start .. start + len`.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub start: usize,
    pub len: usize,
    /// Position of the first key in `keys`.
    pub first_key: usize,
    /// Start of the cache rows of the positions `first_key .. start + len` in [`Batch::slots`].
    slots: usize,
    /// Start of their blocks in the batch's table.
    blocks: usize,
}

impl Span {
    /// Positions that this span's queries may see.
    pub fn keys(&self) -> usize {
        self.start + self.len - self.first_key
    }
}

/// Positions that a batch computes, and the places of their keys and values.
///
/// Keys lie in blocks of `1 << shift` cache rows, block `b` being the rows from `b << shift` on; with a shift of 0
/// every row is a block of its own, and a sequence's rows may be anywhere.
#[derive(Debug, Default)]
pub struct Batch {
    spans: Vec<Span>,
    shift: u32,
    /// The blocks of all spans' keys.
    table: Vec<u32>,
    /// Keys of all spans.
    keys: usize,
    /// Cache rows of the keys of all spans, computed on first use.
    slots: OnceLock<Vec<u32>>,
    /// Position of every row in time, height and width.
    axes: Vec<[u32; 3]>,
    /// Keys per row that room is made for.
    room: usize,
    /// In batches with prompts, of how many sequences at most; the other rows are padding.
    prompted: Option<usize>,
}

impl Batch {
    /// An empty batch whose sequences have their keys in blocks of `1 << shift` cache rows.
    pub fn in_blocks(shift: u32) -> Self {
        Self {
            shift,
            ..Self::default()
        }
    }

    /// Adds a sequence; `slot(p)` is the cache row of position `p`. Not for a batch in larger blocks than rows.
    pub fn push(&mut self, start: usize, len: usize, first_key: usize, slot: impl Fn(usize) -> u32) {
        let same = |p| [u32::try_from(p).unwrap_or(u32::MAX); 3];
        debug_assert!(self.shift == 0, "rows one by one in a batch of blocks");
        self.add(start, len, first_key, (first_key..start + len).map(slot), same);
    }

    /// Adds a sequence all of whose keys are stored. Position `p` is in block `blocks(p >> shift)`, and `axes(p)` is
    /// its position in time, height and width.
    pub fn push_blocks(
        &mut self,
        start: usize,
        len: usize,
        blocks: impl Fn(usize) -> u32,
        axes: impl Fn(usize) -> [u32; 3],
    ) {
        let count = self.blocks_of(start + len);
        self.add(start, len, 0, (0..count).map(blocks), axes);
    }

    fn add(
        &mut self,
        start: usize,
        len: usize,
        first_key: usize,
        blocks: impl Iterator<Item = u32>,
        axes: impl Fn(usize) -> [u32; 3],
    ) {
        let span = Span {
            start,
            len,
            first_key,
            slots: self.keys,
            blocks: self.table.len(),
        };
        self.table.extend(blocks);
        self.axes.extend((start..start + len).map(axes));
        self.keys += span.keys();
        self.spans.push(span);
        self.slots.take();
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Logarithm of the cache rows of a block.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// Number of blocks for `keys` keys.
    pub(crate) fn blocks_of(&self, keys: usize) -> usize {
        keys.div_ceil(1 << self.shift)
    }

    /// The blocks of a span's keys: that of the `i`-th key is entry `i >> shift`.
    pub fn table(&self, span: &Span) -> &[u32] {
        &self.table[span.blocks..span.blocks + self.blocks_of(span.keys())]
    }

    /// Cache rows of a span's keys, from position `first_key` on.
    pub(crate) fn slots(&self, span: &Span) -> &[u32] {
        let all = match self.shift {
            0 => &self.table,
            _ => self.slots.get_or_init(|| self.each_slot()),
        };
        &all[span.slots..span.slots + span.keys()]
    }

    fn each_slot(&self) -> Vec<u32> {
        let of = |span| self.some_slots(span, 0);
        self.spans.iter().flat_map(of).collect()
    }

    /// Cache rows of a span's keys from the `from`-th on.
    fn some_slots<'a>(&'a self, span: &'a Span, from: usize) -> impl Iterator<Item = u32> + 'a {
        let table = self.table(span);
        let size = 1_usize << self.shift;
        (from..span.keys()).map(move |key| {
            let within = u32::try_from(key % size).unwrap_or(u32::MAX);
            (table[key / size] << self.shift) + within
        })
    }

    /// Cache rows of the positions that a span computes.
    pub(crate) fn new_slots<'a>(&'a self, span: &'a Span) -> impl Iterator<Item = u32> + 'a {
        self.some_slots(span, span.start - span.first_key)
    }

    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.axes.len()
    }

    /// Keys that a row sees, at most, or the room that was made for them.
    pub fn keys(&self) -> usize {
        if self.room > 0 {
            return self.room;
        }
        self.spans.iter().map(Span::keys).max().unwrap_or(0)
    }

    /// Makes room for `keys` keys per row, for batches of one size whose sequences differ in length.
    pub fn make_room(&mut self, keys: usize) {
        self.room = keys;
    }

    /// As [`Batch::make_room`], for batches of one size with at most `sequences` sequences, which may have several
    /// rows each. A padding row has one block.
    pub fn make_room_with_prompts(&mut self, keys: usize, sequences: usize) {
        self.room = keys;
        self.prompted = Some(sequences);
    }

    /// Blocks that the tables of all rows take in batches of this size.
    #[cfg(any(feature = "cuda", feature = "emulator"))]
    pub(crate) fn table_room(&self) -> usize {
        let each = self.blocks_of(self.room);
        let rows = self.rows();
        self.prompted
            .map_or(each * rows, |sequences| each * sequences + rows)
    }

    /// Returns true if a row may see the new keys of another, as far as operations depend on it.
    #[cfg(any(feature = "cuda", feature = "emulator"))]
    pub(crate) fn may_share_keys(&self) -> bool {
        self.prompted.is_some() || self.spans.iter().any(|span| span.len > 1)
    }

    /// Position of every row in time, height and width.
    pub fn axes(&self) -> &[[u32; 3]] {
        &self.axes
    }

    /// The last row of every span.
    pub fn last_rows(&self) -> Vec<u32> {
        let mut end = 0;
        self.spans
            .iter()
            .map(|s| {
                end += s.len;
                u32::try_from(end - 1).unwrap_or(u32::MAX)
            })
            .collect()
    }
}
