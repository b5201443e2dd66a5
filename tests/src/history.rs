//! The rules of the protocol, as a function over what one stream received.

use std::collections::HashSet;
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::speak_response::Event;
use tonic::Code;

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It has not.
    Open,
    /// With OK.
    Ok,
    /// With a status.
    Status(Code),
}

/// What one `Speak` stream received.
#[derive(Debug, Clone)]
pub struct History {
    /// In order.
    pub responses: Vec<v1::SpeakResponse>,
    /// How it ended.
    pub ending: Ending,
}

/// Checks the rules that hold for every stream whatever the caller does.
///
/// # Panics
/// With the rule that was broken.
pub fn check(history: &History) {
    let mut checker = Checker::default();
    for (index, response) in history.responses.iter().enumerate() {
        assert_eq!(response.seq, index as u64 + 1, "seq counts from 1 without gaps");
        checker.response(response);
    }
    if history.ending == Ending::Ok {
        assert!(
            checker.open.is_none(),
            "the stream ended well with {:?} still open",
            checker.open
        );
    }
}

#[derive(Debug)]
struct Open {
    id: String,
    samples: u64,
    last: bool,
}

#[derive(Default)]
struct Checker {
    format: Option<v1::AudioFormat>,
    open: Option<Open>,
    done: HashSet<String>,
}

impl Checker {
    fn response(&mut self, response: &v1::SpeakResponse) {
        let id = response.utterance_id.as_str();
        let event = response.event.as_ref().expect("every message has an event");
        match event {
            Event::Ready(ready) => {
                assert!(id.is_empty(), "ready belongs to the session");
                self.ready(ready);
                return;
            }
            _ => assert!(self.format.is_some(), "ready comes first, not {event:?}"),
        }
        match event {
            Event::Ready(_) => {}
            Event::Started(_) => self.started(id),
            Event::Audio(audio) => self.audio(id, audio),
            Event::Alignment(_) => self.inside(id, "alignment"),
            Event::Warning(warning) => {
                assert!(
                    !warning.reason.is_empty() && !warning.message.is_empty(),
                    "{warning:?} is empty"
                );
                if !id.is_empty() {
                    self.inside(id, "warning");
                }
            }
            Event::Done(done) => self.done(id, done),
        }
    }

    fn ready(&mut self, ready: &v1::SpeechSessionReady) {
        let resolved = ready.resolved.as_ref().expect("ready has the settings");
        assert!(!ready.session_id.is_empty(), "the session has a name");
        assert!(ready.limits.is_some(), "ready has the limits");
        assert!(
            !resolved.model.is_empty() && !resolved.voice.is_empty(),
            "model and voice are filled in"
        );
        let format = resolved
            .output
            .as_ref()
            .and_then(|output| output.format)
            .expect("the format is filled in");
        assert!(
            format.sample_rate_hz > 0 && format.channels == 1 && format.encoding != 0,
            "{format:?}"
        );
        self.format = Some(format);
    }

    fn inside(&self, id: &str, what: &str) {
        let open = self.open.as_ref().map(|open| open.id.as_str());
        assert_eq!(
            open,
            Some(id),
            "{what} of {id} comes between its started and its done"
        );
    }

    fn started(&mut self, id: &str) {
        assert!(!id.is_empty(), "an utterance has a name");
        assert!(self.open.is_none(), "{id} begins while {:?} is open", self.open);
        assert!(!self.done.contains(id), "{id} begins again");
        self.open = Some(Open {
            id: id.to_owned(),
            samples: 0,
            last: false,
        });
    }

    fn audio(&mut self, id: &str, audio: &v1::AudioChunk) {
        self.inside(id, "audio");
        let wav = self
            .format
            .is_some_and(|format| format.encoding() == v1::AudioEncoding::Wav);
        let open = self.open.as_mut().expect("it is inside");
        assert!(!open.last, "audio after the last audio of {id}");
        assert!(audio.sample_count > 0 && !audio.data.is_empty(), "empty audio");
        assert_eq!(audio.start_sample, open.samples, "audio of {id} is contiguous");
        let header = if wav && open.samples == 0 { 44 } else { 0 };
        assert_eq!(
            audio.data.len(),
            header + 2 * audio.sample_count as usize,
            "whole samples"
        );
        open.samples += u64::from(audio.sample_count);
        open.last = audio.last;
    }

    fn done(&mut self, id: &str, done: &v1::UtteranceDone) {
        self.inside(id, "done");
        let open = self.open.take().expect("it is inside");
        assert!(self.done.insert(open.id), "{id} is done twice");
        let outcome = done.outcome.as_ref().expect("done has an outcome");
        let reason = outcome.finish_reason();
        assert_ne!(reason, v1::FinishReason::Unspecified, "done has a reason");
        assert_eq!(
            outcome.error.is_some(),
            reason == v1::FinishReason::Error,
            "an error if and only if it failed: {outcome:?}"
        );
        if matches!(reason, v1::FinishReason::Stop | v1::FinishReason::Length) {
            assert_eq!(open.last, open.samples > 0, "the last audio of {id} says so");
        }
        self.figures(outcome, open.samples);
    }

    fn figures(&self, outcome: &v1::Outcome, samples: u64) {
        let duration = |d: Option<omni_proto::Duration>| d.and_then(|d| Duration::try_from(d).ok());
        let usage = outcome.usage.expect("done has usage");
        let timings = outcome.timings.as_ref().expect("done has timings");
        let rate = f64::from(self.format.expect("it was announced").sample_rate_hz);
        let audio = duration(usage.output_audio_duration)
            .expect("a duration")
            .as_secs_f64();
        assert!(
            (audio - samples as f64 / rate).abs() < 1e-6,
            "{audio} s are reported, {samples} samples came"
        );
        assert_eq!(
            timings.time_to_first_audio.is_some(),
            samples > 0,
            "first audio if and only if there was any"
        );
        let total = duration(timings.total).expect("a total");
        assert!(duration(timings.time_to_first_audio).unwrap_or_default() <= total);
        assert!(timings.real_time_factor.is_finite() && timings.real_time_factor >= 0.0);
        assert!(outcome.seed.is_some(), "the seed is reported");
        let stages: Vec<_> = timings.stages.iter().map(|stage| stage.stage.as_str()).collect();
        assert_eq!(stages, ["talker", "code2wav"]);
    }
}
