//! A chunk stage: a stream of items in, the outputs of a few of them at a time, one [`ChunkEngine`].

use std::collections::VecDeque;
use std::time::Duration;

use omni_engine::{
    ChunkConfig, ChunkEngine, ChunkModel, CodecFrame, FinishReason, OpenError, SeqId, Stamp, StreamOptions,
};
use tokio::sync::oneshot;

use super::ar::{NO_INPUTS, unexpected};
use super::driver::{Admission, Course, Driver, Verdict, WARM_UP};
use super::events::EngineEvent;
use super::family::{BackendError, ChunkBackend, WarmUp};
use super::flow::{End, Recv};
use super::job::StageJob;
use super::sides::{Sink, Source, failed};
use super::status::ReplicaStatus;
use super::worker::Core;
use crate::clock::Clock;
use crate::item::{FromItem, Item};
use crate::request::StageRequest;

pub(super) struct Chunk<B: ChunkBackend> {
    backend: B,
    config: ChunkConfig,
    options: StreamOptions,
    samples_per_frame: u32,
    /// Items of one stream taken from its edge ahead of decoding; the rest waits in the edge, where it is bounded.
    queue: usize,
    /// Stage that feeds it, and the longest time for which it may deliver nothing.
    upstream: (&'static str, Duration),
    clock: Clock,
    driver: Driver<ChunkEngine<B::Model>, Feed>,
}

impl<B: ChunkBackend> Chunk<B> {
    pub(super) fn new(
        backend: B,
        (config, options, samples_per_frame): (ChunkConfig, StreamOptions, u32),
        upstream: Option<(&'static str, Duration)>,
        status: &ReplicaStatus,
        clock: Clock,
    ) -> Self {
        Self {
            backend,
            queue: config.ramp.iter().max().map_or(1, |most| 2 * *most as usize),
            config,
            options,
            samples_per_frame,
            upstream: upstream.unwrap_or(("session", Duration::MAX)),
            clock,
            driver: Driver::new(status.clone(), B::item, clock),
        }
    }
}

/// The items of a stream.
struct Feed {
    inputs: Source<Item>,
    /// Frames of its lead that are still to be decoded, and samples of it that are to be dropped.
    lead: u32,
    lead_samples: u64,
    /// Frames behind its lead that are in the engine, if they are returned with the audio.
    codes: Option<VecDeque<CodecFrame>>,
    /// End of upstream; the stream ends the same way when all is decoded.
    end: End,
    /// Resolved when it is dropped.
    _finished: Option<oneshot::Sender<()>>,
}

impl Course for Feed {
    /// Removes the lead from a piece and its frames; `None` if nothing is left.
    fn passed_on(&mut self, item: Item) -> Option<Item> {
        let mut piece = match item {
            Item::Audio(piece) => piece,
            item => return Some(item),
        };
        let led = self.lead > 0 || self.lead_samples > 0;
        let frames = piece.frames.min(self.lead);
        self.lead -= frames;
        piece.frames -= frames;
        let dropped =
            usize::try_from(self.lead_samples).map_or(piece.samples.len(), |n| n.min(piece.samples.len()));
        self.lead_samples -= dropped as u64;
        piece.samples.drain(..dropped);
        if let Some(codes) = &mut self.codes {
            let decoded = codes.len().min(piece.frames as usize);
            piece.codes = codes.drain(..decoded).collect();
        }
        (!led || piece.frames > 0 || !piece.samples.is_empty()).then_some(Item::Audio(piece))
    }

    fn outcome(&self, reason: FinishReason) -> FinishReason {
        match reason {
            FinishReason::Stop => FinishReason::from(&self.end),
            reason => reason,
        }
    }
}

/// The model's inputs in `items`.
fn inputs<M: ChunkModel<Item: FromItem>>(items: Vec<Item>) -> Result<Vec<M::Item>, Item> {
    let mut inputs = Vec::new();
    for item in items {
        inputs.extend(M::Item::from_item(item)?);
    }
    Ok(inputs)
}

impl<B: ChunkBackend> Core for Chunk<B> {
    type Job = StageJob;

