//! Summary of the speech: one line per utterance for people, JSON for programs.

use std::time::Duration;

use omni_client::{Endpoint, Finish, Measured, Outcome, Ready, Warning, code_name};
use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::Ui;

/// A player with this much buffer hears no gap in what counts as continuous.
pub(crate) const CONTINUITY: Duration = Duration::from_millis(100);

/// Destination of the audio.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) name: String,
    pub(crate) format: String,
    /// Another file of that name was there.
    pub(crate) replaced: bool,
}

/// One utterance. No `done`: it was cut off. No `measured`: it had no audio.
#[derive(Debug)]
pub(crate) struct Utterance {
    pub(crate) done: Option<Outcome>,
    pub(crate) measured: Option<Measured>,
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Debug)]
pub(crate) struct Summary {
    endpoint: Endpoint,
    destination: Destination,
    ready: Option<Ready>,
    utterances: Vec<Utterance>,
}

impl Summary {
    pub(crate) fn new(endpoint: Endpoint, destination: Destination) -> Self {
        Self {
            endpoint,
            destination,
            ready: None,
            utterances: Vec::new(),
        }
    }

    pub(crate) fn destination(&mut self, destination: Destination) {
        self.destination = destination;
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    pub(crate) fn ready(&mut self, ready: Ready) {
        self.ready = Some(ready);
    }

    pub(crate) fn utterance(&mut self, utterance: Utterance) {
        self.utterances.push(utterance);
    }

    /// Reports after a failure how much was still written.
    pub(crate) fn tell_what_is_left(&self, ui: &Ui) {
        let audio: Duration = self
            .utterances
            .iter()
            .filter_map(|u| u.measured.as_ref())
            .map(|m| m.audio)
            .sum();
        if !audio.is_zero() {
            let name = &self.destination.name;
            ui.note(&format!(
                "{name} holds the {:.1} s of audio that came before",
                audio.as_secs_f64()
            ));
        }
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let count = self.utterances.len();
        let numbered = |(i, utterance)| match count {
            1 => self.line(utterance),
            _ => format!("{}/{count} · {}", i + 1, self.line(utterance)),
        };
        self.utterances.iter().enumerate().map(numbered).collect()
    }

    fn line(&self, utterance: &Utterance) -> String {
        let mut parts = Vec::new();
        match utterance.done.as_ref().map(|done| &done.finish) {
            None | Some(Finish::Interrupted) => parts.push("interrupted".to_owned()),
            Some(Finish::Length) => parts.push("cut".to_owned()),
            Some(Finish::Repetition) => parts.push("repeating".to_owned()),
            Some(Finish::Stop | Finish::Error(_)) => {}
        }
        let Some(measured) = &utterance.measured else {
            parts.push("no audio".to_owned());
            return parts.join(" · ");
        };
        parts.push(format!("{:.1} s of audio", measured.audio.as_secs_f64()));
        parts.extend(
            measured
                .first_audio
                .map(|first| format!("first audio {}", milliseconds(first))),
        );
        parts.extend(
            measured
                .real_time_factor
                .map(|factor| format!("real-time factor {factor:.3}")),
        );
        parts.push(gaps(measured));
        let voice = self
            .ready
            .as_ref()
            .map(|ready| &ready.voice)
            .filter(|voice| !voice.is_empty());
        parts.extend(voice.map(|voice| format!("voice {voice}")));
        let name = &self.destination.name;
        parts.push(if self.destination.replaced {
            format!("{name} (replaced)")
        } else {
            name.clone()
        });
        parts.join(" · ")
    }

    /// For programs. Times are in seconds, measured from the first text sent.
    pub(crate) fn json(&self, failure: Option<&Failure>) -> Value {
        let ready = self.ready.as_ref();
        json!({
            "endpoint": self.endpoint.to_string(),
            "session_id": ready.map(|ready| &ready.session_id),
            "model": ready.map(|ready| &ready.model),
            "voice": ready.map(|ready| &ready.voice),
            "language": ready.map(|ready| &ready.language),
            "file": self.destination.name,
            "format": self.destination.format,
            "error": failure.map(Failure::json),
            "utterances": self.utterances.iter().map(utterance_json).collect::<Vec<_>>(),
        })
    }
}

/// Number of noticeable gaps for a listener without a buffer.
pub(crate) fn gaps(measured: &Measured) -> String {
    let worst = measured.continuity.worst();
    match measured.continuity.ok(CONTINUITY) {
        true if worst.is_zero() => "gaps 0".to_owned(),
        true => format!("gaps 0 (at most {} late)", milliseconds(worst)),
        false => format!(
            "gaps {} (worst {})",
            measured.continuity.stalls,
            milliseconds(worst)
        ),
    }
}

fn utterance_json(utterance: &Utterance) -> Value {
    let done = utterance.done.as_ref();
    json!({
        "finish": done.map_or("interrupted", |done| done.finish.name()),
        "error": done.and_then(|done| match &done.finish {
            Finish::Error(error) => Some(json!({
                "code": code_name(error.code), "reason": error.reason, "message": error.message,
            })),
            _ => None,
        }),
        "seed": done.and_then(|done| done.seed),
        "measured": utterance.measured.as_ref().map(measured_json),
        "server": done.map(server_json),
        "warnings": utterance.warnings.iter()
            .map(|warning| json!({ "reason": warning.reason, "message": warning.message }))
            .collect::<Vec<_>>(),
    })
}

fn measured_json(measured: &Measured) -> Value {
    json!({
        "sample_rate_hz": measured.rate.hz(),
        "samples": measured.samples.0,
        "audio_seconds": measured.audio.as_secs_f64(),
        "time_to_first_audio_seconds": measured.first_audio.map(|time| time.as_secs_f64()),
        "time_to_first_audible_seconds": measured.audible_first_audio.map(|time| time.as_secs_f64()),
        "real_time_factor": measured.real_time_factor,
        "continuity": {
            "ok_at_100_ms": measured.continuity.ok(CONTINUITY),
            "late_chunks": measured.continuity.late_chunks,
            "stalls": measured.continuity.stalls,
            "worst_seconds": measured.continuity.worst().as_secs_f64(),
            "chunks": measured.continuity.chunks,
        },
    })
}

fn server_json(done: &Outcome) -> Value {
    let timings = &done.timings;
    json!({
        "queue_seconds": timings.queue.as_secs_f64(),
        "time_to_first_audio_seconds": timings.time_to_first_audio.map(|time| time.as_secs_f64()),
        "leading_silence_seconds": timings.leading_silence.as_secs_f64(),
        "total_seconds": timings.total.as_secs_f64(),
        "real_time_factor": timings.real_time_factor,
        "busy_real_time_factor": done.busy_real_time_factor(),
        "worst_underrun_seconds": timings.worst_underrun.as_secs_f64(),
        "input_characters": done.usage.input_characters,
        "output_audio_tokens": done.usage.output_audio_tokens,
        "stages": timings.stages.iter().map(|stage| json!({
            "stage": stage.stage,
            "replica": stage.replica,
            "queue_seconds": stage.queue.as_secs_f64(),
            "busy_seconds": stage.busy.as_secs_f64(),
            "first_output_seconds": stage.first_output.map(|time| time.as_secs_f64()),
        })).collect::<Vec<_>>(),
    })
}

/// With as many digits as help.
pub(crate) fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 9.95 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omni_audio::SampleRate;
    use omni_client::{Audio, Meter};

