//! Hearing: a recording goes through the encoder before the conversation that it is part of becomes a prompt.
//!
//! What is made of it is kept with it, so that every recording is heard once. When the replica dies meanwhile, another hears
//! it; a bounded number of times, because it may be the recording that kills.

use std::sync::Arc;

use omni_engine::Stamp;

use super::flight::{CancelGuard, meter};
use super::front::Orchestrator;
use super::pipeline::{Pipeline, unbound};
use crate::connector::{Hop, Place, metered_edge};
use crate::error::ServeError;
use crate::stage::{
    AudioRows, CancelFlag, Clip, EncoderJob, End, JobRefused, Lease, LetGo, StageProgress, StageSnapshot,
    Taken,
};

const STAGE: &str = "encoder";

impl Orchestrator {
    /// Has `clip` encoded, if it is not yet, for a request that arrived at the edge at `arrived` and is `held` by whoever works on
    /// it. Dropping the future gives the work up.
    ///
    /// # Errors
    /// [`ServeError::CannotHear`]; [`ServeError::Overloaded`] if too many wait; [`ServeError::InvalidField`] if the model refuses the
    /// recording; [`ServeError::StageUnavailable`] or [`ServeError::StageFailed`] otherwise.
    pub async fn hear(
        &self,
        clip: &Clip,
        arrived: Stamp,
        held: &Arc<LetGo>,
    ) -> Result<StageSnapshot, ServeError> {
        if clip.rows().is_some() {
            return Ok(StageSnapshot::default());
        }
        let encoder = self.chat()?.encoder.as_ref();
        let encoder = encoder.ok_or(ServeError::CannotHear { field: "message" })?;
        let pipeline = self.model()?;
        let mut restarts = pipeline.handover.attempts;
        loop {
            let waits_since = pipeline.clock.now();
            let bound = pipeline.bound(waits_since, || unbound(STAGE, encoder.bind()));
            let lease = bound.await.map_err(ServeError::from)?;
            let progress = StageProgress::new(Some(lease.id()));
            progress.arrive(arrived);
            progress.hold(Arc::clone(held));
            let (end, hangs) = match self.attempt(pipeline, &lease, clip, &progress).await? {
                Heard::Rows(AudioRows(rows)) => {
                    clip.keep(rows);
                    return Ok(progress.snapshot());
                }
                Heard::Not(end) => (end, false),
                Heard::Hung(end) => (end, true),
            };
            match end {
                End::Lost { stage, message } if restarts > 0 => {
                    tracing::warn!(stage, message, "a recording is heard again elsewhere");
                    restarts -= 1;
                }
                end => return Err(error(end, hangs)),
            }
        }
    }

    async fn attempt(
        &self,
        pipeline: &Pipeline,
        lease: &Lease<EncoderJob>,
        clip: &Clip,
        progress: &StageProgress,
    ) -> Result<Heard, ServeError> {
        let (bell, seq, cancel) = (lease.wake().clone(), self.next_seq(), CancelFlag::default());
        let _guard = CancelGuard {
            flag: cancel.clone(),
            bells: vec![bell.clone()],
        };
        let [from, to] =
            [(STAGE, Some(lease.id())), ("session", None)].map(|(stage, replica)| Place { stage, replica });
        let (rows_in, mut rows) =
            metered_edge(1, Some(bell), None, meter(pipeline, Hop { seq, from, to }, None));
        let job = EncoderJob {
            seq,
            clip: clip.clone(),
            rows: Box::new(rows_in),
            cancel,
            progress: progress.clone(),
        };
        match lease.submit(job) {
            Ok(()) => {}
            Err(full @ JobRefused::Full { .. }) => return Err(ServeError::Overloaded(full.to_string())),
            Err(ended @ JobRefused::Ended { .. }) => return Ok(Heard::Not(gone(ended.to_string()))),
        }
        tokio::select! {
            biased;
            taken = rows.next() => Ok(match taken {
                Taken::Item(rows) => Heard::Rows(rows),
                Taken::End(end) => Heard::Not(end),
                Taken::Gone | Taken::Empty => Heard::Not(gone("the stage went away".to_owned())),
            }),
            message = lease.lost() => Ok(Heard::Hung(gone(message))),
        }
    }
}

/// What came of an attempt.
enum Heard {
    Rows(AudioRows),
    Not(End),
    /// The replica hangs, and nothing is to blame.
    Hung(End),
}

fn gone(message: String) -> End {
    End::Lost {
        stage: STAGE,
        message,
    }
}

fn error(end: End, hangs: bool) -> ServeError {
    match end {
        End::Overloaded(message) => ServeError::Overloaded(message),
        End::Rejected(problem) => ServeError::InvalidField {
            field: "message",
            problem,
        },
        End::Lost { stage, message } if hangs => ServeError::StageUnavailable { stage, message },
        End::Failed { stage, message } | End::Lost { stage, message } => {
            ServeError::StageFailed { stage, message }
        }
        End::Stop | End::Length | End::Repetition => ServeError::StageFailed {
            stage: STAGE,
            message: "it ended without an answer".to_owned(),
        },
    }
}
