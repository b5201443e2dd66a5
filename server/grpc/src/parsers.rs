//! Conversion of messages, for tests that feed it arbitrary bytes.

use std::sync::Arc;

use http::HeaderMap;
use omni_core::call::CallContext;
use omni_family::{ChatInfo, SpeechInfo};
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::v1;
use omni_telemetry::CustomMetrics;
use prost::Message;

use super::commands::command;
use super::{admin, calls, chat, metrics, riva};

/// Messages of one call.
const MOST: usize = 64;

/// Messages of a `Speak` call, each behind its length.
pub fn speech(bytes: &[u8], info: &SpeechInfo) {
    for request in messages::<v1::SpeakRequest>(bytes) {
        let _ = command(request, info);
    }
}

/// Messages of a `Converse` call, each behind its length.
pub fn conversation(bytes: &[u8], speech: &Arc<SpeechInfo>, info: &Arc<ChatInfo>) {
    chat::take(messages::<v1::ConverseRequest>(bytes), speech, info);
}

/// Messages of a `SynthesizeOnline` call of Riva's, each behind its length.
pub fn synthesis(bytes: &[u8], info: &SpeechInfo) {
    riva::take(messages::<SynthesizeSpeechRequest>(bytes), info);
}

/// Messages of `MetricsService`, each behind its length: declarations and samples in turn.
pub fn measurements(mut bytes: &[u8], to: &Arc<CustomMetrics>) {
    for _ in 0..MOST {
        let declared = v1::DeclareMetricsRequest::decode_length_delimited(&mut bytes);
        let recorded = v1::RecordMetricsRequest::decode_length_delimited(&mut bytes);
        let (Ok(declared), Ok(recorded)) = (declared, recorded) else {
            return;
        };
        metrics::take(&declared, recorded, to);
    }
}

/// Messages of `AdminService` with times, each behind its length: statistics and drains in turn.
pub fn operator(mut bytes: &[u8]) {
    for _ in 0..MOST {
        let watch = v1::WatchStatsRequest::decode_length_delimited(&mut bytes);
        let drain = v1::DrainRequest::decode_length_delimited(&mut bytes);
        let (Ok(watch), Ok(drain)) = (watch, drain) else {
            return;
        };
        admin::take(&watch, &drain);
    }
}

/// Body of a call whose messages are counted. The first byte decides on the pieces, which must change nothing.
pub fn frames(bytes: &[u8]) {
    let [cut, body @ ..] = bytes else { return };
    let whole = calls::messages([body]);
    let in_pieces = calls::messages(body.chunks(usize::from(*cut) + 1));
    assert_eq!(whole, in_pieces, "the cut of a body changes nothing");
}

/// Reads a deadline from headers.
pub fn deadline(headers: &HeaderMap) {
    let _ = CallContext::from_headers(headers);
}

fn messages<M: Message + Default>(mut bytes: &[u8]) -> impl Iterator<Item = M> {
    std::iter::from_fn(move || M::decode_length_delimited(&mut bytes).ok()).take(MOST)
}
