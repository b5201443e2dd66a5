//! What a sequence can go on from elsewhere: the codec frames that were made of it, kept while they pass from one stage to the next.

use std::sync::{Arc, Mutex, PoisonError};

use omni_engine::{CodecFrame, Stamp};

use crate::connector::EdgeReader;
use crate::item::Item;
use crate::stage::{EdgeReceiver, Recv, TransferStamps};

/// Frames of a sequence from its first one on. Copies are the same ones. There are as many as the sequence may have, at most.
#[derive(Debug, Clone)]
pub(super) struct KeptFrames(Arc<Mutex<Vec<CodecFrame>>>);

impl KeptFrames {
    /// Of a sequence that goes on behind `prior`.
    pub(super) fn behind(prior: &[CodecFrame]) -> Self {
        Self(Arc::new(Mutex::new(prior.to_vec())))
    }

    /// The first `most` of them, or all.
    pub(super) fn first(&self, most: usize) -> Arc<[CodecFrame]> {
        let frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frames[..most.min(frames.len())].into()
    }

    /// An edge whose frames are kept when they are taken.
    pub(super) fn of(&self, edge: EdgeReader) -> KeepingReader {
        KeepingReader {
            edge,
            kept: self.clone(),
        }
    }

    fn keep(&self, taken: &Recv<Item>) {
        if let Recv::Item(Item::Frames(frames)) = taken {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(frames);
        }
    }
}

/// See [`KeptFrames::of`].
pub(super) struct KeepingReader {
    edge: EdgeReader,
    kept: KeptFrames,
}

impl EdgeReceiver for KeepingReader {
    fn take(&mut self) -> Recv<Item> {
        let taken = self.edge.take();
        self.kept.keep(&taken);
        taken
    }

    fn take_timed(&mut self) -> (Recv<Item>, Option<Stamp>) {
        let (taken, put) = self.edge.take_timed();
        self.kept.keep(&taken);
        (taken, put)
    }

    fn transferred(&mut self, passage: &TransferStamps) {
        self.edge.transferred(passage);
    }

    fn is_upstream_idle(&self) -> bool {
        self.edge.is_upstream_idle()
    }
}
