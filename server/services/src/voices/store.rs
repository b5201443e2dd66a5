//! Voices by owner and name, in memory and, if there is a directory, as one file each.
//!
//! A file is written beside its place, flushed to the disk and renamed, so that a crash or a full disk leaves a whole
//! voice or none. Everything is in memory, too: it is bounded, small, and needed by every request.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};

use super::VoiceError;
use super::file::{self, MAX_FILE};
use super::voice::{Owner, StoredVoice, VoiceName};

const EXTENSION: &str = "safetensors";
/// Lock file of the server that keeps its voices in a folder.
const LOCK: &str = ".lock";
/// Extension of a file that is being written.
const PARTIAL: &str = "partial";
/// Characters of a voice's name in the name of its file.
const READABLE: usize = 32;

/// Bounds of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Voices of all owners.
    pub voices: usize,
    /// Most voices of one API key: none fills the store for the others.
    pub voices_per_key: usize,
    /// Bytes of all their files.
    pub bytes: u64,
}

/// Number of kept voices, and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub voices: usize,
    pub bytes: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct VoiceStore {
    dir: Option<PathBuf>,
    /// Lock of the folder, held as long as the store.
    _lock: Option<File>,
    limits: StoreLimits,
    held: RwLock<KeptVoices>,
    /// Held while a file is written or removed, so that the checks before still hold.
    writing: Mutex<()>,
}

/// Owner, then the form that all names of one voice share.
type Key = (Owner, String);

#[derive(Debug, Default)]
struct KeptVoices {
    voices: BTreeMap<Key, Entry>,
    bytes: u64,
}

impl KeptVoices {
    /// Voices of an owner, by the form that all their names share.
    fn of(&self, owner: &Owner) -> impl Iterator<Item = (&String, &Entry)> {
        let from = self.voices.range((owner.clone(), String::new())..);
        let own = from.take_while(move |((entry, _), _)| entry == owner);
        own.map(|((_, name), entry)| (name, entry))
    }
}

#[derive(Debug)]
struct Entry {
    voice: Arc<StoredVoice>,
    bytes: u64,
    path: Option<PathBuf>,
}

impl VoiceStore {
    /// Creates a store in memory alone.
    pub fn in_memory(limits: StoreLimits) -> Self {
        Self {
            dir: None,
            _lock: None,
            limits,
            held: RwLock::default(),
            writing: Mutex::default(),
        }
    }

