//! Loading the model, starting its stages, and warming them up.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use omni_engine::{ArConfig, ChunkConfig, StageGraph};

use super::chat::thinker_context;
use super::loading;
use super::metrics::{MetricsBridge, let_go, listen};
use super::stage_process;
use crate::clock::Clock;
use crate::compute::Compute;
use crate::config::Config;
use crate::config::deploy::{ArStage, ChunkStage, Deploy, Placement, Stage};
use crate::connector::EdgeSink;
use crate::orchestrator::{EdgeLimits, Orchestrator, Pipeline, TextEncoder};
use crate::stage::{
    Changes, Code2WavLimits, MakeReplica, PoolParts, ReplicaState, Sampling, SpeechBackend, SpeechInfo,
    StagePool, StartThread, StepLimits, TalkerLimits, Terms, TurnTimeouts, VoiceEncoderSource,
    code2wav_stage, talker_stage,
};
use crate::tasks::Tasks;

/// Text batches between a session and the talker.
const TOKEN_BATCHES: u32 = 4096;

/// What is needed to start a model.
pub(super) struct ModelStart {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) tasks: Arc<Tasks>,
    pub(super) edge_sink: Arc<dyn EdgeSink>,
    pub(super) bridge: Arc<MetricsBridge>,
}

impl ModelStart {
    /// Returns when the model is installed and warm.
    pub(super) async fn run<B, L>(self, load: L, orchestrator: &Orchestrator) -> anyhow::Result<()>
    where
        B: SpeechBackend,
        L: FnOnce() -> anyhow::Result<B> + Send + 'static,
    {
        let patience = self.config.deploy.load_timeout;
        let backend = loading::load(load, self.clock, patience).await?;
        orchestrator.install(self.stages(Arc::new(backend))?);
        let pipeline = orchestrator.model()?;
        tokio::select! {
            built = all_built(pipeline) => built?,
            () = pipeline.watch() => {}
        }
        orchestrator.available().context("a stage could not be built")?;
        if pipeline.chat.is_ok() {
            orchestrator
                .chat_available()
                .context("the thinker could not be built")?;
            orchestrator
                .hearing_available()
                .context("the encoder could not be built")?;
        }
        Ok(())
    }

    fn stages<B: SpeechBackend>(&self, backend: Arc<B>) -> anyhow::Result<Pipeline> {
        let deploy = &self.config.deploy;
        let mut info = backend.info().clone();
        let (graph, speech) = (backend.graph(), SpeechStages::of(&backend.graph())?);
        let sampling = sampling(deploy.ar(speech.talker));
        info.default_sampling = sampling.or(info.default_sampling);
        info.max_context = info
            .max_context
            .min(deploy.ar(speech.talker).max_model_len.unwrap_or(u32::MAX));
        info.terms = Terms {
            aliases: deploy.model_aliases.clone(),
            strict: self.config.strict,
        };
        let info = Arc::new(info);
        let max_active = self.config.max_active;

        // All stages share the bounds of their token histograms, which have to do for the longest sequences among them.
        let longest = match (backend.chat(), graph.answers()) {
            (Ok(chat), Some(stage)) => thinker_context(&chat, deploy.ar(stage.name)).max(info.max_context),
            _ => info.max_context,
        };
        let computing = Arc::clone(&backend);
        self.bridge
            .model(&info, &graph, deploy, longest, move || computing.devices());
        let changes = Changes::default();
        let limits = talker_limits(deploy, speech.talker, max_active);
        let (model, clock) = (Arc::clone(&backend), self.clock);
        let make = match deploy.stage(speech.talker).placement {
            Placement::Thread => {
                Box::new(move |status| talker_stage(Arc::clone(&model), limits, status, clock))
            }
            Placement::Process => stage_process::replicas(&self.config, clock)?,
        };
        let talker = self.pool(speech.talker, make, &changes)?;

        let limits = code2wav_limits(deploy, speech.code2wav, &info, max_active);
        let model = Arc::clone(&backend);
        let make = match deploy.stage(speech.code2wav).placement {
            Placement::Thread => {
                Box::new(move |status| code2wav_stage(Arc::clone(&model), limits.clone(), status, clock))
            }
            Placement::Process => stage_process::replicas(&self.config, clock)?,
        };
        let code2wav = self.pool(speech.code2wav, make, &changes)?;

        let chat = self.chat(&backend, &graph, &changes)?;
        let model = Arc::clone(&backend);
        let voice_encoder: VoiceEncoderSource = Arc::new(move || model.voice_encoder());
        let encode: TextEncoder = Arc::new(move |text| backend.encode(text));
        let edges = EdgeLimits {
            token_batches: TOKEN_BATCHES,
            frames: deploy.ar(speech.talker).output_capacity,
            audio: self.config.max_buffered_audio,
        };
        Ok(Pipeline {
            info,
            sampling,
            encode,
            voice_encoder,
            talker,
            code2wav,
            changes,
            handover: deploy.handover,
            edges,
            edge_sink: Arc::clone(&self.edge_sink),
            let_go: let_go(&self.bridge),
            compute: Compute::default(),
            clock,
            chat,
        })
    }

