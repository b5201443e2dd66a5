//! Records of utterances and of edges as log lines.

use std::time::Duration;

use crate::connector::{ChunkStamps, EdgeRecord, EdgeSink, Hop};
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
            talker_replica = timings.talker.replica.map(|id| id.0),
            code2wav_replica = timings.code2wav.replica.map(|id| id.0),
            seed = record.seed,
            "utterance"
        );
    }
}

/// Writes one line per edge of a sequence, for those who look for time that was lost between stages.
#[derive(Debug, Default)]
pub struct LogEdges;

impl EdgeSink for LogEdges {
    fn chunk(&self, _hop: &Hop, _chunk: &ChunkStamps) {}

    fn closed(&self, record: &EdgeRecord) {
        tracing::debug!(
            seq = record.hop.seq.0,
            from = %record.hop.from,
            to = %record.hop.to,
            chunks = record.chunks,
            bytes = record.bytes,
            tx_ms = millis(record.tx),
            in_flight_ms = millis(record.in_flight),
            longest_ms = millis(record.longest),
            rx_ms = millis(record.rx),
            "edge"
        );
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
