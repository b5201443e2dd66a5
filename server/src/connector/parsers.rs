//! What another process sends, for tests that send anything.

use omni_engine::CodecFrame;

use super::remote::RemoteJob;
use super::wire::{Frame, FrameReader, Hello, News, Nothing, Opening, Passages, Wire};
use crate::stage::{
    AudioPiece, Code2WavJob, End, ReplicaStats, ReplyToken, StageSnapshot, TalkerJob, ThinkerJob,
};

/// Reads frames, and what is in them.
pub fn frames(mut bytes: &[u8]) {
    let mut reader = FrameReader::default();
    loop {
        let read = reader.fill(&mut bytes).unwrap_or(0);
        loop {
            match reader.next() {
                Ok(Some(Frame { payload, .. })) => payloads(payload),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if read == 0 {
            return;
        }
    }
}

/// Reads a payload as each of the things that it may be.
pub fn payloads(bytes: &[u8]) {
    read::<Hello>(bytes);
    read::<String>(bytes);
    read::<End>(bytes);
    read::<Passages>(bytes);
    read::<ReplicaStats>(bytes);
    read::<News>(bytes);
    read::<StageSnapshot>(bytes);
    job::<TalkerJob>(bytes);
    job::<Code2WavJob>(bytes);
    job::<ThinkerJob>(bytes);
    read::<Vec<u32>>(bytes);
    read::<CodecFrame>(bytes);
    read::<AudioPiece>(bytes);
    read::<Nothing>(bytes);
    read::<ReplyToken>(bytes);
}

fn job<J: RemoteJob>(bytes: &[u8]) {
    read::<Opening<J::Order>>(bytes);
    read::<J::Order>(bytes);
}

/// What can be read says the same when it is written again.
fn read<T: Wire>(bytes: &[u8]) {
    if let Ok(value) = T::decode(bytes) {
        let mut again = Vec::new();
        value.encode(&mut again);
        assert!(T::decode(&again).is_ok(), "what is written can be read");
    }
}
