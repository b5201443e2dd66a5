//! Where the model comes from.

use std::path::{Path, PathBuf};

use omni_models::RandomModel;
use serde::{Deserialize, Serialize};

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

/// Fetches the smallest published checkpoint that is served.
const FETCH: &str = "hf download Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice --local-dir DIR";

impl ModelSource {
    /// Reads what `--model` says.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "embedded" => Ok(Self::Embedded),
            name if RandomModel::is_meant(name) => {
                name.parse().map(Self::Random).map_err(|error| error.to_string())
            }
            path if Path::new(path).join("config.json").is_file() => Ok(Self::Directory(path.into())),
            _ => Err(format!(
                "expected \"embedded\", \"random:NAME\" or a directory with a config.json, such as this command fetches: {FETCH}"
            )),
        }
    }
}
