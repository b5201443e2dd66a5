//! The streaming engine: batches the chunks of many live streams through a stateful decoder (a vocoder).
//!
//! In: [`ChunkEngine::add`], [`ChunkEngine::push`], [`ChunkEngine::abort`], [`ChunkEngine::set_paused`]. Out: the
//! events of each [`ChunkEngine::step`]. Every item is decoded once, in order.
//!
//! Two rules keep listeners from hearing gaps. *Chunk size*: the first chunk is as small as possible, later ones grow
//! along a ramp, but never so far that waiting for more items would use up the stream's playback lead. *What goes
//! first*: streams that are about to run dry, then new streams in the order of their arrival, then the others, each
//! time the one that runs dry first. So a crowd of newcomers is let in at the rate at which those already playing
//! allow. A step takes a bounded number of streams and of items, since nothing of a step comes out before its end and
//! nothing can overtake it; and a step with a first chunk takes only those that cannot wait for the next, so that a
//! crowd delays the comfortable streams and not all of them.

mod stream;

use std::collections::HashMap;
use std::time::Duration;

use crate::ids::{SeqId, Stamp};
use crate::model::{ChunkBounds, ChunkModel, Decoded, ModelError, Skipped};
use crate::step::{FinishReason, SeqEvent, SeqRecord, StepReport};
use stream::Stream;

/// Streams with at most this many items left to play come first: a started listener must not hear a gap for the sake
/// of one that has not started.
const ENDANGERED_ITEMS: u32 = 2;

/// Limits and chunk policy of a [`ChunkEngine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Streams decoded in one step.
    pub max_batch: u32,
    /// Items decoded in one step, over all its streams; the chunk of its most urgent stream is never cut. Small steps
    /// let urgent streams in sooner, large ones pay off where a device computes many items in the time of one.
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

    /// Most items of a step: the chunk of its most urgent stream is never cut.
    fn largest_step(&self) -> u32 {
        self.max_batched_items.max(self.largest_chunk())
    }
}

/// Options of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// Items at its head whose output will not be played, for example a silence that is cut off: they give the listener
    /// no lead. Too few is safe, too many makes the chunks small for longer.
    pub unplayed_items: u32,
    /// Items that the model must have behind one before it gives its output; [`u32::MAX`] if it needs all of them.
    pub look_ahead: u32,
}

/// Reason why a stream was not opened.
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

/// Output of a stream in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkOutput<S> {
    /// Output samples, in order; may be empty if the model swallowed the items as context.
    pub samples: Vec<S>,
    /// Items they were decoded from.
    pub items: u32,
}

/// Decoded chunk of a stream.
struct Made<S> {
    seq: SeqId,
    samples: Decoded<S>,
    /// Samples that the model had held back, if the stream is at its end.
    rest: Option<Decoded<S>>,
}

impl<S> Made<S> {
    fn of((seq, samples): (SeqId, Decoded<S>)) -> Self {
        let rest = None;
        Self { seq, samples, rest }
    }
}

/// Deadline-ordered batching over one [`ChunkModel`].
#[derive(Debug)]
pub struct ChunkEngine<M: ChunkModel> {
    model: M,
    config: ChunkConfig,
    streams: HashMap<SeqId, Stream<M::Item>>,
    next_arrival: u64,
    /// Streams cancelled since the last step.
    aborted: Vec<(SeqId, SeqRecord)>,
    /// Reason why the model can do no further step.
    lost: Option<String>,
}

impl<M: ChunkModel> ChunkEngine<M> {
    /// Creates an engine over `model`.
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
            aborted: Vec::new(),
            lost: None,
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is kept then.
    pub fn add(
        &mut self,
        seq: SeqId,
        request: M::Request,
        options: StreamOptions,
        now: Stamp,
    ) -> Result<(), OpenError> {
        self.add_behind(Vec::new(), seq, request, options, now).map(drop)
    }

