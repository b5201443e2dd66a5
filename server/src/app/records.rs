//! Records of utterances, answers and edges as log lines.

use std::time::Duration;

use crate::session::{RecordSink, StageFigures, TurnRecord, UtteranceRecord};
use omni_pipeline::connector::{EdgeRecord, EdgeSink, Hop, TransferStamps};

/// Writes one line per utterance and per answer, without their texts.
#[derive(Debug, Default)]
pub struct LogRecords;

impl RecordSink for LogRecords {
    fn utterance(&self, record: &UtteranceRecord) {
        let outcome = record.outcome.name();
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
            text_wait_ms = millis(timings.text_wait),
            first_audio_ms = timings.first_audio.map(millis),
            first_packet_ms = timings.first_packet.map(millis),
            generation_ms = millis(timings.generation),
            leading_silence_ms = millis(timings.leading_silence),
            total_ms = millis(timings.total),
            real_time_factor = timings.real_time_factor,
            underrun_ms = millis(timings.worst_underrun),
            stages = shares(&timings.stages),
            seed = record.seed,
            "utterance"
        );
    }

    fn turn(&self, record: &TurnRecord) {
        let (usage, timings) = (&record.usage, &record.timings);
        let intervals = &timings.intervals;
        tracing::info!(
            session = %record.session,
            response = %record.response,
            text = record.modalities.text,
            audio = record.modalities.audio,
            voice = record.voice,
            outcome = record.outcome.name(),
            reason = record.error.as_ref().map(|error| error.reason()),
            error = record.error.as_ref().map(tracing::field::display),
            messages = record.messages,
            prompt_tokens = usage.prompt_tokens,
            prompt_audio = usage.prompt_audio,
            reply_tokens = usage.reply_tokens,
            frames = usage.frames,
            audio_s = usage.audio.as_secs_f64(),
            admitted_ms = timings.admitted.map(millis),
            queue_ms = timings.queue.map(millis),
            prefill_ms = timings.prefill.map(millis),
            first_token_ms = timings.first_token.map(millis),
            first_text_ms = timings.first_text.map(millis),
            first_audio_ms = timings.speech.as_ref().and_then(|speech| speech.first_audio).map(millis),
            token_interval_ms = intervals.mean().map(millis),
            longest_token_interval_ms = millis(intervals.longest),
            total_ms = millis(timings.total),
            real_time_factor = timings.real_time_factor,
            underrun_ms = timings.speech.as_ref().map(|speech| millis(speech.worst_underrun)),
            stages = shares(std::slice::from_ref(&timings.answer)),
            seed = record.seed,
            "turn"
        );
    }
}

/// Writes one line per edge of a sequence, to look for time that was lost between stages.
#[derive(Debug, Default)]
pub struct LogEdges;

impl EdgeSink for LogEdges {
    fn chunk(&self, _hop: &Hop, _chunk: &TransferStamps) {}

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

/// What each stage spent, and where: `NAME-REPLICA TIMEms`, separated by commas.
fn shares(stages: &[StageFigures]) -> String {
    let share = |figures: &StageFigures| {
        let replica = figures.replica.map(|id| format!("-{id}")).unwrap_or_default();
        format!("{}{replica} {}ms", figures.stage, millis(figures.busy))
    };
    stages.iter().map(share).collect::<Vec<_>>().join(", ")
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
