//! Identity of a model, by which two processes tell if they have the same one.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::source::{EMBEDDED, ModelSource, directory_name};

/// Bytes of a sample of a file.
const SAMPLE: u64 = 64 << 10;
/// Samples of a file, evenly spread: reading all of a large checkpoint takes minutes.
const SAMPLES: u64 = 32;

/// Name and digest of the model. For a directory the digest covers all names and lengths, small files as a whole and
/// large ones in samples.
///
/// # Errors
/// If the files cannot be read.
pub fn model_identity(source: &ModelSource) -> anyhow::Result<String> {
    let mut digest = Sha256::new();
    let name = match source {
        ModelSource::Embedded => {
            for (name, content) in EMBEDDED {
                digest.update(name.as_bytes());
                digest.update(content);
            }
            "embedded".to_owned()
        }
        ModelSource::Random(model) => return Ok(model.to_string()),
        ModelSource::Directory(path) => {
            let mut files = files(path).with_context(|| path.display().to_string())?;
            // A codec has a folder of its own.
            for folder in folders(path).with_context(|| path.display().to_string())? {
                files.extend(self::files(&folder).with_context(|| folder.display().to_string())?);
            }
            for file in &files {
                add(&mut digest, file).with_context(|| file.display().to_string())?;
            }
            directory_name(path)
        }
    };
    let digest: String = digest
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(format!("{name} ({digest})"))
}

/// The files of a folder, in order.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    entries(folder, Path::is_file)
}

/// The folders in a folder that belong to a checkpoint, in order: tools keep notes in hidden ones.
fn folders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    entries(folder, |path| {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        path.is_dir() && !hidden
    })
}

fn entries(folder: &Path, wanted: impl Fn(&Path) -> bool) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut found = entries.collect::<std::io::Result<Vec<_>>>()?;
    found.retain(|path| wanted(path));
    found.sort_unstable();
    Ok(found)
}

fn add(digest: &mut Sha256, path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    digest.update(path.file_name().unwrap_or_default().as_encoded_bytes());
    digest.update(length.to_le_bytes());
    let mut sample = Vec::new();
    let step = (length / SAMPLES).max(SAMPLE);
    let mut at = 0;
    while at < length {
        file.seek(SeekFrom::Start(at))?;
        sample.clear();
        file.by_ref().take(SAMPLE).read_to_end(&mut sample)?;
        digest.update(&sample);
        at += step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &[u8])]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("voice");
        std::fs::create_dir(&path).unwrap();
        for (name, content) in files {
            std::fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            std::fs::write(path.join(name), content).unwrap();
        }
        model_identity(&ModelSource::Directory(path)).unwrap()
    }

    #[test]
    fn models_are_told_apart_by_their_files_and_not_by_where_they_are() {
        let weights = vec![7; 5 << 20];
        let mut tuned = weights.clone();
        // A sample begins there.
        tuned[(5 << 20) / 32 * 3] = 8;
        let first = of(&[("config.json", b"{}"), ("model.safetensors", &weights)]);
        assert!(first.starts_with("voice ("), "{first}");
        assert_eq!(
            first,
            of(&[("config.json", b"{}"), ("model.safetensors", &weights)])
        );
        assert_ne!(
            first,
            of(&[("config.json", b"{}"), ("model.safetensors", &tuned)])
        );
        assert_ne!(
            first,
            of(&[("config.json", b"[]"), ("model.safetensors", &weights)])
        );
        let with_codec = |codec: &[u8]| {
            of(&[
                ("config.json", b"{}"),
                ("model.safetensors", &weights),
                ("speech_tokenizer/model.safetensors", codec),
            ])
        };
        assert_ne!(with_codec(b"one"), with_codec(b"two"));
        assert_ne!(
            first,
            of(&[("config.json", b"{}"), ("weights.safetensors", &weights)])
        );
    }
}
