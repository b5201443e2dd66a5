//! A bell for a sleeping worker, and the flag that tells it to drop a sequence.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Rings a worker awake. A ring before the worker sleeps is not lost; many rings are one.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    /// Written to with every ring, for a worker that waits for sockets too.
    line: OnceLock<UnixStream>,
}

impl Bell {
    fn rung(&self) -> MutexGuard<'_, bool> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let mut rung = self.rung();
        if !*rung {
            *rung = true;
            self.changed.notify_one();
            self.write();
        }
    }

    fn write(&self) {
        if let Some(mut line) = self.line.get() {
            // One that is full says what it should already; and if its other end is gone nobody sleeps there.
            let _ = line.write(&[1]);
        }
    }
}

/// Whoever has something for a worker to await can have its bell rung when it is there.
impl std::task::Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// What a worker watches that waits for sockets and for its bell at once: readable when the bell was rung.
#[derive(Debug)]
pub(crate) struct WakeLine {
    line: UnixStream,
    bell: Arc<Bell>,
}

impl WakeLine {
    /// Hears the bell: it can be rung again. What was done before a ring that this hears can be seen afterwards.
    pub(crate) fn hear(&self) {
        let mut rung = self.bell.rung();
        // Nothing there is an error of no interest.
        let _ = (&self.line).read(&mut [0; 8]);
        *rung = false;
    }
}

impl AsFd for WakeLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

impl Wake {
    /// A line to it, for a worker that waits for sockets too. There is one at most.
    ///
    /// # Errors
    /// If there is one, or the system gives no socket.
    pub(crate) fn line(&self) -> io::Result<WakeLine> {
        let (line, end) = UnixStream::pair()?;
        for socket in [&line, &end] {
            socket.set_nonblocking(true)?;
        }
        let taken = |_| io::Error::other("the bell has a line already");
        self.0.line.set(line).map_err(taken)?;
        // Whoever rang before is heard.
        if *self.0.rung() {
            self.0.write();
        }
        Ok(WakeLine {
            line: end,
            bell: Arc::clone(&self.0),
        })
    }

    /// Wakes the worker, now or when it next goes to sleep.
    pub fn ring(&self) {
        self.0.ring();
    }

    /// Rings for a future.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    /// Sleeps until a ring, or for `timeout`.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        let rung = self.0.rung();
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
    fn a_line_says_that_the_bell_was_rung_until_that_was_heard() {
        let wake = Wake::default();
        let line = wake.line().unwrap();
        let readable = || {
            let mut line = [rustix::event::PollFd::new(&line, rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            rustix::event::poll(&mut line, Some(&now)).unwrap() == 1
        };
        assert!(!readable());
        wake.ring();
        wake.waker().wake();
        assert!(readable());
        line.hear();
        assert!(!readable());
        wake.ring();
        assert!(readable());
    }

    #[test]
    fn a_timeout_ends_the_sleep() {
        Wake::default().sleep(Some(Duration::from_millis(1)));
    }
}
