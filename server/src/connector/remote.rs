//! What of a job crosses to another process, and what stays.

use std::sync::Arc;

use omni_engine::{CodecFrame, SeqId, Stamp};
use tokio::sync::oneshot;

use super::wire::{Chunk, Nothing, StageRequest};
use crate::stage::{
    AudioPiece, CancelFlag, Code2WavJob, EdgeReceiver, EdgeSender, Recv, ReplyToken, StageProgress,
    TalkerJob, TalkerRequest, ThinkerJob, ThinkerRequest, TransferStamps,
};

/// A job that can be done in another process: it is split here, and an equal one is joined there, with the ends of edges that
/// lead back.
pub trait RemoteJob: Send + Sized + 'static {
    /// Whether somebody waits for the stage to be done with the job before its last output is taken.
    const REPORTS_DONE: bool;
    /// What is asked.
    type Order: StageRequest;
    /// What the stage takes.
    type In: Chunk;
    /// What the stage makes.
    type Out: Chunk;

    /// What is asked, and what the job is connected to.
    fn split(self) -> (SeqId, Self::Order, EdgePair<Self::In, Self::Out>);

    /// The opposite of [`split`](Self::split).
    fn join(seq: SeqId, order: Self::Order, ends: EdgePair<Self::In, Self::Out>) -> Self;
}

/// What a job is connected to.
pub struct EdgePair<I, O> {
    /// Where its inputs come from.
    pub receiver: Box<dyn EdgeReceiver<I>>,
    /// Where its outputs go.
    pub sender: Box<dyn EdgeSender<O>>,
    /// Drop it.
    pub cancel: CancelFlag,
    /// Where its progress is kept.
    pub progress: StageProgress,
    /// Resolves when the stage has done with it.
    pub finished: oneshot::Sender<()>,
}

impl<I, O> std::fmt::Debug for EdgePair<I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EdgePair").finish_non_exhaustive()
    }
}

impl RemoteJob for TalkerJob {
    const REPORTS_DONE: bool = true;
    type Order = (TalkerRequest, u32);
    type In = Vec<u32>;
    type Out = CodecFrame;

    fn split(self) -> (SeqId, Self::Order, EdgePair<Self::In, Self::Out>) {
        let ends = EdgePair {
            receiver: self.tokens,
            sender: self.frames,
            cancel: self.cancel,
            progress: self.progress,
            finished: self.finished,
        };
        (self.seq, (self.request, self.max_frames), ends)
    }

    fn join(seq: SeqId, (request, max_frames): Self::Order, ends: EdgePair<Self::In, Self::Out>) -> Self {
        Self {
            seq,
            request,
            tokens: ends.receiver,
            max_frames,
            frames: ends.sender,
            cancel: ends.cancel,
            progress: ends.progress,
            finished: ends.finished,
        }
    }
}

impl RemoteJob for Code2WavJob {
    const REPORTS_DONE: bool = false;
    type Order = Arc<[CodecFrame]>;
    type In = CodecFrame;
    type Out = AudioPiece;

    fn split(self) -> (SeqId, Self::Order, EdgePair<Self::In, Self::Out>) {
        let ends = EdgePair {
            receiver: self.frames,
            sender: self.audio,
            cancel: self.cancel,
            progress: self.progress,
            // Its last output is its end: it is not asked for.
            finished: oneshot::channel().0,
        };
        (self.seq, self.lead, ends)
    }

    fn join(seq: SeqId, lead: Self::Order, ends: EdgePair<Self::In, Self::Out>) -> Self {
        Self {
            seq,
            lead,
            frames: ends.receiver,
            audio: ends.sender,
            cancel: ends.cancel,
            progress: ends.progress,
        }
    }
}

impl RemoteJob for ThinkerJob {
    const REPORTS_DONE: bool = false;
    type Order = (ThinkerRequest, u32);
    type In = Nothing;
    type Out = ReplyToken;

    fn split(self) -> (SeqId, Self::Order, EdgePair<Self::In, Self::Out>) {
        let ends = EdgePair {
            receiver: Box::new(NoInputs),
            sender: self.tokens,
            cancel: self.cancel,
            progress: self.progress,
            // Its last output is its end: it is not asked for.
            finished: oneshot::channel().0,
        };
        (self.seq, (self.request, self.max_tokens), ends)
    }

    fn join(seq: SeqId, (request, max_tokens): Self::Order, ends: EdgePair<Self::In, Self::Out>) -> Self {
        Self {
            seq,
            request,
            max_tokens,
            tokens: ends.sender,
            cancel: ends.cancel,
            progress: ends.progress,
        }
    }
}

/// Where inputs come from that there are none of.
struct NoInputs;

impl EdgeReceiver<Nothing> for NoInputs {
    fn take(&mut self) -> Recv<Nothing> {
        Recv::Empty
    }

    fn take_timed(&mut self) -> (Recv<Nothing>, Option<Stamp>) {
        (Recv::Empty, None)
    }

    fn transferred(&mut self, _passage: &TransferStamps) {}

    fn is_upstream_idle(&self) -> bool {
        false
    }
}
