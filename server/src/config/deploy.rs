//! The deploy file: how the stages of the pipeline are run.
//!
//! Two layers: the topology of a model family is built in, and the user's file says how each of its stages is to be run. In:
//! a file, the files it builds on, and `--set`. Out: a [`Deploy`] in which nothing is open, or everything that is wrong, each
//! problem with file, line and what would be right.

mod layers;
mod problem;
mod resolve;
mod schema;
mod show;
mod typed;
mod value;
mod yaml;

#[cfg(test)]
mod tests;

use std::path::Path;

use resolve::Resolved;

pub use typed::{
    Answers, ArStage, ChunkStage, Deploy, Dtype, Handover, OneShotStage, Placement, Restart, Routing,
    SamplingDefaults, Stage, StagePatience,
};
pub use value::Device;

/// A deploy configuration and how it came about.
#[derive(Debug, Clone)]
pub struct Resolution {
    /// What to run.
    pub deploy: Deploy,
    resolved: Resolved,
}

impl Resolution {
    /// As YAML, with the origin of every value as a comment. It reads back as the same configuration.
    #[must_use]
    pub fn yaml(&self) -> String {
        show::yaml(&self.resolved)
    }
}

/// The reference of all settings, in Markdown: what `docs/config.md` must say.
#[must_use]
pub fn reference() -> String {
    show::reference()
}

/// Reads a deploy file and the `--set` flags; some defaults follow from `max_active`, the utterances worked on at once.
///
/// # Errors
/// Everything that is wrong, one line each.
pub fn resolve(file: Option<&Path>, sets: &[String], max_active: usize) -> Result<Resolution, Vec<String>> {
    let (tree, problems) = layers::read(file, sets);
    resolved(&tree, problems, max_active)
}

/// Reads what [`Resolution::yaml`] wrote.
///
/// # Errors
/// Everything that is wrong, one line each.
pub fn read_back(yaml: &str, max_active: usize) -> Result<Resolution, Vec<String>> {
    let (tree, problems) = layers::read_text("the resolved configuration", yaml);
    resolved(&tree, problems, max_active)
}

fn resolved(
    tree: &yaml::Node,
    mut problems: Vec<problem::Problem>,
    max_active: usize,
) -> Result<Resolution, Vec<String>> {
    let (resolved, wrong) = Resolved::new(tree, max_active as u64);
    problems.extend(wrong);
    match problems.is_empty() {
        true => Ok(Resolution {
            deploy: Deploy::new(&resolved),
            resolved,
        }),
        false => Err(problems.iter().map(ToString::to_string).collect()),
    }
}
