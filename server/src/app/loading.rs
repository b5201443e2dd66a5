//! Reading a model on a thread of its own, and noticing when that gets nowhere.
//!
//! Reading a large checkpoint takes minutes, and on a slow disk a time that cannot be foretold. So no bound is put on the whole of
//! it, but on the time without progress: a disk, a driver or a network file system that hangs delivers nothing.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use omni_engine::Stamp;
use omni_models::loading_progress;
use tokio::sync::oneshot;

use omni_core::tasks::abandon;
use omni_pipeline::clock::Clock;

/// Longest time between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// The reason that there is no model.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// Nothing was read for too long.
    #[error(
        "loading the model has made no progress for {0:?} (load_timeout): a disk or a device does not answer"
    )]
    Stalled(Duration),
    /// It panicked.
    #[error("loading the model panicked")]
    Panicked,
    /// The system gives no thread.
    #[error("a thread to load the model could not be started: {0}")]
    Thread(#[from] io::Error),
    /// The loader's own.
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

/// Progress of loading, look by look.
struct Watch {
    clock: Clock,
    patience: Duration,
    progress: u64,
    /// The time at which that was seen first.
    since: Stamp,
}

impl Watch {
    fn new(clock: Clock, patience: Duration) -> Self {
        Self {
            clock,
            patience,
            progress: loading_progress(),
            since: clock.now(),
        }
    }

    /// Until the next look.
    fn interval(&self) -> Duration {
        LOOK.min(self.patience / 4)
    }

    fn look(&mut self) -> Result<(), LoadError> {
        self.seen(loading_progress(), self.clock.now())
    }

    fn seen(&mut self, progress: u64, now: Stamp) -> Result<(), LoadError> {
        if progress != self.progress {
            (self.progress, self.since) = (progress, now);
        }
        if now.since(self.since) >= self.patience {
            Err(LoadError::Stalled(self.patience))
        } else {
            Ok(())
        }
    }
}

/// Result of `load`, which runs on a detached thread: reading cannot be interrupted. A server that is told to stop
/// meanwhile does not wait for it: nothing was served yet, the files are only read, and the thread ends with the process.
///
/// # Errors
/// [`LoadError`], [`LoadError::Stalled`] after `patience` without progress.
pub(super) async fn load<B: Send + 'static>(
    load: impl FnOnce() -> anyhow::Result<B> + Send + 'static,
    clock: Clock,
    patience: Duration,
) -> Result<B, LoadError> {
    let (loaded_tx, mut loaded) = oneshot::channel();
    abandon("load", move || {
        // The receiver is gone if the server is being stopped.
        let _ = loaded_tx.send(load());
    })?;
    let mut watch = Watch::new(clock, patience);
    loop {
        tokio::select! {
            model = &mut loaded => return model.map_err(|_| LoadError::Panicked)?.map_err(LoadError::Failed),
            () = tokio::time::sleep(watch.interval()) => watch.look()?,
        }
    }
}

/// As [`load`], for a process without a runtime. `looked` is called at every look.
///
/// # Errors
/// [`LoadError`], and those of `looked`.
pub(super) fn load_blocking<B: Send + 'static, E: From<LoadError>>(
    load: impl FnOnce() -> anyhow::Result<B> + Send + 'static,
    clock: Clock,
    patience: Duration,
    mut looked: impl FnMut() -> Result<(), E>,
) -> Result<B, E> {
    let (loaded_tx, loaded) = mpsc::sync_channel(1);
    abandon("load", move || {
        let _ = loaded_tx.send(load());
    })
    .map_err(LoadError::Thread)?;
    let mut watch = Watch::new(clock, patience);
    loop {
        match loaded.recv_timeout(watch.interval()) {
            Ok(model) => return Ok(model.map_err(LoadError::Failed)?),
            Err(RecvTimeoutError::Disconnected) => return Err(LoadError::Panicked.into()),
            Err(RecvTimeoutError::Timeout) => {
                looked()?;
                watch.look()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[test]
    fn a_loader_that_hangs_is_told_from_one_that_fails_and_one_that_panics() {
        let (release, held) = mpsc::channel::<()>();
        let hangs = move || {
            // Until the test is over.
            let _ = held.recv();
            Ok(())
        };
        let mut looks = 0;
        let error = load_blocking(hangs, Clock::start(), SOON, || {
            looks += 1;
            Ok::<_, LoadError>(())
        });
        assert!(matches!(error, Err(LoadError::Stalled(SOON))), "{error:?}");
        assert!(looks > 0, "the other side was never told of the watch");
        drop(release);
        let hour = Duration::from_secs(3600);
        let fails = || anyhow::bail!("the checkpoint is empty");
        let error = load_blocking(fails, Clock::start(), hour, || Ok::<_, LoadError>(()));
        let error: Result<(), _> = error;
        assert_eq!(error.unwrap_err().to_string(), "the checkpoint is empty");
    }

    #[tokio::test]
    async fn a_loader_that_hangs_is_given_up_by_the_runtime_too() {
        let (release, held) = mpsc::channel::<()>();
        let hangs = move || {
            let _ = held.recv();
            Ok(())
        };
        let error = load(hangs, Clock::start(), SOON).await;
        assert!(matches!(error, Err(LoadError::Stalled(SOON))), "{error:?}");
        drop(release);
    }

    #[test]
    fn what_is_loaded_slowly_is_waited_for_as_long_as_something_is_read() {
        let mut watch = Watch::new(Clock::start(), SOON);
        let progress = watch.progress;
        let mut now = watch.since;
        for read in 1..=20 {
            now = now + SOON * 9 / 10;
            assert!(watch.seen(progress + read, now).is_ok(), "read {read}");
        }
        now = now + SOON * 9 / 10;
        assert!(watch.seen(progress + 20, now).is_ok());
        now = now + SOON / 10;
        assert!(matches!(
            watch.seen(progress + 20, now),
            Err(LoadError::Stalled(SOON))
        ));
    }
}
