//! A loaded model of any family.

use std::fmt;
use std::sync::Arc;

use omni_engine::StageGraph;
use omni_models::QWEN3_OMNI;
use omni_pipeline::request::Clip;
use omni_pipeline::stage::{BackendError, Launch, StageBody, StageFamily, StageHandle};

use crate::compute::{ComputePlan, ProcessRole};
use crate::qwen::Qwen;
use crate::source::ModelSource;
use crate::{
    ChatInfo, ChatMessage, Converse, Detokenizer, DeviceFigures, EncodeVoice, ModelInfo, Prompt, PromptError,
    SpeechInfo,
};

/// A loaded model, whichever its family is.
pub struct LoadedModel(Arc<dyn Converse>);

impl fmt::Debug for LoadedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadedModel").field(&self.0.info().id).finish()
    }
}

/// Loads the part of a model that `role` needs. May take long; nothing is kept if it fails.
///
/// # Errors
/// All problems of the checkpoint, or of a device; [`FamilyError`](crate::FamilyError) before anything is read.
pub fn load(source: &ModelSource, plan: &ComputePlan, role: ProcessRole) -> anyhow::Result<LoadedModel> {
    // All checkpoints that `omni-models` reads so far have the stages of one graph.
    plan.check_family(QWEN3_OMNI.family)?;
    Ok(LoadedModel(Arc::new(Qwen::load(source, plan, role)?)))
}

impl StageFamily for LoadedModel {
    fn graph(&self) -> StageGraph {
        self.0.graph()
    }

    fn launch(self: Arc<Self>, stage: &'static str, launch: Launch) -> (StageHandle, StageBody) {
        Arc::clone(&self.0).launch(stage, launch)
    }
}

impl ModelInfo for LoadedModel {
    fn info(&self) -> &SpeechInfo {
        self.0.info()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, BackendError> {
        self.0.encode(text)
    }

    fn devices(&self) -> Vec<DeviceFigures> {
        self.0.devices()
    }

    fn voice_encoder(&self) -> Result<Arc<dyn EncodeVoice>, BackendError> {
        self.0.voice_encoder()
    }

    fn voice_recording(&self, voice: &str) -> Option<Clip> {
        self.0.voice_recording(voice)
    }
}

impl Converse for LoadedModel {
    fn chat(&self) -> Result<ChatInfo, String> {
        self.0.chat()
    }

    fn prompt(&self, messages: &[ChatMessage]) -> Result<Prompt, PromptError> {
        self.0.prompt(messages)
    }

    fn detokenizer(&self) -> Box<dyn Detokenizer> {
        self.0.detokenizer()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::FamilyError;

    #[test]
    fn a_model_of_another_family_than_the_plan_is_refused_before_it_is_read() {
        let role = ProcessRole::Server { speech_only: true };
        let load_as = |family| {
            let missing = ModelSource::Directory(PathBuf::from("/there/is/no/checkpoint"));
            let plan = ComputePlan {
                family: Some(family),
                ..ComputePlan::default()
            };
            load(&missing, &plan, role).expect_err("nothing can be loaded")
        };
        let refused = load_as("another");
        let said =
            "the deploy configuration is for the family another, the model is of the family qwen3-omni";
        assert_eq!(refused.to_string(), said);
        assert!(load_as(QWEN3_OMNI.family).downcast_ref::<FamilyError>().is_none());
    }
}
