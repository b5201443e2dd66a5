//! The streaming engine: batches the chunks of many live streams through a stateful decoder (a vocoder).
//!
//! In: [`ChunkEngine::add`], [`ChunkEngine::push`], [`ChunkEngine::abort`], [`ChunkEngine::set_paused`]. Out: the
//! events of each [`ChunkEngine::step`]. Every item is decoded once, in order.
//!
//! Two rules keep listeners from hearing gaps. *Chunk size*: the first chunk is as small as possible, later ones grow
//! along a ramp, but never so far that waiting for more items would use up the stream's playback lead. *Who goes
//! first*: streams that are about to run dry, then new streams in the order of their arrival, then the others, each time
//! the one that runs dry first. So a crowd of newcomers is let in at the rate at which those already playing allow. A step
//! takes a bounded number of streams and of items, since nothing of a step comes out before its end and nobody can
//! overtake it; and a step with a first chunk takes only those that cannot wait for the next, so that a crowd delays the
//! comfortable streams and not all of them.

mod stream;

use std::collections::HashMap;
use std::time::Duration;

use crate::ids::{SeqId, Stamp};
use crate::model::{ChunkBounds, ChunkModel, ModelError};
use stream::Stream;

/// A stream with no more than so many items left to play goes before everyone: a listener who has begun must not hear a
/// gap for the sake of one who has not.
const ENDANGERED_ITEMS: u32 = 2;

/// Limits and chunk policy of a [`ChunkEngine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Streams decoded in one step.
    pub max_batch: u32,
    /// Items decoded in one step, over all its streams; the chunk of its most urgent stream is never cut. Small steps let
    /// urgent streams in sooner, large ones pay off where a device computes many items in the time of one.
    pub max_batched_items: u32,
    /// Streams that may be open.
    pub max_streams: u32,
    /// Items asked for in the first, second, ... chunk of a stream; the last entry holds from then on. It is also the
    /// most one step takes of a stream.
    pub ramp: Vec<u32>,
    /// Playback time of one item.
    pub item_duration: Duration,
}

impl ChunkConfig {
    /// Ramp 1, 2, 4, 8 and room for 64 streams, 16 streams and 16 items in a step.
    pub fn new(item_duration: Duration) -> Self {
        Self {
            max_batch: 16,
            max_batched_items: 16,
            max_streams: 64,
            ramp: vec![1, 2, 4, 8],
            item_duration,
        }
    }

    fn largest_chunk(&self) -> u32 {
        *self.ramp.iter().max().expect("the ramp is not empty")
    }
}

/// What is particular about one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// Items at its head whose output will not be played, for example a silence that is cut off: they give the listener
    /// no lead. Too few is safe, too many makes the chunks small for longer.
    pub unplayed_items: u32,
    /// Items that the model must have behind one before it gives its output.
    pub look_ahead: u32,
}

/// Why a stream was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The bound on open streams is reached.
    #[error("no place for another stream ({open} of {limit} open)")]
    Full {
        /// Streams open now.
        open: u32,
        /// The bound.
        limit: u32,
    },
    /// The id is in use.
    #[error("stream {0:?} exists already")]
    Duplicate(SeqId),
    /// The model refused it.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What happened to a stream in a step.
#[derive(Debug, Clone, PartialEq)]
pub enum ChunkEvent<S> {
    /// New output, in order; may be empty if the model swallowed the items as context.
    Chunk {
        /// The stream.
        seq: SeqId,
        /// Output samples.
        samples: Vec<S>,
        /// Items they were decoded from.
        items: u32,
    },
    /// Everything pushed up to the last item has been decoded; the stream is forgotten.
    Finished {
        /// The stream.
        seq: SeqId,
    },
    /// Its computation failed; the stream is forgotten.
    Failed {
        /// The stream.
        seq: SeqId,
        /// What went wrong.
        message: String,
    },
}

/// State of the engine after a step, and what the step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkStats {
    /// Streams open.
    pub streams: u32,
    /// Items waiting to be decoded, over all streams.
    pub queued_items: u32,
    /// Streams decoded in this step.
    pub batch: u32,
    /// Items decoded in this step.
    pub items: u32,
    /// Streams that had nothing left although their playback had caught up (counted at the chunk that came too late).
    pub late: u32,
}

/// Outcome of one [`ChunkEngine::step`].
#[derive(Debug)]
pub struct ChunkReport<S> {
    /// In order of occurrence.
    pub events: Vec<ChunkEvent<S>>,
    /// Counts for this step.
    pub stats: ChunkStats,
}

