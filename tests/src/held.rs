//! Resources in which a leak would show: the files, threads and tasks of this process.

use std::fs;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// Longest time until ended work is gone.
const SETTLING: Duration = Duration::from_secs(20);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Resources that the process holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    files: usize,
    threads: usize,
    tasks: usize,
}

impl Held {
    /// Now. Within a runtime.
    pub fn now() -> Self {
        Self {
            files: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            tasks: Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// Returns true if nothing was added. There may be less: threads for blocking work end when they have nothing to
    /// do for a while, and so do leftovers of a test before this one.
    pub fn within(&self, other: &Self) -> bool {
        self.files <= other.files && self.tasks <= other.tasks && self.threads <= other.threads
    }

    /// Resources held once nothing changes any more, or once they are the expected ones: connections and tasks end a
    /// moment after the call.
    pub async fn settled(expected: Option<&Self>) -> Self {
        let deadline = Instant::now() + SETTLING;
        let mut last = Self::now();
        loop {
            tokio::time::sleep(LOOK).await;
            let now = Self::now();
            let done = expected.map_or(now == last, |expected| now.within(expected));
            if done || Instant::now() > deadline {
                return now;
            }
            last = now;
        }
    }
}

fn entries(directory: &str) -> usize {
    fs::read_dir(directory).expect("Linux has it").count()
}
