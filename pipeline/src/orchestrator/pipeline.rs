//! A running stage graph, and binding an utterance to a replica of each stage that it passes.

use std::sync::Arc;

use futures::future::select_all;
use omni_engine::{GraphError, StageGraph, Stamp};

use super::wiring::Wiring;
use crate::clock::Clock;
use crate::connector::EdgeSink;
use crate::seq_ids::{SeqIds, Tokens};
use crate::settings::Handover;
use crate::stage::{CancelTimer, Changes, End, Lease, NoReplica, OnReleased, StagePool};

/// Reason why a stage gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// It failed under this work.
    #[error("stage {stage} failed: {message}")]
    Failed {
        /// Its name.
        stage: &'static str,
        /// Error message.
        message: String,
    },
    /// No replica of it takes work now.
    #[error("stage {stage} is not available: {message}")]
    Unavailable {
        /// Its name.
        stage: &'static str,
        /// The reason.
        message: String,
    },
    /// It has no room for another sequence.
    #[error("the server is overloaded: {0}")]
    Overloaded(String),
    /// Its model is being built for the first time.
    #[error("the model is being loaded")]
    Loading,
}

impl StageError {
    /// Error of a panic, whose message is left to the panic hook: it may hold data of the caller.
    pub fn panicked(stage: &'static str) -> Self {
        Self::Failed {
            stage,
            message: "it panicked, see the server's log".to_owned(),
        }
    }
}

/// A stage of a pipeline.
#[derive(Debug)]
pub struct PipelineStage {
    /// Its replicas.
    pub pool: StagePool,
    /// Capacity of its output edge per sequence, in the units of that edge: frames, for audio too, or items.
    pub capacity: u32,
}

/// Parts of a pipeline.
#[derive(derive_more::Debug)]
#[debug("PipelineParts {{ graph: {:?}, .. }}", self.graph)]
pub struct PipelineParts {
    /// The stages and what passes between them.
    pub graph: StageGraph,
    /// Each of its stages, in its order.
    pub stages: Vec<PipelineStage>,
    /// Batches of text of one sequence that may wait for the first stage that speaks.
    pub text_batches: u32,
    /// Samples that are decoded from a frame.
    pub samples_per_frame: u32,
    /// Notified when the state of any replica changes; shared by the pools.
    pub changes: Changes,
    /// Treatment of the work of a replica that dies.
    pub handover: Handover,
    /// Receiver of the edges' figures.
    pub edge_sink: Arc<dyn EdgeSink>,
    /// Called when all stages have released the work that a caller gave up.
    pub let_go: OnReleased,
    /// The time.
    pub clock: Clock,
}

/// A running stage graph. The path of a request follows from the graph's edges.
#[derive(derive_more::Debug)]
#[debug("Pipeline {{ stages: {:?}, .. }}", self.stages)]
pub struct Pipeline {
    stages: Vec<PipelineStage>,
    pub(super) wiring: Wiring,
    pub(super) text_batches: u32,
    pub(super) samples_per_frame: usize,
    pub(super) seqs: SeqIds,
    pub(super) tokens: Tokens,
    changes: Changes,
    pub(super) handover: Handover,
    pub(super) edge_sink: Arc<dyn EdgeSink>,
    let_go: OnReleased,
    pub(super) clock: Clock,
}

/// One replica of every stage of speech, bound when an utterance is admitted. Its sequences all go there. Clones
/// share the binding; when the last one is dropped, the replicas have one utterance less in flight.
#[derive(Debug, Clone)]
pub struct Binding(Arc<[Lease]>);

impl Binding {
    /// Returns true if none of its replicas has died since.
    pub fn is_alive(&self) -> bool {
        self.0.iter().all(Lease::is_alive)
    }

    /// Waits until one of its replicas hangs and will give no further output; the first one only counts if it
    /// `speaks` still.
    pub(super) async fn lost(&self, speaks: bool) -> End {
        // A stage that is alone works until its last output is there.
        let working = &self.0[usize::from(!speaks && self.0.len() > 1)..];
        let lost = working.iter().map(|lease| {
            Box::pin(async move {
                let message = lease.lost().await;
                let stage = lease.stage();
                End::Lost { stage, message }
            })
        });
        select_all(lost).await.0
    }

    /// Leases of the stages of speech, first to last; at least one.
    pub(super) fn leases(&self) -> &[Lease] {
        &self.0
    }

