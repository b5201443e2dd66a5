//! A gate that a test opens and closes, and that a model's steps must pass.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A gate, initially open. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Shared>);

/// A one-time trigger: once lit, the next to pass it finds it burning. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Fuse(Arc<AtomicBool>);

impl Fuse {
    /// The next one to pass finds it burning.
    pub fn light(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn burns(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// Steps that may pass although it is closed.
    allowed: u64,
    passed: u64,
    waiting: u64,
}

impl Gate {
    /// From now on steps wait.
    pub fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// Lets everything pass.
    pub fn open(&self) {
        self.change(|state| state.closed = false);
    }

    /// Lets `steps` pass through a closed gate.
    pub fn allow(&self, steps: u64) {
        self.change(|state| state.allowed += steps);
    }

    /// Steps that have passed.
    pub fn passed(&self) -> u64 {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).passed
    }

    /// Blocks until a step waits at the gate.
    pub async fn reached(&self) {
        let gate = self.clone();
        let waited = tokio::task::spawn_blocking(move || {
            let state = gate.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            drop(gate.0.changed.wait_while(state, |state| state.waiting == 0));
        });
        waited.await.expect("waiting does not panic");
    }

    pub(crate) fn pass(&self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        self.0.changed.notify_all();
        let blocked = |state: &mut State| state.closed && state.allowed == 0;
        state = self
            .0
            .changed
            .wait_while(state, blocked)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.passed += 1;
        if state.closed {
            state.allowed -= 1;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changed.notify_all();
    }
}
