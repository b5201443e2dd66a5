//! Loading the model, starting its stages, and warming them up.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use omni_config::Config;
use omni_config::deploy::{Deploy, Placement};
use omni_core::compute::Compute;
use omni_core::orchestrator::{ChatPath, Model, Orchestrator};
use omni_core::tasks::Tasks;
use omni_engine::{StageGraph, StageNode};
use omni_family::{
    ChatInfo, ChatMessage, Detokenizer, Device, Family, ModelSource, ProcessRole, SpeechInfo, Terms,
};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::EdgeSink;
use omni_pipeline::orchestrator::{Pipeline, PipelineParts, PipelineStage};
use omni_pipeline::settings::of_replica;
use omni_pipeline::stage::{
    Changes, Launch, MakeReplica, NoReplica, PoolParts, ReplicaState, SharedDevice, StagePool, StartThread,
    StepLimits,
};

use super::loading;
use super::metrics::{MetricsBridge, let_go, listen};
use super::stage_process;
use super::stages::{Stages, sampling, timeouts};

/// Loads what stages on threads need of a model. Takes its time; nothing is kept if it fails.
///
/// # Errors
/// With everything that is wrong with the checkpoint, or with a device.
pub fn load_model(source: &ModelSource, deploy: &Deploy, speech_only: bool) -> anyhow::Result<Family> {
    omni_family::load(
        source,
        &deploy.compute_plan(),
        ProcessRole::Server { speech_only },
    )
}

/// Batches of text between a session and the first stage that speaks.
const TEXT_BATCHES: u32 = 4096;
/// Threads of a stage that may be left behind in a step that does not return.
const MAX_LEFT_BEHIND: u32 = 4;

/// The parts that starting a model takes.
pub(super) struct ModelStart {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) tasks: Arc<Tasks>,
    pub(super) edge_sink: Arc<dyn EdgeSink>,
    pub(super) bridge: Arc<MetricsBridge>,
}

impl ModelStart {
    /// Returns when the model is installed and warm; calls `loaded` when it is installed.
    pub(super) async fn run<L>(
        self,
        load: L,
        orchestrator: &Orchestrator,
        loaded: impl FnOnce(),
    ) -> anyhow::Result<()>
    where
        L: FnOnce() -> anyhow::Result<Family> + Send + 'static,
    {
        let patience = self.config.deploy.load_timeout;
        let family = loading::load(load, self.clock, patience).await?;
        orchestrator.install(self.model(&family)?);
        let model = orchestrator.model()?;
        loaded();
        tokio::select! {
            built = all_built(&model.pipeline) => built?,
            () = model.pipeline.watch() => {}
        }
        orchestrator.available().context("a stage could not be built")?;
        if model.chat.is_ok() && !model.pipeline.pools().any(is_absent) {
            let unbuilt =
                |stage: Option<&str>| format!("stage {} could not be built", stage.unwrap_or_default());
            orchestrator
                .chat_available()
                .with_context(|| unbuilt(model.pipeline.answers()))?;
            orchestrator
                .hearing_available()
                .with_context(|| unbuilt(model.pipeline.hears()))?;
        }
        Ok(())
    }

    fn model(&self, family: &Family) -> anyhow::Result<Model> {
        let speech = family.speech()?;
        let graph = family.stages.graph();
        graph.check().context("invalid stage graph")?;
        let deploy = self.config.deploy.for_graph(&graph, self.config.max_active);
        let terms = Terms {
            aliases: deploy.model_aliases.clone(),
            hears: family.hearing().is_some(),
            strict: self.config.strict,
        };
        let info = served(speech.info(), &graph, &deploy, terms);
        let stages = Stages {
            graph: &graph,
            deploy: &deploy,
            info: &info,
            max_active: self.config.max_active,
        };
        let chat = chat(family, &stages);

        // All stages share the bounds of their token histograms, which have to do for the longest sequences among them.
        let longest = chat.as_ref().map_or(0, |chat| chat.info.max_context);
        let computing = Arc::clone(speech);
        self.bridge
            .model(&info, &graph, &deploy, longest.max(info.max_context), move || {
                computing.devices()
            });
        let reader = Arc::clone(speech);
        let speaker = Arc::clone(speech);
        let voices = Arc::clone(speech);
        Ok(Model {
            sampling: first_sampling(&graph, &deploy),
            encode: Arc::new(move |text| reader.encode(text)),
            voice_encoder: Arc::new(move || speaker.voice_encoder()),
            voice_recordings: Arc::new(move |voice| voices.voice_recording(voice)),
            chat,
            compute: Compute::default(),
            pipeline: self.pipeline(family, &stages)?,
            info: Arc::new(info),
        })
    }

    /// The stages of the graph, running.
    fn pipeline(&self, family: &Family, stages: &Stages<'_>) -> anyhow::Result<Arc<Pipeline>> {
        let changes = Changes::default();
        let nodes = stages.graph.stages.iter();
        let computed_on = nodes.flat_map(|node| &stages.deploy.stage(node.name).devices);
        let devices = computed_on
            .map(|&device| (device, SharedDevice::default()))
            .collect();
        let pool = |node: &StageNode| {
            let pool = self.pool(
                node,
                self.replicas(family, stages, node, &devices)?,
                stages.deploy,
                &changes,
            )?;
            let capacity = stages.capacity(node, self.config.limits.max_buffered_audio);
            anyhow::Ok(PipelineStage { pool, capacity })
        };
        let running = stages.graph.stages.iter().map(pool).collect::<Result<_, _>>()?;
        let parts = PipelineParts {
            graph: stages.graph.clone(),
            stages: running,
            text_batches: TEXT_BATCHES,
            samples_per_frame: stages.info.samples_per_frame.0.get(),
            changes,
            handover: stages.deploy.handover(),
            edge_sink: Arc::clone(&self.edge_sink),
            let_go: let_go(&self.bridge),
            clock: self.clock,
        };
        Ok(Pipeline::new(parts)?)
    }

