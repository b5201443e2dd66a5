//! An answer on its way, and the record that it becomes.

use std::time::Duration;

use omni_client::{Audio, Finish, Measured, Meter, Outcome};

use super::record::{Cancel, Chunk, Record, Served, Stage};

/// The answer so far. Times count from the sending of the request.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Model and voice, once the server has named them.
    pub(crate) served: Option<Served>,
    /// Time at which the token was sent that completed the first sentence, if the text is streamed.
    pub(crate) sentence: Option<Duration>,
    pub(crate) first_text: Option<Duration>,
    pub(crate) last_text: Option<Duration>,
    pub(crate) meter: Option<Meter>,
    pub(crate) chunks: Vec<Chunk>,
    /// Time at which it is to be cancelled.
    pub(crate) cancel_after: Option<Duration>,
    /// Time at which the cancel was sent.
    pub(crate) cancelled: Option<Duration>,
    pub(crate) done: Option<Outcome>,
    /// Time at which that came.
    pub(crate) done_at: Option<Duration>,
}

impl Heard {
    pub(crate) fn text(&mut self, at: Duration) {
        self.first_text.get_or_insert(at);
        self.last_text = Some(at);
    }

    pub(crate) fn audio(&mut self, at: Duration, audio: &Audio) {
        let plays = audio.rate.duration(audio.samples());
        self.chunks.push(Chunk(at.as_secs_f64(), plays.as_secs_f64()));
        self.meter
            .get_or_insert_with(|| Meter::new(audio.rate))
            .audio(at, audio);
    }

    pub(crate) fn done(&mut self, at: Duration, outcome: Outcome) {
        self.done = Some(outcome);
        self.done_at = Some(at);
    }

    pub(crate) fn was_cancelled(&self) -> bool {
        self.cancelled.is_some()
    }

    /// Outcome of the cancel, if one was planned.
    pub(crate) fn cancel(&self) -> Option<Cancel> {
        let after = self.cancel_after?;
        let interrupted = matches!(&self.done, Some(done) if done.finish == Finish::Interrupted);
        let took = |(sent, done): (Duration, Duration)| done.saturating_sub(sent).as_secs_f64();
        Some(Cancel {
            after_seconds: after.as_secs_f64(),
            latency_seconds: self.cancelled.zip(self.done_at).filter(|_| interrupted).map(took),
        })
    }

    /// The record of a request for text number `text`, sent `lag` after it was due.
    pub(crate) fn record(self, text: usize, lag: Duration, failure: Option<String>) -> Record {
        let from_due = |time: Duration| (lag + time).as_secs_f64();
        let cancel = self.cancel();
        let measured = self.meter.map(Meter::finish);
        let measured = measured.as_ref();
        let first = measured.and_then(|measured| measured.first_audio);
        let record = Record {
            text,
            send_lag_seconds: lag.as_secs_f64(),
            failure,
            cancel,
            time_to_first_text_seconds: self.first_text.map(from_due),
            time_to_last_text_seconds: self.last_text.map(from_due),
            time_to_first_audio_seconds: first.map(from_due),
            time_to_first_audible_seconds: measured.and_then(|m| m.audible_first_audio).map(from_due),
            sentence_to_first_audio_seconds: first
                .zip(self.sentence)
                .map(|(first, sentence)| first.saturating_sub(sentence).as_secs_f64()),
            chunks: self.chunks,
            ..Record::default()
        };
        with_outcome(with_audio(record, measured), self.done.as_ref())
    }

    /// Reason why a completed request still counts as failed.
    pub(crate) fn shortcoming(&self, expected: Expected) -> Option<String> {
        let Some(done) = &self.done else {
            return Some("the server ended the session without an answer".to_owned());
        };
        match &done.finish {
            Finish::Interrupted if self.was_cancelled() => None,
            Finish::Stop if expected.audio && self.meter.is_none() => Some("no audio".to_owned()),
            Finish::Stop => None,
            Finish::Length if expected.limited => None,
            Finish::Length => Some("the answer was cut at the longest the server gives".to_owned()),
            Finish::Repetition => Some("the answer was stopped: the model repeated itself".to_owned()),
            Finish::Interrupted => Some("the server stopped the answer".to_owned()),
            Finish::Error(error) => Some(error.to_string()),
        }
    }
}

/// Expectations of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) audio: bool,
    /// `true` if an answer of the greatest length was requested, so that a truncated one is complete.
    pub(crate) limited: bool,
}

fn with_audio(record: Record, measured: Option<&Measured>) -> Record {
    Record {
        audio_seconds: measured.map(|m| m.audio.as_secs_f64()),
        real_time_factor: measured.and_then(|m| m.real_time_factor),
        worst_underrun_seconds: measured.map(|m| m.continuity.worst().as_secs_f64()),
        late_chunks: measured.map(|m| m.continuity.late_chunks),
        ..record
    }
}

fn with_outcome(record: Record, done: Option<&Outcome>) -> Record {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let timings = done.map(|done| &done.timings);
    Record {
        finish: done.map(|done| done.finish.name().to_owned()),
        seed: done.and_then(|done| done.seed),
        output_text_tokens: done.map_or(0, |done| done.usage.output_text_tokens),
        server_queue_seconds: timings.map(|timings| timings.queue.as_secs_f64()),
        server_time_to_first_text_seconds: seconds(timings.and_then(|t| t.time_to_first_text)),
        server_time_to_first_audio_seconds: seconds(timings.and_then(|t| t.time_to_first_audio)),
        server_real_time_factor: timings.map(|timings| timings.real_time_factor),
        server_busy_real_time_factor: done.and_then(Outcome::busy_real_time_factor),
        stages: timings.map_or_else(Vec::new, |t| t.stages.iter().map(Stage::of).collect()),
        ..record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_begins_when_the_request_was_due_and_speed_when_it_was_sent() {
        use omni_client::{Audio, SampleRate, Samples};
        const MS: Duration = Duration::from_millis(1);
        let rate = SampleRate::new(24_000).unwrap();
        let mut heard = Heard {
            sentence: Some(80 * MS),
            ..Heard::default()
        };
        // A tenth of a second each, the first half of which is silent.
        for (at, start) in [(200, 0), (350, 2_400)] {
            let samples = [[0_i16; 1_200], [9_000; 1_200]].concat();
            let pcm: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            let start = Samples(start);
            let audio = Audio {
                rate,
                start,
                pcm: pcm.into(),
                last: false,
            };
            heard.audio(at * MS, &audio);
        }
        let record = heard.record(3, 50 * MS, None);
        assert_eq!((record.text, record.send_lag_seconds), (3, 0.05));
        assert_eq!(record.time_to_first_audio_seconds, Some(0.25));
        assert_eq!(record.time_to_first_audible_seconds, Some(0.3));
        assert_eq!(record.sentence_to_first_audio_seconds, Some(0.12));
        // 350 ms after sending 200 ms of audio were there; the second piece was 50 ms late.
        assert_eq!(
            (record.real_time_factor, record.worst_underrun_seconds),
            (Some(1.75), Some(0.05))
        );
        assert_eq!(record.chunks, [Chunk(0.2, 0.1), Chunk(0.35, 0.1)]);
    }
}
