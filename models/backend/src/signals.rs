//! Signals of several streams on their way through causal convolutions, and how long each is at the moment.

use super::StreamMemory;

/// One stream's part of a pass.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The stream's place in every convolution's memory.
    pub stream: u32,
    /// Frames of it that went through before.
    pub before: usize,
    /// Frames that go through now, at least 1.
    pub frames: usize,
}

/// Parts of streams, one after another. A frame is one row at first; upsampling makes it many, and at the beginning of
/// a stream some may be missing.
pub struct Signals<B: StreamMemory> {
    parts: Vec<Part>,
    /// Rows per frame.
    rate: usize,
    /// Rows that every stream lacks at its beginning.
    lacking: usize,
    /// Rows of every part.
    lens: Vec<usize>,
    #[cfg_attr(
        not(any(feature = "cuda", feature = "emulator")),
        expect(dead_code, reason = "devices alone read it")
    )]
    pub(crate) layout: B::Layout,
}

impl<B: StreamMemory> Signals<B> {
    pub fn new(parts: Vec<Part>, layout: B::Layout) -> Self {
        let mut this = Self {
            lens: Vec::with_capacity(parts.len()),
            parts,
            rate: 1,
            lacking: 0,
            layout,
        };
        this.measure();
        this
    }

    /// Every row has become `factor` rows.
    pub fn upsample(&mut self, factor: usize) {
        self.rate *= factor;
        self.lacking *= factor;
        self.measure();
    }

    /// The first `rows` rows of every stream go.
    pub fn drop_first(&mut self, rows: usize) {
        self.lacking += rows;
        self.measure();
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Rows of every part.
    pub(crate) fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// Rows per frame.
    pub fn rate(&self) -> usize {
        self.rate
    }

    /// Rows that remain if the `dropped` first of every stream are gone; `None`: all.
    pub fn kept(&self, dropped: usize) -> Option<Vec<u32>> {
        let lacking = self.lacking - dropped;
        let lens: Vec<usize> = self.parts.iter().map(|p| rows(p, self.rate, lacking)).collect();
        if lens == self.lens {
            return None;
        }
        let mut kept = Vec::new();
        let mut end = 0;
        for (before, now) in lens.iter().zip(&self.lens) {
            end += before;
            kept.extend((end - now..end).map(|row| u32::try_from(row).unwrap_or(u32::MAX)));
        }
        Some(kept)
    }

    /// The numbers of every part.
    pub(crate) fn cut(&self, mut x: &[f32]) -> Vec<Vec<f32>> {
        let part = |&len: &usize| {
            let (one, others) = x.split_at(len);
            x = others;
            one.to_vec()
        };
        self.lens.iter().map(part).collect()
    }

    fn measure(&mut self) {
        let rate = self.rate;
        let lacking = self.lacking;
        self.lens.clear();
        self.lens
            .extend(self.parts.iter().map(|part| rows(part, rate, lacking)));
    }
}

/// Rows of a part with `rate` rows per frame, less the `lacking` ones at its beginning.
fn rows(part: &Part, rate: usize, lacking: usize) -> usize {
    let up_to = |frames: usize| (frames * rate).saturating_sub(lacking);
    up_to(part.before + part.frames) - up_to(part.before)
}
