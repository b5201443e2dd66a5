//! A sequence of speech as its session sees it.
//!
//! It is in flight, or waits for a replica. If a replica dies before any of its audio was sent, it restarts elsewhere
//! with the same seed and text, so only a delay shows; a bounded number of times, because the sequence itself may be
//! the cause. If a replica's process is gone, it continues even after audio was sent, behind the frames of that
//! audio, which are kept for this. They become part of the request, and only the sent part of the following frame is
//! made again and dropped. Text, seed and previous frames determine every sample in one number format.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{CodecFrame, SeqId, Stamp};

use super::attempt::{Client, Retry};
use super::encoding::Encoding;
use super::pipeline::{Binding, Pipeline, StageError};
use super::speech::{Passage, SpeechAttempt, SpeechOutput};
use crate::item::{AudioPiece, Item};
use crate::request::{Clip, SpeechRequest};
use crate::stage::{
    CancelTimer, EdgeFull, EdgeSender as _, End, JobRefused, ReplicaId, StageProgress, StageSnapshot,
};
use crate::trace::TraceHandle;

/// Specification of one sequence of speech.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// Voice and sampling.
    pub request: SpeechRequest,
    /// The recording of the voice, for a graph that encodes it for the stage that reads text.
    pub recording: Option<Clip>,
    /// The text, or its beginning.
    pub tokens: Vec<u32>,
    /// `true` if more tokens will be added.
    pub open: bool,
    /// Replica that writes its text, if it is an answer's.
    pub writer: Option<ReplicaId>,
    /// Time at which its utterance arrived at the edge.
    pub arrived: Stamp,
    /// Held while a stage works on it.
    pub request_held: Arc<CancelTimer>,
    /// Trace context of the request, if it is traced.
    pub trace: Option<TraceHandle>,
}

/// A running sequence of speech. Dropping it cancels it in every stage.
#[derive(derive_more::Debug)]
#[debug("Segment {{ open: {:?}, in_flight: {:?}, retry: {:?}, .. }}", self.is_open(), self.attempt.is_some(), self.retry)]
pub struct Segment {
    pipeline: Arc<Pipeline>,
    /// Its specification; with all its text as long as it may be retried.
    spec: SegmentSpec,
    client: Client,
    /// The recording of its voice, until it is encoded.
    encoding: Option<Encoding>,
    /// Replicas of the next attempt.
    bound: Option<Binding>,
    /// Number of tokens so far.
    pushed: u32,
    /// None while it waits for a replica.
    attempt: Option<SpeechAttempt>,
    retry: Retry,
    /// Output that was given out.
    given: Heard,
    /// Output already given out that the attempt has not made again yet.
    again: Heard,
    /// Its frames from the first one on, as long as it may continue behind them.
    kept: Vec<CodecFrame>,
    /// Frames that the attempt does not make again.
    prior: u32,
    /// Number formats in which it was made; later attempts must use the same once an output was given out.
    formats: Option<Vec<Arc<str>>>,
    /// Time at which it was lost after audio was given out, until there is more.
    lost: Option<Stamp>,
    /// `true` once the end of its text was reported.
    text_done: bool,
}

/// An amount of audio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Heard {
    samples: usize,
    /// Frames that it was decoded from.
    frames: u32,
}

impl Heard {
    /// Subtracts a piece from it, as far as it goes; returns the rest of the piece, none if nothing is left.
    fn take_from(&mut self, mut piece: AudioPiece) -> Option<AudioPiece> {
        if *self == Self::default() {
            return Some(piece);
        }
        let samples = self.samples.min(piece.samples.len());
        let frames = self.frames.min(piece.frames);
        self.samples -= samples;
        self.frames -= frames;
        piece.samples.drain(..samples);
        piece.frames -= frames;
        (!piece.samples.is_empty() || piece.frames > 0).then_some(piece)
    }

    fn add(&mut self, piece: &AudioPiece) {
        self.samples += piece.samples.len();
        self.frames += piece.frames;
    }
}

