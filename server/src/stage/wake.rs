//! A bell for a sleeping worker, and the flag that tells it to drop a sequence.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Rings a worker awake. A ring before the worker sleeps is not lost; many rings are one.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake {
    /// Wakes the worker, now or when it next goes to sleep.
    pub fn ring(&self) {
        let mut rung = self.0.rung.lock().unwrap_or_else(PoisonError::into_inner);
        if !*rung {
            *rung = true;
            self.0.changed.notify_one();
        }
    }

    /// Sleeps until a ring, or for `timeout`.
    pub(super) fn sleep(&self, timeout: Option<Duration>) {
        let rung = self.0.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rung = match timeout {
            None => self
                .0
                .changed
                .wait_while(rung, |rung| !*rung)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.0.changed.wait_timeout_while(rung, timeout, |rung| !*rung);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *rung = false;
    }
}

/// Goes down to every stage that has a part in a sequence. Once set it stays set.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Asks for the sequence to be dropped. Ring the stages afterwards: one that sleeps does not look.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was asked for.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_sleep_is_not_lost() {
        let wake = Wake::default();
        wake.ring();
        wake.ring();
        wake.sleep(None);
    }

    #[test]
    fn a_ring_from_another_thread_ends_the_sleep() {
        let wake = Wake::default();
        let ringer = wake.clone();
        let thread = std::thread::spawn(move || ringer.ring());
        wake.sleep(None);
        thread.join().unwrap();
    }

    #[test]
    fn a_timeout_ends_the_sleep() {
        Wake::default().sleep(Some(Duration::from_millis(1)));
    }
}
