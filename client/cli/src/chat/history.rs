//! File of the lines typed at the prompt in earlier sessions, for the arrow keys. It is in the user's state folder and
//! readable by its owner only; the editor bounds it and merges the lines of sessions at the same time.

use std::env;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The variable that names another file; empty, nothing is kept.
const VARIABLE: &str = "OMNI_CHAT_HISTORY";

/// File set by the environment; `None` if nothing is to be kept.
pub(super) fn path() -> Option<PathBuf> {
    let named = |name| env::var_os(name).map(PathBuf::from);
    if let Some(file) = named(VARIABLE) {
        return (!file.as_os_str().is_empty()).then_some(file);
    }
    let state = named("XDG_STATE_HOME").filter(|folder| folder.is_absolute());
    let state = state.or_else(|| Some(named("HOME")?.join(".local/state")))?;
    state.is_absolute().then(|| state.join("omni/chat-history"))
}

/// Creates `path` and its folder where they do not exist. Only the owner may read them: people type secrets.
pub(super) fn create(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    Ok(())
}