/// Deadline-ordered batching over one [`ChunkModel`].
#[derive(Debug)]
pub struct ChunkEngine<M: ChunkModel> {
    model: M,
    config: ChunkConfig,
    streams: HashMap<SeqId, Stream<M::Item>>,
    next_arrival: u64,
}

impl<M: ChunkModel> ChunkEngine<M> {
    /// Takes the model.
    ///
    /// # Panics
    /// If `config` has an empty ramp, a zero in it, or a zero limit.
    pub fn new(model: M, config: ChunkConfig) -> Self {
        assert!(
            config.max_batch > 0 && config.max_batched_items > 0 && config.max_streams > 0,
            "{config:?} has a zero limit"
        );
        assert!(
            !config.ramp.is_empty() && !config.ramp.contains(&0),
            "{config:?} needs a ramp of positive sizes"
        );
        Self {
            model,
            config,
            streams: HashMap::new(),
            next_arrival: 0,
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is kept then.
    pub fn add(&mut self, seq: SeqId, options: StreamOptions) -> Result<(), OpenError> {
        if self.streams.contains_key(&seq) {
            return Err(OpenError::Duplicate(seq));
        }
        let open = self.streams.len() as u32;
        if open >= self.config.max_streams {
            return Err(OpenError::Full {
                open,
                limit: self.config.max_streams,
            });
        }
        self.model.open(seq)?;
        // What is held back gives no lead either, until the stream ends.
        let unplayed = options.unplayed_items.saturating_add(options.look_ahead);
        let stream = Stream::new(self.next_arrival, unplayed);
        self.streams.insert(seq, stream);
        self.next_arrival += 1;
        Ok(())
    }

    /// Hands over items; `last` says that no more will come. Unknown streams are ignored: they may have ended while
    /// the items were under way.
    pub fn push(&mut self, seq: SeqId, items: impl IntoIterator<Item = M::Item>, last: bool) {
        if let Some(stream) = self.streams.get_mut(&seq) {
            stream.receive(items, last);
        }
    }

    /// Holds a stream back between steps (its consumer is full), or lets it go on.
    pub fn set_paused(&mut self, seq: SeqId, paused: bool) {
        if let Some(stream) = self.streams.get_mut(&seq) {
            stream.paused = paused;
        }
    }

    /// Ends a stream now. Returns whether it was still open; no event follows.
    pub fn abort(&mut self, seq: SeqId) -> bool {
        self.remove(seq)
    }

    /// Items of one stream that wait to be decoded.
    pub fn queued(&self, seq: SeqId) -> usize {
        self.streams.get(&seq).map_or(0, Stream::queued)
    }

    /// Streams open.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether [`step`](Self::step) would decode anything at `now`.
    pub fn has_work(&self, now: Stamp) -> bool {
        self.streams.values().any(|s| s.is_ready(now, &self.config))
    }

    /// When a stream that is collecting a larger chunk must be served with what it has, if no command comes before.
    pub fn wake_at(&self) -> Option<Stamp> {
        self.streams.values().filter_map(|s| s.due_at(&self.config)).min()
    }

    /// The `nth` piece of [`ChunkModel::prepare`], for steps as large as they may be. Nothing of it is counted.
    ///
    /// # Errors
    /// The model's.
    pub fn prepare(&mut self, nth: u32) -> Result<bool, ModelError> {
        let bounds = ChunkBounds {
            streams: self.config.max_streams,
            batch: self.config.max_batch,
            // The chunk of the most urgent stream is never cut.
            items: self.config.max_batched_items.max(self.config.largest_chunk()),
        };
        self.model.prepare(nth, bounds)
    }

    /// Gives up the engine and returns the model, all streams closed.
    pub fn into_model(mut self) -> M {
        for seq in self.streams.keys().copied().collect::<Vec<_>>() {
            self.remove(seq);
        }
        self.model
    }

    /// Decodes one chunk each of the most urgent streams, as of time `now`.
    pub fn step(&mut self, now: Stamp) -> ChunkReport<M::Sample> {
        let mut report = ChunkReport {
            events: Vec::new(),
            stats: ChunkStats::default(),
        };
        let chosen = self.choose(now);
        if !chosen.is_empty() {
            self.run(&chosen, now, &mut report);
        }
        report.stats.streams = self.streams.len() as u32;
        report.stats.queued_items = self.streams.values().map(|s| s.queued() as u32).sum();
        report
    }

    /// The most urgent ready streams, at most `max_batch` with at most `max_batched_items`.
    ///
    /// All samples of a step come out at its end, so a first chunk, which somebody waits for, does not share its step
    /// with streams that have more than a largest chunk left to play.
    fn choose(&self, now: Stamp) -> Vec<SeqId> {
        let endangered = now + self.config.item_duration * ENDANGERED_ITEMS;
        let mut ready: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, s)| s.is_ready(now, &self.config))
            .map(|(seq, s)| (s.urgency(endangered), *seq))
            .collect();
        ready.sort_unstable();
        if ready.iter().any(|((_, dry_at, _), _)| dry_at.is_none()) {
            let pressing = now + self.config.item_duration * self.config.largest_chunk();
            ready.retain(|((_, dry_at, _), _)| dry_at.is_none_or(|dry_at| dry_at <= pressing));
        }
        ready.truncate(self.config.max_batch as usize);
        let mut room = self.config.max_batched_items as usize;
        let mut chosen = Vec::with_capacity(ready.len());
        for (_, seq) in ready {
            let chunk = self.streams[&seq].chunk(&self.config);
            if chunk > room && !chosen.is_empty() {
                break;
            }
            room = room.saturating_sub(chunk);
            chosen.push(seq);
        }
        chosen
    }

