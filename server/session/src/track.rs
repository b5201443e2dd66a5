//! Further times of a request for its trace, besides its record. Kept only for requests that are traced.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_telemetry::TraceContext;

use omni_pipeline::request::Sampling;
use omni_pipeline::stage::StageSnapshot;

/// Sequences that are kept in full; of later ones only their ends.
const KEPT: usize = 64;

/// Times of a traced request.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Trace context.
    pub context: Arc<TraceContext>,
    /// Time of its arrival.
    pub began: Stamp,
    /// Time of its end.
    pub ended: Stamp,
    /// Time at which it asked for a permit.
    pub asked: Option<Stamp>,
    /// Time at which it got the permit, if its prompt was built after that.
    pub admitted: Option<Stamp>,
    /// Time at which the first sequence was submitted to the first stage.
    pub submitted: Option<Stamp>,
    /// Sampling parameters of its first stage.
    pub sampling: Sampling,
    /// Most outputs permitted there.
    pub max_outputs: Option<u32>,
    /// Stage that answers, if it is an answer, and the progress there.
    pub answer: Option<(&'static str, Option<SeqId>, StageSnapshot)>,
    /// Sequences in the stages of speech.
    pub sequences: Sequences,
}

/// A sequence that was spoken.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceRecord {
    /// Sequence by which the stages knew it in the end, if they had it then.
    pub seq: Option<SeqId>,
    /// Time of its submission.
    pub submitted: Stamp,
    /// Time that it waited for its caller's text.
    pub text_wait: Duration,
    /// Stages that it passed, first to last, with the progress in each.
    pub stages: Vec<(&'static str, StageSnapshot)>,
}

impl SequenceRecord {
    /// Progress in the stage that reads text.
    pub fn first(&self) -> StageSnapshot {
        self.stages
            .first()
            .map(|(_, snapshot)| *snapshot)
            .unwrap_or_default()
    }
}

/// Sequences of one request, a bounded number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sequences {
    /// In the order of their ends.
    pub kept: Vec<SequenceRecord>,
    /// Number of further ones.
    pub left_out: u32,
    /// Time of the first stage's last output of all.
    pub last_output: Option<Stamp>,
}

impl Sequences {
    pub(super) fn add(&mut self, sequence: SequenceRecord) {
        self.last_output = self.last_output.max(sequence.first().last_output);
        if self.kept.len() < KEPT {
            self.kept.push(sequence);
        } else {
            self.left_out += 1;
        }
    }
}
