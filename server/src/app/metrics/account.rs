//! From the server's own records to those of the instruments. Pure.

use std::time::Duration;

use omni_audio::{SampleRate, Samples};
use omni_telemetry::{
    AudioRecord, FailureReason, Replica, RequestOutcome, RequestRecord, ResponseClass, StageRecord,
    StreamAbort, TorchServeRequest,
};

use super::live::Live;
use crate::error::ServeError;
use crate::session::{Outcome, StageFigures, Timings, TurnRecord, UtteranceRecord};
use crate::stage::ReplicaId;

/// What is to be recorded of a request: an utterance, or an answer with its speech.
#[derive(Debug, PartialEq)]
pub(super) struct Account {
    pub(super) request: RequestRecord,
    /// If it was to be heard.
    pub(super) audio: Option<Heard>,
    /// How its audio ended, if it was to be heard.
    pub(super) stream: Option<Stream>,
    pub(super) class: ResponseClass,
    pub(super) times: TorchServeRequest,
}

/// How the audio of a request ended.
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
    /// Where it came from.
    pub(super) replica: Replica,
    pub(super) first_packet: Option<Duration>,
    pub(super) record: AudioRecord,
}

/// How a request ended, and what with.
struct End<'a> {
    outcome: Outcome,
    error: Option<&'a ServeError>,
}

/// The account of an utterance.
pub(super) fn utterance(live: &Live, record: &UtteranceRecord) -> Account {
    let (timings, usage) = (&record.timings, &record.usage);
    let end = End {
        outcome: record.outcome,
        error: record.error.as_ref(),
    };
    let stages = speech_shares(live, timings, usage.text_tokens, usage.frames);
    let busy = timings.talker.busy + timings.code2wav.busy;
    Account {
        request: RequestRecord {
            id: format!("{}/{}", record.session, record.utterance),
            outcome: end.outcome(),
            latency: timings.total,
            queue_wait: timings.wait,
            stages,
        },
        audio: Some(heard(
            live,
            &end,
            timings,
            (usage.samples, usage.sample_rate),
            busy,
        )),
        stream: Some(end.stream()),
        class: end.class(),
        times: times(timings.total, timings.talker.queue, busy),
    }
}

/// The account of an answer.
pub(super) fn turn(live: &Live, record: &TurnRecord) -> Account {
    let (timings, usage) = (&record.timings, &record.usage);
    let end = End {
        outcome: record.outcome,
        error: record.error.as_ref(),
    };
    let thinker = share(
        live,
        "thinker",
        &timings.thinker,
        usage.prompt_tokens + usage.prompt_audio,
        usage.reply_tokens,
    );
    // What it reads is audio, and what it makes is a part of the thinker's prompt.
    let encoder = timings
        .encoder
        .and_then(|figures| share(live, "encoder", &figures, 0, 0));
    let mut stages: Vec<_> = thinker.into_iter().chain(encoder).collect();
    let mut busy = timings.thinker.busy + timings.encoder.map_or(Duration::ZERO, |figures| figures.busy);
    if let Some(speech) = &timings.speech {
        stages.extend(speech_shares(live, speech, usage.reply_tokens, usage.frames));
        busy += speech.talker.busy + speech.code2wav.busy;
    }
    Account {
        request: RequestRecord {
            id: format!("{}/{}", record.session, record.response),
            outcome: end.outcome(),
            latency: timings.total,
            queue_wait: timings.submitted,
            stages,
        },
        audio: timings
            .speech
            .as_ref()
            .map(|speech| heard(live, &end, speech, (usage.samples, usage.sample_rate), busy)),
        stream: timings.speech.map(|_| end.stream()),
        class: end.class(),
        times: times(timings.total, timings.queue, busy),
    }
}

fn speech_shares(live: &Live, timings: &Timings, tokens: u32, frames: u32) -> Vec<StageRecord> {
    let talker = share(live, "talker", &timings.talker, tokens, frames);
    // What it makes is audio, which is counted as such.
    let code2wav = share(live, "code2wav", &timings.code2wav, frames, 0);
    talker.into_iter().chain(code2wav).collect()
}

fn share(
    live: &Live,
    stage: &str,
    figures: &StageFigures,
    tokens_in: u32,
    tokens_out: u32,
) -> Option<StageRecord> {
    let replica = live.replica(stage, figures.replica?)?;
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
    busy: Duration,
) -> Heard {
    // A request that never came that far is booked where the first would have been made.
    let id = timings.code2wav.replica.unwrap_or(ReplicaId(0));
    let replica = live.replica("code2wav", id);
    Heard {
        replica: replica.unwrap_or(Replica {
            stage: 0,
            replica: id.0,
        }),
        first_packet: timings.first_audio,
        record: AudioRecord {
            frames: samples.0,
            sample_rate: rate.map_or(live.sample_rate, SampleRate::hz),
            generation: busy,
            worst_underrun: (!samples.is_empty()).then_some(timings.worst_underrun),
            complete: matches!(end.outcome, Outcome::Stop | Outcome::Length | Outcome::Repetition),
        },
    }
}

fn times(total: Duration, queue: Option<Duration>, busy: Duration) -> TorchServeRequest {
    let queue = queue.unwrap_or_default();
    TorchServeRequest {
        total,
        queue,
        prediction: total.saturating_sub(queue),
        handler: busy,
    }
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
            (_, Some(ServeError::CallerGone | ServeError::SlowReader(_))) => StreamAbort::Closed,
            (_, Some(ServeError::StageFailed { .. } | ServeError::StageUnavailable { .. })) => {
                StreamAbort::EngineDead
            }
            (Outcome::Error | Outcome::Aborted, _) => StreamAbort::Error,
        })
    }

    fn class(&self) -> ResponseClass {
        match (self.outcome, self.error) {
            (Outcome::Stop | Outcome::Length | Outcome::Repetition | Outcome::Interrupted, _) => {
                ResponseClass::Success
            }
            (
                _,
                Some(
                    ServeError::StageFailed { .. }
                    | ServeError::StageUnavailable { .. }
                    | ServeError::Stopped
                    | ServeError::Draining
                    | ServeError::ModelLoading,
                ),
            ) => ResponseClass::ServerError,
            _ => ResponseClass::ClientError,
        }
    }
}

fn failure(error: &ServeError) -> FailureReason {
    match error {
        ServeError::StageFailed { .. } | ServeError::StageUnavailable { .. } => FailureReason::StageError,
        ServeError::CallerGone | ServeError::SlowReader(_) => FailureReason::ClientDisconnect,
        ServeError::DeadlineExceeded => FailureReason::ClientAbort,
        _ => FailureReason::Unknown,
    }
}
