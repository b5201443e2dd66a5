//! One sequence, as its session sees it.
//!
//! It is in flight, or it waits for a replica. When a replica dies under it before any audio of it was given out, it starts
//! again elsewhere, with the same seed and all its text: only the time that it took shows. That is tried a bounded
//! number of times, because it may be the sequence that kills.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_telemetry::TraceContext;

use super::attempt::{Retry, SeqOutput};
use super::pipeline::{Binding, Pipeline};
use super::speech::{SpeechAttempt, SpeechOutput};
use crate::id::SeqIds;
use crate::stage::{
    CancelTimer, EdgeSender as _, End, JobRefused, ReplicaId, StageError, StageSnapshot, TalkerRequest,
    prompt_rows,
};

/// What to speak in one sequence.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// Voice and sampling.
    pub request: TalkerRequest,
    /// The text, or its beginning.
    pub tokens: Vec<u32>,
    /// Whether more tokens will be added.
    pub open: bool,
    /// Most codec frames to make.
    pub max_frames: u32,
    /// The thinker that writes its text, if it is an answer's.
    pub thinker: Option<ReplicaId>,
    /// When what it is part of arrived at the edge.
    pub arrived: Stamp,
    /// Held while a stage works on it.
    pub request_held: Arc<CancelTimer>,
    /// Where its spans belong, if the request is traced.
    pub trace: Option<Arc<TraceContext>>,
}

/// A sequence under way. Dropping it cancels it in every stage.
pub struct Segment {
    pipeline: Arc<Pipeline>,
    seqs: Arc<SeqIds>,
    /// What to speak; all its text as long as it could start again.
    spec: SegmentSpec,
    /// Tokens so far.
    pushed: u32,
    /// None while it waits for a replica.
    attempt: Option<SpeechAttempt>,
    retry: Retry,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("open", &self.is_open())
            .field("in_flight", &self.attempt.is_some())
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

impl Segment {
    /// A sequence that waits for a replica.
    pub(super) fn new(pipeline: Arc<Pipeline>, seqs: Arc<SeqIds>, spec: SegmentSpec) -> Self {
        Self {
            seqs,
            pushed: spec.tokens.len() as u32,
            spec,
            attempt: None,
            retry: Retry::new(&pipeline, "a sequence"),
            pipeline,
        }
    }

    /// Hands it to replicas, as a new sequence to them. A replica that ends just now counts as one that died.
    pub(super) fn submit(&mut self, binding: Binding) -> Result<(), StageError> {
        let seq = self.seqs.next();
        match SpeechAttempt::new(&self.pipeline, binding, seq, &self.spec, self.spec.open) {
            Ok(attempt) => self.attempt = Some(attempt),
            Err(full @ JobRefused::Full { .. }) => return Err(StageError::Overloaded(full.to_string())),
            Err(JobRefused::Ended { .. }) => self.attempt = None,
        }
        Ok(())
    }

    /// Whether tokens can be added: they have not ended, and the talker still reads them or it starts again.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.spec.open
            && self.attempt.as_ref().is_none_or(|attempt| {
                let read = attempt
                    .tokens
                    .as_ref()
                    .is_some_and(|writer| !writer.is_abandoned());
                read || (self.retry.is_left() && !attempt.talker_lives())
            })
    }

    /// Adds tokens; `last` says that no more will come. Nothing happens if it is not open.
    pub fn push(&mut self, tokens: Vec<u32>, last: bool) {
        if !self.spec.open {
            return;
        }
        self.pushed += tokens.len() as u32;
        if self.attempt.is_none() || self.retry.is_left() {
            self.spec.tokens.extend(&tokens);
        }
        let writer = self.attempt.as_mut().and_then(|attempt| attempt.tokens.as_mut());
        if let Some(writer) = writer
            && !tokens.is_empty()
        {
            writer.put(tokens, 1);
        }
        if last {
            self.close();
        }
    }

    /// No more text comes.
    fn close(&mut self) {
        self.spec.open = false;
        let writer = self.attempt.as_mut().and_then(|attempt| attempt.tokens.take());
        if let Some(writer) = writer {
            writer.end(End::Stop);
        }
    }

    /// Whether the edge takes another batch of tokens.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let writer =
            |attempt: &SpeechAttempt| attempt.tokens.as_ref().is_some_and(|writer| writer.has_room());
        self.is_open() && self.attempt.as_ref().is_none_or(writer)
    }

    /// Whether the talker waits for text.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        let prompt = prompt_rows(self.spec.request.voice_prompt.as_deref());
        let read =
            |attempt: &SpeechAttempt| attempt.talker.snapshot().outputs.saturating_add(prompt) >= self.pushed;
        self.is_open() && self.attempt.as_ref().is_some_and(read)
    }

    /// Whether the talker is done with it. One that died is not.
    #[must_use]
    pub fn is_talker_done(&self) -> bool {
        let done = |attempt: &SpeechAttempt| attempt.talker_done.is_none() && attempt.talker_lives();
        self.attempt.as_ref().is_some_and(done)
    }

    /// Readings of the talker and of code2wav, of the last attempt.
    #[must_use]
    pub fn progress(&self) -> (StageSnapshot, StageSnapshot) {
        match &self.attempt {
            Some(attempt) => (attempt.talker.snapshot(), attempt.code2wav.snapshot()),
            None => Default::default(),
        }
    }

    /// Time in which audio of the last attempt found no room on its way to the session.
    #[must_use]
    pub fn held(&self) -> Duration {
        let held = |attempt: &SpeechAttempt| attempt.audio.held(self.pipeline.clock.now());
        self.attempt.as_ref().map(held).unwrap_or_default()
    }

    /// What it is to the stages now, if they have it.
    #[must_use]
    pub fn seq(&self) -> Option<SeqId> {
        self.attempt.as_ref().map(|attempt| attempt.seq)
    }

    /// The next output, or the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> SeqOutput<SpeechOutput> {
        loop {
            let Some(attempt) = &mut self.attempt else {
                match self.wait().await {
                    Ok(()) => continue,
                    Err(end) => return SeqOutput::End(end),
                }
            };
            match attempt.next().await {
                Ok(output) => {
                    self.gave(&output);
                    return SeqOutput::Item(output);
                }
                Err(ended) => match self.retry.after(ended, self.pipeline.clock.now()) {
                    Ok(()) => self.attempt = None,
                    Err(end) => return SeqOutput::End(end),
                },
            }
        }
    }

    fn gave(&mut self, output: &SpeechOutput) {
        match output {
            // It ended by itself if there was more text to come, which belongs to the next sequence then.
            SpeechOutput::TalkerDone => self.close(),
            SpeechOutput::Audio(piece) => {
                if !piece.samples.is_empty() {
                    self.retry.given_out();
                    self.spec.tokens = Vec::new();
                }
            }
        }
    }

    /// Waits until there are replicas, and takes off; the error is how it ends if there are none in time.
    async fn wait(&mut self) -> Result<(), End> {
        let binding = self
            .pipeline
            .bound(self.retry.waits_since(), || self.pipeline.bind())
            .await?;
        self.submit(binding)
            .map_err(|error| End::Overloaded(error.to_string()))
    }
}
