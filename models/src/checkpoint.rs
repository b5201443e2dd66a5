//! A checkpoint: named files, and the tensors that its safetensors files hold.
//!
//! Flows in: a directory, a set of files compiled into the program, or the name of a random checkpoint. Flows out: raw
//! files by name and, for the network constructors, tensors by name with their bytes as stored. Reads by position, so
//! only the tensors asked for are ever touched and a file cut short under our feet is an error, not a signal. Never
//! interprets a tensor.

mod header;
mod info;
mod pickle;
mod problem;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use omni_backend::host::{HostTensor, Pages, pages};
use serde::Deserialize;

use crate::random::RandomModel;
use header::Header;
use info::Content;
pub(crate) use info::TensorInfo;
#[cfg(unix)]
use omni_backend::host::{FileRows, FileStamp};
pub use problem::{LoadError, Problem};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Source of a checkpoint's files.
#[derive(Debug, Clone)]
pub enum CheckpointSource {
    /// A directory in Hugging Face layout.
    Dir(PathBuf),
    /// Files inside the program: `(name, content)`.
    Memory(&'static [(&'static str, &'static [u8])]),
    /// None: shapes of a known model with random weights.
    Random(RandomModel),
}

/// Longest piece of a tensor that is read between two signs of progress.
const PIECE: u64 = 16 << 20;

static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// A number that grows whenever this process has read a part of a checkpoint's tensors, whichever thread does: while
/// it stands still, nothing is being loaded.
pub fn loading_progress() -> u64 {
    PROGRESS.load(Ordering::Relaxed)
}

impl CheckpointSource {
    /// The checkpoint's name in messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Dir(dir) => dir.display().to_string(),
            Self::Memory(_) => "in memory".into(),
            Self::Random(model) => model.to_string(),
        }
    }

    /// Returns true if there is such a file.
    pub(crate) fn has(&self, name: &str) -> Result<bool, LoadError> {
        match self {
            Self::Random(model) => Ok(model.file(name).is_some()),
            Self::Dir(_) | Self::Memory(_) => Ok(self.len(name)?.is_some()),
        }
    }

    /// As [`CheckpointSource::file`], for a file that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<Cow<'static, [u8]>, LoadError> {
        self.file(name)?
            .ok_or_else(|| LoadError::one(Problem::MissingFile { file: name.into() }))
    }

    /// Content of a file without a byte order mark; `None` if it does not exist.
    pub(crate) fn file(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
        let content = self.bytes(name)?;
        Ok(content.map(|content| match content {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)),
            Cow::Owned(mut bytes) => {
                if bytes.starts_with(BYTE_ORDER_MARK) {
                    bytes.drain(..BYTE_ORDER_MARK.len());
                }
                Cow::Owned(bytes)
            }
        }))
    }

    fn bytes(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        match self {
            Self::Dir(dir) => match std::fs::read(dir.join(name)) {
                Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                Err(e) => Err(LoadError::read(name, &e)),
            },
            Self::Memory(files) => Ok(files
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, b)| Cow::Borrowed(*b))),
            Self::Random(model) => Ok(model.file(name).map(Cow::Owned)),
        }
    }

    /// Bytes `begin .. end` of a file.
    fn range(&self, name: &str, begin: u64, end: u64) -> Result<Cow<'static, [u8]>, LoadError> {
        let short = |found: u64| {
            LoadError::one(Problem::Truncated {
                file: name.into(),
                expected: end,
                found,
            })
        };
        match self {
            Self::Dir(dir) => {
                let mut file = File::open(dir.join(name)).map_err(|e| LoadError::read(name, &e))?;
                file.seek(SeekFrom::Start(begin))
                    .map_err(|e| LoadError::read(name, &e))?;
                let mut bytes = Vec::new();
                let size = usize::try_from(end - begin).unwrap_or(usize::MAX);
                let room = bytes.try_reserve_exact(size);
                room.map_err(|e| LoadError::read(name, &std::io::Error::other(e)))?;
                let mut rest = file.take(end - begin);
                loop {
                    let read = rest.by_ref().take(PIECE).read_to_end(&mut bytes);
                    let read = read.map_err(|e| LoadError::read(name, &e))?;
                    PROGRESS.fetch_add(read as u64, Ordering::Relaxed);
                    if read == 0 {
                        break;
                    }
                }
                match bytes.len() as u64 {
                    read if read < end - begin => Err(short(begin + read)),
                    _ => Ok(Cow::Owned(bytes)),
                }
            }
            Self::Memory(files) => {
                let file = files.iter().find(|(n, _)| *n == name);
                let (_, content) =
                    file.ok_or_else(|| LoadError::one(Problem::MissingFile { file: name.into() }))?;
                let part = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
                let part = part.and_then(|(a, b)| content.get(a..b));
                let part = part.ok_or_else(|| short(content.len() as u64))?;
                Ok(Cow::Borrowed(part))
            }
            Self::Random(_) => Err(LoadError::one(Problem::MissingFile { file: name.into() })),
        }
    }

    /// As [`CheckpointSource::range`], in pages of its own, where that is worth it and the system gives them.
    fn pages(&self, name: &str, begin: u64, end: u64) -> Result<Option<Pages>, LoadError> {
        let (Self::Dir(dir), size) = (self, usize::try_from(end - begin).unwrap_or(usize::MAX)) else {
            return Ok(None);
        };
        let Some(mut pages) = pages(size) else {
            return Ok(None);
        };
        let failed = |e: &std::io::Error| LoadError::read(name, e);
        let mut file = File::open(dir.join(name)).map_err(|e| failed(&e))?;
        file.seek(SeekFrom::Start(begin)).map_err(|e| failed(&e))?;
        let mut filled = 0;
        while filled < size {
            let piece = &mut pages[filled..size.min(filled + PIECE as usize)];
            match file.read(piece) {
                Ok(0) => {
                    return Err(LoadError::one(Problem::Truncated {
                        file: name.into(),
                        expected: end,
                        found: begin + filled as u64,
                    }));
                }
                Ok(read) => {
                    filled += read;
                    PROGRESS.fetch_add(read as u64, Ordering::Relaxed);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(&e)),
            }
        }
        Ok(Some(pages))
    }

    /// A file of tensors in a folder that only an index can list, if there is one.
    pub(crate) fn shard(&self, folder: &str) -> Option<String> {
        let Self::Dir(dir) = self else { return None };
        let entries = std::fs::read_dir(dir.join(folder)).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_shard = |name: &String| name.contains("-of-") && name.ends_with(".safetensors");
        names.filter(is_shard).min()
    }

    /// The names of the files in a folder, in order; none if there is no such folder, or no file system.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let Self::Dir(dir) = self else { return Vec::new() };
        let entries = std::fs::read_dir(dir.join(folder)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Length of a file in bytes; `None` if it does not exist.
    fn len(&self, name: &str) -> Result<Option<u64>, LoadError> {
        match self {
            Self::Dir(dir) => match std::fs::metadata(dir.join(name)) {
                Ok(meta) => Ok(Some(meta.len())),
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                Err(e) => Err(LoadError::read(name, &e)),
            },
            Self::Memory(files) => Ok(files
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, b)| b.len() as u64)),
            Self::Random(_) => Ok(None),
        }
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// An opened checkpoint: every tensor's place is known, no tensor has been read.
#[derive(Debug)]
pub struct Checkpoint {
    source: CheckpointSource,
    /// The file that lists the tensors: where a missing one should have been.
    listing: String,
    tensors: BTreeMap<String, TensorInfo>,
    /// Tensors in the index that could not be found, each with the reason. An error only if requested.
    absent: BTreeMap<String, Problem>,
}