impl Segment {
    /// Creates a sequence that waits for a replica.
    pub(super) fn new(pipeline: Arc<Pipeline>, mut spec: SegmentSpec) -> Self {
        let client = Client {
            arrived: spec.arrived,
            request: Arc::clone(&spec.request_held),
            trace: spec.trace.clone(),
        };
        let recording = pipeline.wiring.speaker.zip(spec.recording.clone());
        let encoding = recording.and_then(|(stage, recording)| match recording.embedding() {
            // Encoded for an earlier sequence: this one can be submitted at once.
            Some(embedding) => {
                spec.request.embedding = Some(embedding.clone());
                None
            }
            None => Some(Encoding::new(&pipeline, stage, recording, client.clone())),
        });
        Self {
            pushed: spec.tokens.len() as u32,
            client,
            encoding,
            bound: None,
            spec,
            attempt: None,
            retry: Retry::new(&pipeline, "a sequence"),
            given: Heard::default(),
            again: Heard::default(),
            kept: Vec::new(),
            prior: 0,
            formats: None,
            lost: None,
            text_done: false,
            pipeline,
        }
    }

    /// Submits it to replicas, as a new sequence to them. A replica that ends just now counts as one that died.
    pub(super) fn submit(&mut self, binding: Binding) -> Result<(), StageError> {
        if self.encoding.is_some() || self.gathers() {
            self.bound = Some(binding);
            return Ok(());
        }
        let passage = Passage {
            with_codes: self.retry.is_left() && self.pipeline.keeps_frames(),
            // The loss may be that of a link, which its two ends do not notice at the same time.
            linked: !self.retry.has_begun_again(),
        };
        match SpeechAttempt::new(&self.pipeline, binding, (&self.spec, passage), &self.client) {
            Ok(attempt) => self.attempt = Some(attempt),
            Err(full @ JobRefused::Full { .. }) => return Err(StageError::Overloaded(full.to_string())),
            Err(JobRefused::Ended { .. }) => self.attempt = None,
        }
        Ok(())
    }

    /// Returns true if it waits for the rest of its text, which is a part of the request to its first stage.
    fn gathers(&self) -> bool {
        self.pipeline.wiring.whole_text && self.spec.open
    }

    /// Returns true if tokens can be added: they have not ended, and the first stage still reads them or the sequence
    /// will be retried.
    pub fn is_open(&self) -> bool {
        self.spec.open
            && self.attempt.as_ref().is_none_or(|attempt| {
                let read = attempt.text.as_ref().is_some_and(|writer| !writer.is_abandoned());
                read || (!attempt.first_lives() && self.retry.begins_again(attempt.is_first_severed()))
            })
    }

    /// Adds tokens; `last` marks the final ones. Does nothing if the sequence is not open.
    ///
    /// # Errors
    /// If there are tokens and [no room](Self::has_room) for them.
    pub fn push(&mut self, tokens: Vec<u32>, last: bool) -> Result<(), EdgeFull> {
        if !self.spec.open {
            return Ok(());
        }
        self.pushed += tokens.len() as u32;
        if self.attempt.is_none() || self.retry.is_left() {
            self.spec.tokens.extend(&tokens);
        }
        let writer = self.attempt.as_mut().and_then(|attempt| attempt.text.as_mut());
        if let Some(writer) = writer
            && !tokens.is_empty()
        {
            writer.put(Item::Text(tokens), 1)?;
        }
        if last {
            self.close();
        }
        Ok(())
    }

    /// Ends its text.
    fn close(&mut self) {
        self.spec.open = false;
        let writer = self.attempt.as_mut().and_then(|attempt| attempt.text.take());
        if let Some(writer) = writer {
            writer.end(End::Stop);
        }
        if self.pipeline.wiring.whole_text {
            self.retry.waits(self.pipeline.clock.now());
        }
    }

