//! The series of one family. Handles hold atomics; the map is locked to add a series and to read them all, never to
//! record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key};
use parking_lot::{Mutex, RwLock};

use super::exemplar::Exemplar;
use crate::catalogue::{Family, FamilyKind};
use crate::drops::{DropReason, Drops};

/// The labels of a series as they are written, without braces, sorted by name. Two spellings of one label set are one
/// text.
pub(super) type LabelText = Box<str>;

#[derive(Debug, Clone)]
pub(super) enum Series {
    Count(Arc<Count>),
    Real(Arc<Real>),
    Distribution(Arc<Distribution>),
}

#[derive(Debug)]
pub(super) struct FamilyStore {
    family: Arc<Family>,
    drops: Arc<Drops>,
    series: RwLock<BTreeMap<LabelText, Series>>,
}

impl FamilyStore {
    pub(super) fn new(family: Arc<Family>, drops: Arc<Drops>) -> Self {
        Self {
            family,
            drops,
            series: RwLock::default(),
        }
    }

    pub(super) fn family(&self) -> &Family {
        &self.family
    }

    pub(super) fn len(&self) -> usize {
        self.series.read().len()
    }

    pub(super) fn counter(&self, key: &Key) -> Counter {
        match self.get_or_insert(key, || Series::Count(Arc::default())) {
            Series::Count(count) => Counter::from_arc(count),
            _ => Counter::noop(),
        }
    }

    pub(super) fn gauge(&self, key: &Key) -> Gauge {
        let only_up = self.family.kind == FamilyKind::FloatCounter;
        let drops = Arc::clone(&self.drops);
        let new = || {
            Series::Real(Arc::new(Real {
                bits: AtomicU64::new(0),
                only_up,
                drops,
            }))
        };
        match self.get_or_insert(key, new) {
            Series::Real(real) => Gauge::from_arc(real),
            _ => Gauge::noop(),
        }
    }

    pub(super) fn histogram(&self, key: &Key) -> Histogram {
        let bounds = || {
            self.family
                .buckets
                .as_ref()
                .map(|buckets| buckets.bounds.clone())
                .unwrap_or_default()
        };
        let new = || {
            Series::Distribution(Arc::new(Distribution::new(
                bounds().into(),
                Arc::clone(&self.drops),
            )))
        };
        match self.get_or_insert(key, new) {
            Series::Distribution(distribution) => Histogram::from_arc(distribution),
            _ => Histogram::noop(),
        }
    }

    fn get_or_insert(&self, key: &Key, new: impl FnOnce() -> Series) -> Series {
        let mut series = self.series.write();
        series.entry(label_text(key)).or_insert_with(new).clone()
    }

    /// Removes the series whose labels satisfy `gone`. Handles to them stay valid, but their values are no longer
    /// read.
    pub(super) fn forget(&self, gone: impl Fn(&str) -> bool) {
        let mut series = self.series.write();
        series.retain(|labels, _| !gone(labels));
    }

    /// Calls `each` with every series in the order of their labels.
    pub(super) fn for_each(&self, mut each: impl FnMut(&str, &Series)) {
        let series = self.series.read();
        for (labels, series) in series.iter() {
            each(labels, series);
        }
    }
}

fn label_text(key: &Key) -> LabelText {
    let mut labels: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
    labels.sort_unstable();
    let mut out = String::new();
    for (index, (name, value)) in labels.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        escape(&mut out, value);
        out.push('"');
    }
    out.into_boxed_str()
}

/// Appends a label's value with `\`, `"` and line ends escaped.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// A whole number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

/// A real number. As a counter it only grows.
#[derive(Debug)]
pub(super) struct Real {
    bits: AtomicU64,
    only_up: bool,
    drops: Arc<Drops>,
}

impl Real {
    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.bits.load(Ordering::Relaxed))
    }

    fn admits(&self, grows: bool, value: f64) -> bool {
        let admits = value.is_finite() && (grows || !self.only_up);
        if !admits {
            self.drops.count(DropReason::NonFinite);
        }
        admits
    }

    fn update(&self, change: impl Fn(f64) -> f64) {
        add_real(&self.bits, change);
    }
}

fn add_real(bits: &AtomicU64, change: impl Fn(f64) -> f64) {
    let update = |bits| Some(change(f64::from_bits(bits)).to_bits());
    let _ = bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
}

impl GaugeFn for Real {
    fn increment(&self, value: f64) {
        if self.admits(value >= 0.0, value) {
            self.update(|now| now + value);
        }
    }

    fn decrement(&self, value: f64) {
        if self.admits(value <= 0.0, value) {
            self.update(|now| now - value);
        }
    }

    fn set(&self, value: f64) {
        if !self.only_up {
            if self.admits(true, value) {
                self.bits.store(value.to_bits(), Ordering::Relaxed);
            }
        } else if self.admits(value >= 0.0, value) {
            self.update(|now| now.max(value));
        }
    }
}

/// Counts per bucket, and the sum. Its size does not depend on how much was recorded.
#[derive(Debug)]
pub(super) struct Distribution {
    bounds: Arc<[f64]>,
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    drops: Arc<Drops>,
    /// The last exemplar per bucket, once there is one.
    exemplars: Mutex<Box<[Option<Exemplar>]>>,
}

impl Distribution {
    fn new(bounds: Arc<[f64]>, drops: Arc<Drops>) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self {
            bounds,
            buckets,
            sum: AtomicU64::new(0),
            drops,
            exemplars: Mutex::default(),
        }
    }

    /// The last exemplar of each bucket; empty if there is none at all.
    pub(super) fn exemplars(&self) -> Box<[Option<Exemplar>]> {
        let exemplars = self.exemplars.lock();
        exemplars.clone()
    }

    fn keep(&self, bucket: usize, exemplar: Exemplar) {
        let mut exemplars = self.exemplars.lock();
        if exemplars.is_empty() {
            *exemplars = vec![None; self.buckets.len()].into();
        }
        exemplars[bucket] = Some(exemplar);
    }

    /// Cumulative counts, one per bound and one for `+Inf`; the sum.
    pub(super) fn read(&self, mut each: impl FnMut(usize, u64)) -> f64 {
        let mut total = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            total += bucket.load(Ordering::Relaxed);
            each(index, total);
        }
        f64::from_bits(self.sum.load(Ordering::Relaxed))
    }
}

impl HistogramFn for Distribution {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        if !value.is_finite() {
            self.drops.count(DropReason::NonFinite);
            return;
        }
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(count as u64, Ordering::Relaxed);
        if let Some(exemplar) = Exemplar::of(value) {
            self.keep(bucket, exemplar);
        }
        let value = value * count as f64;
        if value != 0.0 {
            add_real(&self.sum, |now| now + value);
        }
    }
}