impl Checkpoint {
    /// Opens `source` and reads the headers of its safetensors files. An unreadable shard is reported when one of its
    /// tensors is requested.
    ///
    /// # Errors
    /// [`LoadError`] if the only file, or the index of several, is missing, truncated or malformed.
    pub fn open(source: CheckpointSource) -> Result<Self, LoadError> {
        Self::open_in(source, None)
    }

    /// Opens a file of tensors of `source`, a folder: in the format of safetensors, or as PyTorch saves them.
    pub(crate) fn open_file(source: CheckpointSource, file: &str) -> Result<Self, LoadError> {
        let mut tensors = BTreeMap::new();
        match &source {
            CheckpointSource::Dir(dir) if !file.ends_with(".safetensors") => {
                let opened = File::open(dir.join(file)).map_err(|e| LoadError::read(file, &e))?;
                tensors = pickle::read(file, opened).map_err(LoadError::one)?;
            }
            _ => add_file(&source, file, &mut tensors)?,
        }
        Ok(Self {
            source,
            listing: file.to_owned(),
            tensors,
            absent: BTreeMap::new(),
        })
    }

    /// The tensors under other names; those without one are left out.
    pub(crate) fn renamed(mut self, name: impl Fn(&str) -> Option<String>) -> Self {
        let tensors = std::mem::take(&mut self.tensors).into_iter();
        self.tensors = tensors
            .filter_map(|(old, info)| Some((name(&old)?, info)))
            .collect();
        self
    }

