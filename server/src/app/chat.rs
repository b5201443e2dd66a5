//! Starting the part of a model that converses.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::OneShotConfig;

use super::model::{ModelStart, ar_config, sampling};
use super::stage_process;
use crate::config::deploy::{ArStage, Deploy, OneShotStage, Placement};
use crate::orchestrator::ChatPath;
use crate::stage::{
    Changes, ChatInfo, ChatMessage, Detokenizer, EncoderJob, EncoderLimits, SpeechBackend, StagePool,
    ThinkerLimits, encoder_stage, thinker_stage,
};

/// What a recording costs is counted in these.
const ENCODER_FRAME_MS: u128 = 10;

impl ModelStart {
    /// What hears for the thinker of `backend`, running.
    fn encoder<B: SpeechBackend>(
        &self,
        backend: &Arc<B>,
        changes: &Changes,
    ) -> anyhow::Result<StagePool<EncoderJob>> {
        let deploy = &self.config.deploy.encoder;
        let limits = encoder_limits(deploy, self.config.max_active);
        let (model, clock) = (Arc::clone(backend), self.clock);
        let make = Box::new(move |seat| encoder_stage(Arc::clone(&model), limits, seat, clock));
        self.pool("encoder", make, &deploy.stage, changes)
    }

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
        let encoder = match info.hearing {
            Some(_) => Some(self.encoder(backend, changes)?),
            None => None,
        };
        let (reader, writer) = (Arc::clone(backend), Arc::clone(backend));
        Ok(Ok(ChatPath {
            info,
            prompt: Arc::new(move |messages: &[ChatMessage]| reader.prompt(messages)),
            detokenizer: Arc::new(move || -> Box<dyn Detokenizer> { writer.detokenizer() }),
            thinker,
            encoder,
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

/// How an encoder is run.
fn encoder_limits(stage: &OneShotStage, max_active: usize) -> EncoderLimits {
    let frames = |time: Duration| u32::try_from(time.as_millis() / ENCODER_FRAME_MS).unwrap_or(u32::MAX);
    EncoderLimits {
        mailbox: 4 * max_active + 16,
        engine: OneShotConfig {
            max_batch: stage.max_batch,
            max_batch_cost: frames(stage.max_batched_audio).max(1),
            // How long a recording may be is the model's, and was checked when it came.
            max_cost: u32::MAX,
            max_waiting: stage.max_waiting,
            max_waiting_cost: frames(stage.max_waiting_audio).max(1),
        },
    }
}

/// How a thinker is run.
pub(super) fn thinker_limits(deploy: &Deploy, max_active: usize) -> ThinkerLimits {
    ThinkerLimits {
        mailbox: 4 * max_active + 16,
        engine: ar_config(&deploy.thinker),
        repetition: deploy.answers.repetition,
    }
}
