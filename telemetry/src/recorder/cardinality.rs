//! The cardinality cap: no family grows beyond the label sets that its declaration allows.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use metrics::Key;
use parking_lot::Mutex;

use super::{Call, layer};
use crate::drops::{DropReason, Drops};
use crate::schema::Schema;

/// Refuses label sets beyond a family's cap. Known ones always pass.
#[derive(Debug)]
pub struct Cardinality<R> {
    schema: Arc<Schema>,
    drops: Arc<Drops>,
    known: Mutex<HashMap<String, HashSet<Key>>>,
    inner: R,
}

impl<R> Cardinality<R> {
    /// Caps what reaches `inner`.
    pub fn new(schema: Arc<Schema>, drops: Arc<Drops>, inner: R) -> Self {
        Self {
            schema,
            drops,
            known: Mutex::default(),
            inner,
        }
    }

    fn admit<'a>(&self, key: &'a Key, _: Call) -> Option<Cow<'a, Key>> {
        let most = self.schema.find(key.name())?.series;
        let mut known = self.known.lock();
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
        let (probe, drops) = (Probe::default(), Arc::new(Drops::default()));
        let layer = Cardinality::new(schema(), Arc::clone(&drops), probe.clone());
        let versions: Vec<&'static str> = (0..70).map(|n| &*n.to_string().leak()).collect();
        for version in &versions {
            register(
                &layer,
                &key("vllm:omni_build_info", &[("version", version)]),
                Call::Gauge,
            );
        }
        assert_eq!(probe.seen().len(), 64);
        assert_eq!(drops.total(DropReason::Cardinality), 6);
        register(
            &layer,
            &key("vllm:omni_build_info", &[("version", "0")]),
            Call::Gauge,
        );
        assert_eq!(probe.seen().len(), 65);
    }
}