    /// Opens the tensors in one of its folders; other files are still named from the checkpoint's own.
    pub(crate) fn folder(&self, folder: &str) -> Result<Self, LoadError> {
        Self::open_in(self.source.clone(), Some(folder))
    }

    fn open_in(source: CheckpointSource, folder: Option<&str>) -> Result<Self, LoadError> {
        if let CheckpointSource::Random(model) = source {
            return model.checkpoint(folder);
        }
        let inside = |file: &str| folder.map_or_else(|| file.to_owned(), |folder| format!("{folder}/{file}"));
        let index_file = inside(INDEX);
        let single = inside(SINGLE);
        let index = source.file(&index_file)?;
        let mut problems = Vec::new();
        let mut tensors = BTreeMap::new();
        let mut absent = BTreeMap::new();
        let listing = if let Some(bytes) = index {
            let mut index: Index = serde_json::from_slice(&bytes).map_err(|e| {
                LoadError::one(Problem::Malformed {
                    file: index_file.clone(),
                    reason: e.to_string(),
                })
            })?;
            let shards: BTreeSet<&String> = index.weight_map.values().collect();
            for shard in &shards {
                if !is_file_name(shard) {
                    let reason = format!("a shard is said to be {shard:?}, a plain file name is expected");
                    problems.push(Problem::Malformed {
                        file: index_file.clone(),
                        reason,
                    });
                }
            }
            LoadError::unless_empty(std::mem::take(&mut problems))?;
            index
                .weight_map
                .values_mut()
                .for_each(|shard| *shard = inside(shard));
            let shards: BTreeSet<&String> = index.weight_map.values().collect();
            let damaged = shards.into_iter().filter_map(|shard| {
                let error = add_file(&source, shard, &mut tensors).err()?;
                Some((shard.clone(), error.problems().first()?.clone()))
            });
            let damaged = damaged.collect();
            absent = absent_of(&index, &tensors, &damaged);
            index_file
        } else {
            add_file(&source, &single, &mut tensors)?;
            single
        };
        Ok(Self {
            source,
            listing,
            tensors,
            absent,
        })
    }

    /// A checkpoint whose tensors are known without asking `source`.
    pub(crate) fn of(source: CheckpointSource, tensors: BTreeMap<String, TensorInfo>) -> Self {
        let listing = source.place();
        Self {
            source,
            listing,
            tensors,
            absent: BTreeMap::new(),
        }
    }

    /// The content of one of the checkpoint's other files (such as `config.json`), `None` if it is not there.
    ///
    /// # Errors
    /// [`LoadError`] if the file is there but cannot be read.
    pub fn file(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        self.source.file(name)
    }

