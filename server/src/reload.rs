//! Values that come from files, read again when these change: API keys, certificates.
//!
//! In: how to read the value. Out: the value as it was last read well. Files are looked at once a second, on a thread for
//! blocking work: a disk that hangs holds up no call. What cannot be used leaves the value as it was, and is said once for
//! every version of the files: at the second look, for files that belong together are not written at the same moment.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_secs(1);

type Read<T> = dyn Fn() -> Result<T, Vec<String>> + Send + Sync;

/// A value that is read again.
pub struct Reload<T> {
    what: &'static str,
    files: Vec<PathBuf>,
    read: Box<Read<T>>,
    current: RwLock<Arc<T>>,
    state: Mutex<State>,
}

impl<T> fmt::Debug for Reload<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload")
            .field("what", &self.what)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

struct State {
    /// Of what the value was read from.
    good: Versions,
    /// Of what could not be used, and whether that was said.
    bad: Option<(Versions, bool)>,
}

/// What changes when a file is written or replaced: device, inode and time of the last change. `None` if there is no file.
type Version = Option<(u64, u64, i64, i64)>;
type Versions = Vec<Version>;

impl<T: Send + Sync + 'static> Reload<T> {
    /// Reads the value, and is ready to read it again. `what` is the value's name in the log.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub fn new(
        what: &'static str,
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T, Vec<String>> + Send + Sync + 'static,
    ) -> Result<Self, Vec<String>> {
        let good = versions(&files);
        let current = read()?;
        Ok(Self {
            what,
            files,
            read: Box::new(read),
            current: RwLock::new(Arc::new(current)),
            state: Mutex::new(State { good, bad: None }),
        })
    }

    /// The value as it is now.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }

    /// Looks at the files again and again. Never ends.
    pub async fn follow(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let own = Arc::clone(&self);
            if tokio::task::spawn_blocking(move || own.look()).await.is_err() {
                tracing::error!(what = self.what, "reading again panicked");
            }
        }
    }

    /// Reads the value again if the files have changed.
    fn look(&self) {
        let mut state = self.state.lock();
        let versions = versions(&self.files);
        if versions == state.good {
            state.bad = None;
            return;
        }
        match (self.read)() {
            Ok(value) => {
                *self.current.write() = Arc::new(value);
                *state = State {
                    good: versions,
                    bad: None,
                };
                tracing::info!(what = self.what, "read again");
            }
            Err(problems) => {
                let told = match state.bad.take() {
                    Some((bad, told)) if bad == versions => {
                        if !told {
                            tracing::error!(what = self.what, ?problems, "stays as it was");
                        }
                        true
                    }
                    _ => false,
                };
                state.bad = Some((versions, told));
            }
        }
    }
}

fn versions(files: &[PathBuf]) -> Versions {
    files.iter().map(|file| version(file)).collect()
}

fn version(file: &Path) -> Version {
    let metadata = fs::metadata(file).ok()?;
    Some((
        metadata.dev(),
        metadata.ino(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(file: &Path) -> Reload<u32> {
        let path = file.to_owned();
        let read = move || {
            let text = fs::read_to_string(&path).map_err(|error| vec![error.to_string()])?;
            text.trim().parse().map_err(|_| vec!["no number".to_owned()])
        };
        Reload::new("a number", vec![file.to_owned()], read).unwrap()
    }

    /// Writes it as a new file, so that it is another version whatever the clock of the file system counts.
    fn replace(file: &Path, text: &str) {
        let new = file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, file).unwrap();
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_one_that_is_bad_changes_nothing() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("number");
        fs::write(&file, "1").unwrap();
        let value = number(&file);
        value.look();
        assert_eq!(*value.current(), 1);
        replace(&file, "2");
        value.look();
        assert_eq!(*value.current(), 2);
        replace(&file, "three");
        value.look();
        assert_eq!(*value.current(), 2);
        fs::remove_file(&file).unwrap();
        value.look();
        assert_eq!(*value.current(), 2);
        fs::write(&file, "3").unwrap();
        value.look();
        assert_eq!(*value.current(), 3);
    }

    #[test]
    fn what_is_bad_is_said_once_and_not_at_the_first_look() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("number");
        fs::write(&file, "1").unwrap();
        let value = number(&file);
        let told = |value: &Reload<u32>| {
            value.look();
            value.state.lock().bad.as_ref().map(|(_, told)| *told)
        };
        replace(&file, "two");
        assert_eq!(told(&value), Some(false));
        assert_eq!(told(&value), Some(true));
        assert_eq!(told(&value), Some(true));
        replace(&file, "three");
        assert_eq!(told(&value), Some(false), "another version is another trouble");
        replace(&file, "4");
        assert_eq!(told(&value), None);
    }
}
