//! The text format 0.0.4. Families in the catalogue's order, custom ones after them; series in the order of their labels.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::Exposition;
use super::number::{real, whole};
use super::store::{Distribution, FamilyStore, Series};
use crate::catalogue::{Family, FamilyKind};

/// Which families a reader wants: all, or those named. A name is a family's, or that of one of a histogram's three series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<String>);

impl Selection {
    /// Only what is named; everything if nothing is.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    fn wants(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains(name)
    }
}

/// Which of a family's series are wanted.
#[derive(Clone, Copy)]
struct Parts {
    buckets: bool,
    sum: bool,
    count: bool,
}

impl Parts {
    fn of(selection: &Selection, family: &Family) -> Option<Self> {
        if selection.wants(&family.name) {
            return Some(Self {
                buckets: true,
                sum: true,
                count: true,
            });
        }
        let wants = |suffix| {
            family.kind == FamilyKind::Histogram && selection.wants(&format!("{}{suffix}", family.name))
        };
        let parts = Self {
            buckets: wants("_bucket"),
            sum: wants("_sum"),
            count: wants("_count"),
        };
        (parts.buckets || parts.sum || parts.count).then_some(parts)
    }
}

impl Exposition {
    /// What a reader gets now. Recording goes on meanwhile; each value is read once.
    #[must_use]
    pub fn render(&self, selection: &Selection) -> String {
        self.collect();
        let mut out = String::with_capacity(self.size.load(Ordering::Relaxed));
        for family in self.schema.served() {
            let Some(parts) = Parts::of(selection, &family).filter(|_| family.sinks.prometheus) else {
                continue;
            };
            head(&mut out, &family);
            let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
            let store = stores.get(&family.name).map(Arc::clone);
            drop(stores);
            if let Some(store) = store {
                samples(&mut out, &store, parts);
            }
        }
        if *selection == Selection::default() {
            self.size.store(out.len() + out.len() / 8, Ordering::Relaxed);
        }
        out
    }
}

fn head(out: &mut String, family: &Family) {
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    for part in [
        "# HELP ",
        &family.name,
        " ",
        &help,
        "\n# TYPE ",
        &family.name,
        " ",
        family.kind.exposed(),
        "\n",
    ] {
        out.push_str(part);
    }
}

fn samples(out: &mut String, store: &FamilyStore, parts: Parts) {
    let name = &store.family().name;
    let bounds = bound_texts(store.family());
    store.for_each(|labels, series| match series {
        Series::Count(count) => {
            line(out, name, "", labels, None);
            whole(out, count.get());
            out.push('\n');
        }
        Series::Real(value) => {
            line(out, name, "", labels, None);
            real(out, value.get());
            out.push('\n');
        }
        Series::Distribution(distribution) => histogram(out, name, labels, (distribution, &bounds), parts),
    });
}

/// Bounds as they are written, `+Inf` last.
fn bound_texts(family: &Family) -> Vec<String> {
    let bounds = family.buckets.iter().flat_map(|buckets| &buckets.bounds);
    let bounds = bounds.copied().chain([f64::INFINITY]);
    let text = |bound| {
        let mut out = String::new();
        real(&mut out, bound);
        out
    };
    bounds.map(text).collect()
}

fn histogram(
    out: &mut String,
    name: &str,
    labels: &str,
    (distribution, bounds): (&Distribution, &[String]),
    parts: Parts,
) {
    let mut total = 0;
    let sum = distribution.read(|index, cumulative| {
        total = cumulative;
        if parts.buckets {
            line(
                out,
                name,
                "_bucket",
                labels,
                bounds.get(index).map(String::as_str),
            );
            whole(out, cumulative);
            out.push('\n');
        }
    });
    if parts.count {
        line(out, name, "_count", labels, None);
        whole(out, total);
        out.push('\n');
    }
    if parts.sum {
        line(out, name, "_sum", labels, None);
        real(out, sum);
        out.push('\n');
    }
}

/// A sample up to its value.
fn line(out: &mut String, name: &str, suffix: &str, labels: &str, bound: Option<&str>) {
    out.push_str(name);
    out.push_str(suffix);
    if !labels.is_empty() || bound.is_some() {
        out.push('{');
        out.push_str(labels);
        if let Some(bound) = bound {
            out.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
            out.push_str(bound);
            out.push('"');
        }
        out.push('}');
    }
    out.push(' ');
}
