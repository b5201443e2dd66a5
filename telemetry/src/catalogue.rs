//! The catalogue: every metric family there is, declared once in `catalogue.yaml`.
//!
//! In: the YAML text that is compiled in, and [`CatalogueOptions`]. Out: a validated [`Catalogue`], which never
//! changes. Typed families, descriptions, buckets, documentation and the JSON listing all derive from it. Nothing else
//! names a metric.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod absent;
mod deprecated;
mod family;
mod json;
mod markdown;
mod mode;
mod names;
mod options;
mod read;

pub use absent::Absent;
pub use deprecated::{Deprecated, Release};
pub use family::{Buckets, Family, FamilyKind, Sinks};
pub(crate) use family::{ENGINE, REPLICA, STAGE, check_bounds};
pub use mode::MetricsMode;
pub use names::{is_label_name, is_metric_name};
pub use options::{CatalogueOptions, OptionsError, Prefix};

/// The declarations that are compiled in.
const BUILT_IN: &str = include_str!("../catalogue.yaml");

/// A catalogue that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CatalogueError(String);

/// A group of families that are served or left out together.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name, for flags.
    pub name: Arc<str>,
    /// A description of its families.
    pub about: String,
    /// True if it is served.
    pub enabled: bool,
}

/// Every family with its group, and the families absent on purpose.
#[derive(Debug, Clone)]
pub struct Catalogue {
    supplied: Vec<Arc<str>>,
    groups: Vec<Group>,
    families: Vec<Arc<Family>>,
    by_name: BTreeMap<Arc<str>, usize>,
    absent: Vec<Absent>,
    deprecated: Vec<Deprecated>,
    /// Release since which hidden names are still shown.
    show_hidden: Option<Release>,
    /// Families that are not served though their group is.
    left_out: BTreeSet<Arc<str>>,
}

impl Catalogue {
    /// The catalogue as it is compiled in, with vLLM's default limits.
    ///
    /// # Panics
    /// Never in a build that passed its tests: the text is a constant, and one of them reads it.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).unwrap_or_else(|error| panic!("the catalogue that is compiled in: {error}"))
    }

    /// The catalogue in `text`.
    ///
    /// # Errors
    /// Text that is no catalogue: the first problem.
    pub fn parse(text: &str) -> Result<Self, CatalogueError> {
        read::catalogue(text)
    }

    fn new(
        supplied: Vec<Arc<str>>,
        groups: Vec<Group>,
        families: Vec<Family>,
        (absent, deprecated): (Vec<Absent>, Vec<Deprecated>),
    ) -> Self {
        let families: Vec<_> = families.into_iter().map(Arc::new).collect();
        let by_name = families
            .iter()
            .enumerate()
            .map(|(index, family)| (Arc::clone(&family.name), index));
        Self {
            by_name: by_name.collect(),
            supplied,
            groups,
            families,
            absent,
            deprecated,
            show_hidden: None,
            left_out: BTreeSet::new(),
        }
    }

    /// As above with only the process's families served, for no cost until read.
    pub(crate) fn closed(mut self) -> Self {
        self.groups
            .iter_mut()
            .for_each(|group| group.enabled &= &*group.name == "process");
        self
    }

    /// Every family in the order of the declarations. A family's place is its id.
    pub fn families(&self) -> &[Arc<Family>] {
        &self.families
    }

    /// The family of that name.
    pub fn find(&self, name: &str) -> Option<&Arc<Family>> {
        self.by_name.get(name).map(|index| &self.families[*index])
    }

    /// The groups in the order of the declarations.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns true if a family is served: its group is, it has a source, and it was not left out.
    pub fn serves(&self, family: &Family) -> bool {
        let group = |group: &Group| group.name == family.group && group.enabled;
        self.groups.iter().any(group) && family.pending.is_none() && !self.left_out.contains(&family.name)
    }

    /// Labels that the recorder supplies where a family has them.
    pub fn supplied(&self) -> &[Arc<str>] {
        &self.supplied
    }

    /// Families that others have and that do not exist here, with reasons.
    pub fn absent(&self) -> &[Absent] {
        &self.absent
    }

    /// Other names of families, shown or not.
    pub fn deprecated(&self) -> &[Deprecated] {
        &self.deprecated
    }

    /// Other names under which a family is shown.
    pub(crate) fn other_names<'a>(&'a self, family: &'a str) -> impl Iterator<Item = &'a Deprecated> {
        let shown = |name: &&Deprecated| name.is_shown(Release::current(), self.show_hidden);
        self.deprecated
            .iter()
            .filter(move |name| *name.family == *family)
            .filter(shown)
    }

    /// Describes every served family to a recorder of the `metrics` facade.
    pub fn describe(&self, recorder: &dyn metrics::Recorder) {
        for family in self.families.iter().filter(|family| self.serves(family)) {
            let name = metrics::KeyName::from(family.name.to_string());
            let help = metrics::SharedString::from(family.help.clone());
            match family.kind {
                FamilyKind::Counter => recorder.describe_counter(name, None, help),
                FamilyKind::FloatCounter | FamilyKind::Gauge => recorder.describe_gauge(name, None, help),
                FamilyKind::Histogram | FamilyKind::Summary => recorder.describe_histogram(name, None, help),
            }
        }
    }
}

#[cfg(test)]
mod tests;
