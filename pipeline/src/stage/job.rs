//! One sequence for a stage: its request and its edges.

use std::sync::Arc;

use omni_engine::SeqId;
use tokio::sync::oneshot;

use super::flow::{EdgeReceiver, EdgeSender};
use super::notifier::CancelFlag;
use super::progress::StageProgress;
use crate::item::Item;
use crate::request::StageRequest;

/// Identifies the items of a sequence between two stages in processes of their own. All tokens are distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkToken(pub u128);

/// Next stage on the path, in a process of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStage {
    /// Its name.
    pub stage: String,
    /// Address of the replica, in the form that [`Dial`](crate::connector::Dial) takes.
    pub address: Arc<[u8]>,
    /// Token that its job [expects](StageJob::expects).
    pub token: LinkToken,
}

/// Job of a stage: one sequence. The same in every stage and in every process.
#[derive(derive_more::Debug)]
#[debug("StageJob {{ seq: {:?}, .. }}", self.seq)]
pub struct StageJob {
    /// Sequence id, the same in every stage.
    pub seq: SeqId,
    /// Request to the stage.
    pub request: StageRequest,
    /// Items of the stage before it, if the request needs any. The sequence waits for them, and ends some time after
    /// their end.
    pub inputs: Option<Box<dyn EdgeReceiver>>,
    /// Receiver of its outputs.
    pub outputs: Box<dyn EdgeSender>,
    /// Next stage, to which outputs go without passing this process, if there is a link. The edge then gets only
    /// their end.
    pub next: Option<NextStage>,
    /// Token under which its inputs may come without passing this process.
    pub expects: Option<LinkToken>,
    /// Set to drop the job.
    pub cancel: CancelFlag,
    /// Record of its progress.
    pub progress: StageProgress,
    /// Resolves (by being sent or dropped) when the stage is done with it; its last outputs may still wait for their
    /// reader.
    pub finished: Option<oneshot::Sender<()>>,
}

impl StageJob {
    /// Creates the job of sequence `seq`, whose outputs go to `outputs`.
    pub fn new(seq: SeqId, request: StageRequest, outputs: impl EdgeSender<Item> + 'static) -> Self {
        Self {
            seq,
            request,
            inputs: None,
            outputs: Box::new(outputs),
            next: None,
            expects: None,
            cancel: CancelFlag::default(),
            progress: StageProgress::default(),
            finished: None,
        }
    }

    /// Sets its inputs.
    #[must_use]
    pub fn reading(mut self, inputs: impl EdgeReceiver<Item> + 'static) -> Self {
        self.inputs = Some(Box::new(inputs));
        self
    }
}
