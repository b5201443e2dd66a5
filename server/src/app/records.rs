//! Records of utterances as log lines.

use std::time::Duration;

use crate::session::{Outcome, RecordSink, UtteranceRecord};

/// Writes one line per utterance, without its text.
#[derive(Debug, Default)]
pub struct LogRecords;

impl RecordSink for LogRecords {
    fn utterance(&self, record: &UtteranceRecord) {
        let outcome = match record.outcome {
            Outcome::Stop => "stop",
            Outcome::Length => "length",
            Outcome::Interrupted => "interrupted",
            Outcome::Error => "error",
            Outcome::Aborted => "aborted",
        };
        let (usage, timings) = (&record.usage, &record.timings);
        tracing::info!(
            session = %record.session,
            utterance = %record.utterance,
            voice = record.voice,
            outcome,
            reason = record.error.as_ref().map(|error| error.reason()),
            error = record.error.as_ref().map(tracing::field::display),
            characters = usage.characters,
            tokens = usage.text_tokens,
            frames = usage.frames,
            audio_s = usage.audio.as_secs_f64(),
            queue_ms = timings.queue.map(millis),
            first_audio_ms = timings.first_audio.map(millis),
            leading_silence_ms = millis(timings.leading_silence),
            total_ms = millis(timings.total),
            real_time_factor = timings.real_time_factor,
            underrun_ms = millis(timings.worst_underrun),
            talker_ms = millis(timings.talker.busy),
            code2wav_ms = millis(timings.code2wav.busy),
            seed = record.seed,
            "utterance"
        );
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