    /// As [`Checkpoint::file`], for a file that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<Cow<'static, [u8]>, LoadError> {
        self.source.required(name)
    }

    /// The file that lists the tensors.
    pub(crate) fn listing(&self) -> &str {
        &self.listing
    }

    /// Header of a tensor, known without reading its values.
    pub(crate) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// Reason why a tensor that the index promises is not there.
    pub(crate) fn absent(&self, name: &str) -> Option<&Problem> {
        self.absent.get(name)
    }

    /// All tensors, in name order.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// A tensor `[rows, width]` that stays in its file; `None` if it is in none.
    #[cfg(unix)]
    pub(crate) fn file_rows(&self, name: &str) -> Result<Option<FileRows>, LoadError> {
        let (CheckpointSource::Dir(dir), Some(info)) = (&self.source, self.info(name)) else {
            return Ok(None);
        };
        let (Content::Stored { begin, .. }, &[rows, width]) = (&info.content, &info.shape[..]) else {
            return Ok(None);
        };
        let failed = |e| LoadError::read(&info.file, &e);
        let file = File::open(dir.join(&info.file)).map_err(failed)?;
        let stamp = FileStamp::of(&file).map_err(failed)?;
        let begin = *begin;
        let dtype = info.dtype.clone();
        Ok(Some(FileRows {
            file,
            begin,
            dtype,
            rows,
            width,
            stamp,
        }))
    }

    /// Reads a tensor, or returns its recipe.
    pub(crate) fn read(&self, name: &str) -> Result<HostTensor, LoadError> {
        let info = self.info(name).ok_or_else(|| {
            let file = self.listing.clone();
            let tensor = name.to_owned();
            LoadError::one(Problem::MissingTensor {
                file,
                tensor,
                expected: Vec::new(),
            })
        })?;
        let dtype = info.dtype.clone();
        let shape = info.shape.clone();
        // Also of weights that are made, or in memory already.
        PROGRESS.fetch_add(1, Ordering::Relaxed);
        match info.content {
            Content::Stored { begin, end } => {
                if let Some(pages) = self.source.pages(&info.file, begin, end)? {
                    return Ok(HostTensor::paged(dtype, shape, pages));
                }
                let bytes = self.source.range(&info.file, begin, end)?;
                Ok(HostTensor::stored(dtype, shape, bytes))
            }
            Content::Made(recipe) => Ok(HostTensor::made(shape, recipe)),
        }
    }
}

/// Returns true if `name` is a file of the checkpoint's own directory, in any system's notation of paths.
fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', ':', '\0'])
}

/// Adds the tensors of one safetensors file.
fn add_file(
    source: &CheckpointSource,
    file: &str,
    tensors: &mut BTreeMap<String, TensorInfo>,
) -> Result<(), LoadError> {
    let Some(len) = source.len(file)? else {
        return Err(LoadError::one(Problem::MissingFile { file: file.into() }));
    };
    let header = Header::read(file, len, |begin, end| source.range(file, begin, end))?;
    tensors.extend(header.map_err(LoadError::one)?.tensors);
    Ok(())
}

/// Tensors that the index promises and that are not there: their shard is `damaged`, or does not hold them.
fn absent_of(
    index: &Index,
    tensors: &BTreeMap<String, TensorInfo>,
    damaged: &BTreeMap<String, Problem>,
) -> BTreeMap<String, Problem> {
    let missing = index.weight_map.iter();
    let missing = missing.filter(|(tensor, shard)| tensors.get(*tensor).is_none_or(|t| t.file != **shard));
    let why = |(tensor, shard): (&String, &String)| {
        let lacks = || Problem::MissingTensor {
            file: shard.clone(),
            tensor: tensor.clone(),
            expected: Vec::new(),
        };
        (tensor.clone(), damaged.get(shard).cloned().unwrap_or_else(lacks))
    };
    missing.map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_beyond_the_end_tells_the_length_there_is() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("a"), [0; 5]).expect("written");
        let sources = [
            CheckpointSource::Memory(&[("a", &[0; 5])]),
            CheckpointSource::Dir(dir.path().into()),
        ];
        for source in sources {
            let error = source.range("a", 2, 9).expect_err("too short");
            let file = "a".into();
            let expected = 9;
            let found = 5;
            assert_eq!(
                error.problems(),
                [Problem::Truncated {
                    file,
                    expected,
                    found
                }]
            );
        }
    }
}
