//! The gate: families of groups that are not served cost nothing at all.

use std::borrow::Cow;
use std::sync::Arc;

use metrics::Key;

use super::{Call, layer};
use crate::schema::Schema;

/// Gives handles that do nothing for families that are not served, or for all of them.
#[derive(Debug)]
pub struct Gate<R> {
    enabled: bool,
    schema: Arc<Schema>,
    inner: R,
}

impl<R> Gate<R> {
    /// A gate before `inner`, closed for everything unless `enabled`.
    pub fn new(enabled: bool, schema: Arc<Schema>, inner: R) -> Self {
        Self {
            enabled,
            schema,
            inner,
        }
    }

    fn admit<'a>(&self, key: &'a Key, _: Call) -> Option<Cow<'a, Key>> {
        // A name that is unknown is the next layer's business.
        let served = self
            .schema
            .find(key.name())
            .is_none_or(|family| self.schema.serves(&family));
        (self.enabled && served).then_some(Cow::Borrowed(key))
    }
}

layer!(Gate);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{Probe, key, register, schema};

    #[test]
    fn what_is_not_served_never_reaches_the_next_layer() {
        let probe = Probe::default();
        let gate = Gate::new(true, schema(), probe.clone());
        register(&gate, &key("QueueTime", &[("Level", "Host")]), Call::Gauge);
        assert_eq!(probe.seen(), Vec::<String>::new());
        register(&gate, &key("process_open_fds", &[]), Call::Gauge);
        assert_eq!(probe.seen(), ["process_open_fds"]);
    }

    #[test]
    fn a_closed_gate_lets_nothing_through() {
        let probe = Probe::default();
        let gate = Gate::new(false, schema(), probe.clone());
        register(&gate, &key("process_open_fds", &[]), Call::Gauge);
        assert!(probe.seen().is_empty());
    }
}
