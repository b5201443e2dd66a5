//! Events to response messages.

use omni_family::SpeechInfo;
use omni_proto::v1;
use omni_proto::v1::{speak_response, synthesize_response};
use omni_session::{AudioOut, Event, EventBody, Outcome, Ready, TimedText};
use tonic::Status;

use super::outcome;
use super::settings::{limits, resolved};
use super::status::status;

/// A message of `Speak`.
pub(super) fn speak(event: Event, seq: u64, info: &SpeechInfo) -> v1::SpeakResponse {
    use speak_response::Event as E;
    let body = match event.body {
        EventBody::Ready(ready) => E::Ready(self::ready(&ready, info)),
        EventBody::Started => E::Started(v1::UtteranceStarted {}),
        EventBody::Audio(audio) => E::Audio(chunk(audio)),
        EventBody::Alignment(spans) => E::Alignment(alignment(spans)),
        EventBody::Done(done) => E::Done(outcome::done(&done)),
        EventBody::Warning { reason, message } => E::Warning(warning(reason, message)),
    };
    v1::SpeakResponse {
        seq,
        utterance_id: event
            .utterance
            .map(|id| id.as_str().to_owned())
            .unwrap_or_default(),
        event: Some(body),
    }
}

/// A message of `Synthesize`, where a failed utterance is a failed call; `None` for an event without a message there.
pub(super) fn synthesize(event: Event, info: &SpeechInfo) -> Option<Result<v1::SynthesizeResponse, Status>> {
    use synthesize_response::Event as E;
    let body = match event.body {
        EventBody::Started => return None,
        EventBody::Ready(ready) => E::Ready(self::ready(&ready, info)),
        EventBody::Audio(audio) => E::Audio(chunk(audio)),
        EventBody::Alignment(spans) => E::Alignment(alignment(spans)),
        EventBody::Warning { reason, message } => E::Warning(warning(reason, message)),
        EventBody::Done(done) => match (&done.error, done.outcome) {
            (Some(error), Outcome::Error) => return Some(Err(status(error))),
            _ => E::Done(outcome::done(&done)),
        },
    };
    Some(Ok(v1::SynthesizeResponse { event: Some(body) }))
}

fn ready(ready: &Ready, info: &SpeechInfo) -> v1::SpeechSessionReady {
    v1::SpeechSessionReady {
        session_id: ready.session.to_string(),
        resolved: Some(resolved(&ready.settings, info)),
        limits: Some(limits(&ready.limits)),
    }
}

pub(super) fn chunk(audio: AudioOut) -> v1::AudioChunk {
    v1::AudioChunk {
        data: audio.data,
        start_sample: audio.start.0,
        sample_count: u32::try_from(audio.samples.0).unwrap_or(u32::MAX),
        last: audio.last,
    }
}

fn alignment(spans: Vec<TimedText>) -> v1::Alignment {
    let character = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let spans = spans.into_iter().map(|span| v1::TimedText {
        text: span.text,
        char_start: character(span.characters.start),
        char_end: character(span.characters.end),
        start_sample: span.samples.start.0,
        end_sample: span.samples.end.0,
    });
    v1::Alignment {
        spans: spans.collect(),
    }
}

pub(super) fn warning(reason: &str, message: String) -> v1::Warning {
    v1::Warning {
        reason: reason.to_owned(),
        message,
    }
}
