//! The one record of an utterance: for its `done` event, for the log, for metrics and traces.

use std::sync::Arc;
use std::time::Duration;

use omni_audio::{Level, SampleRate, Samples};
use omni_core::error::ServeError;
use omni_core::id::{SessionId, UtteranceId};
use omni_engine::Stamp;
use omni_pipeline::stage::ReplicaId;
use omni_telemetry::{TraceContext, TraceParent};

use super::chat::TurnRecord;
use super::track::Track;

/// Outcome of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The whole text was spoken.
    Stop,
    /// At a limit.
    Length,
    /// The model repeated itself, and was stopped.
    Repetition,
    /// The caller cancelled it.
    Interrupted,
    /// It failed; the session goes on.
    Error,
    /// The whole session ended under it; there was no `done`.
    Aborted,
}

impl Outcome {
    /// Name in logs and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Repetition => "repetition",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
            Self::Aborted => "aborted",
        }
    }
}

/// Usage of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Characters received.
    pub characters: u32,
    /// Text tokens that were to be spoken.
    pub text_tokens: u32,
    /// Codec frames that the first stage made.
    pub frames: u32,
    /// Audio passed to the transport.
    pub samples: Samples,
    /// Its rate; none where nothing was to be spoken.
    pub sample_rate: Option<SampleRate>,
    /// Its playing time.
    pub audio: Duration,
}

/// Times of one stage, summed over the sequences of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageFigures {
    /// Its name.
    pub stage: &'static str,
    /// From the submission of the first sequence to its first step.
    pub queue: Option<Duration>,
    /// From the beginning of the request to that step.
    pub started: Option<Duration>,
    /// Time of the steps in which it took part.
    pub busy: Duration,
    /// From the first text to the stage's first output.
    pub first_output: Option<Duration>,
    /// From the beginning of the request to the stage's last output.
    pub last_output: Option<Duration>,
    /// From submission to its last output, including its own queue, without waits for the caller's text.
    pub span: Option<Duration>,
    /// Times that a sequence ran out of input although the stage before should have delivered.
    pub starved: u32,
    /// The replica that worked on the last sequence.
    pub replica: Option<ReplicaId>,
}

/// Level of an utterance's audio.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sound {
    /// Level of the generated audio.
    pub made: Level,
    /// Level of the output.
    pub given: Level,
}

/// Times of an utterance. Intervals begin at its first text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timings {
    /// To the moment something could be spoken.
    pub ready: Option<Duration>,
    /// From the request of a permit to the submission of the first sequence.
    pub wait: Option<Duration>,
    /// To the first step of the first stage.
    pub queue: Option<Duration>,
    /// To the first audio passed to the transport.
    pub first_audio: Option<Duration>,
    /// From the moment something could be spoken to the first audio passed to the transport: without the time that
    /// the caller took to write it. For an answer, from the request for it.
    pub first_packet: Option<Duration>,
    /// Time in which a sequence that had begun waited for its caller's text, or no sequence was there for want of
    /// text.
    pub text_pauses: Duration,
    /// Time in which only the caller's text was waited for: until something could be spoken, and whenever all text so
    /// far was spoken. Zero for an answer, whose text is the model's.
    pub text_wait: Duration,
    /// To the last output of the last stage.
    pub last_output: Option<Duration>,
    /// From the first submission to the last output of the last stage, without waits for the caller's text or for a
    /// listener without room.
    pub generation: Duration,
    /// Silence at the head of the audio.
    pub leading_silence: Duration,
    /// To the end.
    pub total: Duration,
    /// Busy time over playing time; 0 without audio.
    pub real_time_factor: f64,
    /// Worst lateness of a chunk for a player without a buffer.
    pub worst_underrun: Duration,
    /// Longest time between two packets, without pauses of the caller.
    pub longest_gap: Duration,
    /// `true` if the audio was sent in one piece: there are no packets to be late.
    pub whole: bool,
    /// Level of its audio.
    pub sound: Sound,
    /// Times of each stage of speech, first to last.
    pub stages: Vec<StageFigures>,
}

impl Timings {
    /// Times of the stage that reads text.
    pub fn first(&self) -> StageFigures {
        self.stages.first().copied().unwrap_or_default()
    }

    /// Times of the stage that gives audio.
    pub fn last(&self) -> StageFigures {
        self.stages.last().copied().unwrap_or_default()
    }

    /// Time of the steps of all stages.
    pub fn busy(&self) -> Duration {
        self.stages.iter().map(|stage| stage.busy).sum()
    }
}

/// Everything worth keeping about one utterance. Contains no text.
#[derive(Debug, Clone)]
pub struct UtteranceRecord {
    /// Its session.
    pub session: SessionId,
    /// Its id.
    pub utterance: UtteranceId,
    /// Requested voice.
    pub voice: String,
    /// Outcome.
    pub outcome: Outcome,
    /// Error, for [`Outcome::Error`] and [`Outcome::Aborted`].
    pub error: Option<ServeError>,
    /// Usage.
    pub usage: Usage,
    /// Times.
    pub timings: Timings,
    /// Seed that was used.
    pub seed: u64,
}

/// A request that ended.
#[derive(Debug, Clone)]
pub enum EndedRequest {
    /// An utterance.
    Utterance(Box<UtteranceRecord>),
    /// An answer.
    Turn(Box<TurnRecord>),
}

/// A packet of audio behind another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Replica that made it.
    pub replica: Option<ReplicaId>,
    /// Time since the packet before it was passed to the transport, without pauses of the caller.
    pub gap: Duration,
    /// Audio that a listener had left to play then.
    pub lead: Duration,
}

/// Event of a session, or of a call that was to become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChange<'a> {
    /// It began.
    Opened,
    /// It ended.
    Closed {
        /// Time since it began.
        after: Duration,
    },
    /// A call or a request was refused before any work was done for it, for want of places or because of the caller's
    /// quotas. Utterances that waited in the queue in vain are not recorded here.
    Refused(&'a ServeError),
    /// It ended with an error before any utterance or answer of it began, or could not begin for want of a stage.
    NothingBegan(&'a ServeError),
}

/// Receives records. Called once per utterance and per answer, on the session's task: must not block.
pub trait RecordSink: Send + Sync {
    /// Called when an utterance or an answer begins, with the caller's trace, if it sent one. Returns its trace
    /// context, if it is traced.
    fn begins(&self, _caller: Option<&TraceParent>, _now: Stamp) -> Option<Arc<TraceContext>> {
        None
    }

    /// Called when a request has ended, with further times if it is traced. The speech of an answer is part of its
    /// record and no utterance of its own.
    fn ended(&self, request: &EndedRequest, track: Option<&Track>);

    /// Called when audio was passed to the transport, except the first of an utterance or answer.
    fn packet(&self, _packet: &Packet) {}

    /// Called for an event of a session.
    fn session(&self, _change: SessionChange<'_>) {}
}

impl dyn RecordSink {
    /// Reports a call or a request that was refused ([`SessionChange::Refused`]).
    pub fn refused(&self, why: &ServeError) {
        self.session(SessionChange::Refused(why));
    }
}
