//! The last requests that ended, for watchers.
//!
//! In: records of utterances and answers, as they end. Out: [`Course`]s in that order, which watchers share. Bounded:
//! the oldest are dropped first, and a reader that is slower than requests end misses some.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::record::EndedRequest;

/// Capacity.
const MOST: usize = 100;

/// A request that ended.
#[derive(Debug, Clone)]
pub struct Course {
    /// 1, 2, 3, ... in the order of their ends.
    pub number: u64,
    /// Time of the end.
    pub ended: SystemTime,
    /// Its record.
    pub request: EndedRequest,
}

/// Buffer of the last requests that ended.
#[derive(Debug)]
pub struct Courses {
    held: Mutex<VecDeque<Arc<Course>>>,
    last: watch::Sender<u64>,
}

impl Default for Courses {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            last: watch::Sender::new(0),
        }
    }
}

impl Courses {
    /// Adds a request that ended.
    pub fn add(&self, request: EndedRequest) {
        let mut held = self.held.lock();
        let number = *self.last.borrow() + 1;
        if held.len() >= MOST {
            held.pop_front();
        }
        held.push_back(Arc::new(Course {
            number,
            ended: SystemTime::now(),
            request,
        }));
        self.last.send_replace(number);
    }

    /// Requests that ended after the one with this number, as far as they are kept.
    pub fn after(&self, number: u64) -> Vec<Arc<Course>> {
        let held = self.held.lock();
        held.iter()
            .filter(|course| course.number > number)
            .cloned()
            .collect()
    }

    /// Number of the last one, now and as it changes; 0 before the first.
    pub fn last(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}
