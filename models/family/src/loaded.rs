//! A loaded model of any family.

use std::fmt;
use std::sync::Arc;

use omni_models::QWEN3_OMNI;
use omni_pipeline::stage::StageFamily;

use crate::compute::{ComputePlan, ProcessRole};
use crate::qwen::Qwen;
use crate::source::ModelSource;
use crate::{Converse, Hearing, Speak};

/// A loaded model: its stages, and what it can do.
#[derive(Clone)]
pub struct Family {
    /// Its graph, and the model of each stage.
    pub stages: Arc<dyn StageFamily>,
    /// The part that speaks, if it does.
    pub speech: Option<Arc<dyn Speak>>,
    /// The part that answers conversations, or the reason why there is none.
    pub chat: Result<Arc<dyn Converse>, String>,
}

/// The model has no part that speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model does not speak, expected one with a stage that gives audio")]
pub struct SilentModel;

impl Family {
    /// A model that speaks and does nothing else.
    pub fn voice<M: StageFamily + Speak>(model: Arc<M>) -> Self {
        Self {
            stages: Arc::clone(&model) as _,
            speech: Some(model),
            chat: Err("this model only speaks".to_owned()),
        }
    }

    /// The part that speaks.
    ///
    /// # Errors
    /// If there is none.
    pub fn speech(&self) -> Result<&Arc<dyn Speak>, SilentModel> {
        self.speech.as_ref().ok_or(SilentModel)
    }

    /// Its audio input, if it takes any.
    pub fn hearing(&self) -> Option<Hearing> {
        self.chat.as_ref().ok()?.chat().hearing
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("graph", &self.stages.graph().family)
            .finish_non_exhaustive()
    }
}

/// Loads models of one family.
struct Loader {
    /// As a deploy file names it.
    family: &'static str,
    /// Returns true if a checkpoint is of the family, judged by what its files say.
    recognises: fn(&ModelSource) -> bool,
    load: fn(&ModelSource, &ComputePlan, ProcessRole) -> anyhow::Result<Family>,
}

/// The families, the most particular first. The last one takes what the others do not, and says what is wrong with a
/// checkpoint of none.
const LOADERS: &[Loader] = &[Loader {
    family: QWEN3_OMNI.family,
    recognises: |_| true,
    load: |source, plan, role| Ok(Qwen::load(source, plan, role)?.into()),
}];

/// Loads the part of a model that `role` needs. May take long; nothing is kept if it fails.
///
/// # Errors
/// All problems of the checkpoint, or of a device; [`FamilyError`](crate::FamilyError) before any weights are read.
pub fn load(source: &ModelSource, plan: &ComputePlan, role: ProcessRole) -> anyhow::Result<Family> {
    load_by(LOADERS, source, plan, role)
}

fn load_by(
    loaders: &[Loader],
    source: &ModelSource,
    plan: &ComputePlan,
    role: ProcessRole,
) -> anyhow::Result<Family> {
    let loader = loaders.iter().find(|loader| (loader.recognises)(source));
    let loader = loader.ok_or_else(|| {
        let families: Vec<_> = loaders.iter().map(|loader| loader.family).collect();
        anyhow::anyhow!(
            "the checkpoint is of no known family, expected one of {}",
            families.join(", ")
        )
    })?;
    plan.check_family(loader.family)?;
    (loader.load)(source, plan, role)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::FamilyError;

    const ROLE: ProcessRole = ProcessRole::Server { speech_only: true };

    fn named(name: &str) -> ModelSource {
        ModelSource::Directory(PathBuf::from("/there/is/no/checkpoint").join(name))
    }

    fn plan(family: Option<&'static str>) -> ComputePlan {
        ComputePlan {
            family,
            ..ComputePlan::default()
        }
    }

    #[test]
    fn a_model_of_another_family_than_the_plan_is_refused_before_it_is_read() {
        let load_as =
            |family| load(&named("any"), &plan(Some(family)), ROLE).expect_err("nothing can be loaded");
        let refused = load_as("another");
        let said =
            "the deploy configuration is for the family another, the model is of the family qwen3-omni";
        assert_eq!(refused.to_string(), said);
        assert!(load_as(QWEN3_OMNI.family).downcast_ref::<FamilyError>().is_none());
    }

    #[test]
    fn a_checkpoint_goes_to_the_first_family_that_recognises_it() {
        fn ends_with(source: &ModelSource, name: &str) -> bool {
            matches!(source, ModelSource::Directory(path) if path.ends_with(name))
        }
        let loaders = [
            Loader {
                family: "bells",
                recognises: |source| ends_with(source, "bell"),
                load: |_, _, _| anyhow::bail!("it was a bell"),
            },
            Loader {
                family: "drums",
                recognises: |source| ends_with(source, "drum") || ends_with(source, "bell"),
                load: |_, _, _| anyhow::bail!("it was a drum"),
            },
        ];
        let said = |name: &str, family| {
            let loaded = load_by(&loaders, &named(name), &plan(family), ROLE);
            loaded.expect_err("nothing can be loaded").to_string()
        };
        assert_eq!(said("bell", None), "it was a bell");
        assert_eq!(said("drum", Some("drums")), "it was a drum");
        assert_eq!(
            said("drum", Some("bells")),
            "the deploy configuration is for the family bells, the model is of the family drums"
        );
        assert_eq!(
            said("horn", None),
            "the checkpoint is of no known family, expected one of bells, drums"
        );
    }
}
