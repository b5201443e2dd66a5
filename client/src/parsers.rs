//! Parsers of a server's messages, for tests that feed them arbitrary bytes.

use omni_proto::v1;
use prost::Message;

use crate::operator::{DrainProgress, ServerInfo, Stats};
use crate::{SpeechEvent, chat, speech};

/// Messages of one call.
const MOST: usize = 64;

/// Messages of a `Speak` call, each behind its length: the audio and words that pass must be contiguous.
pub fn speech(bytes: &[u8]) {
    let mut until = Default::default();
    for event in speech::passed(messages::<v1::SpeakResponse>(bytes)) {
        match event {
            SpeechEvent::Started(_) => until = Default::default(),
            SpeechEvent::Audio(_, audio) => {
                assert!(
                    !audio.pcm.is_empty() && audio.pcm.len().is_multiple_of(2),
                    "whole samples"
                );
            }
            SpeechEvent::Alignment(_, words) => {
                for word in words {
                    assert!(until <= word.samples.start && word.samples.start <= word.samples.end);
                    until = word.samples.end;
                }
            }
            SpeechEvent::Ready(_) | SpeechEvent::Done(..) | SpeechEvent::Warning(_) => {}
        }
    }
}

/// Messages of a `Converse` call, each behind its length.
pub fn conversation(bytes: &[u8]) {
    drop(chat::passed(messages::<v1::ConverseResponse>(bytes)));
}

/// Messages of `AdminService`, each behind its length: description, figures and drain progress, in turn.
pub fn operator(mut bytes: &[u8]) {
    for _ in 0..MOST {
        let info = v1::GetServerInfoResponse::decode_length_delimited(&mut bytes);
        let stats = v1::WatchStatsResponse::decode_length_delimited(&mut bytes);
        let drain = v1::DrainResponse::decode_length_delimited(&mut bytes);
        let (Ok(info), Ok(stats), Ok(drain)) = (info, stats, drain) else {
            return;
        };
        let _ = ServerInfo::from_proto(info);
        let _ = Stats::from_proto(stats);
        let _ = DrainProgress::from_proto(&drain);
    }
}

fn messages<M: Message + Default>(mut bytes: &[u8]) -> impl Iterator<Item = M> {
    std::iter::from_fn(move || M::decode_length_delimited(&mut bytes).ok()).take(MOST)
}