    /// Number formats that its replicas compute in.
    pub(super) fn formats(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|lease| Arc::clone(lease.format())).collect()
    }

    pub(super) fn first(&self) -> &Lease {
        &self.0[0]
    }

    pub(super) fn last(&self) -> &Lease {
        &self.0[self.0.len() - 1]
    }
}

/// A stage without a replica that takes work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unbound {
    stage: &'static str,
    why: NoReplica,
}

impl Unbound {
    /// Returns true if waiting may help.
    pub(super) fn may_pass(&self) -> bool {
        self.why.may_pass()
    }
}

impl From<Unbound> for StageError {
    fn from(Unbound { stage, why }: Unbound) -> Self {
        let unavailable = |message| Self::Unavailable { stage, message };
        match why {
            NoReplica::Loading => Self::Loading,
            NoReplica::Restarting(message) => unavailable(format!("it is being restarted after: {message}")),
            NoReplica::Joining => unavailable("a replica of it has joined and is being reached".to_owned()),
            NoReplica::Absent(None) => unavailable("no replica of it has joined".to_owned()),
            NoReplica::Absent(Some(why)) => unavailable(format!("no replica of it can work: {why}")),
            NoReplica::Closed => unavailable("all its replicas are cordoned or removed".to_owned()),
            NoReplica::Failed(message) => Self::Failed { stage, message },
        }
    }
}

impl From<Unbound> for End {
    fn from(unbound: Unbound) -> Self {
        let stage = unbound.stage;
        match StageError::from(unbound) {
            StageError::Failed { stage, message } => Self::Failed { stage, message },
            StageError::Unavailable { stage, message } => Self::Lost { stage, message },
            // The rebuild of a replica that was added is in progress: a retry may succeed.
            loading @ StageError::Loading => Self::Lost {
                stage,
                message: loading.to_string(),
            },
            StageError::Overloaded(message) => Self::Overloaded(message),
        }
    }
}

impl Pipeline {
    /// Creates a pipeline of these parts.
    ///
    /// # Errors
    /// If the graph cannot be run.
    ///
    /// # Panics
    /// If the stages are not those of the graph.
    pub fn new(parts: PipelineParts) -> Result<Arc<Self>, GraphError> {
        let declared = parts.graph.stages.iter().map(|node| node.name);
        let given = parts.stages.iter().map(|stage| stage.pool.stage());
        assert!(
            declared.eq(given),
            "the stages are those of the graph, in its order"
        );
        Ok(Arc::new(Self {
            wiring: Wiring::of(&parts.graph)?,
            stages: parts.stages,
            text_batches: parts.text_batches.max(1),
            samples_per_frame: parts.samples_per_frame.max(1) as usize,
            seqs: SeqIds::default(),
            tokens: Tokens::default(),
            changes: parts.changes,
            handover: parts.handover,
            edge_sink: parts.edge_sink,
            let_go: parts.let_go,
            clock: parts.clock,
        }))
    }

    /// The pools of all stages, in the graph's order.
    pub fn pools(&self) -> impl Iterator<Item = &StagePool> {
        self.stages.iter().map(|stage| &stage.pool)
    }

    /// Pool of a stage: its replicas can be listed, cordoned, removed and added at any time.
    pub fn pool(&self, stage: &str) -> Option<&StagePool> {
        self.pools().find(|pool| pool.stage() == stage)
    }

