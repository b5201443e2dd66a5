//! Device shared by replicas of a process, and its loss to the process.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::notifier::Notifier;

/// A device of this process. Clones share it.
///
/// The replica that finds it lost notifies all others: those without work, which would find out with their next
/// sequence, and those whose model is being built.
#[derive(Debug, Clone, Default)]
pub struct SharedDevice(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lost: OnceLock<String>,
    /// The threads that compute on it, by number.
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    next: u64,
    notifiers: Vec<(u64, Notifier)>,
}

impl SharedDevice {
    /// Reason why this process has lost the device, if it has.
    pub(super) fn lost(&self) -> Option<&str> {
        self.0.lost.get().map(String::as_str)
    }

    /// Marks the device as lost to this process and wakes all its threads. The first reason stays.
    pub(super) fn lose(&self, message: &str) {
        // That another thread was first is no error.
        let _ = self.0.lost.set(message.to_owned());
        for (_, notifier) in &self.0.threads.lock().notifiers {
            notifier.notify();
        }
    }

    /// Registers the thread behind `notifier`, which a loss wakes, until dropped.
    pub(super) fn used_by(&self, notifier: &Notifier) -> DeviceUse {
        let mut threads = self.0.threads.lock();
        let number = threads.next;
        threads.next += 1;
        threads.notifiers.push((number, notifier.clone()));
        drop(threads);
        DeviceUse {
            device: self.clone(),
            number,
        }
    }
}

/// Registration of a thread that computes on a device.
#[derive(Debug)]
pub(super) struct DeviceUse {
    device: SharedDevice,
    number: u64,
}

impl Drop for DeviceUse {
    fn drop(&mut self) {
        self.device
            .0
            .threads
            .lock()
            .notifiers
            .retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_still_use_a_device_are_told_and_the_first_reason_stays() {
        let device = SharedDevice::default();
        let stays = Notifier::default();
        let leaves = Notifier::default();
        let held = device.used_by(&stays);
        drop(device.used_by(&leaves));
        let copy = device.clone();
        assert_eq!(copy.lost(), None);
        device.lose("an illegal address");
        device.lose("a failed launch");
        assert_eq!(copy.lost(), Some("an illegal address"));
        assert!(stays.is_rung());
        assert!(!leaves.is_rung());
        drop(held);
        assert!(device.0.threads.lock().notifiers.is_empty());
    }
}