    fn load(&mut self) -> Result<(), BackendError> {
        let mut engine = ChunkEngine::new(self.backend.load()?, self.config.clone());
        let WarmUp {
            request,
            inputs: items,
        } = self.backend.warm_up()?;
        let request = self.backend.request(request)?;
        engine
            .add(WARM_UP, request, self.options, self.clock.now())
            .map_err(BackendError::warm_up)?;
        let inputs = inputs::<B::Model>(items);
        let inputs = inputs.map_err(|item| BackendError::warm_up(item.kind().name()))?;
        engine.push(WARM_UP, inputs, true);
        self.driver.load(engine, ChunkEngine::prepare);
        Ok(())
    }

    fn warm_up(&mut self) -> Result<bool, BackendError> {
        self.driver.warm_up()
    }

    fn accept(&mut self, job: StageJob) {
        if job.cancel.is_set() {
            return;
        }
        let sink = Sink::new(job.outputs);
        let stage = self.driver.stage();
        let Some(source) = job.inputs else {
            return sink.end(failed(stage, NO_INPUTS));
        };
        let (lead, with_codes) = match &job.request {
            StageRequest::Decode(decode) => (decode.lead.to_vec(), decode.with_codes),
            _ => (Vec::new(), false),
        };
        let leading = u32::try_from(lead.len()).unwrap_or(u32::MAX);
        let led = if lead.is_empty() {
            Ok(Vec::new())
        } else {
            inputs::<B::Model>(vec![Item::Frames(lead)])
        };
        let led = match led {
            Ok(led) => led,
            Err(item) => return sink.end(unexpected(stage, &item)),
        };
        let gives = job.request.output();
        let request = match self.backend.request(job.request) {
            Ok(request) => request,
            Err(error) => return sink.end(failed(stage, error.to_string())),
        };
        let admission = Admission {
            seq: job.seq,
            sink,
            cancel: job.cancel,
            progress: job.progress,
            max_outputs: None,
            gives,
            course: Feed {
                inputs: Source::new(source),
                lead: leading,
                lead_samples: u64::from(leading) * u64::from(self.samples_per_frame),
                codes: with_codes.then(VecDeque::new),
                end: End::Stop,
                _finished: job.finished,
            },
        };
        let options = self.options;
        self.driver.admit(admission, |engine, feed, now| {
            let skipped = engine.add_behind(led, job.seq, request, options, now)?;
            feed.lead = feed.lead.saturating_sub(skipped.items);
            feed.lead_samples = feed.lead_samples.saturating_sub(skipped.samples);
            Ok::<_, OpenError>(())
        });
    }

    fn tend(&mut self) {
        let queue = self.queue;
        let now = self.clock.now();
        let (upstream, patience) = self.upstream;
        self.driver.tend(|seq, sequence, turn| {
            let feed = &mut sequence.course;
            let stage = turn.status.stage();
            let fed = feed.fill(seq, stage, turn.engine, queue);
            let idle = turn.engine.queued(seq) == 0 && !sequence.sink.is_paused();
            feed.inputs.observe(idle, now);
            if !matches!(fed, Verdict::Keep) {
                return fed;
            }
            match feed.inputs.stalled(upstream, stage, patience, now) {
                Some(end) => Verdict::Fail(end),
                None => Verdict::Keep,
            }
        });
    }

    fn has_work(&self) -> bool {
        self.driver.has_work()
    }

    fn lost(&self) -> Option<String> {
        self.driver.lost()
    }

    fn wake_at(&self) -> Option<Stamp> {
        let feeds = self.driver.live().map(|sequence| &sequence.course.inputs);
        let stalled = feeds.filter_map(|inputs| inputs.stalls_at(self.upstream.1));
        let due = self.driver.engine().and_then(ChunkEngine::wake_at);
        stalled.chain(due).min()
    }

    fn step(&mut self) {
        self.driver.step();
    }

    /// Reports a stream that was opened, of which no step has reported yet.
    fn settle(&mut self) {
        let streams = self.driver.live().count() as u32;
        let status = self.driver.status();
        if streams > 0 && status.stats().running != streams {
            status.tell(&EngineEvent::Running(streams));
        }
        self.driver.settle();
    }

