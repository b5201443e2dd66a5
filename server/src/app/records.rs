//! Records of utterances, answers and edges as log lines.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use omni_pipeline::connector::{EdgeRecord, EdgeSink, Hop, TransferStamps};
use omni_session::{EndedRequest, RecordSink, StageFigures, Track, TurnRecord, UtteranceRecord};

/// Receivers of a server's records.
#[derive(Clone, derive_more::Debug)]
#[debug("Sinks")]
pub struct Sinks {
    /// Records of utterances.
    pub records: Arc<dyn RecordSink>,
    /// Figures of the edges between stages.
    pub edges: Arc<dyn EdgeSink>,
}

impl Sinks {
    /// Everything becomes a log line.
    pub fn log() -> Self {
        Self {
            records: Arc::new(LogRecords),
            edges: Arc::new(LogEdges),
        }
    }
}

/// Writes one line per utterance and per answer, without their texts.
#[derive(Debug, Default)]
pub struct LogRecords;

impl RecordSink for LogRecords {
    fn ended(&self, request: &EndedRequest, _track: Option<&Track>) {
        match request {
            EndedRequest::Utterance(record) => utterance(record),
            EndedRequest::Turn(record) => turn(record),
        }
    }
}

fn utterance(record: &UtteranceRecord) {
    let usage = &record.usage;
    let timings = &record.timings;
    // The wait for the caller's text is shown separately: it is not queueing by the server.
    let queue = timings
        .wait
        .map(|wait| wait + timings.first().queue.unwrap_or_default());
    tracing::info!(
        session = %record.session,
        utterance = %record.utterance,
        voice = record.voice,
        outcome = record.outcome.name(),
        reason = record.error.as_ref().map(|error| error.reason()),
        error = record.error.as_ref().map(tracing::field::display),
        characters = usage.characters,
        tokens = usage.text_tokens,
        frames = usage.frames,
        audio_s = seconds(usage.audio),
        text_wait_ms = millis(timings.text_wait),
        queue_ms = queue.map(millis),
        first_audio_ms = timings.first_packet.map(millis),
        generation_ms = millis(timings.generation),
        leading_silence_ms = millis(timings.leading_silence),
        total_ms = millis(timings.total),
        real_time_factor = thousandths(timings.real_time_factor),
        worst_gap_ms = millis(timings.worst_underrun),
        stage_ms = ?StageTimes(timings.stages.iter().collect()),
        seed = record.seed,
        "utterance"
    );
}

fn turn(record: &TurnRecord) {
    let usage = &record.usage;
    let timings = &record.timings;
    let intervals = &timings.intervals;
    let speech = timings.speech.as_ref();
    let spoken = speech.iter().flat_map(|speech| &speech.stages);
    let stages = timings.encoder.iter().chain([&timings.answer]).chain(spoken);
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
        audio_s = seconds(usage.audio),
        queue_ms = timings.queue.map(millis),
        prefill_ms = timings.prefill.map(millis),
        first_token_ms = timings.first_token.map(millis),
        first_text_ms = timings.first_text.map(millis),
        first_audio_ms = speech.and_then(|speech| speech.first_packet).map(millis),
        token_interval_ms = intervals.mean().map(millis),
        longest_token_interval_ms = millis(intervals.longest),
        total_ms = millis(timings.total),
        real_time_factor = thousandths(timings.real_time_factor),
        worst_gap_ms = speech.map(|speech| millis(speech.worst_underrun)),
        stage_ms = ?StageTimes(stages.collect()),
        seed = record.seed,
        "turn"
    );
}

/// Logs one line per edge of a sequence, for finding delays between stages.
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

/// The time that each replica computed, in milliseconds, as a JSON object by `STAGE/REPLICA`: a line of JSON holds it as one.
struct StageTimes<'a>(Vec<&'a StageFigures>);

impl fmt::Debug for StageTimes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = f.debug_map();
        for figures in &self.0 {
            let replica = figures.replica.map(|id| format!("/{id}")).unwrap_or_default();
            times.entry(&format!("{}{replica}", figures.stage), &millis(figures.busy));
        }
        times.finish()
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

fn seconds(time: Duration) -> f64 {
    thousandths(time.as_secs_f64())
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use omni_pipeline::stage::ReplicaId;

    use super::*;

    #[test]
    fn the_times_of_stages_are_a_json_object_with_rounded_figures() {
        let talker = StageFigures {
            stage: "talker",
            busy: Duration::from_nanos(375_109_273),
            replica: Some(ReplicaId(0)),
            ..StageFigures::default()
        };
        let vocoder = StageFigures {
            stage: "code2wav",
            busy: Duration::from_micros(20),
            ..StageFigures::default()
        };
        let told = format!("{:?}", StageTimes(vec![&talker, &vocoder]));
        let read: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(read, serde_json::json!({ "talker/0": 375.1, "code2wav": 0.0 }));
    }

    #[test]
    fn figures_have_no_more_digits_than_mean_something() {
        assert_eq!(seconds(Duration::from_nanos(1_680_000_120)).to_string(), "1.68");
        assert_eq!(millis(Duration::from_nanos(11_588_123)).to_string(), "11.6");
        assert_eq!(thousandths(0.028_431_9).to_string(), "0.028");
    }
}
