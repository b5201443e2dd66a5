//! Waking a sleeping worker, and the flag that cancels a sequence.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes a worker. A notification before the worker sleeps is not lost; several are one.
#[derive(Debug, Clone, Default)]
pub struct Notifier(Arc<NotifierState>);

#[derive(Debug, Default)]
struct NotifierState {
    rung: AtomicBool,
    /// `true` if something came that can wait for a moment.
    hinted: AtomicBool,
    /// `true` if the worker polls in a moment, without being woken.
    looks: AtomicBool,
    /// Written to with every notification, for a worker that waits for sockets too; present as long as the other end
    /// is.
    line: Mutex<Option<Arc<UnixStream>>>,
    changed: Condvar,
}

impl NotifierState {
    fn notify(&self) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let line = {
            let line = self.line.lock();
            self.changed.notify_one();
            line.clone()
        };
        // Written without the lock, which the woken worker may need at once.
        if let Some(mut line) = line.as_deref() {
            // A full socket is readable already.
            let _ = line.write(&[1]);
        }
    }

    /// Takes the notification. Changes made before it are visible afterwards.
    fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }
}

/// Lets a future wake the worker.
impl std::task::Wake for NotifierState {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

/// Descriptor that is readable after a notification, for a worker that waits for sockets and notifications at once.
/// Both ends are closed with it, even if the notifier is kept.
#[derive(Debug)]
pub(crate) struct NotifierFd {
    line: UnixStream,
    notifier: Arc<NotifierState>,
}

impl NotifierFd {
    /// Takes the pending notification, so that the next one is visible. Changes made before it are visible
    /// afterwards.
    pub(crate) fn drain(&self) {
        // An empty socket is no error here. A notification that comes between the two counts as this one.
        let _ = (&self.line).read(&mut [0; 8]);
        self.notifier.take();
    }
}

impl Drop for NotifierFd {
    fn drop(&mut self) {
        *self.notifier.line.lock() = None;
    }
}

impl AsFd for NotifierFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

impl Notifier {
    /// Opens a descriptor that shows its notifications, for a worker that waits for sockets too. There is one at
    /// most.
    ///
    /// # Errors
    /// If there is one, or the system gives no socket.
    pub(crate) fn line(&self) -> io::Result<NotifierFd> {
        let (line, end) = UnixStream::pair()?;
        for socket in [&line, &end] {
            socket.set_nonblocking(true)?;
        }
        let mut place = self.0.line.lock();
        if place.is_some() {
            return Err(io::Error::other("the notifier has a descriptor already"));
        }
        *place = Some(Arc::new(line));
        drop(place);
        // An earlier notification is shown, too.
        if self.0.take() {
            self.notify();
        }
        Ok(NotifierFd {
            line: end,
            notifier: Arc::clone(&self.0),
        })
    }

    /// Wakes the worker, now or when it next goes to sleep.
    pub fn notify(&self) {
        self.0.notify();
    }

    /// Hints that something came that can wait for a moment: wakes the worker unless it [polls](Self::will_look) by
    /// itself.
    pub(crate) fn hint(&self) {
        self.0.hinted.store(true, Ordering::SeqCst);
        if !self.0.looks.load(Ordering::SeqCst) {
            self.0.notify();
        }
    }

    /// Sets if the worker polls in a moment, without being woken. Returns true if there was a [hint](Self::hint)
    /// since the last call: a worker that is about to sleep for long has to look first.
    pub(crate) fn will_look(&self, looks: bool) -> bool {
        self.0.looks.store(looks, Ordering::SeqCst);
        self.0.hinted.swap(false, Ordering::SeqCst)
    }

    /// Waker for a future.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    #[cfg(test)]
    pub(crate) fn is_rung(&self) -> bool {
        self.0.rung.load(Ordering::Acquire)
    }

    /// Sleeps until a notification, or for `timeout`.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        let mut line = self.0.line.lock();
        let changed = &self.0.changed;
        match timeout {
            None => changed.wait_while(&mut line, |_| !self.0.take()),
            Some(timeout) => {
                changed.wait_while_for(&mut line, |_| !self.0.take(), timeout);
            }
        }
    }
}

/// Cancellation of a sequence in every stage that works on it. Once set it stays set.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Requests that the sequence be dropped. Notify the stages afterwards: one that sleeps does not look.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns true if cancellation was requested.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_sleep_is_not_lost() {
        let wake = Notifier::default();
        wake.notify();
        wake.notify();
        wake.sleep(None);
    }

    #[test]
    fn a_ring_from_another_thread_ends_the_sleep() {
        let wake = Notifier::default();
        let ringer = wake.clone();
        let thread = std::thread::spawn(move || ringer.notify());
        wake.sleep(None);
        thread.join().unwrap();
    }

    #[test]
    fn a_line_says_that_the_bell_was_rung_until_that_was_heard() {
        let wake = Notifier::default();
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
        wake.notify();
        wake.waker().wake();
        assert!(readable());
        line.drain();
        assert!(!readable());
        wake.notify();
        assert!(readable());
    }

    #[test]
    fn both_ends_of_a_line_are_closed_with_it_and_another_may_be_laid() {
        let wake = Notifier::default();
        let line = wake.line().unwrap();
        assert!(wake.line().is_err());
        let other = wake.clone();
        drop(line);
        assert!(
            wake.0.line.lock().is_none(),
            "a notifier that is kept holds no socket"
        );
        other.notify();
        assert!(wake.line().is_ok());
    }

    #[test]
    fn a_hint_wakes_a_worker_that_does_not_look_again_and_is_known_to_one_that_does() {
        let wake = Notifier::default();
        assert!(!wake.will_look(true));
        wake.hint();
        assert!(!wake.is_rung());
        assert!(wake.will_look(false), "it came meanwhile");
        wake.hint();
        assert!(wake.is_rung());
    }

    #[test]
    fn a_timeout_ends_the_sleep() {
        Notifier::default().sleep(Some(Duration::from_millis(1)));
    }
}
