//! Outcome, usage and timings of an utterance or a response.

use std::time::Duration;

use omni_proto::v1;

use crate::error::RpcError;

/// Reason why an utterance or a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// Everything was said.
    Stop,
    /// A limit on the length of the text or the audio was reached first.
    Length,
    /// The model repeated itself and was stopped.
    Repetition,
    /// It was cancelled or interrupted.
    Interrupted,
    /// It failed; the session continues.
    Error(Box<RpcError>),
}

impl Finish {
    /// For programs: stable, lower case.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Repetition => "repetition",
            Self::Interrupted => "interrupted",
            Self::Error(_) => "error",
        }
    }
}

/// The end of an utterance.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The outcome.
    pub outcome: Outcome,
    /// The part of the text that was heard before a cancel, if the server can tell.
    pub text_spoken: String,
    /// The rest of the text.
    pub text_remaining: String,
}

/// Outcome of an utterance or a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Reason for the end.
    pub finish: Finish,
    /// Usage.
    pub usage: Usage,
    /// Timings, as the server measured them.
    pub timings: Timings,
    /// The seed that was used.
    pub seed: Option<u64>,
}

/// Usage of an utterance or a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Unicode characters of text received.
    pub input_characters: u32,
    /// Text tokens given to the model: of a response, the whole conversation.
    pub input_text_tokens: u32,
    /// Audio tokens given to the model.
    pub input_audio_tokens: u32,
    /// Text tokens produced.
    pub output_text_tokens: u32,
    /// Codec frames produced.
    pub output_audio_tokens: u32,
    /// Playing time of the audio.
    pub output_audio: Duration,
}

/// The server's own measurements, from the first text of the utterance or from the request for the response on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timings {
    /// Until the first stage began.
    pub queue: Duration,
    /// Until the first text was handed to the transport; absent without text.
    pub time_to_first_text: Option<Duration>,
    /// Until the first audio was handed to the transport; absent without audio.
    pub time_to_first_audio: Option<Duration>,
    /// Silence at the head of the audio.
    pub leading_silence: Duration,
    /// Until the end.
    pub total: Duration,
    /// Time until the last audio over its playing time.
    pub real_time_factor: f64,
    /// Worst lateness of any chunk for a player without a buffer.
    pub worst_underrun: Duration,
    /// Per stage, in pipeline order.
    pub stages: Vec<StageTiming>,
}

/// Time of one stage for an utterance or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTiming {
    /// The stage.
    pub stage: String,
    /// Replica of the stage.
    pub replica: String,
    /// From hand-over until its first step.
    pub queue: Duration,
    /// Duration of the steps it took part in.
    pub busy: Duration,
    /// From admission to its first output; absent if it gave none.
    pub first_output: Option<Duration>,
}

impl Done {
    /// Converts the message; the error names the missing field.
    pub(crate) fn from_proto(done: v1::UtteranceDone) -> Result<Self, &'static str> {
        Ok(Self {
            outcome: Outcome::from_proto(done.outcome)?,
            text_spoken: done.text_spoken,
            text_remaining: done.text_remaining,
        })
    }
}

impl Outcome {
    /// Time the stages were busy over the playing time of the audio; absent without audio. Concurrent work shares
    /// steps, so this counts shared time in full.
    pub fn busy_real_time_factor(&self) -> Option<f64> {
        let busy: Duration = self.timings.stages.iter().map(|stage| stage.busy).sum();
        let audio = self.usage.output_audio;
        (!audio.is_zero() && !self.timings.stages.is_empty()).then(|| busy.div_duration_f64(audio))
    }

    /// Converts the message; the error names the missing field.
    pub(crate) fn from_proto(outcome: Option<v1::Outcome>) -> Result<Self, &'static str> {
        let outcome = outcome.ok_or("it sent a done without an outcome")?;
        Ok(Self {
            finish: finish(&outcome)?,
            usage: usage(outcome.usage.as_ref()),
            timings: timings(outcome.timings.unwrap_or_default()),
            seed: outcome.seed,
        })
    }
}

fn finish(outcome: &v1::Outcome) -> Result<Finish, &'static str> {
    match (outcome.finish_reason(), &outcome.error) {
        (v1::FinishReason::Stop, None) => Ok(Finish::Stop),
        (v1::FinishReason::Length, None) => Ok(Finish::Length),
        (v1::FinishReason::Repetition, None) => Ok(Finish::Repetition),
        (v1::FinishReason::Interrupted, None) => Ok(Finish::Interrupted),
        (v1::FinishReason::Error, Some(error)) => {
            Ok(Finish::Error(Box::new(RpcError::from_rpc_status(error))))
        }
        (v1::FinishReason::Error, None) => Err("a done says failed without an error"),
        (v1::FinishReason::Unspecified, _) => Err("it sent a done without a known reason"),
        (_, Some(_)) => Err("a done says all went well but carries an error"),
    }
}

fn usage(usage: Option<&v1::Usage>) -> Usage {
    usage.map_or_else(Usage::default, |usage| Usage {
        input_characters: usage.input_characters,
        input_text_tokens: usage.input_text_tokens,
        input_audio_tokens: usage.input_audio_tokens,
        output_text_tokens: usage.output_text_tokens,
        output_audio_tokens: usage.output_audio_tokens,
        output_audio: duration(usage.output_audio_duration).unwrap_or_default(),
    })
}

fn timings(timings: v1::Timings) -> Timings {
    Timings {
        queue: duration(timings.queue).unwrap_or_default(),
        time_to_first_text: duration(timings.time_to_first_text),
        time_to_first_audio: duration(timings.time_to_first_audio),
        leading_silence: duration(timings.leading_silence).unwrap_or_default(),
        total: duration(timings.total).unwrap_or_default(),
        real_time_factor: timings.real_time_factor,
        worst_underrun: duration(timings.worst_underrun).unwrap_or_default(),
        stages: timings.stages.into_iter().map(stage).collect(),
    }
}

fn stage(stage: v1::StageTiming) -> StageTiming {
    StageTiming {
        stage: stage.stage,
        replica: stage.replica,
        queue: duration(stage.queue).unwrap_or_default(),
        busy: duration(stage.busy).unwrap_or_default(),
        first_output: duration(stage.first_output),
    }
}

/// Converts a duration; a negative one reads as absent.
pub(crate) fn duration(wire: Option<omni_proto::Duration>) -> Option<Duration> {
    wire.and_then(|duration| duration.try_into().ok())
}
