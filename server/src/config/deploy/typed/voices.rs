//! Where the voices of callers are kept.

use std::path::PathBuf;

use super::{Scope, Setup};

/// Where voices are kept, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptVoiceLimits {
    /// As one file each; without, in memory alone.
    pub dir: Option<PathBuf>,
    /// Of all callers.
    pub max_voices: usize,
    /// Of one API key.
    pub max_voices_per_key: usize,
    /// Bytes of their files.
    pub max_bytes: u64,
    /// To which recordings are brought, in LUFS; without, they stay as they are.
    pub loudness: Option<f32>,
}

impl KeptVoiceLimits {
    pub(super) fn of(top: &Scope<'_>) -> Self {
        Self {
            dir: top.folder("voices.dir"),
            max_voices: top.count("voices.max_voices") as usize,
            max_voices_per_key: top.count("voices.max_voices_per_key") as usize,
            max_bytes: top.bytes("voices.max_memory"),
            loudness: top.real("voices.loudness").filter(|lufs| *lufs < 0.0),
        }
    }
}

impl Scope<'_> {
    fn bytes(&self, key: &str) -> u64 {
        match self.values.get(self.scope, key) {
            Setup::Bytes(bytes) => *bytes,
            other => unreachable!("{key} is {other:?}, not an amount"),
        }
    }

    fn folder(&self, key: &str) -> Option<PathBuf> {
        match self.values.get(self.scope, key) {
            Setup::Folder(path) if path == "memory" => None,
            Setup::Folder(path) => Some(path.into()),
            other => unreachable!("{key} is {other:?}, not a folder"),
        }
    }
}
