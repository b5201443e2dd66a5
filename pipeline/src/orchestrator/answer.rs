//! An answer as its session sees it.
//!
//! It is in flight, or waits for a replica. If its replica dies before any token was sent, it restarts elsewhere with
//! the same seed, a bounded number of times, because the conversation itself may be the cause. If the replica's
//! process is gone, it restarts even after tokens were sent: the same ones come again, and are dropped.

use std::sync::Arc;

use omni_engine::{SeqId, Stamp};

use super::attempt::{Attempt, Client, Ended, Retry, misfit};
use super::pipeline::{Pipeline, StageError};
use crate::item::{Item, ReplyToken};
use crate::request::{StageRequest, TextRequest};
use crate::stage::{CancelTimer, EdgeReceiver as _, End, JobRefused, Lease, StageProgress, StageSnapshot};
use crate::trace::TraceHandle;

/// Specification of an answer.
#[derive(Debug, Clone)]
pub struct ReplySpec {
    /// The conversation and the sampling.
    pub request: TextRequest,
    /// Time at which its request arrived at the edge.
    pub arrived: Stamp,
    /// Held while the stage works on it.
    pub request_held: Arc<CancelTimer>,
    /// Trace context of the request, if it is traced.
    pub trace: Option<TraceHandle>,
}

/// Output of an answer, as its session receives it.
#[derive(Debug, PartialEq)]
pub enum ReplyOutput {
    /// A token.
    Token(ReplyToken),
    /// The end, after all tokens. [`End::Lost`] if a replica hangs or none takes work: it is no fault of the request.
    End(End),
}

/// An answer in the making. Dropping it cancels it within one step.
#[derive(derive_more::Debug)]
#[debug("Reply {{ in_flight: {:?}, retry: {:?}, .. }}", self.attempt.is_some(), self.retry)]
pub struct Reply {
    pipeline: Arc<Pipeline>,
    /// Index of the stage that answers in the graph.
    stage: usize,
    request: TextRequest,
    client: Client,
    progress: StageProgress,
    /// None while it waits for a replica.
    attempt: Option<Attempt>,
    retry: Retry,
    /// Number of tokens that were given out.
    given: u32,
    /// Number of them that the attempt has not made again yet.
    again: u32,
}

impl Reply {
    pub(super) fn start(pipeline: Arc<Pipeline>, stage: usize, spec: ReplySpec) -> Result<Self, StageError> {
        let mut reply = Self {
            stage,
            request: spec.request,
            client: Client {
                arrived: spec.arrived,
                request: spec.request_held,
                trace: spec.trace,
            },
            progress: StageProgress::default(),
            attempt: None,
            retry: Retry::new(&pipeline, "an answer"),
            given: 0,
            again: 0,
            pipeline,
        };
        match reply.pipeline.lease(stage) {
            Ok(lease) => reply.submit(lease)?,
            Err(unbound) if unbound.may_pass() => {}
            Err(unbound) => return Err(unbound.into()),
        }
        Ok(reply)
    }

    /// Name of the stage that answers.
    pub fn stage(&self) -> &'static str {
        self.pipeline.name(self.stage)
    }

    /// Progress in its stage.
    pub fn progress(&self) -> StageSnapshot {
        self.progress.snapshot()
    }

    /// Sequence by which the stage knows it, if the stage has it.
    pub fn seq(&self) -> Option<SeqId> {
        self.attempt.as_ref().map(|attempt| attempt.seq)
    }

    /// Returns true if the stage gives nothing because it has no room for this answer now.
    pub fn is_idle(&self) -> bool {
        self.attempt
            .as_ref()
            .is_none_or(|attempt| attempt.outputs.is_upstream_idle())
    }

    /// Number of times that this has begun so far.
    pub fn idles(&self) -> u32 {
        self.attempt.as_ref().map_or(0, |attempt| attempt.outputs.idles())
    }

    /// The next token, or the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> ReplyOutput {
        loop {
            let Some(attempt) = &mut self.attempt else {
                match self.wait().await {
                    Ok(()) => continue,
                    Err(end) => return ReplyOutput::End(end),
                }
            };
            let ended = match attempt.next().await {
                Ok(Item::Reply(_)) if self.again > 0 => {
                    self.again -= 1;
                    continue;
                }
                Ok(Item::Reply(token)) => {
                    self.given += 1;
                    self.retry.given_out();
                    return ReplyOutput::Token(token);
                }
                Ok(other) => Ended::from(misfit(self.stage(), &other)),
                Err(ended) => ended,
            };
            match self.retry.after(ended, self.pipeline.clock.now()) {
                Ok(()) => {
                    self.attempt = None;
                    self.again = self.given;
                }
                Err(end) => return ReplyOutput::End(end),
            }
        }
    }

    /// Submits it to a replica, as a new sequence to it. A replica that ends just now counts as one that died.
    fn submit(&mut self, lease: Lease) -> Result<(), StageError> {
        let request = StageRequest::Text(self.request.clone());
        let capacity = self.pipeline.capacity(self.stage);
        match Attempt::new(&self.pipeline, (lease, capacity), request, &self.client) {
            Ok(attempt) => {
                self.progress = attempt.progress.clone();
                self.attempt = Some(attempt);
                Ok(())
            }
            Err(full @ JobRefused::Full { .. }) => Err(StageError::Overloaded(full.to_string())),
            Err(JobRefused::Ended { .. }) => Ok(()),
        }
    }

    /// Waits for a replica, and submits; the error is its end if there is none in time.
    async fn wait(&mut self) -> Result<(), End> {
        let bind = || self.pipeline.lease(self.stage);
        let lease = self.pipeline.bound(self.retry.waits_since(), bind).await?;
        let taken = self.submit(lease);
        taken.map_err(|error| End::Overloaded(error.to_string()))
    }
}

impl Pipeline {
    /// Starts an answer, if the graph has a stage that answers. Never waits: if all its replicas are being restarted,
    /// the answer does.
    ///
    /// # Errors
    /// If the stage does not take it.
    pub fn answer(self: &Arc<Self>, spec: ReplySpec) -> Option<Result<Reply, StageError>> {
        let stage = self.wiring.answers?;
        Some(Reply::start(Arc::clone(self), stage, spec))
    }
}
