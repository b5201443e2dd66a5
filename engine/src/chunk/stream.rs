//! One stream: its queue, its place on the ramp, and the playback clock of an ideal listener.

use std::time::Duration;

use super::ChunkConfig;
use crate::ids::Stamp;
use crate::step::SeqRecord;

#[derive(Debug)]
pub(super) struct Stream<T> {
    arrival: u64,
    pub(super) paused: bool,
    /// Items not yet decoded; the first `staged` of them are being decoded.
    queue: Vec<T>,
    staged: usize,
    closed: bool,
    /// Items at the head, not yet decoded, whose output is not played.
    unplayed: u32,
    /// Number of chunks given out with audible samples.
    chunks: usize,
    /// Time at which an ideal listener runs dry that started at the first sound and waits whenever a chunk is late.
    dry_at: Option<Stamp>,
    record: SeqRecord,
}

impl<T> Stream<T> {
    pub(super) fn new(arrival: u64, unplayed: u32, now: Stamp) -> Self {
        Self {
            arrival,
            paused: false,
            queue: Vec::new(),
            staged: 0,
            closed: false,
            unplayed,
            chunks: 0,
            dry_at: None,
            record: SeqRecord {
                queued: now,
                ..SeqRecord::default()
            },
        }
    }

    pub(super) fn receive(&mut self, items: impl IntoIterator<Item = T>, last: bool) {
        debug_assert!(!self.closed, "items after the last");
        self.queue.extend(items);
        self.closed |= last;
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    fn ramp(&self, config: &ChunkConfig) -> usize {
        config.ramp[self.chunks.min(config.ramp.len() - 1)] as usize
    }

    /// Lead below which a stream with `queued` items is served at once: half of the lead may be spent on waiting for
    /// one more item, the other half is kept for decoding and jitter.
    fn patience(queued: usize, config: &ChunkConfig) -> Duration {
        config.item_duration * 2 * (queued as u32 + 1)
    }

    /// Returns true if a chunk should be decoded now: it is large enough for the ramp, or the stream has ended, or
    /// the lead does not allow waiting.
    pub(super) fn is_ready(&self, now: Stamp, config: &ChunkConfig) -> bool {
        if self.paused {
            return false;
        }
        if self.closed || self.queue.len() >= self.ramp(config) {
            // A closed stream without items still has to be finished.
            return true;
        }
        self.due_at(config).is_some_and(|due| due <= now)
    }

    /// Time at which a stream that collects items for its next chunk must be served with the items it has.
    pub(super) fn due_at(&self, config: &ChunkConfig) -> Option<Stamp> {
        let collecting = !self.paused && !self.closed && !self.queue.is_empty();
        let dry_at = self.dry_at.filter(|_| collecting)?;
        Some(Stamp(
            dry_at.0.saturating_sub(Self::patience(self.queue.len(), config)),
        ))
    }

    /// Sort key: streams that run dry by `endangered`, then those without anything to hear in order of arrival, then
    /// the others; among themselves by the time they run dry.
    pub(super) fn urgency(&self, endangered: Stamp) -> (bool, Option<Stamp>, u64) {
        let safe = self.dry_at.is_none_or(|dry_at| dry_at > endangered);
        (safe, self.dry_at, self.arrival)
    }

    /// Items that the next chunk would take now.
    pub(super) fn chunk(&self, config: &ChunkConfig) -> usize {
        // The first chunk stays small even if a whole sentence is queued: its listener has been waiting longest.
        // Unplayed items go with it, in the largest pieces.
        let most = if self.chunks == 0 {
            (self.unplayed as usize + self.ramp(config)).min(config.largest_step() as usize)
        } else {
            config.largest_chunk() as usize
        };
        self.queue.len().min(most)
    }

    /// Fixes and returns how many items the next chunk takes.
    pub(super) fn stage_chunk(&mut self, config: &ChunkConfig) -> usize {
        self.staged = self.chunk(config);
        self.staged
    }

    pub(super) fn staged(&self) -> &[T] {
        &self.queue[..self.staged]
    }

    /// Records the staged chunk as given out at `now`. Returns its items, and true if the listener had run dry.
    pub(super) fn emitted(&mut self, now: Stamp, config: &ChunkConfig) -> (u32, bool) {
        let items = self.staged as u32;
        self.queue.drain(..self.staged);
        self.staged = 0;
        let played = items.saturating_sub(self.unplayed);
        self.unplayed = self.unplayed.saturating_sub(items);
        if played == 0 {
            // The listener has still not started: the stream stays as urgent as it was.
            return (items, false);
        }
        self.chunks += 1;
        let late = self.dry_at.is_some_and(|dry| dry < now);
        let from = self.dry_at.map_or(now, |dry| dry.max(now));
        self.dry_at = Some(from + config.item_duration * played);
        (items, late)
    }

    /// Returns true if nothing comes after the staged chunk.
    pub(super) fn is_last_chunk(&self) -> bool {
        self.closed && self.queue.len() == self.staged
    }

    /// Records an output of a step, and its number of items.
    pub(super) fn gave(&mut self, items: u32, began: Stamp, ended: Stamp) {
        self.record.scheduled.get_or_insert(began);
        self.record.first_output.get_or_insert(ended);
        self.record.last_output = Some(ended);
        self.record.outputs += items;
    }

    /// Its life so far.
    pub(super) fn record(&self) -> SeqRecord {
        self.record
    }
}
