//! What `--model` says.

use std::path::Path;

use omni_family::ModelSource;
use omni_models::RandomModel;

/// Fetches the smallest published checkpoint that is served.
const FETCH: &str = "hf download Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice --local-dir DIR";

pub(super) fn parse(text: &str) -> Result<ModelSource, String> {
    match text {
        "embedded" => Ok(ModelSource::Embedded),
        name if RandomModel::is_meant(name) => name
            .parse()
            .map(ModelSource::Random)
            .map_err(|error| error.to_string()),
        path if Path::new(path).join("config.json").is_file() => Ok(ModelSource::Directory(path.into())),
        _ => Err(format!(
            "expected \"embedded\", \"random:NAME\" or a directory with a config.json, such as this command fetches: {FETCH}"
        )),
    }
}
