//! Cache of encoded recordings that came with requests: callers send the same recording with every request.

use std::collections::VecDeque;

use omni_audio::InputFormat;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::encoding::Encoded;
use super::recording::{Recording, RecordingFormat};

/// Capacity of the cache.
const MOST: usize = 16;

/// Key of a recording together with its use.
pub(super) type Key = [u8; 32];

/// Entries, the latest first.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<(Key, Encoded)>>);

/// Key of a recording in context with its `transcript`, or of its vector alone.
pub(super) fn key(recording: &Recording, transcript: Option<&str>) -> Key {
    let mut hash = Sha256::new();
    match recording.format {
        RecordingFormat::Detected => hash.update([0]),
        RecordingFormat::Stated(InputFormat {
            encoding,
            rate,
            channels,
        }) => hash.update(format!("{encoding:?} {} {channels}", rate.hz())),
    }
    hash.update(recording.data.len().to_le_bytes());
    hash.update(&recording.data);
    if let Some(transcript) = transcript {
        hash.update([1]);
        hash.update(transcript);
    }
    hash.finalize().into()
}

impl Recent {
    pub(super) fn get(&self, key: &Key) -> Option<Encoded> {
        let mut recent = self.0.lock();
        let at = recent.iter().position(|(known, _)| known == key)?;
        let found = recent.remove(at)?;
        let encoded = found.1.clone();
        recent.push_front(found);
        Some(encoded)
    }

    /// Adds an entry; returns true if another one was dropped for it.
    pub(super) fn put(&self, key: Key, encoded: Encoded) -> bool {
        let mut recent = self.0.lock();
        recent.retain(|(known, _)| *known != key);
        recent.push_front((key, encoded));
        let drops = recent.len() > MOST;
        recent.truncate(MOST);
        drops
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use omni_pipeline::request::VoicePrompt;

    #[test]
    fn the_ones_used_last_are_remembered_and_uses_are_kept_apart() {
        let encoded = |x: f32| Encoded {
            prompt: Arc::new(VoicePrompt {
                x_vector: vec![x],
                reference: None,
            }),
            duration: Duration::ZERO,
        };
        let of = |n: usize| key(&Recording::file(vec![n as u8]), None);
        assert_ne!(
            of(1),
            key(&Recording::file(vec![1]), Some("")),
            "one byte and a transcript"
        );
        let recent = Recent::default();
        for n in 0..=MOST {
            assert_eq!(recent.put(of(n), encoded(n as f32)), n == MOST);
            assert!(recent.get(&of(1)).is_some() || n == 0);
        }
        assert!(recent.get(&of(0)).is_none());
        assert_eq!(recent.get(&of(1)).unwrap().prompt.x_vector, [1.0]);
    }
}