    /// Opens the voices of a directory, which is created if necessary. A file that is not a voice is skipped, with a
    /// line in the log.
    ///
    /// # Errors
    /// If the directory cannot be created, read or written.
    pub fn open(dir: &Path, limits: StoreLimits) -> io::Result<Self> {
        let failed = |what: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(failed("the folder cannot be made"))?;
        let lock = private().create(true).truncate(false).open(dir.join(LOCK));
        let lock = lock.map_err(failed("no file can be written there"))?;
        if lock.try_lock().is_err() {
            return Err(io::Error::other("another server keeps its voices there"));
        }
        flush(dir)?;
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed("the folder cannot be read"))? {
            paths.push(entry?.path());
        }
        paths.sort();
        let store = Self {
            dir: Some(dir.to_owned()),
            _lock: Some(lock),
            ..Self::in_memory(limits)
        };
        for path in paths {
            let extension = path.extension().and_then(|extension| extension.to_str());
            match extension {
                Some(PARTIAL) => drop(fs::remove_file(&path)),
                Some(EXTENSION) => {
                    if let Err(problem) = store.take(&path) {
                        tracing::warn!(file = %path.display(), problem, "voice file skipped");
                    }
                }
                _ => {}
            }
        }
        Ok(store)
    }

    /// Adds the voice of an existing file.
    fn take(&self, path: &Path) -> Result<(), String> {
        let bytes = read(path).map_err(|error| error.to_string())?;
        let voice = file::decode(&bytes).map_err(|error| error.to_string())?;
        voice.check().map_err(|error| error.to_string())?;
        let size = bytes.len() as u64;
        self.room(&self.held.read(), &voice.owner, &voice.name, size)
            .map_err(|error| error.to_string())?;
        self.insert(voice, size, Some(path.to_owned()));
        Ok(())
    }

    /// Returns true if voices outlast the server.
    pub fn is_durable(&self) -> bool {
        self.dir.is_some()
    }

    pub fn held(&self) -> Held {
        let held = self.held.read();
        Held {
            voices: held.voices.len(),
            bytes: held.bytes,
        }
    }

    /// Every voice of every owner.
    pub(super) fn all(&self) -> Vec<Arc<StoredVoice>> {
        let held = self.held.read();
        held.voices
            .values()
            .map(|entry| Arc::clone(&entry.voice))
            .collect()
    }

    /// Checks that a voice of that name could be kept, before it is computed.
    pub(super) fn check_room(&self, owner: &Owner, name: &VoiceName) -> Result<(), VoiceError> {
        self.room(&self.held.read(), owner, name, 0)
    }

    fn room(&self, held: &KeptVoices, owner: &Owner, name: &VoiceName, bytes: u64) -> Result<(), VoiceError> {
        if held.voices.contains_key(&key(owner, name.as_str())) {
            let name = name.to_string();
            return Err(VoiceError::Exists { name });
        }
        let full = |held, limit, unit| Err(VoiceError::Full { held, limit, unit });
        if held.voices.len() >= self.limits.voices {
            return full(held.voices.len() as u64, self.limits.voices as u64, "voices");
        }
        let own = held.of(owner).count();
        if !owner.is_shared() && own >= self.limits.voices_per_key {
            let limit = self.limits.voices_per_key as u64;
            return full(own as u64, limit, "voices of this API key");
        }
        if held.bytes + bytes > self.limits.bytes {
            full(held.bytes, self.limits.bytes, "bytes of voices")
        } else {
            Ok(())
        }
    }

    /// Keeps a voice. Returns when it is on the disk; nothing is kept if that fails.
    pub(super) fn put(&self, voice: StoredVoice) -> Result<Arc<StoredVoice>, VoiceError> {
        let bytes = file::encode(&voice)?;
        if bytes.len() > MAX_FILE {
            let problem = format!("it has {} bytes, expected at most {MAX_FILE}", bytes.len());
            return Err(VoiceError::Store(problem));
        }
        let _writing = self.writing.lock();
        let size = bytes.len() as u64;
        self.room(&self.held.read(), &voice.owner, &voice.name, size)?;
        let path = match &self.dir {
            None => None,
            Some(dir) => {
                let path = dir.join(file_name(&voice));
                if path.exists() {
                    let problem = format!(
                        "its file {} is there already and was not read at the start",
                        path.display()
                    );
                    return Err(VoiceError::Store(problem));
                }
                write(dir, &path, &bytes).map_err(|error| VoiceError::Store(error.to_string()))?;
                Some(path)
            }
        };
        Ok(self.insert(voice, size, path))
    }

    fn insert(&self, voice: StoredVoice, bytes: u64, path: Option<PathBuf>) -> Arc<StoredVoice> {
        let voice = Arc::new(voice);
        let mut held = self.held.write();
        held.bytes += bytes;
        let entry = Entry {
            voice: Arc::clone(&voice),
            bytes,
            path,
        };
        held.voices.insert(key(&voice.owner, voice.name.as_str()), entry);
        voice
    }

    /// Finds a voice of `owner`, or else a shared one.
    pub(super) fn find(&self, owner: &Owner, name: &str) -> Option<Arc<StoredVoice>> {
        let held = self.held.read();
        let of = |owner: &Owner| held.voices.get(&key(owner, name));
        let found = of(owner).or_else(|| of(&Owner::shared()));
        found.map(|entry| Arc::clone(&entry.voice))
    }

    /// Voices that `owner` may use, in the order of their names.
    pub(super) fn list(&self, owner: &Owner) -> Vec<Arc<StoredVoice>> {
        let held = self.held.read();
        let mut names = BTreeMap::new();
        for of in [&Owner::shared(), owner] {
            let own = held.of(of);
            names.extend(own.map(|(name, entry)| (name.clone(), Arc::clone(&entry.voice))));
        }
        names.into_values().collect()
    }

    /// Deletes a voice of `owner`, its file first.
    pub(super) fn remove(&self, owner: &Owner, name: &str) -> Result<(), VoiceError> {
        let _writing = self.writing.lock();
        let key = key(owner, name);
        let path = {
            let held = self.held.read();
            match held.voices.get(&key) {
                Some(entry) => entry.path.clone(),
                None if self.is_shared_name(&held, name) => {
                    let name = omni_core::error::excerpt(name);
                    return Err(VoiceError::SharedByAll { name });
                }
                None => return Err(VoiceError::not_found(name)),
            }
        };
        if let (Some(path), Some(dir)) = (path, &self.dir) {
            let removed = match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.and_then(|()| flush(dir)),
            };
            removed.map_err(|error| VoiceError::Store(error.to_string()))?;
        }
        let mut held = self.held.write();
        if let Some(entry) = held.voices.remove(&key) {
            held.bytes -= entry.bytes;
        }
        Ok(())
    }

    fn is_shared_name(&self, held: &KeptVoices, name: &str) -> bool {
        held.voices.contains_key(&key(&Owner::shared(), name))
    }
}

fn key(owner: &Owner, name: &str) -> Key {
    (owner.clone(), VoiceName::key(name))
}

/// Name of a voice's file: readable, and unique for every owner and name.
fn file_name(voice: &StoredVoice) -> String {
    let (owner, name) = key(&voice.owner, voice.name.as_str());
    let hash = Sha256::digest(format!("{}\0{name}", owner.as_str()));
    let hash: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let readable = name.chars().filter(char::is_ascii_alphanumeric).take(READABLE);
    format!("{}-{hash}.{EXTENSION}", String::from_iter(readable))
}

/// The content of a file that is not too large for a voice.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_FILE as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Options of files that other users of this machine cannot read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Writes a whole file at `path`, or none.
fn write(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension(PARTIAL);
    let created = private().create(true).truncate(true).open(&partial);
    let written = created.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let placed = written.and_then(|()| fs::rename(&partial, path));
    if placed.is_err() {
        // A partial file takes room that may be what is missing.
        let _ = fs::remove_file(&partial);
    }
    // A file that may not last is removed.
    placed.and_then(|()| flush(dir).inspect_err(|_| drop(fs::remove_file(path))))
}

/// Makes renames and removals in a directory durable.
fn flush(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests;