    fn end_all(&mut self, end: &End) {
        self.driver.end_all(end);
    }
}

impl Feed {
    /// Moves items in, at most until `queue` of them wait.
    fn fill<M>(
        &mut self,
        seq: SeqId,
        stage: &'static str,
        engine: &mut ChunkEngine<M>,
        queue: usize,
    ) -> Verdict
    where
        M: ChunkModel<Item: FromItem>,
    {
        while engine.queued(seq) < queue {
            match self.inputs.next() {
                Recv::Item(item) => {
                    if let (Some(codes), Item::Frames(frames)) = (&mut self.codes, &item) {
                        codes.extend(frames.iter().cloned());
                    }
                    match M::Item::from_item(item) {
                        Ok(items) => engine.push(seq, items, false),
                        Err(item) => return Verdict::Fail(unexpected(stage, &item)),
                    }
                }
                Recv::Empty => break,
                Recv::Gone => return Verdict::Drop,
                Recv::End(end @ (End::Stop | End::Length | End::Repetition)) => {
                    self.end = end;
                    engine.push(seq, [], true);
                }
                // Earlier outputs of a failed stage are discarded.
                Recv::End(end) => return Verdict::Fail(end),
            }
        }
        Verdict::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::{EdgeReceiver, Recv, TransferStamps};
    use super::*;
    use crate::item::AudioPiece;

    /// An edge of which nothing comes.
    struct Silent;

    impl EdgeReceiver<Item> for Silent {
        fn take(&mut self) -> Recv<Item> {
            Recv::Empty
        }

        fn take_timed(&mut self) -> (Recv<Item>, Option<Stamp>) {
            (Recv::Empty, None)
        }

        fn transferred(&mut self, _passage: &TransferStamps) {}

        fn is_upstream_idle(&self) -> bool {
            true
        }
    }

    const PER_FRAME: u64 = 4;

    fn frame(number: u32) -> CodecFrame {
        CodecFrame(Box::new([number]))
    }

    /// Pieces passed on of pieces with these numbers of frames, behind a lead of `lead` frames. Samples are numbered
    /// from the first of the lead, and so are the frames behind it.
    fn heard(lead: u32, pieces: &[u32]) -> Vec<AudioPiece> {
        let mut feed = Feed {
            inputs: Source::new(Box::new(Silent)),
            lead,
            lead_samples: u64::from(lead) * PER_FRAME,
            codes: Some((lead..pieces.iter().sum()).map(frame).collect()),
            end: End::Stop,
            _finished: None,
        };
        let mut made = 0;
        let pieces = pieces.iter().filter_map(|&frames| {
            let from = made;
            made += u64::from(frames) * PER_FRAME;
            let samples = (from..made).map(|n| n as f32).collect();
            let piece = AudioPiece {
                samples,
                frames,
                codes: Vec::new(),
            };
            match feed.passed_on(Item::Audio(piece))? {
                Item::Audio(piece) => Some(piece),
                other => panic!("audio went in, {:?} came out", other.kind()),
            }
        });
        pieces.collect()
    }

    #[test]
    fn nothing_of_the_lead_is_heard_and_all_that_follows_is() {
        for pieces in [&[10][..], &[1; 10], &[3, 3, 4], &[2, 8], &[4, 6], &[9, 1]] {
            let passed = heard(4, pieces);
            let samples: Vec<f32> = passed.iter().flat_map(|piece| piece.samples.clone()).collect();
            let expected: Vec<f32> = (16..40).map(|n| n as f32).collect();
            assert_eq!(samples, expected, "{pieces:?}");
            assert_eq!(
                passed.iter().map(|piece| piece.frames).sum::<u32>(),
                6,
                "{pieces:?}"
            );
            assert!(
                passed
                    .iter()
                    .all(|piece| piece.codes.len() == piece.frames as usize)
            );
            let codes: Vec<_> = passed.into_iter().flat_map(|piece| piece.codes).collect();
            assert_eq!(codes, (4..10).map(frame).collect::<Vec<_>>(), "{pieces:?}");
        }
    }

    #[test]
    fn a_piece_of_the_lead_alone_is_not_passed_on() {
        assert!(heard(4, &[1, 3]).is_empty());
        assert!(heard(4, &[4]).is_empty());
        assert_eq!(heard(4, &[4, 1]).len(), 1);
    }

    #[test]
    fn without_a_lead_every_piece_is_passed_on_as_it_is() {
        let passed = heard(0, &[1, 0, 2]);
        let frames: Vec<u32> = passed.iter().map(|piece| piece.frames).collect();
        assert_eq!(frames, [1, 0, 2]);
        assert_eq!(passed[2].samples, [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn the_end_of_a_recording_may_be_the_whole_of_it() {
        let passed = heard(25, &[20, 20]);
        assert_eq!((passed.len(), passed[0].frames), (1, 15));
        assert_eq!(passed[0].samples.first(), Some(&100.0));
    }
}
