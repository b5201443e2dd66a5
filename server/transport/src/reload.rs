//! Values that come from files, read again when these change: API keys, certificates.
//!
//! In: how to read the value. Out: the value as it was last read well. Files are looked at once a second, on a thread for
//! blocking work: a disk that hangs holds up no call. Any file may be half-written, one that was just made in the place of another as well:
//! it is taken when it is the same at two looks, and one that holds less than before after ten seconds, unless it was renamed into place.
//! What cannot be used leaves the value as it was, and is said once for
//! every version of the files: at the second look, for files that belong together are not written at the same moment.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_secs(1);
/// Time for which a file must not change before it is taken, and one that holds less than before and was not renamed into place.
const SETTLED: Duration = Duration::from_millis(900);
const SETTLED_LESS: Duration = Duration::from_secs(10);

/// The origin of a value.
pub(crate) trait Source: Send + Sync + 'static {
    /// The value.
    type Value: Send + Sync;

    /// Its name in the log.
    const NAME: &'static str;

    /// The files that it is read from.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads it.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    fn read(&self) -> Result<Self::Value, Vec<String>>;

    /// Judges a new value by the one that is used.
    fn compare(&self, old: &Self::Value, new: &Self::Value) -> Change;

    /// The value is used from now on.
    fn taken(&self, value: &Self::Value);
}

/// The relation of a new value to the one that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// It may be used.
    Taken,
    /// It holds less, as a file does that is half-written.
    Less(String),
    /// It is not used, because of this.
    Refused(String),
}

/// A value that is read again.
#[derive(derive_more::Debug)]
#[debug("Reload {{ what: {:?}, files: {:?}, .. }}", S::NAME, self.files)]
pub(crate) struct Reload<S: Source> {
    source: S,
    files: Vec<PathBuf>,
    current: RwLock<Arc<S::Value>>,
    state: Mutex<State>,
}

struct State {
    /// Versions of the files in use.
    good: Versions,
    /// Versions of files that are not used, or not yet.
    other: Option<Other>,
}

/// Files whose value is not used.
struct Other {
    versions: Versions,
    since: Instant,
    /// Looks at them so far, and whether a line was written of them.
    looks: u32,
    told: bool,
}

/// The facts that change when a file is written or replaced. `None` if there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    /// Device and inode.
    file: (u64, u64),
    /// Time of the last change, and length.
    contents: (i64, i64, u64),
    /// The last change was none of its contents, as when it was renamed.
    is_renamed: bool,
}

type Versions = Vec<Option<Version>>;

impl<S: Source> Reload<S> {
    /// Reads the value, and is ready to read it again.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub(crate) fn new(source: S) -> Result<Self, Vec<String>> {
        let files = source.files();
        let good = versions(&files);
        let current = source.read()?;
        source.taken(&current);
        Ok(Self {
            source,
            files,
            current: RwLock::new(Arc::new(current)),
            state: Mutex::new(State { good, other: None }),
        })
    }

    /// The value as it is now.
    pub(crate) fn current(&self) -> Arc<S::Value> {
        Arc::clone(&self.current.read())
    }

    /// Looks at the files again and again. Never ends.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let own = Arc::clone(&self);
            let look = move || own.look(Instant::now());
            if tokio::task::spawn_blocking(look).await.is_err() {
                tracing::error!(what = S::NAME, "reload panicked");
            }
        }
    }

    /// Reads the value again if the files have changed.
    fn look(&self, now: Instant) {
        let mut state = self.state.lock();
        let versions = versions(&self.files);
        if versions == state.good {
            state.other = None;
            return;
        }
        let same = state.other.take().filter(|other| other.versions == versions);
        let mut other = same.unwrap_or_else(|| Other {
            versions: versions.clone(),
            since: now,
            looks: 0,
            told: false,
        });
        other.looks += 1;
        let told = other.told || other.looks < 2;
        let settled = now.saturating_duration_since(other.since);
        let read = self.source.read();
        if self::versions(&self.files) != versions {
            // It was written meanwhile.
            state.other = None;
            return;
        }
        let problems = match read {
            Err(problems) => problems,
            Ok(value) => match self.source.compare(&self.current(), &value) {
                Change::Refused(problem) => vec![problem],
                Change::Less(what) if !state.is_replaced(&versions) && settled < SETTLED_LESS => {
                    if !told {
                        tracing::warn!(
                            what = S::NAME,
                            "reload postponed: {what}; taken after 10 s without a change (a complete file that is renamed into place: after 1 s)"
                        );
                    }
                    other.told |= !told;
                    state.other = Some(other);
                    return;
                }
                Change::Taken | Change::Less(_) if settled >= SETTLED => {
                    self.source.taken(&value);
                    *self.current.write() = Arc::new(value);
                    *state = State {
                        good: versions,
                        other: None,
                    };
                    tracing::info!(what = S::NAME, "reloaded");
                    return;
                }
                Change::Taken | Change::Less(_) => {
                    state.other = Some(other);
                    return;
                }
            },
        };
        if !told {
            tracing::error!(what = S::NAME, ?problems, "reload failed, the old value stays");
        }
        other.told |= !told;
        state.other = Some(other);
    }
}

impl State {
    /// True if all files that changed were renamed into the places of those that were read. One that was unlinked and is being written anew
    /// is another file, too, but the last change of that is one of its contents.
    fn is_replaced(&self, versions: &Versions) -> bool {
        let renamed = |old: &Option<Version>, new: &Option<Version>| {
            new.is_some_and(|new| new.is_renamed && old.is_some_and(|old| old.file != new.file))
        };
        let mut pairs = self.good.iter().zip(versions);
        pairs.all(|(old, new)| old == new || renamed(old, new))
    }
}

