//! From the server's own records to those of the instruments. Pure.

use std::time::Duration;

use omni_audio::{SampleRate, Samples};
use omni_core::error::{ErrorKind as K, ServeError};
use omni_core::id::{SessionId, current_request};
use omni_pipeline::stage::ReplicaId;
use omni_session::{EndedRequest, Outcome, StageFigures, Timings, Track, TurnRecord, UtteranceRecord};
use omni_telemetry::{
    AudioRecord, FailureReason, RequestOutcome, RequestRecord, Silence, StageRecord, StreamAbort,
    TorchServeRequest,
};

use super::live::Live;

/// The record of a request: an utterance, or an answer with its speech.
#[derive(Debug, PartialEq)]
pub(super) struct Account {
    pub(super) request: RequestRecord,
    /// If it was to be heard.
    pub(super) audio: Option<Heard>,
    /// The end of its audio, if it was to be heard.
    pub(super) stream: Option<Stream>,
    pub(super) times: TorchServeRequest,
    /// Recordings that were looked for, and those of them that had been kept.
    pub(super) recordings: (u64, u64),
    /// The trace that shows it, if it is traced.
    pub(super) trace: Option<String>,
    /// It was refused before anything was done for it: admission_rejections_total has it, and no family of requests.
    pub(super) turned_away: bool,
}

/// The end of a request's audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// It was sent to its end.
    Completed,
    /// It was not.
    Aborted(StreamAbort),
}

/// The audio of a request.
#[derive(Debug, PartialEq)]
pub(super) struct Heard {
    /// The replica that made it; none if no replica was asked.
    pub(super) replica: Option<ReplicaId>,
    /// Of audio that was streamed.
    pub(super) first_packet: Option<Duration>,
    pub(super) record: AudioRecord,
    /// The cause, if it ended well and is inaudible.
    pub(super) silence: Option<Silence>,
}

/// The end of a request, with its error.
struct End<'a> {
    outcome: Outcome,
    error: Option<&'a ServeError>,
}

/// The caller's name of the request, if it has one, with what of it this is; records are taken on the task of its session.
fn request_id(session: SessionId, part: impl std::fmt::Display) -> String {
    match current_request() {
        Some(request) => format!("{}/{part}", request.id),
        None => format!("{session}/{part}"),
    }
}

/// The account of a request.
pub(super) fn of(live: &Live, request: &EndedRequest, track: Option<&Track>) -> Account {
    let account = match request {
        EndedRequest::Utterance(record) => utterance(live, record),
        EndedRequest::Turn(record) => turn(live, record),
    };
    Account {
        trace: track.map(|track| format!("{:?}", track.context.trace)),
        ..account
    }
}

fn utterance(live: &Live, record: &UtteranceRecord) -> Account {
    let timings = &record.timings;
    let usage = &record.usage;
    let end = End {
        outcome: record.outcome,
        error: record.error.as_ref(),
    };
    let stages = speech_shares(live, timings, usage.text_tokens, usage.frames);
    let served = timings.total.saturating_sub(timings.text_wait);
    Account {
        request: RequestRecord {
            id: request_id(record.session, &record.utterance),
            outcome: end.outcome(),
            latency: served,
            queue_wait: timings.wait,
            text_wait: Some(timings.text_wait),
            stages,
        },
        audio: Some(heard(live, &end, timings, (usage.samples, usage.sample_rate))),
        stream: Some(end.stream()),
        times: times(
            served,
            timings.wait.unwrap_or_default() + timings.first().queue.unwrap_or_default(),
            timings.generation,
            busiest(timings),
        ),
        recordings: (0, 0),
        trace: None,
        turned_away: end.is_turned_away() && timings.wait.is_none(),
    }
}