    /// Returns true if the edge takes another batch of tokens.
    pub fn has_room(&self) -> bool {
        let writer = |attempt: &SpeechAttempt| attempt.text.as_ref().is_some_and(|writer| writer.has_room());
        self.is_open() && self.attempt.as_ref().is_none_or(writer)
    }

    /// Returns true if the first stage waits for text.
    pub fn is_starved(&self) -> bool {
        if self.gathers() {
            return true;
        }
        let read = self
            .first()
            .outputs
            .saturating_add(self.spec.request.prompt_rows());
        self.is_open() && self.attempt.is_some() && read >= self.pushed
    }

    /// Returns true if the stage that reads text has finished with it. False for one that died.
    pub fn is_text_done(&self) -> bool {
        let done = |attempt: &SpeechAttempt| attempt.first_done.is_none() && attempt.first_lives();
        self.attempt.as_ref().is_some_and(done)
    }

    /// Stages of its path, first to last, with their progress in the last attempt.
    pub fn progress(&self) -> Vec<(&'static str, StageSnapshot)> {
        let readings = self.attempt.iter().flat_map(|attempt| &attempt.progress);
        let readings = readings.map(|progress| self.counted(progress));
        let stages = self.pipeline.speech();
        stages
            .zip(readings.chain(std::iter::repeat(StageSnapshot::default())))
            .collect()
    }

    /// Progress in the stage that reads text, of the last attempt.
    pub fn first(&self) -> StageSnapshot {
        self.reading(|attempt| attempt.progress.first())
    }

    /// Progress in the stage that gives audio, of the last attempt.
    pub fn last(&self) -> StageSnapshot {
        self.reading(|attempt| attempt.progress.last())
    }

    fn reading(&self, of: impl Fn(&SpeechAttempt) -> Option<&StageProgress>) -> StageSnapshot {
        let progress = self.attempt.as_ref().and_then(of);
        progress
            .map(|progress| self.counted(progress))
            .unwrap_or_default()
    }

    /// Progress with the frames of earlier attempts.
    fn counted(&self, progress: &StageProgress) -> StageSnapshot {
        let reading = progress.snapshot();
        StageSnapshot {
            outputs: reading.outputs.saturating_add(self.prior),
            ..reading
        }
    }

    /// Time in which audio of the last attempt found no room on its way to the session.
    pub fn held(&self) -> Duration {
        let held = |attempt: &SpeechAttempt| attempt.audio.held(self.pipeline.clock.now());
        self.attempt.as_ref().map(held).unwrap_or_default()
    }

    /// Sequence by which the stages know it, if they have it.
    pub fn seq(&self) -> Option<SeqId> {
        self.attempt.as_ref().map(|attempt| attempt.seq)
    }