    /// Opens a stream that continues behind `lead`, for which no samples are needed. Returns the part of the lead
    /// that is not decoded; the samples of the rest come out.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is kept then.
    pub fn add_behind(
        &mut self,
        mut lead: Vec<M::Item>,
        seq: SeqId,
        request: M::Request,
        options: StreamOptions,
        now: Stamp,
    ) -> Result<Skipped, OpenError> {
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
        let count = u32::try_from(lead.len()).unwrap_or(u32::MAX);
        let skipped = self.model.open(seq, request, count).inspect_err(|error| {
            if let ModelError::Lost(reason) = error {
                self.lost = Some(reason.clone());
            }
        })?;
        assert!(skipped.items <= count, "{seq:?}: more was skipped than there is");
        lead.drain(..skipped.items as usize);
        // Samples held back for the look-ahead give no lead either, until the stream ends.
        let held = options.unplayed_items.saturating_add(options.look_ahead);
        let unplayed = held.saturating_add(count - skipped.items);
        let mut stream = Stream::new(self.next_arrival, unplayed, now);
        stream.receive(lead, false);
        self.streams.insert(seq, stream);
        self.next_arrival += 1;
        Ok(skipped)
    }

    /// Adds items; `last` if no more will come. Unknown streams are ignored: they may have ended while the items were
    /// in flight.
    pub fn push(&mut self, seq: SeqId, items: impl IntoIterator<Item = M::Item>, last: bool) {
        if let Some(stream) = self.streams.get_mut(&seq) {
            stream.receive(items, last);
        }
    }

    /// Pauses a stream between steps (its consumer is full), or resumes it.
    pub fn set_paused(&mut self, seq: SeqId, paused: bool) {
        if let Some(stream) = self.streams.get_mut(&seq) {
            stream.paused = paused;
        }
    }

    /// Aborts a stream. Returns true if it was open; its place is then free, and the next step's report has its end.
    pub fn abort(&mut self, seq: SeqId) -> bool {
        let record = self.remove(seq);
        self.aborted.extend(record.map(|record| (seq, record)));
        record.is_some()
    }

    /// Items of one stream that wait to be decoded.
    pub fn queued(&self, seq: SeqId) -> usize {
        self.streams.get(&seq).map_or(0, Stream::queued)
    }

    /// Streams open.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns true if no stream is open.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Returns true if [`step`](Self::step) would do anything at `now`.
    pub fn has_work(&self, now: Stamp) -> bool {
        !self.aborted.is_empty() || self.streams.values().any(|s| s.is_ready(now, &self.config))
    }

    /// Time at which a stream that collects a larger chunk must be served with the items it has, if no command comes
    /// before.
    pub fn wake_at(&self) -> Option<Stamp> {
        self.streams.values().filter_map(|s| s.due_at(&self.config)).min()
    }

    /// Runs the `nth` piece of [`ChunkModel::prepare`], for steps as large as they may be. It is not counted.
    ///
    /// # Errors
    /// The model's.
    pub fn prepare(&mut self, nth: u32) -> Result<bool, ModelError> {
        let bounds = ChunkBounds {
            streams: self.config.max_streams,
            batch: self.config.max_batch,
            items: self.config.largest_step(),
        };
        self.model.prepare(nth, bounds)
    }

    /// Reason why the model can do no further step, once it is lost. No end is reported for the streams in the engine
    /// at that time.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// [`step_with`](Self::step_with) for callers whose clock does not move during a step.
    pub fn step(&mut self, now: Stamp) -> StepReport<ChunkOutput<M::Sample>> {
        self.step_with(|| now)
    }

    /// Decodes one chunk each of the streams that are most urgent when it begins. `clock` is read then, and when its
    /// results are there.
    pub fn step_with(&mut self, mut clock: impl FnMut() -> Stamp) -> StepReport<ChunkOutput<M::Sample>> {
        let mut report = StepReport::new(clock());
        for (seq, record) in self.aborted.drain(..) {
            report.end(seq, FinishReason::Abort, record);
        }
        let chosen = self.choose(report.began);
        if !chosen.is_empty() {
            let made = self.run(&chosen);
            report.ended = clock();
            for made in made {
                self.book(made, &mut report);
            }
        }
        report.stats.running = self.streams.len() as u32;
        report.stats.queued_items = self.streams.values().map(|s| s.queued() as u32).sum();
        report
    }

