//! Starting the part of a model that converses.

use std::sync::Arc;
use std::time::Duration;

use omni_engine::{OneShotConfig, PayloadKind, Port, StageGraph};

use super::model::{ModelStart, ar_config, sampling};
use super::stage_process;
use crate::config::deploy::{ArStage, OneShotStage, Placement};
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
        stage: &'static str,
        changes: &Changes,
    ) -> anyhow::Result<StagePool<EncoderJob>> {
        let deploy = self.config.deploy.one_shot(stage);
        let limits = encoder_limits(deploy, self.config.max_active);
        let (model, clock) = (Arc::clone(backend), self.clock);
        let make = Box::new(move |status| encoder_stage(Arc::clone(&model), limits, status, clock));
        self.pool(stage, make, changes)
    }

    /// The thinker of `backend`, running, or why there is none.
    pub(super) fn chat<B: SpeechBackend>(
        &self,
        backend: &Arc<B>,
        graph: &StageGraph,
        changes: &Changes,
    ) -> anyhow::Result<Result<ChatPath, String>> {
        // The model's own reason first: its graph only follows from that.
        let found = backend.chat().and_then(|info| match graph.answers() {
            Some(stage) => Ok((stage.name, info)),
            None => Err("its graph has no stage that answers".to_owned()),
        });
        let (stage, info) = match found {
            Ok(found) => found,
            Err(why) => {
                tracing::info!(why, "the model holds no conversations");
                return Ok(Err(why));
            }
        };
        let deploy = self.config.deploy.ar(stage);
        let info = Arc::new(ChatInfo {
            default_sampling: sampling(deploy).or(info.default_sampling),
            max_context: thinker_context(&info, deploy),
            ..info
        });
        let limits = thinker_limits(deploy, self.config.max_active);
        let (model, clock) = (Arc::clone(backend), self.clock);
        let make = match deploy.stage.placement {
            Placement::Thread => {
                Box::new(move |status| thinker_stage(Arc::clone(&model), limits, status, clock))
            }
            Placement::Process => stage_process::replicas(&self.config, clock)?,
        };
        let thinker = self.pool(stage, make, changes)?;
        let encoder = match graph.encoder(stage) {
            Some(encoder) => Some(self.encoder(backend, encoder.name, changes)?),
            None => None,
        };
        // A session stands for the stage that takes the answer's text from it.
        let mut readers = graph.readers(Port::Stage(stage), PayloadKind::Text);
        let stall = readers.find_map(|reader| self.config.deploy.stage(reader.name).upstream_stall);
        let (reader, writer) = (Arc::clone(backend), Arc::clone(backend));
        Ok(Ok(ChatPath {
            info,
            prompt: Arc::new(move |messages: &[ChatMessage]| reader.prompt(messages)),
            detokenizer: Arc::new(move || -> Box<dyn Detokenizer> { writer.detokenizer() }),
            thinker,
            encoder,
            tokens: deploy.output_capacity,
            stall: stall.unwrap_or(Duration::MAX),
            shared_prefixes: deploy.shares_with_all,
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
pub(super) fn thinker_limits(deploy: &ArStage, max_active: usize) -> ThinkerLimits {
    ThinkerLimits {
        mailbox: 4 * max_active + 16,
        engine: ar_config(deploy),
        repetition: deploy.repetition,
    }
}
