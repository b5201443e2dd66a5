//! Messages to what they mean, for tests that send anything.

use std::sync::Arc;

use http::HeaderMap;
use omni_proto::riva::tts::SynthesizeSpeechRequest;
use omni_proto::v1;
use prost::Message;
use tonic::metadata::MetadataMap;

use super::commands::command;
use super::deadline::timeout;
use super::{chat, riva};
use crate::stage::{ChatInfo, SpeechInfo};

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

/// What headers say of the time that a caller has.
pub fn deadline(headers: &HeaderMap) {
    let _ = timeout(&MetadataMap::from_headers(headers.clone()));
}

fn messages<M: Message + Default>(mut bytes: &[u8]) -> impl Iterator<Item = M> {
    std::iter::from_fn(move || M::decode_length_delimited(&mut bytes).ok()).take(MOST)
}
