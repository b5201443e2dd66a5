//! The value of `--model`.

use std::path::Path;

use omni_family::ModelSource;
use omni_models::RandomModel;

pub(super) fn parse(text: &str) -> Result<ModelSource, String> {
    match text {
        "embedded" => Ok(ModelSource::Embedded),
        name if RandomModel::is_meant(name) => name
            .parse()
            .map(ModelSource::Random)
            .map_err(|error| error.to_string()),
        path => ModelSource::in_directory(Path::new(path)),
    }
}
