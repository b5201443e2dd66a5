//! Hearing: a recording goes through the encoder before the conversation that it is part of becomes a prompt.
//!
//! What is made of it is kept with it, so that every recording is heard once. When the replica dies meanwhile, another hears
//! it; a bounded number of times, because it may be the recording that kills.

use std::sync::Arc;

use omni_engine::Stamp;

use super::attempt::{Attempt, Ends, Retry, lost};
use super::front::Orchestrator;
use super::pipeline::bind;
use crate::error::ServeError;
use crate::stage::{
    AudioInputError, AudioRows, CancelTimer, Clip, EncoderJob, End, JobRefused, StageError, StageSnapshot,
};

impl Orchestrator {
    /// Has `clip` encoded, if it is not yet, for a request that arrived at the edge at `arrived` and is `held` by the stages that work on
    /// it. Dropping the future gives the work up.
    ///
    /// # Errors
    /// [`AudioInputError::NotSupported`]; [`StageError::Overloaded`] if too many wait; an invalid field if the model refuses the
    /// recording; another [`StageError`] otherwise.
    pub async fn hear(
        &self,
        clip: &Clip,
        arrived: Stamp,
        held: &Arc<CancelTimer>,
    ) -> Result<StageSnapshot, ServeError> {
        if clip.rows().is_some() {
            return Ok(StageSnapshot::default());
        }
        let encoder = self.chat()?.encoder.as_ref();
        let encoder = encoder.ok_or(AudioInputError::NotSupported { field: "message" })?;
        let pipeline = self.model()?;
        let mut retry = Retry::new(pipeline, "a recording");
        loop {
            let bound = pipeline.bound(retry.waits_since(), || bind(encoder));
            let lease = bound.await.map_err(ServeError::from)?;
            let ends = Ends {
                seq: self.next_seq(),
                capacity: 1,
                arrived,
                request: held,
                trace: None,
            };
            let submitted = Attempt::new(pipeline, lease, ends, |parts| EncoderJob {
                seq: parts.seq,
                clip: clip.clone(),
                rows: parts.outputs,
                cancel: parts.cancel,
                progress: parts.progress,
            });
            let ended = match submitted {
                Ok((mut attempt, progress)) => match attempt.next().await {
                    Ok(AudioRows(rows)) => {
                        clip.keep(rows);
                        return Ok(progress.snapshot());
                    }
                    Err(ended) => ended,
                },
                Err(full @ JobRefused::Full { .. }) => {
                    return Err(StageError::Overloaded(full.to_string()).into());
                }
                Err(ended @ JobRefused::Ended { .. }) => lost(encoder.stage(), ended.to_string()).into(),
            };
            retry
                .after(ended, pipeline.clock.now())
                .map_err(|end| error(encoder.stage(), end))?;
        }
    }
}

fn error(stage: &'static str, end: End) -> ServeError {
    end.error("message").unwrap_or_else(|| {
        let message = "it ended without an answer".to_owned();
        StageError::Failed { stage, message }.into()
    })
}
