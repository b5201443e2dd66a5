//! One answer, as its session sees it.
//!
//! It is in flight, or it waits for a replica. When its replica dies before any token was given out, it starts again
//! elsewhere, with the same seed; a bounded number of times, because it may be the conversation that kills.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_telemetry::TraceContext;

use super::attempt::{Attempt, Ends, Retry, SeqOutput};
use super::pipeline::{Pipeline, Unbound, bind, check};
use crate::error::{ErrorKind, ServeError};
use crate::id::SeqIds;
use crate::stage::{
    CancelTimer, ChatInfo, DetokenizerMaker, EdgeReceiver as _, EncoderJob, End, JobRefused, Lease,
    PromptBuilder, ReplyToken, StageError, StagePool, StageProgress, StageSnapshot, ThinkerJob,
    ThinkerRequest,
};

/// The part of a model that converses, and the stage that runs it.
pub struct ChatPath {
    /// What it is.
    pub info: Arc<ChatInfo>,
    /// Its template and tokenizer.
    pub prompt: PromptBuilder,
    /// The way back from tokens to text.
    pub detokenizer: DetokenizerMaker,
    /// Its stage.
    pub thinker: StagePool<ThinkerJob>,
    /// The stage that hears, if the model does.
    pub encoder: Option<StagePool<EncoderJob>>,
    /// Tokens of one answer that may wait for their session.
    pub tokens: u32,
    /// An answer that has begun fails when the thinker gives nothing more for this long.
    pub stall: Duration,
    /// Whether conversations share what the thinker computed for common beginnings.
    pub shared_prefixes: bool,
}

impl fmt::Debug for ChatPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatPath")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl ChatPath {
    /// Whether the stage has a replica that takes work.
    pub(super) fn check(&self) -> Result<(), Unbound> {
        check(&self.thinker)
    }

    /// Whether it takes speech, and why not.
    pub(super) fn check_hearing(&self) -> Result<(), Unbound> {
        match &self.encoder {
            Some(encoder) => check(encoder),
            None => Ok(()),
        }
    }

    fn bind(&self) -> Result<Lease<ThinkerJob>, Unbound> {
        bind(&self.thinker)
    }
}

/// The model does not converse, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("chat is not supported by this model: {0}")]
pub struct ChatNotSupported(pub String);

impl From<ChatNotSupported> for ServeError {
    fn from(error: ChatNotSupported) -> Self {
        Self::new(ErrorKind::NotSupported, "CHAT_NOT_SUPPORTED", error.to_string())
    }
}

/// What to answer, and how.
#[derive(Debug, Clone)]
pub struct ReplySpec {
    /// The conversation and the sampling.
    pub request: ThinkerRequest,
    /// Most tokens to make.
    pub max_tokens: u32,
    /// When the request for it arrived at the edge.
    pub arrived: Stamp,
    /// Held while the stage works on it.
    pub request_held: Arc<CancelTimer>,
    /// Where its spans belong, if the request is traced.
    pub trace: Option<Arc<TraceContext>>,
}

/// An answer in the making. Dropping it cancels it within one step.
pub struct Reply {
    pipeline: Arc<Pipeline>,
    seqs: Arc<SeqIds>,
    spec: ReplySpec,
    progress: StageProgress,
    /// None while it waits for a replica.
    attempt: Option<Attempt<ThinkerJob, ReplyToken>>,
    retry: Retry,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("in_flight", &self.attempt.is_some())
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

impl Reply {
    pub(super) fn start(
        pipeline: Arc<Pipeline>,
        seqs: Arc<SeqIds>,
        spec: ReplySpec,
    ) -> Result<Self, ServeError> {
        let mut reply = Self {
            seqs,
            spec,
            progress: StageProgress::default(),
            attempt: None,
            retry: Retry::new(&pipeline, "an answer"),
            pipeline,
        };
        match reply.bind() {
            Ok(lease) => reply.submit(lease)?,
            Err(unbound) if unbound.may_pass() => {}
            Err(unbound) => return Err(unbound.into()),
        }
        Ok(reply)
    }

    /// A reading of the thinker.
    #[must_use]
    pub fn progress(&self) -> StageSnapshot {
        self.progress.snapshot()
    }

    /// What it is to the thinker now, if that has it.
    #[must_use]
    pub fn seq(&self) -> Option<SeqId> {
        self.attempt.as_ref().map(|attempt| attempt.seq)
    }

    /// Whether the thinker has nothing to give because it has no room for this answer now.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.attempt
            .as_ref()
            .is_none_or(|attempt| attempt.outputs.is_upstream_idle())
    }

    /// How often that has begun so far.
    #[must_use]
    pub fn idles(&self) -> u32 {
        self.attempt.as_ref().map_or(0, |attempt| attempt.outputs.idles())
    }

    /// The next token, or the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> SeqOutput<ReplyToken> {
        loop {
            let Some(attempt) = &mut self.attempt else {
                match self.wait().await {
                    Ok(()) => continue,
                    Err(end) => return SeqOutput::End(end),
                }
            };
            match attempt.next().await {
                Ok(token) => {
                    self.retry.given_out();
                    return SeqOutput::Item(token);
                }
                Err(ended) => match self.retry.after(ended, self.pipeline.clock.now()) {
                    Ok(()) => self.attempt = None,
                    Err(end) => return SeqOutput::End(end),
                },
            }
        }
    }

    fn bind(&self) -> Result<Lease<ThinkerJob>, Unbound> {
        match &self.pipeline.chat {
            Ok(chat) => chat.bind(),
            Err(_) => unreachable!("only a model that converses answers"),
        }
    }

    /// Hands it to a replica, as a new sequence to it. A replica that ends just now counts as one that died.
    fn submit(&mut self, lease: Lease<ThinkerJob>) -> Result<(), StageError> {
        let Ok(chat) = &self.pipeline.chat else {
            return Ok(());
        };
        let ends = Ends {
            seq: self.seqs.next(),
            capacity: chat.tokens,
            arrived: self.spec.arrived,
            request: &self.spec.request_held,
            trace: self.spec.trace.clone(),
        };
        let spec = &self.spec;
        let submitted = Attempt::new(&self.pipeline, lease, ends, |parts| ThinkerJob {
            seq: parts.seq,
            request: spec.request.clone(),
            max_tokens: spec.max_tokens,
            tokens: parts.outputs,
            cancel: parts.cancel,
            progress: parts.progress,
        });
        match submitted {
            Ok((attempt, progress)) => {
                (self.attempt, self.progress) = (Some(attempt), progress);
                Ok(())
            }
            Err(full @ JobRefused::Full { .. }) => Err(StageError::Overloaded(full.to_string())),
            Err(JobRefused::Ended { .. }) => Ok(()),
        }
    }

    /// Waits until there is a replica, and submits; the error is how it ends if there is none in time.
    async fn wait(&mut self) -> Result<(), End> {
        let lease = self
            .pipeline
            .bound(self.retry.waits_since(), || self.bind())
            .await?;
        let taken = self.submit(lease);
        taken.map_err(|error| End::Overloaded(error.to_string()))
    }
}
