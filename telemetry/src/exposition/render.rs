//! The text formats: Prometheus' 0.0.4, and OpenMetrics for readers that ask for it. Families in the catalogue's order,
//! custom ones after them, then those of other libraries; series in the order of their labels.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::number::{real, whole};
use super::store::{Distribution, FamilyStore, Series};
use super::{Exposition, foreign};
use crate::catalogue::{Family, FamilyKind};
use crate::log::without_lines;

/// The families that a reader wants: all, or those named. A name is a family's, or that of one of a histogram's three
/// series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<String>);

impl Selection {
    /// The named families; all if there are no names.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains(name)
    }
}

/// Syntax of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0, with exemplars.
    OpenMetrics,
}

/// The wanted series of a family.
#[derive(Clone, Copy)]
struct Parts {
    buckets: bool,
    sum: bool,
    count: bool,
}

impl Parts {
    fn of(selection: &Selection, name: &str, kind: FamilyKind) -> Option<Self> {
        let distribution = matches!(kind, FamilyKind::Histogram | FamilyKind::Summary);
        let whole = selection.wants(name);
        let wants = |suffix| whole || (distribution && selection.wants(&format!("{name}{suffix}")));
        let parts = Self {
            buckets: kind != FamilyKind::Summary && wants("_bucket"),
            sum: wants("_sum"),
            count: wants("_count"),
        };
        (whole || parts.buckets || parts.sum || parts.count).then_some(parts)
    }
}

impl Exposition {
    /// Renders the current values. Recording continues meanwhile; each value is read once.
    pub fn render(&self, selection: &Selection) -> String {
        self.render_as(selection, Format::Text)
    }

    /// As above in the reader's syntax.
    pub fn render_as(&self, selection: &Selection, format: Format) -> String {
        without_lines(|| self.collect());
        let mut out = String::with_capacity(self.size.load(Ordering::Relaxed));
        for family in self.schema.served() {
            if !family.sinks.prometheus {
                continue;
            }
            let own = (Arc::clone(&family.name), family.help.clone());
            let others = self.schema.catalogue().other_names(&family.name);
            let others = others.map(|other| {
                let help = format!("{} {}", other.notice(), family.help);
                (Arc::clone(&other.name), help)
            });
            for (name, help) in [own].into_iter().chain(others) {
                if let Some(parts) = Parts::of(selection, &name, family.kind) {
                    let mut page = Page {
                        out: &mut out,
                        format,
                        family: &family,
                        name: &name,
                        parts,
                    };
                    page.family(&help, self.stored(&family.name).as_deref());
                }
            }
        }
        let foreign = self.foreign.lock().clone();
        if let Some(text) = foreign {
            foreign::append(&mut out, &text(), (selection, format), |name| {
                self.schema.find(name).is_some()
            });
        }
        if *selection == Selection::default() {
            self.size.store(out.len() + out.len() / 8, Ordering::Relaxed);
        }
        if format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }

    fn stored(&self, name: &str) -> Option<Arc<FamilyStore>> {
        let stores = self.stores.read();
        stores.get(name).map(Arc::clone)
    }
}

/// A family on its way out, under one of its names.
struct Page<'a> {
    out: &'a mut String,
    format: Format,
    family: &'a Family,
    name: &'a str,
    parts: Parts,
}

impl Page<'_> {
    fn family(&mut self, help: &str, store: Option<&FamilyStore>) {
        self.head(help);
        let Some(store) = store else { return };
        let bounds = bound_texts(store.family());
        store.for_each(|labels, series| match series {
            Series::Count(count) => {
                self.line("", labels, None);
                whole(self.out, count.get());
                self.out.push('\n');
            }
            Series::Real(value) => {
                self.line("", labels, None);
                real(self.out, value.get());
                self.out.push('\n');
            }
            Series::Distribution(distribution) => self.distribution(labels, distribution, &bounds),
        });
    }

    fn head(&mut self, help: &str) {
        let mut help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let mut name = self.name;
        let mut kind = self.family.kind.exposed();
        if self.format == Format::OpenMetrics {
            help = help.replace('"', "\\\"");
            if kind == "counter" {
                // A counter is named without the suffix that its samples have. One that lacks it cannot be called a
                // counter.
                (name, kind) = name
                    .strip_suffix("_total")
                    .map_or((name, "unknown"), |name| (name, kind));
            }
        }
        for part in ["# HELP ", name, " ", &help, "\n# TYPE ", name, " ", kind, "\n"] {
            self.out.push_str(part);
        }
    }

    fn distribution(&mut self, labels: &str, distribution: &Distribution, bounds: &[String]) {
        let exemplars = match self.format {
            Format::Text => Box::default(),
            Format::OpenMetrics => distribution.exemplars(),
        };
        let mut total = 0;
        let sum = distribution.read(|index, cumulative| {
            total = cumulative;
            if self.parts.buckets {
                self.line("_bucket", labels, bounds.get(index).map(String::as_str));
                whole(self.out, cumulative);
                if let Some(Some(exemplar)) = exemplars.get(index) {
                    self.out.push_str(" # {trace_id=\"");
                    self.out.push_str(&exemplar.trace);
                    self.out.push_str("\"} ");
                    real(self.out, exemplar.value);
                    self.out.push(' ');
                    let _ = write!(self.out, "{:.3}", exemplar.at);
                }
                self.out.push('\n');
            }
        });
        if self.parts.count {
            self.line("_count", labels, None);
            whole(self.out, total);
            self.out.push('\n');
        }
        if self.parts.sum {
            self.line("_sum", labels, None);
            real(self.out, sum);
            self.out.push('\n');
        }
    }

    /// A sample up to its value.
    fn line(&mut self, suffix: &str, labels: &str, bound: Option<&str>) {
        let out = &mut *self.out;
        out.push_str(self.name);
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
