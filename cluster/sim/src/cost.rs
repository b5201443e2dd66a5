//! Costs of steps.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time of a core that a step or anything else needs, in microseconds; a file of it is JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Costs {
    /// Playing time of a codec frame.
    pub(crate) frame_ms: f64,
    /// Cost of a talker step.
    pub(crate) talker: TalkerCosts,
    /// Cost of a vocoder step.
    pub code2wav: VocoderCosts,
    /// Time from one process to another, one way.
    pub(crate) hop_us: f64,
    /// Time before an utterance begins in which no core works for it.
    #[serde(default)]
    pub(crate) begin_us: f64,
    /// By what share of its mean any work may take more or less of a core, from 0 to 1. It counts where everything shares its cores.
    #[serde(default)]
    pub(crate) varies: f64,
    /// Frames at the head of an utterance that are silence, which the front end cuts off.
    #[serde(default)]
    pub(crate) silent_frames: u32,
    /// Most frames that a vocoder decodes without output when it resumes after a loss.
    #[serde(default)]
    pub(crate) context_frames: u32,
    /// Costs besides steps, which count where everything shares its cores.
    #[serde(default)]
    pub(crate) beside: BesideCosts,
}

/// Processor time of the parts besides steps.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BesideCosts {
    /// A talker's process, to hand on a frame.
    pub(crate) talker_frame_us: f64,
    /// A vocoder's, to take a frame (half of it) and to hand on its audio.
    pub(crate) code2wav_frame_us: f64,
    /// A front end, before an utterance begins.
    pub(crate) front_begin_us: f64,
    /// Per frame of audio.
    pub(crate) front_frame_us: f64,
    /// Behind its last audio.
    pub(crate) front_end_us: f64,
    /// The callers, to ask for an utterance.
    pub(crate) caller_begin_us: f64,
    /// Per frame of audio.
    pub(crate) caller_frame_us: f64,
    /// Behind its last audio.
    pub(crate) caller_end_us: f64,
}

/// A step of the talker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct TalkerCosts {
    /// Fixed part of a step.
    pub(crate) base_us: f64,
    /// More for every sequence that gives a frame.
    pub(crate) row_us: f64,
    /// More for every position of a prompt.
    pub(crate) prefill_us: f64,
}

/// A step of the vocoder.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct VocoderCosts {
    /// Fixed part of a step.
    pub(crate) base_us: f64,
    /// More for every stream.
    pub(crate) stream_us: f64,
    /// More for every frame.
    pub(crate) frame_us: f64,
}

/// Converts microseconds.
pub(crate) fn micros(us: f64) -> Duration {
    Duration::from_nanos((us.max(0.0) * 1_000.0) as u64)
}

impl Costs {
    /// Playing time of a frame.
    pub(crate) fn frame(&self) -> Duration {
        micros(self.frame_ms * 1_000.0)
    }

    /// Time from one process to another.
    pub(crate) fn hop(&self) -> Duration {
        micros(self.hop_us)
    }
}

impl TalkerCosts {
    /// Time of a step with `rows` sequences and `prefill` prompt positions.
    pub(crate) fn step(&self, rows: u32, prefill: u32) -> Duration {
        micros(self.base_us + self.row_us * f64::from(rows) + self.prefill_us * f64::from(prefill))
    }
}

impl VocoderCosts {
    /// Time of a step with these streams and frames.
    pub(crate) fn step(&self, streams: u32, frames: u32) -> Duration {
        micros(self.base_us + self.stream_us * f64::from(streams) + self.frame_us * f64::from(frames))
    }
}
