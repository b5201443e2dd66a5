//! The families a server has: those of the catalogue, and those that were declared while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use crate::catalogue::{Catalogue, Family};
use crate::custom::MetricError;

/// Looked up by the recorder's layers at registration, never on the hot path.
#[derive(Debug)]
pub struct Schema {
    catalogue: Arc<Catalogue>,
    /// Families whose bounds follow the model's longest sequence, as soon as that is known.
    by_length: OnceLock<BTreeMap<Arc<str>, Arc<Family>>>,
    custom: RwLock<BTreeMap<Arc<str>, Arc<Family>>>,
    /// Labels of the grouping key that metrics are pushed with, which no metric may have.
    grouping: RwLock<BTreeSet<String>>,
}

impl Schema {
    /// The families of `catalogue`.
    pub fn new(catalogue: Arc<Catalogue>) -> Self {
        Self {
            catalogue,
            by_length: OnceLock::new(),
            custom: RwLock::default(),
            grouping: RwLock::default(),
        }
    }

    /// The catalogue below.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// No metric that is declared after this may have one of these labels.
    pub(crate) fn groups_by(&self, labels: &[String]) {
        self.grouping.write().extend(labels.iter().cloned());
    }

    /// True if metrics are pushed with that label in the grouping key.
    pub(crate) fn is_grouped_by(&self, label: &str) -> bool {
        self.grouping.read().contains(label)
    }

    /// The model's longest sequence is known. The first length stays, and so do the bounds of series that are there
    /// already.
    pub(crate) fn longest_sequence(&self, tokens: u32) {
        self.by_length.get_or_init(|| {
            let families = self.catalogue.of_length(tokens).into_iter();
            families
                .map(|family| (Arc::clone(&family.name), Arc::new(family)))
                .collect()
        });
    }

    /// A family of the catalogue as it is now.
    fn current<'a>(&'a self, family: &'a Arc<Family>) -> &'a Arc<Family> {
        let known = self.by_length.get();
        known
            .and_then(|families| families.get(&family.name))
            .unwrap_or(family)
    }

    /// The family of that name.
    pub fn find(&self, name: &str) -> Option<Arc<Family>> {
        let built_in = self
            .catalogue
            .find(name)
            .map(|family| self.current(family))
            .cloned();
        built_in.or_else(|| self.custom.read().get(name).cloned())
    }

    /// Returns true if a family is served: custom ones always, others by their group.
    pub fn serves(&self, family: &Family) -> bool {
        self.catalogue.find(&family.name).is_none() || self.catalogue.serves(family)
    }

    /// Every served family: the catalogue in its order, then the custom ones by name.
    pub fn served(&self) -> Vec<Arc<Family>> {
        let mut served = self.own();
        served.extend(self.custom());
        served
    }

    /// Those of the catalogue.
    fn own(&self) -> Vec<Arc<Family>> {
        let families = self.catalogue.families().iter();
        let served = families.filter(|family| self.catalogue.serves(family));
        served.map(|family| Arc::clone(self.current(family))).collect()
    }

    /// The custom families by name.
    pub fn custom(&self) -> Vec<Arc<Family>> {
        let custom = self.custom.read();
        custom.values().cloned().collect()
    }

    /// Adds a custom family, which its caller has checked. The same again changes nothing.
    pub(crate) fn insert(&self, family: Family, most: usize) -> Result<(), MetricError> {
        let mut custom = self.custom.write();
        if let Some(known) = custom.get(&family.name) {
            return match difference(known, &family) {
                None => Ok(()),
                Some(what) => Err(MetricError::DeclaredDifferently {
                    name: family.name.to_string(),
                    what,
                }),
            };
        }
        if custom.len() >= most {
            return Err(MetricError::TooManyMetrics { most });
        }
        custom.insert(Arc::clone(&family.name), Arc::new(family));
        Ok(())
    }

    /// The served families, the custom ones and the absent ones.
    pub fn to_json(&self) -> serde_json::Value {
        let list = |families: Vec<Arc<Family>>| {
            let families = families.iter().map(|family| family.to_json());
            serde_json::Value::Array(families.collect())
        };
        let mut json = self.catalogue.to_json();
        json["families"] = list(self.own());
        json["custom"] = list(self.custom());
        json
    }
}

/// The difference between two declarations of one name.
fn difference(a: &Family, b: &Family) -> Option<&'static str> {
    let differs = [
        (a.kind != b.kind, "kind"),
        (a.unit != b.unit, "unit"),
        (label_set(a) != label_set(b), "set of labels"),
        (a.buckets != b.buckets, "set of bounds"),
        (a.help != b.help, "help"),
    ];
    differs
        .into_iter()
        .find_map(|(differs, what)| differs.then_some(what))
}

/// Their order is that of the first declaration, and internal.
fn label_set(family: &Family) -> BTreeSet<&str> {
    family.labels.iter().map(AsRef::as_ref).collect()
}