    /// Makes the replicas of a stage: threads of this process, or processes of their own.
    fn replicas(
        &self,
        family: &Family,
        stages: &Stages<'_>,
        node: &StageNode,
        devices: &BTreeMap<Device, SharedDevice>,
    ) -> anyhow::Result<MakeReplica> {
        let settings = stages.settings(node);
        let clock = self.clock;
        let stage = node.name;
        match stages.deploy.stage(stage).placement {
            Placement::Thread => {}
            Placement::Process => return stage_process::replicas(&self.config, settings.mailbox, clock),
            Placement::Elsewhere => return Ok(stage_process::absent(settings.mailbox, clock)),
        }
        let family = Arc::clone(&family.stages);
        let computed_on = stages.deploy.stage(stage).devices.iter();
        let shared: Vec<_> = computed_on
            .filter_map(|device| devices.get(device).cloned())
            .collect();
        Ok(Box::new(move |status| {
            let device = of_replica(&shared, status.id().0).cloned().unwrap_or_default();
            let launch = Launch::new(settings.clone(), status, clock).on(device);
            Arc::clone(&family).launch(stage, launch)
        }))
    }

    fn pool(
        &self,
        node: &StageNode,
        make: MakeReplica,
        deploy: &Deploy,
        changes: &Changes,
    ) -> anyhow::Result<StagePool> {
        let stage = deploy.stage(node.name);
        let tasks = Arc::clone(&self.tasks);
        let start: StartThread = match stage.placement {
            Placement::Thread => Arc::new(move |name, body| {
                let given_up = body.given_up();
                tasks.model_thread(name, given_up, move || body.run())
            }),
            Placement::Process | Placement::Elsewhere => {
                Arc::new(move |name, body| tasks.thread(name, move || body.run()))
            }
        };
        // What runs in another process is looked after there.
        let steps = (stage.placement == Placement::Thread).then_some(StepLimits {
            timeouts: timeouts(deploy.load_timeout, stage),
            left_behind: MAX_LEFT_BEHIND,
        });
        let parts = PoolParts {
            stage: node.name,
            make,
            start,
            devices: stage.devices.iter().map(ToString::to_string).collect(),
            formats: deploy.number_formats(node.name),
            routing: stage.routing,
            restart: stage.restart(),
            steps,
            joined: stage.placement == Placement::Elsewhere,
            changes: changes.clone(),
            listen: listen(&self.bridge),
        };
        Ok(StagePool::new(parts, stage.replicas)?)
    }
}

/// The model's description, with the operator's settings.
fn served(info: &SpeechInfo, graph: &StageGraph, deploy: &Deploy, terms: Terms) -> SpeechInfo {
    let first = graph.speech().first().and_then(|node| deploy.ar_of(node));
    let longest = first.and_then(|first| first.max_model_len).unwrap_or(u32::MAX);
    SpeechInfo {
        default_sampling: first_sampling(graph, deploy).or(info.default_sampling),
        max_context: info.max_context.min(longest),
        terms,
        ..info.clone()
    }
}

/// Default sampling of the first stage that speech passes.
fn first_sampling(graph: &StageGraph, deploy: &Deploy) -> omni_pipeline::request::Sampling {
    let first = graph.speech().first().and_then(|node| deploy.ar_of(node));
    first.map(sampling).unwrap_or_default()
}

/// The part of a model that converses, or why there is none.
fn chat(family: &Family, stages: &Stages<'_>) -> Result<ChatPath, String> {
    // The model's own reason first: its graph only follows from that.
    let found = family.chat.as_ref().map_err(Clone::clone);
    let found = found.and_then(|chat| match stages.graph.answers() {
        Some(stage) => Ok((stage, chat)),
        None => Err("its graph has no stage that answers".to_owned()),
    });
    let (stage, chat) = found.inspect_err(|why| tracing::info!("chat is off: {why}"))?;
    let deploy = stages.deploy.ar_of(stage);
    let longest = deploy.and_then(|deploy| deploy.max_model_len).unwrap_or(u32::MAX);
    let info = chat.chat();
    let reader = Arc::clone(chat);
    let writer = Arc::clone(chat);
    Ok(ChatPath {
        info: Arc::new(ChatInfo {
            default_sampling: deploy.map(sampling).unwrap_or_default().or(info.default_sampling),
            max_context: info.max_context.min(longest),
            ..info
        }),
        prompt: Arc::new(move |messages: &[ChatMessage]| reader.prompt(messages)),
        detokenizer: Arc::new(move || -> Box<dyn Detokenizer> { writer.detokenizer() }),
        stall: stages.answer_stall(stage.name),
        shared_prefixes: deploy.is_some_and(|deploy| deploy.shares_with_all()),
    })
}

/// True if none of the replicas that are elsewhere is there.
fn is_absent(pool: &StagePool) -> bool {
    matches!(pool.check(), Err(NoReplica::Absent(_)))
}

/// Waits until every replica is built and warm, or could not be; and of a stage whose replicas join, until one has.
async fn all_built(pipeline: &Pipeline) -> anyhow::Result<()> {
    let mut changes = pipeline.changes().follow();
    let loading = || {
        let mut replicas = pipeline.pools().flat_map(StagePool::replicas);
        replicas.any(|replica| replica.state == ReplicaState::Loading)
            || pipeline
                .speech()
                .any(|stage| pipeline.pool(stage).is_some_and(is_absent))
    };
    while loading() {
        changes.changed().await?;
    }
    Ok(())
}
