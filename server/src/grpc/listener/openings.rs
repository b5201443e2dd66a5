//! Connections that have not said anything yet: a bounded number. When there are more, the oldest goes: whoever means to say
//! something does so at once, and whoever does not keeps nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub(super) struct Openings {
    most: usize,
    all: Arc<Mutex<All>>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    open: BTreeMap<u64, CancellationToken>,
}

/// One of them; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Opening {
    number: u64,
    over: CancellationToken,
    all: Arc<Mutex<All>>,
}

impl Openings {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            all: Arc::default(),
        }
    }

    /// Lets one more in, and the oldest go if that is one too many.
    pub(super) fn enter(&self) -> Opening {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, over) = (all.next, CancellationToken::new());
        all.next += 1;
        all.open.insert(number, over.clone());
        if all.open.len() > self.most
            && let Some((_, oldest)) = all.open.pop_first()
        {
            oldest.cancel();
        }
        Opening {
            number,
            over,
            all: Arc::clone(&self.all),
        }
    }
}

impl Opening {
    /// Resolves when it has to go.
    pub(super) async fn is_over(&self) {
        self.over.cancelled().await;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_makes_the_oldest_go_and_nobody_else() {
        let openings = Openings::new(2);
        let (first, second) = (openings.enter(), openings.enter());
        assert!(!first.over.is_cancelled());
        let third = openings.enter();
        assert!(first.over.is_cancelled());
        assert!(!second.over.is_cancelled() && !third.over.is_cancelled());
        drop(second);
        let fourth = openings.enter();
        assert!(!third.over.is_cancelled() && !fourth.over.is_cancelled());
        drop((first, third, fourth));
        assert!(openings.all.lock().unwrap().open.is_empty());
    }
}
