//! The deploy file: how the stages of the pipeline are run.
//!
//! Two layers: the topology of a model family is built in, and the user's file says how each of its stages is to be
//! run. In: a file, the files it builds on, and `--set`. Out: a [`Deploy`] in which nothing is open, or everything that
//! is wrong, each problem with file, line and what would be right.

mod check;
mod layers;
mod problem;
mod resolve;
mod settings;
mod show;
mod typed;
mod value;

#[cfg(test)]
mod tests;

use std::path::Path;

use super::device::{Probe, probe};
use omni_engine::StageKind;
use omni_family::Device;
use omni_yaml::{Node, Problem};
use resolve::Resolved;
use settings::Of;

pub(super) use problem::nearest;
pub(super) use settings::WEIGHTS;
pub use settings::{
    AnswerSettings, ArStage, ChunkStage, Deploy, KeptVoiceLimits, OneShotStage, PrefixSettings, Stage,
    UpstreamSettings,
};
pub use typed::{Handover, Placement, PrefixSharing, Products, Restart, Routing, StageConfig};

/// A deploy configuration and how it came about.
#[derive(Debug, Clone)]
pub struct Resolution {
    /// Settings of the stages.
    pub deploy: Deploy,
    resolved: Resolved,
}

impl Resolution {
    /// As YAML, with the origin of every value as a comment. It reads back as the same configuration.
    pub fn yaml(&self) -> String {
        self.shown(false)
    }

    /// As above; with `changed` only values that were set explicitly.
    pub fn shown(&self, changed: bool) -> String {
        show::yaml(&self.resolved, changed)
    }
}

/// Names of the stages of all families.
pub fn stage_names() -> Vec<&'static str> {
    let stages = Of::Stages.stages().into_iter();
    stages.map(|stage| stage.name).collect()
}

/// The settings by which every stage with weights to choose keeps them as `weights`. Vocoders multiply in bf16 beside
/// quantised ones.
pub(super) fn all_weights(weights: &str) -> Vec<String> {
    let each = |kind, setting: &str| {
        let stages = Of::Kind(kind).stages().into_iter();
        let set = |name| format!("{}.{setting}", settings::scope(name));
        stages.map(|stage| set(stage.name)).collect::<Vec<_>>()
    };
    let mut settings = each(StageKind::Autoregressive, &format!("weights={weights}"));
    if matches!(weights, "int8" | "int4") {
        settings.extend(each(StageKind::Chunk, "products=fewest"));
    }
    settings
}

/// The reference of all settings, in Markdown: what `docs/config.md` must say.
pub fn reference() -> String {
    show::reference()
}

/// The flags that defaults follow from, and the devices of this machine.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("Given {{ max_active: {:?}, device: {:?}, .. }}", self.max_active, self.device)]
pub struct Given<'a> {
    /// Utterances worked on at once.
    pub max_active: usize,
    /// Device of `--device`.
    pub device: Device,
    /// Finds other devices.
    pub probe: Probe<'a>,
}

impl Given<'_> {
    /// For `max_active` utterances on this device.
    pub fn new(max_active: usize, device: Device) -> Self {
        Self {
            max_active,
            device,
            probe: &probe,
        }
    }
}

impl From<usize> for Given<'_> {
    /// For `max_active` utterances on the CPU.
    fn from(max_active: usize) -> Self {
        Self::new(max_active, Device::Cpu)
    }
}

/// Reads a deploy file and the `--set` flags.
///
/// # Errors
/// Everything that is wrong, one line each.
pub fn resolve<'a>(
    file: Option<&Path>,
    sets: &[String],
    given: impl Into<Given<'a>>,
) -> Result<Resolution, Vec<String>> {
    let (tree, problems) = layers::read(file, sets);
    resolved(&tree, problems, &given.into())
}

/// Reads what [`Resolution::yaml`] wrote.
///
/// # Errors
/// Everything that is wrong, one line each.
pub fn read_back(yaml: &str, max_active: usize) -> Result<Resolution, Vec<String>> {
    let (tree, problems) = layers::read_text("the resolved configuration", yaml);
    // Checked when it was read; a device that has failed since is reported where it is used.
    let given = Given {
        probe: &|_| Ok(String::new()),
        ..max_active.into()
    };
    resolved(&tree, problems, &given)
}

fn resolved(tree: &Node, mut problems: Vec<Problem>, given: &Given<'_>) -> Result<Resolution, Vec<String>> {
    let (resolved, wrong) = Resolved::new(tree, given);
    let deploy = Deploy::new(&resolved);
    problems.extend(wrong);
    problems.extend(check::problems(&deploy, &resolved, given));
    if problems.is_empty() {
        return Ok(Resolution { deploy, resolved });
    }
    Err(problems.iter().map(ToString::to_string).collect())
}
