//! Timer of a cancellation: from the moment that a caller gave work up until no stage works on it.
//!
//! Held by the request and, with its progress, by every stage that works on it.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::Stamp;
use parking_lot::Mutex;

use crate::clock::Clock;

/// Called with the time that it took. Runs on the thread that drops the last holder: must not block.
pub type OnReleased = Arc<dyn Fn(Duration) + Send + Sync>;

/// See the module's text.
#[derive(derive_more::Debug)]
#[debug("CancelTimer {{ .. }}")]
pub struct CancelTimer {
    clock: Clock,
    tell: OnReleased,
    given_up: Mutex<Option<Stamp>>,
}

impl CancelTimer {
    /// Creates the timer of one request.
    pub fn new(clock: Clock, tell: OnReleased) -> Self {
        Self {
            clock,
            tell,
            given_up: Mutex::default(),
        }
    }

    /// Starts the timer: the caller has given the request up, or is gone. Later calls have no effect.
    pub fn give_up(&self) {
        let now = self.clock.now();
        self.given_up.lock().get_or_insert(now);
    }
}

impl Drop for CancelTimer {
    fn drop(&mut self) {
        let given_up = *self.given_up.get_mut();
        if let Some(since) = given_up {
            (self.tell)(self.clock.since(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::progress::StageProgress;
    use super::*;

    fn watched() -> (Arc<CancelTimer>, Arc<AtomicUsize>) {
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let tell: OnReleased = Arc::new(move |_| _ = count.fetch_add(1, Ordering::SeqCst));
        (Arc::new(CancelTimer::new(Clock::start(), tell)), told)
    }

    #[test]
    fn what_is_given_up_is_told_once_when_the_last_stage_lets_go() {
        let (request, told) = watched();
        let talker = StageProgress::default();
        let code2wav = StageProgress::default();
        talker.hold(Arc::clone(&request));
        code2wav.hold(Arc::clone(&request));
        request.give_up();
        request.give_up();
        drop((request, talker));
        assert_eq!(told.load(Ordering::SeqCst), 0);
        drop(code2wav);
        assert_eq!(told.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_comes_to_its_end_is_not_told() {
        let (request, told) = watched();
        drop(request);
        assert_eq!(told.load(Ordering::SeqCst), 0);
    }
}
