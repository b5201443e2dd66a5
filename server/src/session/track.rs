//! What a trace shows of a request besides its record: when each part of it was where. Kept for requests that are traced, only.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{SeqId, Stamp};
use omni_telemetry::TraceContext;

use omni_pipeline::request::Sampling;
use omni_pipeline::stage::StageSnapshot;

/// Sequences of which everything is kept; of later ones only when they ended.
const KEPT: usize = 64;

/// The course of a request that is traced.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Where its spans belong.
    pub context: Arc<TraceContext>,
    /// When it came.
    pub began: Stamp,
    /// When it was over.
    pub ended: Stamp,
    /// When it asked for a place among those that are worked on.
    pub asked: Option<Stamp>,
    /// When it had that, if its prompt was built after it.
    pub admitted: Option<Stamp>,
    /// When the first sequence was handed to the first stage.
    pub submitted: Option<Stamp>,
    /// How its first stage was told to draw outputs.
    pub sampling: Sampling,
    /// Most outputs that were allowed of that.
    pub max_outputs: Option<u32>,
    /// The stage that answers, if it is an answer, and how far it got there.
    pub answer: Option<(&'static str, Option<SeqId>, StageSnapshot)>,
    /// In the stages that speak.
    pub sequences: Sequences,
}

/// A sequence that was spoken.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceRecord {
    /// What it was to the stages in the end, if they had it then.
    pub seq: Option<SeqId>,
    /// When it was handed over.
    pub submitted: Stamp,
    /// How long it waited for its caller's text.
    pub text_wait: Duration,
    /// The stages that it passed, first to last, and how far it got in each.
    pub stages: Vec<(&'static str, StageSnapshot)>,
}

impl SequenceRecord {
    /// How far it got in the stage that reads text.
    #[must_use]
    pub fn first(&self) -> StageSnapshot {
        self.stages
            .first()
            .map(|(_, snapshot)| *snapshot)
            .unwrap_or_default()
    }
}

/// Those of one request, a bounded number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sequences {
    /// In the order of their ends.
    pub kept: Vec<SequenceRecord>,
    /// How many there were besides.
    pub left_out: u32,
    /// When the first stage gave the last output of all.
    pub last_output: Option<Stamp>,
}

impl Sequences {
    pub(super) fn add(&mut self, sequence: SequenceRecord) {
        self.last_output = self.last_output.max(sequence.first().last_output);
        match self.kept.len() < KEPT {
            true => self.kept.push(sequence),
            false => self.left_out += 1,
        }
    }
}
