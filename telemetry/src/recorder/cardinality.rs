//! The cardinality cap: no family grows beyond the label sets that its declaration allows.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use metrics::Key;
use parking_lot::Mutex;

use super::{Call, layer};
use crate::drops::{DropReason, Drops};
use crate::schema::Schema;

/// The label sets of every family.
#[derive(Debug, Default)]
pub struct KnownSeries(Mutex<HashMap<String, HashSet<Key>>>);

impl KnownSeries {
    /// Frees the label sets that have all of `labels`.
    pub(crate) fn forget(&self, labels: &[(&str, &str)]) {
        let has = |key: &Key, (name, value): &(&str, &str)| {
            key.labels()
                .any(|label| label.key() == *name && label.value() == *value)
        };
        self.0
            .lock()
            .values_mut()
            .for_each(|sets| sets.retain(|key| !labels.iter().all(|label| has(key, label))));
    }
}

/// Refuses label sets beyond a family's cap. Known ones always pass.
#[derive(Debug)]
pub struct Cardinality<R> {
    schema: Arc<Schema>,
    drops: Arc<Drops>,
    known: Arc<KnownSeries>,
    inner: R,
}

impl<R> Cardinality<R> {
    /// Caps what reaches `inner`.
    pub fn new(schema: Arc<Schema>, drops: Arc<Drops>, known: Arc<KnownSeries>, inner: R) -> Self {
        Self {
            schema,
            drops,
            known,
            inner,
        }
    }

    fn admit<'a>(&self, key: &'a Key, _: Call) -> Option<Cow<'a, Key>> {
        let most = self.schema.find(key.name())?.series;
        let mut known = self.known.0.lock();
        let sets = known.entry(key.name().to_owned()).or_default();
        if sets.contains(key) {
            return Some(Cow::Borrowed(key));
        }
        if sets.len() >= most {
            drop(known);
            let why = format!("it has {most} label sets already, the most that are kept");
            self.drops.refuse(DropReason::Cardinality, key.name(), &why);
            return None;
        }
        sets.insert(key.clone());
        Some(Cow::Borrowed(key))
    }
}

layer!(Cardinality);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{Probe, key, register, schema};

    #[test]
    fn beyond_the_cap_new_label_sets_are_refused_and_known_ones_pass() {
        let probe = Probe::default();
        let drops = Arc::new(Drops::default());
        let layer = Cardinality::new(schema(), Arc::clone(&drops), Arc::default(), probe.clone());
        let versions: Vec<&'static str> = (0..520).map(|n| &*n.to_string().leak()).collect();
        for version in &versions {
            register(
                &layer,
                &key("vllm:omni_build_info", &[("version", version)]),
                Call::Gauge,
            );
        }
        assert_eq!(probe.seen().len(), 512);
        assert_eq!(drops.total(DropReason::Cardinality), 8);
        register(
            &layer,
            &key("vllm:omni_build_info", &[("version", "0")]),
            Call::Gauge,
        );
        assert_eq!(probe.seen().len(), 513);
    }

    #[test]
    fn a_replica_that_is_gone_makes_room_for_another_one() {
        let probe = Probe::default();
        let drops = Arc::new(Drops::default());
        let known = Arc::new(KnownSeries::default());
        let layer = Cardinality::new(schema(), Arc::clone(&drops), Arc::clone(&known), probe);
        for replica in 0..5_000 {
            let replica: &'static str = replica.to_string().leak();
            let own = [("stage", "1"), ("replica", replica)];
            let edge = [
                ("from_stage", "1"),
                ("from_replica", replica),
                ("to_stage", "2"),
                ("to_replica", "0"),
            ];
            register(&layer, &key("vllm:num_requests_running", &own), Call::Gauge);
            register(&layer, &key("vllm:omni_transfer_tx_s", &edge), Call::Histogram);
            known.forget(&own);
            known.forget(&edge[..2]);
        }
        assert_eq!(drops.total(DropReason::Cardinality), 0);
    }
}
