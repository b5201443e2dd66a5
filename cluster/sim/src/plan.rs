//! Settings and results of a simulation.

use std::time::Duration;

use crate::cost::Costs;

/// One of the two stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Text to frames.
    Talker,
    /// Frames to audio.
    Code2Wav,
}

/// Rule by which replicas are started and removed: that of a horizontal pod autoscaler that KEDA feeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Fewest and most replicas.
    pub(crate) bounds: (usize, usize),
    /// Sequences (of the talker) or streams (of the vocoder) that one replica is to have.
    pub(crate) target: f64,
    /// Between two looks.
    pub(crate) every: Duration,
    /// Time from the decision to the first work of a new replica.
    pub(crate) start: Duration,
    /// The largest number that was wanted in this time is kept.
    pub(crate) down_after: Duration,
}

/// A loss of replicas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Loss {
    /// Time of the loss.
    pub(crate) at: Duration,
    /// The stage.
    pub(crate) stage: Stage,
    /// Share of its replicas that is lost.
    pub(crate) share: f64,
}

/// Settings of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Costs of steps.
    pub(crate) costs: Costs,
    /// Cores that all parts and the callers share; each stage has its own unless given.
    pub(crate) cores: Option<usize>,
    /// Seed of all random draws.
    pub(crate) seed: u64,
    /// Callers, each with one utterance after the other.
    pub(crate) callers: usize,
    /// They come evenly over this time.
    pub(crate) ramp: Duration,
    /// All begin at the same instant, if there is no ramp.
    pub(crate) together: bool,
    /// Mean audible frames of an utterance.
    pub(crate) frames: f64,
    /// By what share of that an utterance may be longer or shorter.
    pub(crate) spread: f64,
    /// Positions of its prompt.
    pub(crate) prompt: u32,
    /// Time between the end of one and the next, on average.
    pub(crate) pause: Duration,
    /// `true` if audio is taken as it plays, and not as it comes.
    pub(crate) paced: bool,
    /// Audio that may wait for a listener.
    pub(crate) buffered: Duration,
    /// Utterances that may be worked on at once.
    pub(crate) max_active: usize,
    /// Replicas of both stages.
    pub(crate) replicas: [usize; 2],
    /// Rule that starts and removes them.
    pub(crate) scale: [Option<Scale>; 2],
    /// Losses of replicas.
    pub(crate) losses: Vec<Loss>,
    /// Routing at random instead of by the fewest.
    pub(crate) random_routing: bool,
    /// Length of the simulation, and the start of its counts.
    pub(crate) length: Duration,
    /// Not counted.
    pub(crate) warm_up: Duration,
}

/// Results of a simulation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Outcome {
    /// Seconds from a request to its first audio, ascending.
    pub(crate) first_audio: Vec<f64>,
    /// Utterances completed.
    pub(crate) done: usize,
    /// Those of them with a gap.
    pub(crate) gapped: usize,
    /// Seconds of the longest gap.
    pub(crate) longest_gap: f64,
    /// Sequences that went on at other replicas after a loss.
    pub(crate) again: usize,
    /// Seconds of audio received.
    pub(crate) audio: f64,
    /// Seconds that were counted.
    pub(crate) counted: f64,
    /// Most replicas at once.
    pub(crate) most: [usize; 2],
    /// Replicas on average.
    pub(crate) mean: [f64; 2],
    /// Share of their time in which replicas computed.
    pub(crate) busy: [f64; 2],
}

impl Outcome {
    /// Seconds to first audio that this share of requests did not exceed.
    pub(crate) fn first_audio_at(&self, share: f64) -> f64 {
        let at = (self.first_audio.len() as f64 * share).ceil() as usize;
        self.first_audio
            .get(at.saturating_sub(1))
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    /// Share of utterances with a gap.
    pub(crate) fn gaps(&self) -> f64 {
        match self.done {
            0 => 1.0,
            done => self.gapped as f64 / done as f64,
        }
    }
}