fn turn(live: &Live, record: &TurnRecord) -> Account {
    let timings = &record.timings;
    let usage = &record.usage;
    let end = End {
        outcome: record.outcome,
        error: record.error.as_ref(),
    };
    let read = usage.prompt_tokens + usage.prompt_audio;
    let answer = share(live, &timings.answer, read, usage.reply_tokens);
    // An encoder reads audio, and its output is part of the prompt.
    let encoder = timings.encoder.and_then(|figures| share(live, &figures, 0, 0));
    let mut stages: Vec<_> = answer.into_iter().chain(encoder).collect();
    let encoder = timings.encoder.map_or(Duration::ZERO, |figures| figures.busy);
    let mut busy = timings.answer.busy.max(encoder);
    if let Some(speech) = &timings.speech {
        stages.extend(speech_shares(live, speech, usage.reply_tokens, usage.frames));
        busy = busy.max(busiest(speech));
    }
    let queue = timings.queue.unwrap_or_default();
    let written = timings
        .submitted
        .zip(timings.answer.span)
        .map(|(at, span)| at + span);
    let spoken = timings.speech.as_ref().and_then(|speech| speech.last_output);
    let last_output = written.max(spoken).unwrap_or_default();
    Account {
        request: RequestRecord {
            id: request_id(record.session, &record.response),
            outcome: end.outcome(),
            latency: timings.total,
            queue_wait: timings.submitted,
            text_wait: None,
            stages,
        },
        audio: timings
            .speech
            .as_ref()
            .map(|speech| heard(live, &end, speech, (usage.samples, usage.sample_rate))),
        stream: timings.speech.as_ref().map(|_| end.stream()),
        times: times(timings.total, queue, last_output.saturating_sub(queue), busy),
        recordings: (u64::from(usage.recordings), u64::from(usage.kept_recordings)),
        trace: None,
        turned_away: end.is_turned_away() && timings.submitted.is_none(),
    }
}

fn speech_shares(live: &Live, timings: &Timings, tokens: u32, frames: u32) -> Vec<StageRecord> {
    let last = timings.stages.len().saturating_sub(1);
    let share = |(nth, figures): (usize, &StageFigures)| {
        let read = if nth == 0 { tokens } else { frames };
        // The last stage's output is audio, which is counted as such.
        let made = if nth == last { 0 } else { frames };
        share(live, figures, read, made)
    };
    timings.stages.iter().enumerate().filter_map(share).collect()
}

fn share(live: &Live, figures: &StageFigures, tokens_in: u32, tokens_out: u32) -> Option<StageRecord> {
    let replica = live.replica(figures.stage, figures.replica?)?;
    Some(StageRecord {
        replica,
        kind: live.kind(replica),
        generation: figures.span,
        tokens_in: u64::from(tokens_in),
        tokens_out: u64::from(tokens_out),
    })
}

fn heard(
    live: &Live,
    end: &End<'_>,
    timings: &Timings,
    (samples, rate): (Samples, Option<SampleRate>),
) -> Heard {
    let asked = timings.last().replica;
    let sound = &timings.sound;
    let complete = matches!(end.outcome, Outcome::Stop | Outcome::Length | Outcome::Repetition);
    let made = sound.made.rms();
    let silence = if !complete || (asked.is_none() && samples.is_empty()) {
        None
    } else if asked.is_none() {
        Some(Silence::NothingSpeakable)
    } else if made < AUDIBLE {
        Some(Silence::Model)
    } else {
        (sound.given.rms() < AUDIBLE).then_some(Silence::Volume)
    };
    // Samples at the model's rate, not the requested one.
    let rate = rate.map_or(live.sample_rate, SampleRate::hz);
    let frames = samples.0 * u64::from(live.sample_rate) / u64::from(rate.max(1));
    Heard {
        replica: asked,
        first_packet: timings.first_packet.filter(|_| !timings.whole),
        record: AudioRecord {
            frames,
            sample_rate: live.sample_rate,
            generation: timings.generation,
            worst_underrun: (!samples.is_empty() && silence.is_none() && !timings.whole)
                .then_some(timings.worst_underrun),
            level: (asked.is_some() && complete).then_some(f64::from(made)),
            // Nothing is missing from a request without a replica.
            complete: asked.is_some() && complete,
        },
        silence,
    }
}

