//! Starting and ending everything that runs beside the main task.
//!
//! Every task and every thread is counted here and waited for at the end, except one that [`abandon`] starts, and one that hangs.
//! A thread that ends earlier is joined then.

use std::io;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Starts a thread that is not joined: for work that cannot be interrupted, leaves nothing behind and is of no use to a
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
    /// A task for every thread, which joins it.
    joiners: TaskTracker,
    /// Until when threads that may hang are waited for; none while the server runs.
    last: watch::Sender<Option<Instant>>,
}

#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    /// Closed when it ends.
    ended: oneshot::Receiver<()>,
    /// For a thread that may hang: cancelled when it is known to.
    given_up: Option<CancellationToken>,
}

impl Tasks {
    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// Something that is waited for as if it were a task, until it is dropped.
    pub fn token(&self) -> TaskTrackerToken {
        self.tracker.token()
    }

    /// Starts a thread for blocking work, which must end soon after cancellation.
    ///
    /// # Errors
    /// If the system gives no thread, or outside the runtime.
    pub fn thread(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.start(name, None, body)
    }

    /// Starts a thread that computes with a model, which may hang; when `given_up` is cancelled, it does.
    ///
    /// # Errors
    /// If the system gives no thread, or this is not called from within the runtime.
    pub fn model_thread(
        &self,
        name: &str,
        given_up: CancellationToken,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.start(name, Some(given_up), body)
    }

    fn start(
        &self,
        name: &str,
        given_up: Option<CancellationToken>,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let (ends, ended) = oneshot::channel::<()>();
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ends = ends;
            body();
        })?;
        let thread = Thread {
            handle,
            ended,
            given_up,
        };
        self.joiners
            .spawn_on(thread.join(self.last.subscribe()), &runtime);
        Ok(())
    }

    /// Tasks that have not ended.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until every task has ended. Tasks must have been told to.
    pub async fn join_tasks(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Waits until every thread has ended. Threads must have been told to. Those that compute with a model are waited for
    /// until `deadline`, and not at all if they are known to hang: they end with the process.
    pub async fn join_threads(&self, deadline: Instant) {
        self.last.send_replace(Some(deadline));
        self.joiners.close();
        self.joiners.wait().await;
    }
}

impl Thread {
    /// Waits until it has ended, or is to be left behind.
    async fn join(mut self, last: watch::Receiver<Option<Instant>>) {
        let ended = tokio::select! {
            biased;
            // Nothing is ever sent.
            _ = &mut self.ended => true,
            () = left_behind(self.given_up, last) => false,
        };
        let name = self.handle.thread().name().unwrap_or("").to_owned();
        if !ended {
            tracing::error!(
                thread = name,
                "a thread has not returned from a step and is left behind"
            );
        } else if self.handle.join().is_err() {
            tracing::error!(thread = name, "thread panicked");
        }
    }
}

/// Resolves when a thread is no longer waited for: never, unless it is one that may hang and everything else ends.
async fn left_behind(given_up: Option<CancellationToken>, mut last: watch::Receiver<Option<Instant>>) {
    let Some(given_up) = given_up else {
        return std::future::pending().await;
    };
    let deadline = last.wait_for(Option::is_some).await.ok().and_then(|last| *last);
    let Some(deadline) = deadline else {
        return std::future::pending().await;
    };
    tokio::select! {
        () = given_up.cancelled() => {}
        () = tokio::time::sleep_until(deadline) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_thread_that_hangs_is_left_behind_and_all_others_are_waited_for() {
        let tasks = Tasks::default();
        let (release, hangs) = channel::<()>();
        let given_up = CancellationToken::new();
        let body = move || _ = hangs.recv();
        tasks.model_thread("stuck", given_up.clone(), body).unwrap();
        let (done, ended) = channel();
        let body = move || done.send(()).unwrap();
        tasks
            .model_thread("works", CancellationToken::new(), body)
            .unwrap();
        given_up.cancel();
        // Forever, but for one that is known to hang.
        tasks
            .join_threads(Instant::now() + Duration::from_secs(3600))
            .await;
        assert_eq!(ended.try_recv(), Ok(()));
        drop(release);
    }

    #[tokio::test]
    async fn a_thread_of_which_nobody_knows_that_it_hangs_has_until_the_deadline() {
        let tasks = Tasks::default();
        let (release, hangs) = channel::<()>();
        let body = move || _ = hangs.recv();
        tasks
            .model_thread("stuck", CancellationToken::new(), body)
            .unwrap();
        tasks.join_threads(Instant::now()).await;
        drop(release);
    }

    #[tokio::test]
    async fn a_thread_that_ends_is_joined_while_others_work() {
        let tasks = Tasks::default();
        let (release, works) = channel::<()>();
        tasks.thread("works", move || _ = works.recv()).unwrap();
        tasks.thread("ends", || {}).unwrap();
        tasks
            .model_thread("ends, too", CancellationToken::new(), || {
                panic!("the test says so")
            })
            .unwrap();
        while tasks.joiners.len() > 1 {
            tokio::task::yield_now().await;
        }
        drop(release);
        tasks.join_threads(Instant::now()).await;
        assert_eq!(tasks.joiners.len(), 0);
    }
}
