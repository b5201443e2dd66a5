//! The Prometheus side: where series live, and the text they are read as.
//!
//! In: handles through the `metrics` facade, which hold atomics and never a lock. Out: text, rendered on demand. Why
//! the storage is not `metrics-exporter-prometheus`: docs/dev/decisions.md, with the tests that fail with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::{Mutex, RwLock};

use crate::catalogue::{Family, FamilyKind};
use crate::drops::Drops;
use crate::schema::Schema;

mod exemplar;
mod foreign;
mod number;
mod render;
mod store;

pub use exemplar::with_exemplar;
pub use foreign::ForeignText;
pub use render::{Format, Selection};
use store::FamilyStore;

/// Something that has to look before it can tell. Called before every rendering, on the caller's thread.
pub trait Collector: Send + Sync {
    /// Updates its metrics. Must not block for long.
    fn collect(&self);
}

/// Every series that is served.
#[derive(derive_more::Debug)]
#[debug("Exposition {{ .. }}")]
pub struct Exposition {
    schema: Arc<Schema>,
    drops: Arc<Drops>,
    stores: RwLock<BTreeMap<Arc<str>, Arc<FamilyStore>>>,
    collectors: Mutex<Vec<Arc<dyn Collector>>>,
    foreign: Mutex<Option<ForeignText>>,
    /// Size of the last full rendering, for the next one's buffer.
    size: std::sync::atomic::AtomicUsize,
}

impl Exposition {
    /// An empty one for the families of `schema`.
    pub fn new(schema: Arc<Schema>, drops: Arc<Drops>) -> Self {
        Self {
            schema,
            drops,
            stores: RwLock::default(),
            collectors: Mutex::default(),
            foreign: Mutex::default(),
            size: std::sync::atomic::AtomicUsize::new(4096),
        }
    }

    /// Asks `collector` before every rendering from now on.
    pub fn collect_from(&self, collector: Arc<dyn Collector>) {
        let mut collectors = self.collectors.lock();
        collectors.push(collector);
    }

    /// Shows the families of another library behind ours from now on, in place of those shown before. `text` gives them
    /// in Prometheus' text format; every rendering calls it, on the reader's thread, so it must not block for long.
    pub fn show(&self, text: ForeignText) {
        *self.foreign.lock() = Some(text);
    }

    /// Series of that family.
    pub fn series(&self, name: &str) -> usize {
        let stores = self.stores.read();
        stores.get(name).map_or(0, |store| store.len())
    }

    /// Forgets the series that have all of `labels`, of every family.
    pub(crate) fn forget(&self, labels: &[(&str, &str)]) {
        // The labels of a series are one text; the quotes inside its values are escaped, so that these words are
        // labels.
        let words = labels.iter().map(|(name, value)| format!("{name}=\"{value}\""));
        let words: Vec<_> = words.collect();
        let gone = |labels: &str| {
            words.iter().all(|word| {
                labels
                    .match_indices(word.as_str())
                    .any(|(at, _)| at == 0 || labels[..at].ends_with(','))
            })
        };
        let stores = self.stores.read();
        stores.values().for_each(|store| store.forget(gone));
    }

    /// Updates polled metrics, as before every rendering.
    pub fn collect(&self) {
        // Collectors record, and one may be added meanwhile: none is called under the lock.
        let collectors = self.collectors.lock().clone();
        for collector in collectors {
            collector.collect();
        }
    }

    /// The store of a family, if it is of one of `kinds`.
    fn store(&self, name: &str, kinds: &[FamilyKind]) -> Option<Arc<FamilyStore>> {
        if let Some(store) = self.stores.read().get(name) {
            return kinds.contains(&store.family().kind).then(|| Arc::clone(store));
        }
        let family: Arc<Family> = self.schema.find(name)?;
        if !kinds.contains(&family.kind) {
            return None;
        }
        let mut stores = self.stores.write();
        let new = || Arc::new(FamilyStore::new(Arc::clone(&family), Arc::clone(&self.drops)));
        Some(Arc::clone(
            stores.entry(Arc::clone(&family.name)).or_insert_with(new),
        ))
    }
}

impl Recorder for Exposition {
    // The catalogue has the help text.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let store = self.store(key.name(), &[FamilyKind::Counter]);
        store.map_or_else(Counter::noop, |store| store.counter(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let store = self.store(key.name(), &[FamilyKind::Gauge, FamilyKind::FloatCounter]);
        store.map_or_else(Gauge::noop, |store| store.gauge(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let store = self.store(key.name(), &[FamilyKind::Histogram, FamilyKind::Summary]);
        store.map_or_else(Histogram::noop, |store| store.histogram(key))
    }
}

#[cfg(test)]
mod tests;
