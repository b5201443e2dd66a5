//! What the engine of a replica tells, on its way to another process.
//!
//! In: news, on the replica's thread, which never waits. Out: the same in their order, for the thread of the connection, which sends
//! them before whatever it takes from the replica later. Sequences that nobody reads pause, so that there is little to tell while
//! nobody listens; the bound is far beyond that.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::wire::Reports;
use crate::stage::{EngineNews, EngineSink, Wake};

/// Most news that wait: hundreds of times what a full engine tells in a step.
const MOST: usize = 1 << 16;

/// Listens to one replica. Copies are the same ear.
#[derive(Debug, Clone)]
pub(super) struct Ear {
    heard: Arc<Mutex<Reports>>,
    wake: Wake,
}

impl Ear {
    /// An ear that rings `wake` when there is something to take.
    pub(super) fn new(wake: Wake) -> Self {
        let heard = Arc::default();
        Self { heard, wake }
    }

    fn heard(&self) -> MutexGuard<'_, Reports> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was told since it was last asked.
    pub(super) fn take(&self) -> Reports {
        mem::take(&mut *self.heard())
    }
}

impl EngineSink for Ear {
    fn news(&self, news: &EngineNews) {
        // Whoever starts the process knows how long that took, all of it.
        if matches!(news, EngineNews::Loaded { .. }) {
            return;
        }
        let mut heard = self.heard();
        let first = heard.is_empty();
        match heard.told.len() < MOST {
            true => heard.told.push(news.clone()),
            false => heard.missed += 1,
        }
        drop(heard);
        if first {
            self.wake.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_taken_once_in_their_order_and_no_more_of_them_than_fit() {
        let ear = Ear::new(Wake::default());
        assert!(ear.take().is_empty());
        ear.news(&EngineNews::Starved);
        for _ in 0..MOST + 1 {
            ear.news(&EngineNews::Idle);
        }
        let Reports { told, missed } = ear.take();
        assert_eq!((told.len(), missed), (MOST, 2));
        assert_eq!(told[..2], [EngineNews::Starved, EngineNews::Idle]);
        assert!(ear.take().is_empty());
    }
}
