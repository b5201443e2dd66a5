//! Starting and ending everything that runs beside the main task.
//!
//! Every task and every thread is counted here and waited for at the end, except one that [`abandon`] starts.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio_util::task::TaskTracker;

/// Starts a thread that nobody waits for: for work that cannot be interrupted, leaves nothing behind and is of no use to a
/// server that stops. It ends with the process at the latest.
///
/// # Errors
/// If the system gives no thread.
pub fn abandon(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
}

/// The tasks and threads of one server.
#[derive(Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Tasks {
    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Starts a thread for work that computes or blocks.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn thread(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        self.threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(thread);
        Ok(())
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until every task has ended. Tasks must have been told to.
    pub async fn join_tasks(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Waits until every thread has ended. Threads must have been told to.
    pub async fn join_threads(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let name = thread.thread().name().unwrap_or("").to_owned();
                if thread.join().is_err() {
                    tracing::error!(thread = name, "a thread panicked");
                }
            }
        });
        if joined.await.is_err() {
            tracing::error!("joining the threads failed");
        }
    }
}