    /// The next output, or the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> SpeechOutput {
        loop {
            let Some(attempt) = &mut self.attempt else {
                match self.wait().await {
                    Ok(()) => continue,
                    Err(end) => return SpeechOutput::End(end),
                }
            };
            match attempt.next(&self.pipeline).await {
                Ok(output) => {
                    if let Some(output) = self.gave(output) {
                        return output;
                    }
                }
                Err(ended) => {
                    let now = self.pipeline.clock.now();
                    let since = attempt.severed_since().unwrap_or(now);
                    match self.retry.after(ended, since) {
                        Ok(()) => self.go_on(),
                        Err(end) => return SpeechOutput::End(self.checked(end)),
                    }
                }
            }
        }
    }

    /// Prepares the next attempt after a loss: it continues behind the frames whose audio was given out.
    fn go_on(&mut self) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        if self.given != Heard::default() {
            self.lost.get_or_insert(self.retry.waits_since());
            self.formats = Some(attempt.formats());
        }
        let each = self.pipeline.samples_per_frame;
        self.kept.truncate(self.given.samples / each);
        self.prior = u32::try_from(self.kept.len()).unwrap_or(u32::MAX);
        self.again = Heard {
            samples: self.given.samples - self.kept.len() * each,
            frames: self.given.frames.saturating_sub(self.prior),
        };
        self.spec.request.prior_frames = self.kept.as_slice().into();
    }

    /// Checks the end of an attempt: one that gave less than was given out before did not make the same output, and
    /// fails.
    fn checked(&self, end: End) -> End {
        let whole = matches!(end, End::Stop | End::Length | End::Repetition);
        match &self.attempt {
            Some(attempt) if whole && self.again != Heard::default() => End::Failed {
                stage: attempt.last(),
                message: format!(
                    "run again after a loss, it ended {} samples and {} frames before the end of what was heard",
                    self.again.samples, self.again.frames
                ),
            },
            _ => end,
        }
    }

    /// Removes from an output all that was given out before; `None` if nothing is left.
    fn gave(&mut self, output: SpeechOutput) -> Option<SpeechOutput> {
        match output {
            SpeechOutput::TextDone => {
                // It ended by itself if there was more text to come, which belongs to the next sequence then.
                self.close();
                let before = std::mem::replace(&mut self.text_done, true);
                (!before).then_some(SpeechOutput::TextDone)
            }
            SpeechOutput::Audio(mut piece) => {
                self.kept.append(&mut piece.codes);
                let piece = self.again.take_from(piece)?;
                if let Some(lost) = self.lost.take() {
                    let after = self.pipeline.clock.since(lost);
                    tracing::info!(
                        after_ms = after.as_secs_f64() * 1e3,
                        "sequence resumed after a loss"
                    );
                }
                self.given.add(&piece);
                if !piece.samples.is_empty() {
                    self.retry.given_out();
                }
                if !self.retry.is_left() {
                    self.spec.tokens = Vec::new();
                    self.kept = Vec::new();
                    self.spec.request.prior_frames = Arc::default();
                }
                Some(SpeechOutput::Audio(piece))
            }
            end @ SpeechOutput::End(_) => Some(end),
        }
    }

    /// Waits for the embedding of its voice and for replicas, and submits it; the error is its end if there are none
    /// in time.
    async fn wait(&mut self) -> Result<(), End> {
        if let Some(encoding) = &mut self.encoding {
            // Discards the progress: a sequence reports only the stages of its path.
            encoding.done().await?;
            self.encoding = None;
            let recording = self.spec.recording.as_ref();
            self.spec.request.embedding = recording.and_then(Clip::embedding).cloned();
            self.retry.waits(self.pipeline.clock.now());
        }
        if self.gathers() {
            // The end of the text cannot be added while this future is awaited.
            std::future::pending::<()>().await;
        }
        let binding = match self.bound.take().filter(Binding::is_alive) {
            Some(binding) => binding,
            None => {
                let bind = || match &self.formats {
                    Some(formats) => self.pipeline.bind_like(formats),
                    None => self.pipeline.bind(),
                };
                self.pipeline.bound(self.retry.waits_since(), bind).await?
            }
        };
        self.submit(binding)
            .map_err(|error| End::Overloaded(error.to_string()))
    }
}

impl Pipeline {
    /// Starts a sequence of speech. Never waits: if all replicas of a stage are being restarted, the sequence does.
    ///
    /// All sequences of an utterance go to the same replicas: those in `binding`, which the first sequence sets, and
    /// the next one after one of them has died.
    ///
    /// # Errors
    /// If a stage does not take it.
    pub fn speak(
        self: &Arc<Self>,
        spec: SegmentSpec,
        binding: &mut Option<Binding>,
    ) -> Result<Segment, StageError> {
        if !binding.as_ref().is_some_and(Binding::is_alive) {
            *binding = match self.bind() {
                Ok(bound) => Some(bound),
                Err(unbound) if unbound.may_pass() => None,
                Err(unbound) => return Err(unbound.into()),
            };
        }
        let mut segment = Segment::new(Arc::clone(self), spec);
        if let Some(binding) = binding {
            segment.submit(binding.clone())?;
        }
        Ok(segment)
    }
}
