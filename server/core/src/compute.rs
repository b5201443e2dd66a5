//! Pool for short CPU work that must not block the runtime: encoding, resampling, alignment.
//!
//! In: closures of at most some milliseconds. Out: their results. They run on the runtime's blocking threads, as many
//! at once as there are CPUs; the others wait in FIFO order. A session has one piece of work at a time, so the queue
//! is bounded by the number of sessions.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// A bounded number of compute threads. Clones share them.
#[derive(Debug, Clone)]
pub struct Compute(Arc<Semaphore>);

impl Default for Compute {
    /// As many as there are processors.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new(processors)))
    }
}

impl Compute {
    /// `places` threads of its own, for work that others should not wait for.
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places)))
    }

    /// Result of `work`, which is not begun if the future is dropped before its turn comes, and runs to its end once it is begun. A
    /// panic in it goes on in the caller.
    pub fn run<T, F>(&self, work: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let places = Arc::clone(&self.0);
        let work = async move {
            // The semaphore is never closed.
            let place = places.acquire_owned().await.ok();
            let done = tokio::task::spawn_blocking(move || {
                let done = work();
                drop(place);
                done
            });
            done.await
        };
        async move {
            match work.await {
                Ok(done) => done,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime shuts down, and the caller with it.
                    Err(_cancelled) => std::future::pending().await,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn no_more_runs_at_once_than_may_and_the_others_follow_in_order() {
        let compute = Compute(Arc::new(Semaphore::new(1)));
        let (release, held) = mpsc::channel::<()>();
        let (done, order) = mpsc::channel();
        let first = tokio::spawn(compute.run(move || held.recv()));
        let others: Vec<_> = (0..4)
            .map(|nth| {
                let done = done.clone();
                tokio::spawn(compute.run(move || done.send(nth)))
            })
            .collect();
        tokio::task::yield_now().await;
        let dropped = compute.run(|| unreachable!("its turn never came"));
        assert!(dropped.now_or_never().is_none());
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for other in others {
            other.await.unwrap().unwrap();
        }
        drop(done);
        assert_eq!(order.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[tokio::test]
    async fn a_panic_ends_whoever_asked_and_nobody_else() {
        let compute = Compute(Arc::new(Semaphore::new(1)));
        let panics = tokio::spawn(compute.run(|| panic!("as the test wants")));
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(compute.run(|| 7).await, 7);
    }
}
