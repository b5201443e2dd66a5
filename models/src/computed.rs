//! Results of a step of the talker or of the thinker that the next one needs: hidden states and logits.

use std::collections::HashMap;

use omni_backend::{Activations, Norm, Products, Result, RowIndexing};
use omni_engine::{ModelError, SeqId, SeqStep};

/// Results of the last step, one row per sequence.
pub(crate) struct Computed<B: RowIndexing> {
    row: HashMap<SeqId, u32>,
    /// `[sequences, hidden]`, after the final norm.
    pub(crate) hidden: B::Rows,
    /// `[sequences, vocab]`.
    pub(crate) logits: B::Rows,
}

impl<B: RowIndexing> Computed<B> {
    /// The hidden states and logits of the sequences of `steps`, in their order.
    pub(crate) fn of(steps: &[SeqStep<'_>], (hidden, logits): (B::Rows, B::Rows)) -> Self {
        Self {
            row: steps.iter().map(|step| step.seq).zip(0..).collect(),
            hidden,
            logits,
        }
    }

    /// The row of a sequence.
    pub(crate) fn row(&self, seq: SeqId) -> std::result::Result<u32, ModelError> {
        let missing = || ModelError::Compute(format!("sequence {} was not computed in the last step", seq.0));
        self.row.get(&seq).copied().ok_or_else(missing)
    }

    /// The hidden state of a sequence, for inspection.
    pub(crate) fn hidden_of(&self, b: &B, seq: SeqId) -> Option<Vec<f32>> {
        let row = b.gather(&self.hidden, &[*self.row.get(&seq)?]);
        b.host(&row.ok()?).ok()
    }

    /// The logits of a sequence, for inspection.
    pub(crate) fn logits_of(&self, b: &B, seq: SeqId) -> Option<Vec<f32>> {
        let row = b.gather(&self.logits, &[*self.row.get(&seq)?]);
        b.host(&row.ok()?).ok()
    }
}

/// Memory for hidden states and for logits.
pub(crate) struct Kept<B: Activations> {
    hidden: B::Kept,
    logits: B::Kept,
}

impl<B: Activations> Default for Kept<B> {
    fn default() -> Self {
        Self {
            hidden: B::Kept::default(),
            logits: B::Kept::default(),
        }
    }
}

impl<B: Products> Kept<B> {
    /// The normalised rows and the head's product with them, both where the next step finds them.
    pub(crate) fn norm_linear(
        &mut self,
        b: &B,
        norm: Norm<'_, B>,
        head: &B::Matrix,
        x: &B::Rows,
    ) -> Result<(B::Rows, B::Rows)> {
        b.keep_norm_linear(norm, head, x, (&mut self.hidden, &mut self.logits))
    }
}

/// An open sequence.
pub(crate) fn find<S>(sequences: &HashMap<SeqId, S>, seq: SeqId) -> std::result::Result<&S, ModelError> {
    let missing = || ModelError::Compute(format!("sequence {} is not open", seq.0));
    sequences.get(&seq).ok_or_else(missing)
}

/// Refuses to open a sequence twice.
pub(crate) fn check_new<S>(sequences: &HashMap<SeqId, S>, seq: SeqId) -> std::result::Result<(), ModelError> {
    if sequences.contains_key(&seq) {
        Err(ModelError::Rejected(format!(
            "sequence {} is already open",
            seq.0
        )))
    } else {
        Ok(())
    }
}

/// Error of sampling before a step, or twice after one.
pub(crate) fn nothing_computed() -> ModelError {
    ModelError::Compute("nothing has been computed since the last step".into())
}
