//! Starting the part of a model that converses.

use std::sync::Arc;

use super::model::{ModelStart, ar_config, sampling};
use super::stage_process;
use crate::config::deploy::{ArStage, Deploy, Placement};
use crate::orchestrator::ChatPath;
use crate::stage::{
    Changes, ChatInfo, ChatMessage, Detokenizer, SpeechBackend, ThinkerLimits, thinker_stage,
};

impl ModelStart {
    /// The thinker of `backend`, running, or why there is none.
    pub(super) fn chat<B: SpeechBackend>(
        &self,
        backend: &Arc<B>,
        changes: &Changes,
    ) -> anyhow::Result<Result<ChatPath, String>> {
        let (deploy, answers) = (&self.config.deploy.thinker, self.config.deploy.answers);
        let info = match backend.chat() {
            Ok(info) => Arc::new(ChatInfo {
                default_sampling: sampling(deploy).or(info.default_sampling),
                max_context: thinker_context(&info, deploy),
                ..info
            }),
            Err(why) => {
                tracing::info!(why, "the model holds no conversations");
                return Ok(Err(why));
            }
        };
        let limits = thinker_limits(&self.config.deploy, self.config.max_active);
        let (model, clock) = (Arc::clone(backend), self.clock);
        let make = match deploy.stage.placement {
            Placement::Thread => Box::new(move |seat| thinker_stage(Arc::clone(&model), limits, seat, clock)),
            Placement::Process => stage_process::replicas(&self.config, clock)?,
        };
        let thinker = self.pool("thinker", make, &deploy.stage, changes)?;
        let (reader, writer) = (Arc::clone(backend), Arc::clone(backend));
        Ok(Ok(ChatPath {
            info,
            prompt: Arc::new(move |messages: &[ChatMessage]| reader.prompt(messages)),
            detokenizer: Arc::new(move || -> Box<dyn Detokenizer> { writer.detokenizer() }),
            thinker,
            tokens: deploy.output_capacity,
            stall: self.config.deploy.patience.thinker,
            shared_prefixes: answers.shared_prefixes,
        }))
    }
}

/// Longest sequence of a thinker in tokens.
pub(super) fn thinker_context(info: &ChatInfo, deploy: &ArStage) -> u32 {
    info.max_context.min(deploy.max_model_len.unwrap_or(u32::MAX))
}

/// How a thinker is run.
pub(super) fn thinker_limits(deploy: &Deploy, max_active: usize) -> ThinkerLimits {
    ThinkerLimits {
        mailbox: 4 * max_active + 16,
        engine: ar_config(&deploy.thinker),
        repetition: deploy.answers.repetition,
    }
}
