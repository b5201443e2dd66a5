//! Who may work now: a bounded number of utterances, and a bounded queue in front of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ServeError;

/// Bounds of an [`Admission`].
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Utterances that may work at once.
    pub max_active: usize,
    /// Utterances that may wait.
    pub max_waiting: usize,
    /// Longest wait.
    pub max_wait: Duration,
}

/// Hands out permits, first come first served.
#[derive(Debug, Clone)]
pub struct Admission {
    limits: AdmissionLimits,
    permits: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

/// The right to work, given back when dropped.
#[derive(Debug)]
pub struct UtterancePermit {
    _permit: OwnedSemaphorePermit,
}

/// Counts one waiting utterance for as long as it lives.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Admission {
    /// With these bounds.
    #[must_use]
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            permits: Arc::new(Semaphore::new(limits.max_active)),
            waiting: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// [`ServeError::Overloaded`] at once if too many wait already, later if the wait gets too long.
    pub fn admit(&self) -> impl Future<Output = Result<UtterancePermit, ServeError>> + Send + use<> {
        let Self {
            limits,
            permits,
            waiting,
            refused,
        } = self.clone();
        async move {
            if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
                return Ok(UtterancePermit { _permit: permit });
            }
            let before = waiting.fetch_add(1, Ordering::AcqRel);
            let _waiting = Waiting(waiting);
            if before >= limits.max_waiting {
                refused.fetch_add(1, Ordering::AcqRel);
                return Err(ServeError::Overloaded(format!(
                    "{} utterances are waiting, the limit is {}",
                    before, limits.max_waiting
                )));
            }
            match tokio::time::timeout(limits.max_wait, permits.acquire_owned()).await {
                Ok(Ok(permit)) => Ok(UtterancePermit { _permit: permit }),
                Ok(Err(_closed)) => Err(ServeError::Stopped),
                Err(_elapsed) => {
                    refused.fetch_add(1, Ordering::AcqRel);
                    Err(ServeError::Overloaded(format!(
                        "no place became free within {:?}",
                        limits.max_wait
                    )))
                }
            }
        }
    }

    /// Utterances that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Utterances that were turned away so far.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Acquire)
    }

    /// Permits not handed out.
    #[must_use]
    pub fn free(&self) -> usize {
        self.permits.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(max_active: usize, max_waiting: usize) -> Admission {
        Admission::new(AdmissionLimits {
            max_active,
            max_waiting,
            max_wait: Duration::from_secs(5),
        })
    }

    #[tokio::test]
    async fn a_place_that_becomes_free_goes_to_the_one_that_waits() {
        let admission = admission(1, 1);
        let first = admission.admit().await.unwrap();
        let second = tokio::spawn(admission.admit());
        drop(first);
        second.await.unwrap().unwrap();
        assert_eq!(admission.free(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_at_once_and_a_long_wait_later() {
        let admission = admission(1, 1);
        let _held = admission.admit().await.unwrap();
        let waits = tokio::spawn(admission.admit());
        tokio::task::yield_now().await;
        assert!(matches!(admission.admit().await, Err(ServeError::Overloaded(_))));
        assert!(matches!(waits.await.unwrap(), Err(ServeError::Overloaded(_))));
        assert_eq!(admission.refused(), 2);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_makes_room_in_the_queue() {
        let admission = admission(1, 1);
        let _held = admission.admit().await.unwrap();
        let waits = tokio::spawn(admission.admit());
        tokio::task::yield_now().await;
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        let again = tokio::spawn(admission.admit());
        tokio::task::yield_now().await;
        assert!(!again.is_finished(), "it waits instead of being refused");
    }
}