    pub(super) fn pool<J: Send + 'static>(
        &self,
        stage: &'static str,
        make: MakeReplica<J>,
        changes: &Changes,
    ) -> anyhow::Result<StagePool<J>> {
        let deploy = self.config.deploy.stage(stage);
        let tasks = Arc::clone(&self.tasks);
        let start: StartThread = match deploy.placement {
            Placement::Thread => Arc::new(move |name, body| {
                let given_up = body.given_up();
                tasks.model_thread(name, given_up, move || body.run())
            }),
            Placement::Process => Arc::new(move |name, body| tasks.thread(name, move || body.run())),
        };
        // What runs in another process is looked after there.
        let steps = (deploy.placement == Placement::Thread).then_some(StepLimits {
            timeouts: timeouts(self.config.deploy.load_timeout, deploy),
            left_behind: deploy.max_stuck,
        });
        let parts = PoolParts {
            stage,
            make,
            start,
            devices: deploy.devices.clone(),
            routing: deploy.routing,
            restart: deploy.restart,
            steps,
            changes: changes.clone(),
            listen: listen(&self.bridge),
        };
        Ok(StagePool::new(parts, deploy.replicas)?)
    }
}

/// How long a replica of `stage` may be in a turn.
pub(super) fn timeouts(load: Duration, stage: &Stage) -> TurnTimeouts {
    TurnTimeouts {
        step: stage.step_timeout,
        load,
    }
}

/// Jobs of a replica that may wait to be taken. Every utterance has at most two sequences: one that is heard and one ahead of
/// it.
pub(super) fn mailbox(max_active: usize) -> usize {
    4 * 2 * max_active + 16
}

/// The stages that a sequence of speech passes.
#[derive(Debug, Clone, Copy)]
struct SpeechStages {
    talker: &'static str,
    code2wav: &'static str,
}

impl SpeechStages {
    fn of(graph: &StageGraph) -> anyhow::Result<Self> {
        graph
            .check()
            .context("the stage graph of the model cannot be run")?;
        let path: Vec<_> = graph.speech().iter().map(|stage| stage.name).collect();
        match path[..] {
            [talker, code2wav] => Ok(Self { talker, code2wav }),
            _ => bail!("speech passes the stages {}, expected two", path.join(", ")),
        }
    }
}

/// How a talker is run.
pub(super) fn talker_limits(deploy: &Deploy, stage: &str, max_active: usize) -> TalkerLimits {
    TalkerLimits {
        mailbox: mailbox(max_active),
        engine: ar_config(deploy.ar(stage)),
    }
}

/// How a vocoder is run.
pub(super) fn code2wav_limits(
    deploy: &Deploy,
    stage: &str,
    info: &SpeechInfo,
    max_active: usize,
) -> Code2WavLimits {
    let config = deploy.chunk(stage);
    Code2WavLimits {
        mailbox: mailbox(max_active),
        engine: chunk_config(config, info.frame_duration()),
        upstream_stall: config.stage.upstream_stall.unwrap_or(Duration::MAX),
    }
}

pub(super) fn ar_config(stage: &ArStage) -> ArConfig {
    ArConfig {
        max_num_seqs: stage.max_num_seqs,
        max_num_batched_tokens: stage.max_num_batched_tokens,
        max_prefill_tokens: stage.max_prefill_tokens,
        min_prefill_tokens: stage.min_prefill_tokens,
        max_model_len: stage.max_model_len.unwrap_or(u32::MAX),
        max_waiting: stage.max_waiting,
        max_waiting_tokens: stage.max_waiting_tokens,
        prefix_cache: stage.prefix_caching,
        ..ArConfig::default()
    }
}

fn chunk_config(stage: &ChunkStage, frame: Duration) -> ChunkConfig {
    ChunkConfig {
        max_batch: stage.max_batch,
        max_batched_items: stage.max_batched_frames,
        max_streams: stage.max_streams,
        ramp: stage.ramp.clone(),
        item_duration: frame,
    }
}

pub(super) fn sampling(stage: &ArStage) -> Sampling {
    let defaults = stage.sampling;
    Sampling {
        temperature: defaults.temperature,
        top_p: defaults.top_p,
        top_k: defaults.top_k,
        repetition_penalty: defaults.repetition_penalty,
    }
}

/// Waits until every replica is built and warm, or could not be.
async fn all_built(pipeline: &Pipeline) -> anyhow::Result<()> {
    let mut changes = pipeline.changes.follow();
    let replicas = || pipeline.pools().into_iter().flat_map(|pool| pool.replicas());
    while replicas().any(|replica| replica.state == ReplicaState::Loading) {
        changes.changed().await?;
    }
    Ok(())
}
