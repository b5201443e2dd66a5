//! Source of a model.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use omni_models::{CheckpointSource, RandomModel};
use serde::{Deserialize, Serialize};

/// The checkpoint inside the program: names and contents.
pub(crate) static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Source of the model.
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
/// Prefix of a repository's folder in Hugging Face's cache.
const CACHED: &str = "models--";

impl ModelSource {
    /// The checkpoint in a directory, or in the snapshot that a folder of Hugging Face's cache refers to.
    ///
    /// # Errors
    /// The actual content of the directory, and advice.
    pub fn in_directory(path: &Path) -> Result<Self, String> {
        let is_checkpoint = |path: &Path| path.join("config.json").is_file();
        if is_checkpoint(path) {
            return Ok(Self::Directory(path.to_owned()));
        }
        if let Some(id) = repository_id(path).filter(|_| !path.exists()) {
            let name = id.rsplit('/').next().unwrap_or(id);
            return Err(format!(
                "there is no such directory; fetch the repository of that name with: hf download {id} --local-dir {name}, and give --model {name}"
            ));
        }
        if path.is_file() {
            return Err("is a file, expected the directory that it is in".to_owned());
        }
        let snapshots = folders(&path.join("snapshots"));
        if !snapshots.is_empty() {
            let main = std::fs::read_to_string(path.join("refs/main")).unwrap_or_default();
            let main = path.join("snapshots").join(main.trim());
            let mut complete = snapshots.into_iter().filter(|path| is_checkpoint(path));
            return match (is_checkpoint(&main), complete.next(), complete.next()) {
                (true, ..) => Ok(Self::Directory(main)),
                (false, Some(only), None) => Ok(Self::Directory(only)),
                (false, None, _) => Err("is a folder of a cache whose snapshots have no config.json: the download is not complete".to_owned()),
                (false, Some(one), Some(other)) => Err(format!(
                    "is a folder of a cache with several snapshots, expected one of them, such as {} or {}",
                    one.display(),
                    other.display()
                )),
            };
        }
        let within = folders(path).into_iter().filter(|inner| {
            let name = inner.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(CACHED) || is_checkpoint(inner)
        });
        let within: Vec<_> = within.map(|path| path.display().to_string()).collect();
        if within.is_empty() {
            Err(format!(
                "expected \"embedded\", \"random:NAME\" or a directory with a config.json, such as this command fetches: {FETCH}"
            ))
        } else {
            Err(format!(
                "has no config.json, expected one of the directories in it: {}",
                within[..within.len().min(NAMED)].join(", ")
            ))
        }
    }

    /// The checkpoint, and its default name for callers.
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

/// Directories that an error names.
const NAMED: usize = 5;

/// The folders in a folder, in order; none if it cannot be read.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten();
    let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|path| path.is_dir());
    folders.sort_unstable();
    folders
}

/// The path, if it reads like the id of a repository: an owner and a name.
fn repository_id(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let is_part = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(char::is_alphanumeric)
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let (owner, name) = text.split_once('/')?;
    (is_part(owner) && is_part(name)).then_some(text)
}

/// Name of a directory; for a snapshot in Hugging Face's cache, the repository's name.
pub(crate) fn directory_name(path: &Path) -> String {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let repository = canonical.ancestors().nth(2).and_then(name);
    let cached = repository.as_deref().and_then(|name| name.strip_prefix(CACHED));
    match cached.and_then(|name| name.rsplit("--").next()) {
        Some(repository) => repository.to_owned(),
        None => name(&canonical).unwrap_or_else(|| "model".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these empty files.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn a_folder_of_the_hubs_cache_is_its_snapshot_and_called_as_the_repository() {
        let one = ["models--Org--Name/snapshots/abc/config.json"];
        let two = [
            "models--Org--Name/snapshots/abc/config.json",
            "models--Org--Name/snapshots/def/config.json",
        ];
        for (files, main, expected) in [
            (&one[..], None, Ok("abc")),
            (&one[..], Some("gone"), Ok("abc")),
            (&two[..], Some("def\n"), Ok("def")),
            (&two[..], None, Err("several snapshots")),
            (
                &["models--Org--Name/snapshots/abc/model.safetensors"],
                Some("abc"),
                Err("not complete"),
            ),
        ] {
            let folder = folder(files);
            let path = folder.path().join("models--Org--Name");
            if let Some(main) = main {
                std::fs::create_dir(path.join("refs")).unwrap();
                std::fs::write(path.join("refs/main"), main).unwrap();
            }
            match (ModelSource::in_directory(&path), expected) {
                (Ok(ModelSource::Directory(found)), Ok(commit)) => {
                    assert_eq!(found, path.join("snapshots").join(commit));
                    assert_eq!(directory_name(&found), "Name");
                }
                (Err(said), Err(expected)) => assert!(said.contains(expected), "{said}"),
                (found, expected) => panic!("{found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_checkpoint_says_what_to_give_instead() {
        let folder = folder(&[
            "hub/models--Org--Name/refs/main",
            "parent/voice/config.json",
            "file/config.json",
            "empty/notes.txt",
        ]);
        let said = |path: &str| ModelSource::in_directory(&folder.path().join(path)).unwrap_err();
        for (path, expected) in [
            ("hub", "hub/models--Org--Name"),
            ("parent", "parent/voice"),
            ("file/config.json", "is a file, expected the directory"),
            ("empty", "or a directory with a config.json"),
            ("nowhere", "or a directory with a config.json"),
        ] {
            assert!(said(path).contains(expected), "{path}: {}", said(path));
        }
        let id = ModelSource::in_directory(Path::new("Org-1/Name_2.0")).unwrap_err();
        assert!(
            id.contains("hf download Org-1/Name_2.0 --local-dir Name_2.0"),
            "{id}"
        );
        for path in ["/Org/Name", "./Name", "Org/Name/more", "Org", "~/Name"] {
            let said = ModelSource::in_directory(Path::new(path)).unwrap_err();
            assert!(
                said.contains("or a directory with a config.json"),
                "{path}: {said}"
            );
        }
    }
}
