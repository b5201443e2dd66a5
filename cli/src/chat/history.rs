//! Lines typed at the prompt in earlier sessions, for the arrow keys.
//!
//! A file in the user's state folder, readable by its owner only. Its size is bounded: a session that finds it too long keeps the
//! newest lines. Every line is appended by one write, so that sessions at the same time do not cut each other's.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The variable that names another file; empty, nothing is kept.
const VARIABLE: &str = "OMNI_CHAT_HISTORY";
/// Lines that a session begins with.
const MOST_LINES: usize = 1_000;
/// Bytes of the file that are read at most.
const MOST_BYTES: u64 = 1 << 20;
/// A longer line is not kept.
const MOST_BYTES_OF_LINE: usize = 16 << 10;
/// For the owner only: people type what others may not read.
const OWNER: (u32, u32) = (0o700, 0o600);

/// The file of kept lines.
#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
    last: Option<String>,
}

impl History {
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

    /// Opens `path`; gives the lines in it, oldest first.
    pub(super) fn open(path: PathBuf) -> io::Result<(Self, Vec<String>)> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(OWNER.0).create(folder)?;
        }
        let mut file = appending(&path)?;
        let length = file.metadata()?.len();
        let (lines, whole) = read(&mut file, length)?;
        if !whole {
            rewrite(&path, &lines)?;
        }
        let last = lines.last().cloned();
        Ok((Self { path, last }, lines))
    }

    /// Keeps a line. A disk that is full must not end a conversation: the line is in this session's history all the same.
    pub(super) fn add(&mut self, line: &str) {
        let line = line.trim_end_matches(['\r', '\n']);
        if line.trim().is_empty() || line.len() > MOST_BYTES_OF_LINE || self.last.as_deref() == Some(line) {
            return;
        }
        self.last = Some(line.to_owned());
        // Opened anew: another session may have put a shorter file in the place of this one.
        let _ = appending(&self.path).and_then(|mut file| file.write_all(written(line).as_bytes()));
    }
}

fn appending(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(OWNER.1);
    options.open(path)
}

/// The newest lines of a file that is `length` bytes long, and whether they are all there is.
fn read(file: &mut File, length: u64) -> io::Result<(Vec<String>, bool)> {
    let from = length.saturating_sub(MOST_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    // If the beginning is left out, the first line may be incomplete.
    let lines = bytes.split(|byte| *byte == b'\n').skip(usize::from(from > 0));
    let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
    let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).map(typed).collect();
    let surplus = lines.len().saturating_sub(MOST_LINES);
    lines.drain(..surplus);
    // Twice as many may be there before the file is written again, or every session would write it.
    Ok((lines, from == 0 && surplus <= MOST_LINES))
}

/// Puts a file of `lines` in the place of the one that is there, whole or not at all.
fn rewrite(path: &Path, lines: &[String]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    let text: String = lines.iter().map(|line| written(line)).collect();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(OWNER.1);
    let put = options
        .open(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, path));
    if put.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&new);
    }
    put
}

/// A line as it is in the file: what was pasted may have several.
fn written(line: &str) -> String {
    format!("{}\n", line.replace('\\', "\\\\").replace('\n', "\\n"))
}

/// The inverse of [`written`].
fn typed(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => text.push(c),
            },
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn lines_come_back_as_they_were_typed_and_repetitions_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/history");
        let (mut history, lines) = History::open(path.clone()).unwrap();
        assert!(lines.is_empty());
        for line in ["One.", "One.", " ", "two\nlines \\n", "One."] {
            history.add(line);
        }
        let (_, lines) = History::open(path.clone()).unwrap();
        assert_eq!(lines, ["One.", "two\nlines \\n", "One."]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("a"))), (0o600, 0o700));
    }

    #[test]
    fn the_file_stays_bounded_and_keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let text: String = (0..2 * MOST_LINES + 1).map(|n| format!("line {n}\n")).collect();
        fs::write(&path, text).unwrap();
        let (_, lines) = History::open(path.clone()).unwrap();
        assert_eq!(lines.len(), MOST_LINES);
        assert_eq!(lines.last().unwrap(), &format!("line {}", 2 * MOST_LINES));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), MOST_LINES);
        // A single line that is too long leaves nothing, and is no error.
        fs::write(&path, vec![b'x'; MOST_BYTES as usize + 10]).unwrap();
        assert!(History::open(path.clone()).unwrap().1.is_empty());
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing beside it"
        );
    }

    #[test]
    fn what_cannot_be_written_is_told_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(History::open(folder.path().join("file/history")).is_err());
    }
}
