//! A recording goes through an encoder before the request that it is part of.
//!
//! The embedding stays with the recording, so that every recording is encoded once. When the replica dies meanwhile,
//! another encodes it; a bounded number of times, because it may be the recording that kills.

use std::sync::Arc;

use omni_engine::Stamp;

use super::attempt::{Attempt, Client, Retry, lost, misfit};
use super::pipeline::Pipeline;
use crate::item::Item;
use crate::request::Clip;
use crate::stage::{CancelTimer, End, JobRefused, StageSnapshot};

/// A recording on its way through an encoder. Dropping it cancels the work.
pub(super) struct Encoding {
    pipeline: Arc<Pipeline>,
    /// The encoder's place in the graph.
    stage: usize,
    recording: Clip,
    client: Client,
    attempt: Option<Attempt>,
    retry: Retry,
}

impl Encoding {
    pub(super) fn new(pipeline: &Arc<Pipeline>, stage: usize, recording: Clip, client: Client) -> Self {
        Self {
            retry: Retry::new(pipeline, "a recording"),
            pipeline: Arc::clone(pipeline),
            stage,
            recording,
            client,
            attempt: None,
        }
    }

    /// Waits until the recording has its embedding; returns the progress in the stage, empty if it had one. Dropping
    /// the future loses nothing.
    pub(super) async fn done(&mut self) -> Result<StageSnapshot, End> {
        let name = self.pipeline.name(self.stage);
        while self.recording.embedding().is_none() {
            let ended = match &mut self.attempt {
                None => match self.submit().await? {
                    Ok(attempt) => {
                        self.attempt = Some(attempt);
                        continue;
                    }
                    Err(refused) => lost(name, refused.to_string()).into(),
                },
                Some(attempt) => match attempt.next().await {
                    Ok(Item::Embedding(rows)) => {
                        self.recording.keep(rows);
                        return Ok(attempt.progress.snapshot());
                    }
                    Ok(other) => misfit(name, &other).into(),
                    Err(ended) => ended,
                },
            };
            self.attempt = None;
            self.retry.after(ended, self.pipeline.clock.now())?;
        }
        Ok(StageSnapshot::default())
    }

    /// Submits it to a replica, which may just have ended.
    async fn submit(&self) -> Result<Result<Attempt, JobRefused>, End> {
        let bind = || self.pipeline.lease(self.stage);
        let lease = self.pipeline.bound(self.retry.waits_since(), bind).await?;
        match Attempt::new(&self.pipeline, (lease, 1), self.recording.request(), &self.client) {
            Err(full @ JobRefused::Full { .. }) => Err(End::Overloaded(full.to_string())),
            submitted => Ok(submitted),
        }
    }
}

impl Pipeline {
    /// Encodes a recording of a conversation, if it is not encoded yet, for a request that arrived at the edge at
    /// `arrived` and is `held` by the stages that work on it; none if the graph has no stage for that. Dropping the
    /// future cancels the work.
    ///
    /// # Errors
    /// The end of the work without an embedding.
    pub async fn encode(
        self: &Arc<Self>,
        recording: &Clip,
        arrived: Stamp,
        held: &Arc<CancelTimer>,
    ) -> Option<Result<StageSnapshot, End>> {
        let client = Client {
            arrived,
            request: Arc::clone(held),
            trace: None,
        };
        let mut encoding = Encoding::new(self, self.wiring.hears?, recording.clone(), client);
        Some(encoding.done().await)
    }
}