    /// Notifies when the state of any replica changes.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Names of the stages that speech passes, first to last.
    pub fn speech(&self) -> impl Iterator<Item = &'static str> {
        self.wiring.speech.iter().map(|stage| self.name(*stage))
    }

    /// Name of the stage that answers conversations, if there is one.
    pub fn answers(&self) -> Option<&'static str> {
        self.wiring.answers.map(|stage| self.name(stage))
    }

    /// Name of the stage that encodes the recordings of conversations, if there is one.
    pub fn hears(&self) -> Option<&'static str> {
        self.wiring.hears.map(|stage| self.name(stage))
    }

    /// Creates the cancel timer of a new request.
    pub fn request(&self) -> Arc<CancelTimer> {
        Arc::new(CancelTimer::new(self.clock, Arc::clone(&self.let_go)))
    }

    /// Runs the watchdogs of threads that hang in a step, in every stage, until dropped.
    pub async fn watch(&self) {
        futures::future::join_all(self.pools().map(|pool| pool.watch(self.clock))).await;
    }

    /// Checks that every stage of speech has a replica that takes work.
    ///
    /// # Errors
    /// The reason why a stage has none.
    pub fn check_speech(&self) -> Result<(), StageError> {
        let needed = self.wiring.speech.iter().chain(&self.wiring.speaker);
        Ok(needed.copied().try_for_each(|stage| self.check(stage))?)
    }

    /// Checks that the stage that answers, if there is one, has a replica that takes work.
    ///
    /// # Errors
    /// The reason why it has none.
    pub fn check_answers(&self) -> Result<(), StageError> {
        Ok(self.wiring.answers.map_or(Ok(()), |stage| self.check(stage))?)
    }

    /// Checks that the stage that encodes the recordings of conversations, if there is one, has a replica that takes
    /// work.
    ///
    /// # Errors
    /// The reason why it has none.
    pub fn check_hearing(&self) -> Result<(), StageError> {
        Ok(self.wiring.hears.map_or(Ok(()), |stage| self.check(stage))?)
    }

    /// Asks the stages to stop after the step in progress.
    pub fn stop(&self) {
        for pool in self.pools() {
            pool.stop();
        }
    }

    /// Calls `bind` until there are replicas, for at most the time that a hand-over may take from `since` on.
    pub(super) async fn bound<T>(
        &self,
        since: Stamp,
        bind: impl Fn() -> Result<T, Unbound>,
    ) -> Result<T, Unbound> {
        let mut changes = self.changes.follow();
        loop {
            let unbound = match bind() {
                Ok(bound) => return Ok(bound),
                Err(unbound) => unbound,
            };
            let left = self.handover.wait.saturating_sub(self.clock.since(since));
            if !unbound.may_pass() || left.is_zero() {
                return Err(unbound);
            }
            // Both results lead to another attempt.
            let _ = tokio::time::timeout(left, changes.changed()).await;
        }
    }

    /// Waits until one of the replicas of `binding` is known to have died.
    pub(super) async fn died(&self, binding: &Binding) {
        let mut changes = self.changes.follow();
        while binding.is_alive() && changes.changed().await.is_ok() {}
    }

    /// Binds a replica of every stage that speech passes.
    pub(super) fn bind(&self) -> Result<Binding, Unbound> {
        let leases = self.wiring.speech.iter().map(|stage| self.lease(*stage));
        Ok(Binding(leases.collect::<Result<_, _>>()?))
    }

    /// Binds a replica of every stage of speech, each of the format at its index.
    pub(super) fn bind_like(&self, formats: &[Arc<str>]) -> Result<Binding, Unbound> {
        let leases = self.wiring.speech.iter().zip(formats).map(|(stage, format)| {
            let pool = &self.stages[*stage].pool;
            let stage = pool.stage();
            pool.bind_like(format).map_err(|why| Unbound { stage, why })
        });
        Ok(Binding(leases.collect::<Result<_, _>>()?))
    }

    /// Returns true if a sequence goes on behind its frames when a process is lost: one of its two stages is in
    /// another process. On a path of more stages the frames of one are not those of the next, and a stage that computes
    /// a whole text at once computes it again: then the sequence starts again with its first frame, and what was heard
    /// of it is dropped.
    pub(super) fn keeps_frames(&self) -> bool {
        let apart = |stage: &usize| self.stages[*stage].pool.is_apart();
        self.wiring.continues && self.wiring.speech.iter().any(apart)
    }

    /// Leases a replica of the stage at that index of the graph.
    pub(super) fn lease(&self, stage: usize) -> Result<Lease, Unbound> {
        let pool = &self.stages[stage].pool;
        let stage = pool.stage();
        pool.bind().map_err(|why| Unbound { stage, why })
    }

    /// Checks that the stage has a replica that takes work.
    fn check(&self, stage: usize) -> Result<(), Unbound> {
        let pool = &self.stages[stage].pool;
        let stage = pool.stage();
        pool.check().map_err(|why| Unbound { stage, why })
    }

    pub(super) fn name(&self, stage: usize) -> &'static str {
        self.stages[stage].pool.stage()
    }

    pub(super) fn capacity(&self, stage: usize) -> u32 {
        self.stages[stage].capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_keeps_a_stage_that_is_elsewhere_from_work_its_error_names_it() {
        let whys = [
            NoReplica::Joining,
            NoReplica::Absent(None),
            NoReplica::Absent(Some("no weights".to_owned())),
            NoReplica::Restarting("it was killed".to_owned()),
        ];
        for why in whys {
            let error = StageError::from(Unbound {
                stage: "talker",
                why: why.clone(),
            });
            assert!(
                matches!(&error, StageError::Unavailable { stage: "talker", .. })
                    && error.to_string().contains("talker"),
                "{why:?}: {error}"
            );
        }
    }
}
