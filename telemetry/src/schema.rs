//! The families a server has: those of the catalogue, and those that were declared while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::catalogue::{Catalogue, Family};

/// Looked up by the recorder's layers at registration, never on the hot path.
#[derive(Debug)]
pub struct Schema {
    catalogue: Arc<Catalogue>,
    custom: RwLock<BTreeMap<Arc<str>, Arc<Family>>>,
}

impl Schema {
    /// The families of `catalogue`.
    #[must_use]
    pub fn new(catalogue: Arc<Catalogue>) -> Self {
        Self {
            catalogue,
            custom: RwLock::default(),
        }
    }

    /// The catalogue below.
    #[must_use]
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// The family of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Family>> {
        let built_in = self.catalogue.find(name).cloned();
        built_in.or_else(|| {
            self.custom
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .get(name)
                .cloned()
        })
    }

    /// Whether a family is served: custom ones always, others by their group.
    #[must_use]
    pub fn serves(&self, family: &Family) -> bool {
        self.catalogue.find(&family.name).is_none() || self.catalogue.serves(family)
    }

    /// Every served family: the catalogue in its order, then the custom ones by name.
    #[must_use]
    pub fn served(&self) -> Vec<Arc<Family>> {
        let families = self.catalogue.families().iter();
        let mut served: Vec<_> = families
            .filter(|family| self.catalogue.serves(family))
            .cloned()
            .collect();
        served.extend(self.custom());
        served
    }

    /// The custom families by name.
    #[must_use]
    pub fn custom(&self) -> Vec<Arc<Family>> {
        let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        custom.values().cloned().collect()
    }
}
