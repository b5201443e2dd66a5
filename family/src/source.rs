//! Where a model comes from.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use omni_models::{CheckpointSource, RandomModel};
use serde::{Deserialize, Serialize};

/// The checkpoint inside the program: names and contents.
pub(crate) static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Where the model comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelSource {
    /// The one inside the program.
    Embedded,
    /// A checkpoint directory.
    Directory(PathBuf),
    /// Known shapes with random weights.
    Random(RandomModel),
}

impl ModelSource {
    /// The checkpoint, and its name to callers unless it gives itself one.
    pub(crate) fn checkpoint(&self) -> anyhow::Result<(CheckpointSource, String)> {
        Ok(match self {
            Self::Embedded => (embedded_checkpoint()?, "embedded".to_owned()),
            Self::Directory(path) => (CheckpointSource::Dir(path.clone()), directory_name(path)),
            Self::Random(model) => (CheckpointSource::Random(*model), model.to_string()),
        })
    }
}

/// The checkpoint that is compiled in.
///
/// # Errors
/// If this build has none.
pub fn embedded_checkpoint() -> anyhow::Result<CheckpointSource> {
    ensure!(
        !EMBEDDED.is_empty(),
        "this build has no embedded model, give a directory with --model"
    );
    Ok(CheckpointSource::Memory(EMBEDDED))
}

pub(crate) fn directory_name(path: &Path) -> String {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    canonical
        .file_name()
        .map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}