    fn measured(arrivals: &[u64]) -> Measured {
        let rate = SampleRate::new(24_000).unwrap();
        let mut meter = Meter::new(rate);
        for (i, &at) in arrivals.iter().enumerate() {
            let start = omni_audio::Samples(i as u64 * 2_400);
            let audio = Audio {
                rate,
                start,
                pcm: vec![1; 4_800].into(),
                last: false,
            };
            meter.audio(Duration::from_millis(at), &audio);
        }
        meter.finish()
    }

    #[test]
    fn gaps_are_counted_only_when_they_can_be_heard() {
        assert_eq!(gaps(&measured(&[5, 10, 200])), "gaps 0");
        assert_eq!(gaps(&measured(&[0, 150])), "gaps 0 (at most 50 ms late)");
        let one_stall = measured(&[0, 300, 390, 500]);
        assert_eq!(
            gaps(&one_stall),
            "gaps 1 (worst 200 ms)",
            "not one for every chunk after it"
        );
        assert_eq!(gaps(&measured(&[0, 300, 550])), "gaps 2 (worst 350 ms)");
    }

    #[test]
    fn small_times_keep_a_digit() {
        assert_eq!(milliseconds(Duration::from_micros(9_940)), "9.9 ms");
        assert_eq!(milliseconds(Duration::from_micros(9_960)), "10 ms");
        assert_eq!(milliseconds(Duration::from_millis(1_234)), "1234 ms");
    }
}
