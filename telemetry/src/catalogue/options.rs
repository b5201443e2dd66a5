//! Options of an operator for the catalogue: the prefix, the groups, buckets. Names, kinds and labels stay as declared.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::family::{check_bounds, one_two_five};
use super::{Catalogue, Family, MetricsMode, Release};

/// The group that a metrics file can choose from.
const TORCHSERVE: &str = "torchserve";

/// Prefix of the pipeline's own families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefix {
    /// `vllm:omni_`, as vLLM-Omni's first dashboards have it.
    #[default]
    VllmOmni,
    /// `vllm_omni:`, as its later ones have it.
    VllmOmniNewer,
}

impl Prefix {
    const DECLARED: &'static str = "vllm:omni_";
    const NEWER: &'static str = "vllm_omni:";

    /// The prefix that is written `text`.
    ///
    /// # Errors
    /// Any text that is neither.
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        match text {
            Self::DECLARED => Ok(Self::VllmOmni),
            Self::NEWER => Ok(Self::VllmOmniNewer),
            other => Err(OptionsError::Prefix(other.to_owned())),
        }
    }

    fn apply(self, name: &Arc<str>) -> Arc<str> {
        match (self, name.strip_prefix(Self::DECLARED)) {
            (Self::VllmOmniNewer, Some(rest)) => Arc::from(format!("{}{rest}", Self::NEWER)),
            _ => Arc::clone(name),
        }
    }
}

/// Options of an operator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CatalogueOptions {
    /// The prefix of the pipeline's families.
    pub prefix: Prefix,
    /// Groups to serve although they are off by default.
    pub enable: Vec<String>,
    /// Groups not to serve.
    pub disable: Vec<String>,
    /// Serves families too that no component of the server feeds yet.
    pub pending: bool,
    /// Longest sequence of the served model, in tokens, if it is known already; the bounds of token histograms follow
    /// it.
    pub max_model_len: Option<u32>,
    /// Bounds that replace a bucket set, by the set's name.
    pub buckets: BTreeMap<String, Vec<f64>>,
    /// Those of TorchServe's families that are served, if not all of them. Served whether or not the group is enabled.
    pub torchserve: Option<Vec<String>>,
    /// Outputs of TorchServe's families.
    pub mode: MetricsMode,
    /// Deprecated names are shown that were hidden by this release or a later one.
    pub show_hidden: Option<Release>,
}

/// Options that do not fit the catalogue.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// Unknown prefix.
    #[error("metrics prefix {0:?}, expected \"vllm:omni_\" or \"vllm_omni:\"")]
    Prefix(String),
    /// Unknown group.
    #[error("metrics group {got:?} does not exist, there are: {known}")]
    Group {
        /// Requested name.
        got: String,
        /// The names that there are.
        known: String,
    },
    /// Unknown bucket set.
    #[error("histogram buckets {got:?} do not exist, there are: {known}")]
    BucketSet {
        /// Requested name.
        got: String,
        /// The names that there are.
        known: String,
    },
    /// Bounds that make no histogram.
    #[error("histogram buckets {set}: {problem}")]
    Bounds {
        /// The set.
        set: String,
        /// The problem.
        problem: String,
    },
}

impl Catalogue {
    /// This catalogue with an operator's wishes applied.
    ///
    /// # Errors
    /// Every wish that does not fit.
    pub fn with(&self, options: &CatalogueOptions) -> Result<Self, Vec<OptionsError>> {
        let problems = self.problems(options);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut groups = self.groups.clone();
        for group in &mut groups {
            let named = |names: &[String]| names.iter().any(|name| **name == *group.name);
            group.enabled = (group.enabled || named(&options.enable)) && !named(&options.disable);
        }
        let families = self.families.iter().map(|family| adapt(family, options));
        let mut catalogue = Self::new(
            self.supplied.clone(),
            groups,
            families.collect(),
            (self.absent.clone(), self.deprecated.clone()),
        );
        catalogue.show_hidden = options.show_hidden;
        if let Some(listed) = &options.torchserve {
            catalogue.serve_of_torchserve(listed);
        }
        Ok(catalogue)
    }

    /// The families whose bounds follow the longest sequence of the model, for sequences of at most `tokens`.
    pub(crate) fn of_length(&self, tokens: u32) -> Vec<Family> {
        let follows =
            |family: &&Arc<Family>| family.buckets.as_ref().is_some_and(|buckets| buckets.by_length);
        let families = self.families.iter().filter(follows).map(|family| {
            let mut family = Family::clone(family);
            if let Some(buckets) = &mut family.buckets {
                buckets.bounds = one_two_five(tokens);
            }
            family
        });
        families.collect()
    }

    fn serve_of_torchserve(&mut self, listed: &[String]) {
        for group in &mut self.groups {
            group.enabled |= group.name.as_ref() == TORCHSERVE;
        }
        let left_out = self.families.iter().filter(|family| {
            family.group.as_ref() == TORCHSERVE && !listed.iter().any(|name| **name == *family.name)
        });
        self.left_out = left_out.map(|family| Arc::clone(&family.name)).collect();
    }

    fn problems(&self, options: &CatalogueOptions) -> Vec<OptionsError> {
        let known = |name: &String| self.groups.iter().any(|group| *group.name == **name);
        let groups = options.enable.iter().chain(&options.disable);
        let groups = groups.filter(|name| !known(name)).map(|got| {
            let known: Vec<_> = self.groups.iter().map(|group| group.name.as_ref()).collect();
            OptionsError::Group {
                got: got.clone(),
                known: known.join(", "),
            }
        });
        let mut problems: Vec<_> = groups.collect();
        let mut sets: Vec<_> = self
            .families
            .iter()
            .filter_map(|family| Some(family.buckets.as_ref()?.set.as_ref()))
            .collect();
        sets.sort_unstable();
        sets.dedup();
        for (set, bounds) in &options.buckets {
            if !sets.contains(&set.as_str()) {
                problems.push(OptionsError::BucketSet {
                    got: set.clone(),
                    known: sets.join(", "),
                });
            }
            let positive = match bounds.first() {
                Some(first) if *first <= 0.0 => Err(format!("bound {first}, expected bounds above 0")),
                _ => check_bounds(bounds),
            };
            problems.extend(positive.err().map(|problem| OptionsError::Bounds {
                set: set.clone(),
                problem,
            }));
        }
        problems
    }
}

fn adapt(family: &Family, options: &CatalogueOptions) -> Family {
    let mut family = family.clone();
    if options.pending {
        family.pending = None;
    }
    if family.group.as_ref() == TORCHSERVE {
        family.sinks = options.mode.sinks(&family.name);
    }
    family.name = options.prefix.apply(&family.name);
    if let Some(buckets) = &mut family.buckets {
        if let (true, Some(limit)) = (buckets.by_length, options.max_model_len) {
            buckets.bounds = one_two_five(limit);
            buckets.by_length = false;
        }
        // Bounds that the operator has set stay when the model is known.
        if let Some(bounds) = options.buckets.get(buckets.set.as_ref()) {
            buckets.bounds.clone_from(bounds);
            buckets.by_length = false;
        }
    }
    family
}