    fn run(&mut self, chosen: &[SeqId], now: Stamp, report: &mut ChunkReport<M::Sample>) {
        let mut decoding = Vec::with_capacity(chosen.len());
        for &seq in chosen {
            let stream = self.streams.get_mut(&seq).expect("chosen streams are open");
            match stream.stage_chunk(&self.config) {
                0 => self.flush_and_finish(seq, report),
                _ => decoding.push(seq),
            }
        }
        if decoding.is_empty() {
            return;
        }
        let batch: Vec<_> = decoding
            .iter()
            .map(|seq| (*seq, self.streams[seq].staged()))
            .collect();
        match self.model.decode(&batch) {
            Ok(outputs) => {
                assert_eq!(
                    outputs.len(),
                    decoding.len(),
                    "the model must answer for every stream"
                );
                for (seq, decoded) in decoding.into_iter().zip(outputs) {
                    match decoded {
                        Ok(samples) => self.emit(seq, samples, now, report),
                        Err(message) => self.fail(seq, message, report),
                    }
                }
            }
            Err(error) => {
                for seq in decoding {
                    self.fail(seq, error.to_string(), report);
                }
            }
        }
    }

    fn fail(&mut self, seq: SeqId, message: String, report: &mut ChunkReport<M::Sample>) {
        self.remove(seq);
        report.events.push(ChunkEvent::Failed { seq, message });
    }

    fn emit(
        &mut self,
        seq: SeqId,
        mut samples: Vec<M::Sample>,
        now: Stamp,
        report: &mut ChunkReport<M::Sample>,
    ) {
        let stream = self.streams.get_mut(&seq).expect("chosen streams are open");
        let (items, late) = stream.emitted(now, &self.config);
        report.stats.batch += 1;
        report.stats.items += items;
        report.stats.late += u32::from(late);
        if !stream.is_done() {
            report.events.push(ChunkEvent::Chunk { seq, samples, items });
            return;
        }
        // With the last chunk, because its consumer may have no room for another.
        let rest = self.model.flush(seq);
        match rest {
            Ok(rest) => samples.extend(rest),
            Err(message) => {
                report.events.push(ChunkEvent::Chunk { seq, samples, items });
                return self.fail(seq, message, report);
            }
        }
        report.events.push(ChunkEvent::Chunk { seq, samples, items });
        self.finish(seq, report);
    }

    /// Ends a stream whose end came after its last item was decoded.
    fn flush_and_finish(&mut self, seq: SeqId, report: &mut ChunkReport<M::Sample>) {
        match self.model.flush(seq) {
            Err(message) => self.fail(seq, message, report),
            Ok(samples) => {
                if !samples.is_empty() {
                    report.events.push(ChunkEvent::Chunk {
                        seq,
                        samples,
                        items: 0,
                    });
                }
                self.finish(seq, report);
            }
        }
    }

    fn finish(&mut self, seq: SeqId, report: &mut ChunkReport<M::Sample>) {
        self.remove(seq);
        report.events.push(ChunkEvent::Finished { seq });
    }

    fn remove(&mut self, seq: SeqId) -> bool {
        let known = self.streams.remove(&seq).is_some();
        if known {
            self.model.close(seq);
        }
        known
    }
}

#[cfg(test)]
mod tests;
