//! The end of an utterance as a message.

use std::time::Duration;

use omni_proto::v1;
use omni_session::{Done, Outcome, StageFigures, Warning};

use super::reply;
use super::status::rpc_status;

pub(super) fn done(done: &Done) -> v1::UtteranceDone {
    let outcome = v1::Outcome {
        finish_reason: finish_reason(done.outcome).into(),
        usage: Some(usage(done)),
        timings: Some(timings(done)),
        error: done.error.as_ref().map(rpc_status),
        seed: Some(done.seed),
        warnings: warnings(&done.warnings),
    };
    let (text_spoken, text_remaining) = done.heard.clone().unwrap_or_default();
    v1::UtteranceDone {
        outcome: Some(outcome),
        text_spoken,
        text_remaining,
    }
}

pub(super) fn warnings(warnings: &[Warning]) -> Vec<v1::Warning> {
    let warnings = warnings.iter();
    let wire = warnings.map(|warning| reply::warning(warning.reason, warning.message.clone()));
    wire.collect()
}

pub(super) fn finish_reason(outcome: Outcome) -> v1::FinishReason {
    match outcome {
        Outcome::Stop => v1::FinishReason::Stop,
        Outcome::Length => v1::FinishReason::Length,
        Outcome::Repetition => v1::FinishReason::Repetition,
        Outcome::Interrupted => v1::FinishReason::Interrupted,
        Outcome::Error | Outcome::Aborted => v1::FinishReason::Error,
    }
}

fn usage(done: &Done) -> v1::Usage {
    let usage = done.usage;
    v1::Usage {
        input_characters: usage.characters,
        input_text_tokens: usage.text_tokens,
        output_audio_tokens: usage.frames,
        output_audio_duration: wire(usage.audio),
        ..v1::Usage::default()
    }
}

fn timings(done: &Done) -> v1::Timings {
    let timings = &done.timings;
    v1::Timings {
        queue: timings.queue.and_then(wire),
        time_to_first_text: None,
        time_to_first_audio: timings.first_audio.and_then(wire),
        leading_silence: wire(timings.leading_silence),
        total: wire(timings.total),
        real_time_factor: timings.real_time_factor,
        worst_underrun: wire(timings.worst_underrun),
        stages: timings.stages.iter().map(stage).collect(),
    }
}

pub(super) fn stage(figures: &StageFigures) -> v1::StageTiming {
    v1::StageTiming {
        stage: figures.stage.to_owned(),
        replica: figures.replica.map(|id| id.to_string()).unwrap_or_default(),
        queue: figures.queue.and_then(wire),
        busy: wire(figures.busy),
        first_output: figures.first_output.and_then(wire),
    }
}

pub(super) fn wire(time: Duration) -> Option<omni_proto::Duration> {
    time.try_into().ok()
}