fn versions(files: &[PathBuf]) -> Versions {
    files.iter().map(|file| version(file)).collect()
}

fn version(file: &Path) -> Option<Version> {
    let metadata = fs::metadata(file).ok()?;
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some(Version {
        file: (metadata.dev(), metadata.ino()),
        contents: (changed.0, changed.1, metadata.len()),
        is_renamed: changed > (metadata.mtime(), metadata.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// A number in a file; a smaller one is less, and zero is none.
    struct Number(PathBuf);

    impl Source for Number {
        type Value = u32;

        const NAME: &'static str = "a number";

        fn files(&self) -> Vec<PathBuf> {
            vec![self.0.clone()]
        }

        fn read(&self) -> Result<u32, Vec<String>> {
            let text = fs::read_to_string(&self.0).map_err(|error| vec![error.to_string()])?;
            text.trim().parse().map_err(|_| vec!["no number".to_owned()])
        }

        fn compare(&self, old: &u32, new: &u32) -> Change {
            match new {
                0 => Change::Refused("it is zero".to_owned()),
                new if new < old => Change::Less("it is smaller".to_owned()),
                _ => Change::Taken,
            }
        }

        fn taken(&self, _: &u32) {}
    }

    struct Place {
        file: PathBuf,
        value: Reload<Number>,
        now: Instant,
        _folder: tempfile::TempDir,
    }

    impl Place {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("number");
            fs::write(&file, text).unwrap();
            let value = Reload::new(Number(file.clone())).unwrap();
            Self {
                file,
                value,
                now: Instant::now(),
                _folder: folder,
            }
        }

        /// Looks a second later; the value then.
        fn look(&mut self) -> u32 {
            self.now += LOOK;
            self.value.look(self.now);
            *self.value.current()
        }

        /// Looks as often; the value then.
        fn looks(&mut self, seconds: u32) -> u32 {
            (0..seconds).for_each(|_| _ = self.look());
            *self.value.current()
        }

        /// True if a line was written of what is not used, at the next look.
        fn told(&mut self) -> Option<bool> {
            self.look();
            self.value.state.lock().other.as_ref().map(|other| other.told)
        }

        /// Writes it as a new file.
        fn replace(&self, text: &str) {
            let new = self.file.with_extension("new");
            fs::write(&new, text).unwrap();
            // Clocks of file systems are coarse: it was written a moment ago.
            let written = SystemTime::now() - Duration::from_millis(100);
            fs::File::options()
                .write(true)
                .open(&new)
                .and_then(|file| file.set_modified(written))
                .unwrap();
            fs::rename(new, &self.file).unwrap();
        }

        fn write(&self, text: &str) {
            fs::write(&self.file, text).unwrap();
        }
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_one_that_is_bad_changes_nothing() {
        let mut place = Place::new("1");
        assert_eq!(place.look(), 1);
        place.replace("2");
        assert_eq!(place.look(), 1);
        assert_eq!(place.look(), 2);
        for bad in ["three", "", "0"] {
            place.replace(bad);
            assert_eq!(place.looks(20), 2, "{bad:?}");
        }
        fs::remove_file(&place.file).unwrap();
        assert_eq!(place.look(), 2);
        place.write("3");
        assert_eq!(place.looks(2), 3);
    }

    #[test]
    fn a_file_that_is_written_where_it_is_is_taken_when_it_is_whole() {
        let mut place = Place::new("100");
        // As an editor writes, or cp: emptied, begun, finished.
        for part in ["", "1", "10", "not", "0"] {
            place.write(part);
            assert_eq!(place.looks(3), 100, "{part:?}");
        }
        place.write("1001");
        assert_eq!(place.look(), 100, "it may go on");
        assert_eq!(place.look(), 1001);
    }

    #[test]
    fn a_file_that_is_unlinked_and_slowly_written_anew_is_taken_when_it_is_whole() {
        let mut place = Place::new("100");
        for whole in ["1001", "99"] {
            let before = place.looks(1);
            fs::remove_file(&place.file).unwrap();
            place.looks(2);
            for part in ["", "1", "9", "not", "0"] {
                place.write(part);
                assert_eq!(place.looks(3), before, "{part:?}");
            }
            place.write(whole);
            assert_eq!(place.looks(1), before, "it may go on");
        }
        assert_eq!(place.looks(9), 1001);
        assert_eq!(place.looks(1), 99);
        // More may be half of what is to come.
        let more = |place: &Place, text: &str| {
            fs::remove_file(&place.file).unwrap();
            place.write(text);
        };
        more(&place, "100");
        assert_eq!(place.looks(1), 99);
        more(&place, "1000");
        assert_eq!(place.looks(1), 99);
        assert_eq!(place.looks(1), 1000);
    }

    #[test]
    fn less_is_taken_when_it_stays_so_or_was_put_in_place() {
        let mut place = Place::new("100");
        place.write("99");
        assert_eq!(place.looks(10), 100);
        assert_eq!(place.looks(1), 99);
        place.replace("98");
        assert_eq!(place.looks(2), 98);
    }

    #[test]
    fn what_is_bad_is_said_once_and_not_at_the_first_look() {
        let mut place = Place::new("1");
        place.replace("two");
        assert_eq!(place.told(), Some(false));
        assert_eq!(place.told(), Some(true));
        assert_eq!(place.told(), Some(true));
        place.replace("three");
        assert_eq!(place.told(), Some(false), "another version is another trouble");
        place.replace("4");
        assert_eq!(place.looks(2), 4);
        assert_eq!(place.told(), None);
    }
}