/// Root mean square of audio that can be heard: -60 dB of full scale.
const AUDIBLE: f32 = 0.001;

/// Steps of the stage that was busy for the longest: those of different stages overlap.
fn busiest(timings: &Timings) -> Duration {
    let busy = timings.stages.iter().map(|stage| stage.busy);
    busy.max().unwrap_or_default()
}

/// `generation` is from hand-over to the last output.
fn times(total: Duration, queue: Duration, generation: Duration, busy: Duration) -> TorchServeRequest {
    let prediction = generation.min(total.saturating_sub(queue));
    TorchServeRequest {
        total,
        queue,
        prediction,
        handler: busy.min(prediction),
    }
}

/// Reason of a request that failed before it began: its caller's error, or a stage that is down, restarting or not
/// loaded yet. Refusals for lack of room or quota are counted elsewhere, and disconnected callers not at all.
pub(super) fn nothing_began(error: &ServeError) -> Option<FailureReason> {
    let reason = failure(error);
    matches!(reason, FailureReason::ClientError | FailureReason::StageError).then_some(reason)
}

impl End<'_> {
    fn outcome(&self) -> RequestOutcome {
        match (self.outcome, self.error) {
            (Outcome::Stop, _) => RequestOutcome::Stop,
            (Outcome::Length, _) => RequestOutcome::Length,
            (Outcome::Repetition, _) => RequestOutcome::Repetition,
            (Outcome::Interrupted, _) => RequestOutcome::Failed(FailureReason::ClientAbort),
            (Outcome::Error | Outcome::Aborted, error) => {
                RequestOutcome::Failed(error.map_or(FailureReason::Unknown, failure))
            }
        }
    }

    fn stream(&self) -> Stream {
        Stream::Aborted(match (self.outcome, self.error) {
            (Outcome::Stop | Outcome::Length | Outcome::Repetition, _) => return Stream::Completed,
            (Outcome::Interrupted, _) => StreamAbort::Cancelled,
            (_, Some(error)) if error.kind() == K::DeadlineExceeded => StreamAbort::Cancelled,
            (_, Some(error)) if matches!(error.kind(), K::CallerGone | K::SlowReader) => StreamAbort::Closed,
            (_, Some(error)) if matches!(error.kind(), K::Internal | K::Unavailable) => {
                StreamAbort::EngineDead
            }
            (Outcome::Error | Outcome::Aborted, _) => StreamAbort::Error,
        })
    }

    /// Refused for want of room or quota.
    fn is_turned_away(&self) -> bool {
        let kind = self.error.map(ServeError::kind);
        matches!(kind, Some(K::OverQuota | K::QueueFull | K::TooManySessions))
    }
}

/// Party responsible for a failure.
fn failure(error: &ServeError) -> FailureReason {
    match error.kind() {
        K::Internal | K::Unavailable | K::Loading => FailureReason::StageError,
        K::CallerGone | K::SlowReader => FailureReason::ClientDisconnect,
        K::DeadlineExceeded => FailureReason::ClientAbort,
        K::OverQuota => FailureReason::Quota,
        K::Overloaded | K::QueueFull | K::TooManySessions => FailureReason::Overload,
        K::SessionExpired => FailureReason::SessionLimit,
        K::SessionCancelled => FailureReason::Operator,
        K::ShuttingDown => FailureReason::Shutdown,
        K::InvalidArgument
        | K::Unspeakable
        | K::UnknownModel
        | K::FailedPrecondition
        | K::NotSupported
        | K::NotFound
        | K::Unauthenticated
        | K::PermissionDenied
        | K::LimitReached => FailureReason::ClientError,
    }
}
