//! The positions that a step computes, of one or many sequences, and where their keys and values lie.

/// One sequence's part of a batch: queries at positions `start .. start + len`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Position of the first key in `keys`.
    pub(crate) first_key: usize,
    /// Where [`Batch::slots`] begins to list the cache rows of the positions `first_key .. start + len`.
    keys: usize,
}

impl Span {
    /// Positions that this span's queries may see.
    pub(crate) fn keys(&self) -> usize {
        self.start + self.len - self.first_key
    }
}

/// Which positions a batch computes and where their keys and values are.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    spans: Vec<Span>,
    slots: Vec<u32>,
    /// Where every row stands in time, height and width.
    axes: Vec<[u32; 3]>,
    /// Keys per row that room is made for.
    room: usize,
}

impl Batch {
    /// Adds a sequence; `slot(p)` is the cache row of position `p`.
    pub(crate) fn push(&mut self, start: usize, len: usize, first_key: usize, slot: impl Fn(usize) -> u32) {
        let same = |p| [u32::try_from(p).unwrap_or(u32::MAX); 3];
        self.push_at(start, len, first_key, slot, same);
    }

    /// As [`Batch::push`]; `axes(p)` is where position `p` stands in time, height and width.
    pub(crate) fn push_at(
        &mut self,
        start: usize,
        len: usize,
        first_key: usize,
        slot: impl Fn(usize) -> u32,
        axes: impl Fn(usize) -> [u32; 3],
    ) {
        let keys = self.slots.len();
        self.slots.extend((first_key..start + len).map(slot));
        self.axes.extend((start..start + len).map(axes));
        self.spans.push(Span {
            start,
            len,
            first_key,
            keys,
        });
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Cache rows of a span's keys, from position `first_key` on.
    pub(crate) fn slots(&self, span: &Span) -> &[u32] {
        &self.slots[span.keys..span.keys + span.keys()]
    }

    /// Cache rows of the positions that a span computes.
    pub(crate) fn new_slots(&self, span: &Span) -> &[u32] {
        &self.slots(span)[span.start - span.first_key..]
    }

    /// Rows of the batch.
    pub(crate) fn rows(&self) -> usize {
        self.axes.len()
    }

    /// Keys that a row sees, at most, or the room that was made for them.
    pub(crate) fn keys(&self) -> usize {
        if self.room > 0 {
            return self.room;
        }
        self.spans.iter().map(Span::keys).max().unwrap_or(0)
    }

    /// Keys per row that room was made for; 0 if that was never done.
    #[cfg_attr(
        not(any(feature = "cuda", feature = "emulator")),
        expect(dead_code, reason = "only a GPU asks")
    )]
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Makes room for so many keys per row, for batches of one size whose sequences are of different lengths.
    pub(crate) fn make_room(&mut self, keys: usize) {
        self.room = keys;
    }

    /// Where every row stands in time, height and width.
    pub(crate) fn axes(&self) -> &[[u32; 3]] {
        &self.axes
    }

    /// The last row of every span.
    pub(crate) fn last_rows(&self) -> Vec<u32> {
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
