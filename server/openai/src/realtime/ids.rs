//! Ids that the server generates.

use omni_core::id::random_u64;

/// Ids of one session; random, so that they are unique across sessions.
#[derive(Debug)]
pub(super) struct Ids {
    base: u64,
    items: u32,
    responses: u32,
    events: u32,
}

impl Ids {
    pub(super) fn random() -> Self {
        Self {
            base: random_u64(),
            items: 0,
            responses: 0,
            events: 0,
        }
    }

    pub(super) fn session(&self) -> String {
        format!("sess_{:016x}", self.base)
    }

    pub(super) fn conversation(&self) -> String {
        format!("conv_{:016x}", self.base)
    }

    /// Id of an item.
    pub(super) fn item(&mut self) -> String {
        self.items += 1;
        format!("item_{:016x}_{}", self.base, self.items)
    }

    /// Id of a function call.
    pub(super) fn call(&mut self) -> String {
        self.items += 1;
        format!("call_{:016x}_{}", self.base, self.items)
    }

    pub(super) fn response(&mut self) -> String {
        self.responses += 1;
        format!("resp_{:016x}_{}", self.base, self.responses)
    }

    /// Id of a server event.
    pub(super) fn event(&mut self) -> String {
        self.events += 1;
        format!("event_{:016x}_{}", self.base, self.events)
    }
}