    /// The most urgent ready streams, at most `max_batch` with at most `max_batched_items`.
    ///
    /// All samples of a step come out at its end, so a first chunk, which a listener waits for, does not share its step
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

    /// Decodes the next chunk of each, and the rest of those that are at their end.
    fn run(&mut self, chosen: &[SeqId]) -> Vec<Made<M::Sample>> {
        let mut made = Vec::with_capacity(chosen.len());
        let mut decoding = Vec::with_capacity(chosen.len());
        for &seq in chosen {
            let stream = self.streams.get_mut(&seq).expect("chosen streams are open");
            match stream.stage_chunk(&self.config) {
                // Its end came after its last item was decoded.
                0 => made.push(Made::of((seq, Ok(Vec::new())))),
                _ => decoding.push(seq),
            }
        }
        made.extend(self.decode(decoding).into_iter().map(Made::of));
        // With the last chunk, because its consumer may have no room for another.
        let ending = |made: &&mut Made<_>| made.samples.is_ok() && self.streams[&made.seq].is_last_chunk();
        let ending: Vec<_> = made.iter_mut().filter(ending).collect();
        let seqs: Vec<_> = ending.iter().map(|made| made.seq).collect();
        if !seqs.is_empty() {
            let rests = self.model.flush(&seqs);
            let rests = answers(rests, seqs.len(), &mut self.lost);
            for (made, rest) in ending.into_iter().zip(rests) {
                made.rest = Some(rest);
            }
        }
        if self.lost.is_some() { Vec::new() } else { made }
    }

    fn decode(&mut self, seqs: Vec<SeqId>) -> Vec<(SeqId, Decoded<M::Sample>)> {
        if seqs.is_empty() {
            return Vec::new();
        }
        let batch: Vec<_> = seqs
            .iter()
            .map(|seq| (*seq, self.streams[seq].staged()))
            .collect();
        let decoded = answers(self.model.decode(&batch), seqs.len(), &mut self.lost);
        seqs.into_iter().zip(decoded).collect()
    }

    /// Records and reports a stream's output, and its end.
    fn book(&mut self, made: Made<M::Sample>, report: &mut StepReport<ChunkOutput<M::Sample>>) {
        let Made { seq, samples, rest } = made;
        let mut samples = match samples {
            Ok(samples) => samples,
            Err(message) => return self.finish(seq, FinishReason::Error(message), report),
        };
        let reason = rest.map(|rest| match rest {
            Ok(rest) => {
                samples.extend(rest);
                FinishReason::Stop
            }
            Err(message) => FinishReason::Error(message),
        });
        let stream = self.streams.get_mut(&seq).expect("chosen streams are open");
        let (items, late) = stream.emitted(report.began, &self.config);
        if items > 0 || !samples.is_empty() {
            stream.gave(items, report.began, report.ended);
            report.stats.outputs += items;
            report.stats.decode_tokens += items;
            report.stats.late += u32::from(late);
            let item = ChunkOutput { samples, items };
            report.events.push(SeqEvent::Output { seq, item });
        }
        if let Some(reason) = reason {
            self.finish(seq, reason, report);
        }
    }

    fn finish(&mut self, seq: SeqId, reason: FinishReason, report: &mut StepReport<ChunkOutput<M::Sample>>) {
        if let Some(record) = self.remove(seq) {
            report.end(seq, reason, record);
        }
    }

    fn remove(&mut self, seq: SeqId) -> Option<SeqRecord> {
        let stream = self.streams.remove(&seq)?;
        self.model.close(seq);
        Some(stream.record())
    }
}

/// The model's answers for `expected` streams; none if it is lost.
fn answers<S>(
    answers: Result<Vec<Decoded<S>>, ModelError>,
    expected: usize,
    lost: &mut Option<String>,
) -> Vec<Decoded<S>> {
    match answers {
        Ok(answers) => {
            let found = answers.len();
            assert_eq!(found, expected, "the model must answer for every stream");
            answers
        }
        Err(ModelError::Lost(reason)) => {
            *lost = Some(reason);
            Vec::new()
        }
        Err(error) => (0..expected).map(|_| Err(error.to_string())).collect(),
    }
}

#[cfg(test)]
mod tests;
