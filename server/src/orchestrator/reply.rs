//! One answer, as its session sees it.
//!
//! It is in flight, or it waits for a replica. When its replica dies before any token was given out, it starts again
//! elsewhere, with the same seed; a bounded number of times, because it may be the conversation that kills.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_telemetry::TraceContext;

use super::flight::{CancelGuard, meter};
use super::pipeline::{Pipeline, Unbound, unbound};
use crate::connector::{EdgeReader, Hop, Place, metered_edge};
use crate::error::ServeError;
use crate::id::SeqIds;
use crate::stage::{
    CancelFlag, ChatInfo, DetokenizerMaker, EncoderJob, End, Inlet as _, JobRefused, Lease, LetGo,
    PromptBuilder, ReplyToken, StagePool, StageProgress, StageSnapshot, Taken, ThinkerJob, ThinkerRequest,
};

const STAGE: &str = "thinker";

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
        unbound(STAGE, self.thinker.check())
    }

    /// Whether whoever speaks to it is heard, if it hears at all.
    pub(super) fn check_hearing(&self) -> Result<(), Unbound> {
        match &self.encoder {
            Some(encoder) => unbound("encoder", encoder.check()),
            None => Ok(()),
        }
    }

    fn bind(&self) -> Result<Lease<ThinkerJob>, Unbound> {
        unbound(STAGE, self.thinker.bind())
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
    pub request_held: Arc<LetGo>,
    /// Where its spans belong, if the request is traced.
    pub trace: Option<Arc<TraceContext>>,
}

/// What happened to an answer.
#[derive(Debug, PartialEq)]
pub enum ReplyEvent {
    /// Its next token.
    Token(ReplyToken),
    /// The end, after all tokens. [`End::Lost`] if its replica hangs or none takes work: it is no fault of the conversation.
    End(End),
}

/// One attempt at an answer. Dropping it cancels it.
struct Flight {
    seq: SeqId,
    tokens: EdgeReader<ReplyToken>,
    _cancel: CancelGuard,
    /// Counts as work in flight.
    lease: Lease<ThinkerJob>,
}

/// An answer in the making. Dropping it cancels it within one step.
pub struct Reply {
    pipeline: Arc<Pipeline>,
    seqs: Arc<SeqIds>,
    spec: ReplySpec,
    progress: StageProgress,
    /// None while it waits for a replica.
    flight: Option<Flight>,
    /// Since when it waits.
    waits_since: Stamp,
    /// How often it may still start again; 0 once a token was given out.
    restarts: u32,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("in_flight", &self.flight.is_some())
            .field("restarts", &self.restarts)
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
            flight: None,
            waits_since: pipeline.clock.now(),
            restarts: pipeline.handover.attempts,
            pipeline,
        };
        match reply.bind() {
            Ok(lease) => reply.take_off(lease)?,
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
        self.flight.as_ref().map(|flight| flight.seq)
    }

    /// Whether the thinker has nothing to give because it has no room for this answer now.
    #[must_use]
    pub fn is_excused(&self) -> bool {
        self.flight
            .as_ref()
            .is_none_or(|flight| flight.tokens.upstream_waits())
    }

    /// How often that has begun so far.
    #[must_use]
    pub fn excuses(&self) -> u32 {
        self.flight.as_ref().map_or(0, |flight| flight.tokens.excuses())
    }

    /// The next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> ReplyEvent {
        loop {
            let Some(flight) = &mut self.flight else {
                match self.wait().await {
                    Ok(()) => continue,
                    Err(end) => return ReplyEvent::End(end),
                }
            };
            let (event, hangs) = tokio::select! {
                biased;
                taken = flight.tokens.next() => (landed(taken), false),
                message = flight.lease.lost() => {
                    (ReplyEvent::End(End::Lost { stage: STAGE, message }), true)
                }
            };
            match event {
                ReplyEvent::Token(token) => {
                    self.restarts = 0;
                    return ReplyEvent::Token(token);
                }
                ReplyEvent::End(End::Lost { stage, message }) if self.restarts > 0 => {
                    tracing::warn!(stage, message, "an answer starts again elsewhere");
                    self.restarts -= 1;
                    self.flight = None;
                    self.waits_since = self.pipeline.clock.now();
                }
                ReplyEvent::End(End::Lost { stage, message }) if !hangs => {
                    return ReplyEvent::End(End::Failed { stage, message });
                }
                end => return end,
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
    fn take_off(&mut self, lease: Lease<ThinkerJob>) -> Result<(), ServeError> {
        let Ok(chat) = &self.pipeline.chat else {
            return Ok(());
        };
        let (bell, seq, cancel) = (lease.wake().clone(), self.seqs.next(), CancelFlag::default());
        let guard = CancelGuard {
            flag: cancel.clone(),
            bells: vec![bell.clone()],
        };
        let [from, to] =
            [(STAGE, Some(lease.id())), ("session", None)].map(|(stage, replica)| Place { stage, replica });
        let meter = meter(&self.pipeline, Hop { seq, from, to }, self.spec.trace.clone());
        let (tokens_in, tokens) = metered_edge(chat.tokens, Some(bell), None, meter);
        self.progress = StageProgress::new(Some(lease.id()));
        self.progress.arrive(self.spec.arrived);
        self.progress.hold(Arc::clone(&self.spec.request_held));
        let job = ThinkerJob {
            seq,
            request: self.spec.request.clone(),
            max_tokens: self.spec.max_tokens,
            tokens: Box::new(tokens_in),
            cancel,
            progress: self.progress.clone(),
        };
        match lease.submit(job) {
            Ok(()) => {
                self.flight = Some(Flight {
                    seq,
                    tokens,
                    _cancel: guard,
                    lease,
                });
                Ok(())
            }
            Err(full @ JobRefused::Full { .. }) => Err(ServeError::Overloaded(full.to_string())),
            Err(JobRefused::Ended { .. }) => Ok(()),
        }
    }

    /// Waits until there is a replica, and takes off; the error is how it ends if there is none in time.
    async fn wait(&mut self) -> Result<(), End> {
        let lease = self.pipeline.bound(self.waits_since, || self.bind()).await?;
        let taken = self.take_off(lease);
        taken.map_err(|error| End::Overloaded(error.to_string()))
    }
}

fn landed(taken: Taken<ReplyToken>) -> ReplyEvent {
    match taken {
        Taken::Item(token) => ReplyEvent::Token(token),
        Taken::End(end) => ReplyEvent::End(end),
        Taken::Gone | Taken::Empty => ReplyEvent::End(End::Lost {
            stage: STAGE,
            message: "the stage went away".to_owned(),
        }),
    }
}
