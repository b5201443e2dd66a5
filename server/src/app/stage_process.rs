//! Stages in processes of their own: how this program starts itself for one, and what it does when it was started so.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use omni_models::{CODE2WAV, QWEN3_OMNI, TALKER, THINKER};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use super::chat::thinker_limits;
use super::loading::load_blocking;
use super::log::init_logging;
use super::model::{code2wav_limits, mailbox, talker_limits, timeouts};
use super::speech_model::{LoadedModel, load_stage};
use crate::clock::Clock;
use crate::config::deploy::{self, Deploy};
use crate::config::{Config, LogFormat, ModelSource};
use crate::connector::{
    HostSession, RemoteJob, RemoteParts, SILENCE_TIMEOUT, called, inherited, remote_stage, spawn_peer,
};
use crate::stage::{
    Changes, Code2WavJob, MakeReplica, ModelInfo as _, ReplicaId, ReplicaStatus, StageBody, StageHandle,
    TalkerJob, ThinkerJob, code2wav_stage, talker_stage, thinker_stage,
};

/// What a stage's process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    /// The server's own.
    model: ModelSource,
    /// Utterances worked on at once.
    max_active: usize,
    /// The resolved deploy configuration: a file may have changed since it was read.
    deploy: String,
    /// Which replica it is.
    replica: u32,
}

/// Makes replicas that are processes.
pub(super) fn replicas<J: RemoteJob>(config: &Config, clock: Clock) -> anyhow::Result<MakeReplica<J>> {
    let order = Order {
        model: config.model.clone(),
        max_active: config.max_active,
        deploy: config.deploy_yaml.clone(),
        replica: 0,
    };
    serde_json::to_vec(&order).context("the path of the model cannot be passed on")?;
    let (level, format) = (config.log_level.clone(), config.log_format);
    let load_timeout = config.deploy.load_timeout;
    Ok(Box::new(move |status: ReplicaStatus| {
        let (replica, level) = (status.id().0, level.clone());
        let order = Order {
            replica,
            ..order.clone()
        };
        let parts = RemoteParts {
            transport: Box::new(move || spawn_peer(&mut this_program(&level, format)?)),
            settings: serde_json::to_vec(&order).unwrap_or_default(),
            mailbox: mailbox(order.max_active),
            load_timeout,
            silence_timeout: SILENCE_TIMEOUT,
        };
        remote_stage(parts, status, clock)
    }))
}

/// This very program, also when its file was replaced since it was started.
fn this_program(log_level: &str, log_format: LogFormat) -> std::io::Result<Command> {
    let program = match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        false => std::env::current_exe()?,
    };
    let mut command = Command::new(program);
    // What is set there for this process is not meant for that one.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OMNI_")) {
        command.env_remove(name);
    }
    let format = match log_format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    // What it computes on is in its order; nothing else is to be looked for.
    command.args([
        "--device",
        "cpu",
        "--log-level",
        log_level,
        "--log-format",
        format,
        "stage-worker",
    ]);
    Ok(command)
}

/// Runs one replica of a stage for the process that started this one, until that hangs up.
///
/// # Errors
/// If no process did, or the model cannot be loaded, or the replica has died.
pub fn serve_stage(config: &Config) -> anyhow::Result<()> {
    init_logging(config)?;
    let clock = Clock::start();
    let socket =
        inherited().context("stage-worker is started by omni-server itself, with a socket for its input")?;
    outlive_signals()?;
    let mut called = called(socket, clock)?;
    called.answer()?;
    match Loaded::new(&mut called, clock) {
        Ok(loaded) => loaded.serve(called, clock),
        Err(error) => {
            called.refuse(&format!("{error:#}"))?;
            Err(error)
        }
    }
}

/// Signals to everything that belongs to a service are not for this process: the server that started it lets the work in progress end,
/// and then hangs up.
fn outlive_signals() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let _guard = runtime.enter();
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        // Once a listener was there, a signal no longer ends the process, even after the listener is gone.
        drop(signal(kind)?);
    }
    Ok(())
}

/// What a stage's process runs.
struct Loaded {
    order: Order,
    deploy: Deploy,
    model: Arc<LoadedModel>,
}

impl Loaded {
    fn new(called: &mut HostSession, clock: Clock) -> anyhow::Result<Self> {
        let order: Order = serde_json::from_slice(&called.settings).context("the settings cannot be read")?;
        let resolution = deploy::read_back(&order.deploy, order.max_active).map_err(|problems| {
            anyhow!("the deploy configuration cannot be used: {}", problems.join("; "))
        })?;
        let wanted = called.stage.as_str();
        let stages = QWEN3_OMNI.stages.iter().filter(|stage| stage.has_processes);
        let known: Vec<_> = stages.map(|stage| stage.name).collect();
        let Some(stage) = known.iter().copied().find(|known| *known == wanted) else {
            bail!("the stage is {wanted:?}, expected one of {}", known.join(", "));
        };
        let deploy = resolution.deploy;
        let (source, settings, replica) = (order.model.clone(), deploy.clone(), order.replica);
        let load = move || load_stage(&source, &settings, stage, replica);
        let model = load_blocking(load, clock, deploy.load_timeout, || {
            called.beat().map_err(anyhow::Error::from)
        })?;
        Ok(Self {
            order,
            deploy,
            model: Arc::new(model),
        })
    }

    fn serve(self, called: HostSession, clock: Clock) -> anyhow::Result<()> {
        let Self { order, deploy, model } = self;
        let replica = ReplicaId(order.replica);
        match called.stage.as_str() {
            THINKER => {
                let limits = thinker_limits(deploy.ar(THINKER), order.max_active);
                let make = |status| thinker_stage(model, limits, status, clock);
                run::<ThinkerJob>(called, (THINKER, replica), &deploy, make)
            }
            TALKER => {
                let limits = talker_limits(&deploy, TALKER, order.max_active);
                let make = |status| talker_stage(model, limits, status, clock);
                run::<TalkerJob>(called, (TALKER, replica), &deploy, make)
            }
            _ => {
                let limits = code2wav_limits(&deploy, CODE2WAV, model.info(), order.max_active);
                let make = |status| code2wav_stage(model, limits, status, clock);
                run::<Code2WavJob>(called, (CODE2WAV, replica), &deploy, make)
            }
        }
    }
}

fn run<J: RemoteJob>(
    called: HostSession,
    (name, replica): (&'static str, ReplicaId),
    deploy: &Deploy,
    make: impl FnOnce(ReplicaStatus) -> (StageHandle<J>, StageBody),
) -> anyhow::Result<()> {
    let (changes, stage) = (Changes::default(), deploy.stage(name));
    let timeouts = timeouts(deploy.load_timeout, stage);
    let status =
        ReplicaStatus::new(name, replica, stage.restart, changes.clone()).observed_by(called.listener());
    let (stage, body) = make(status.clone());
    let thread = std::thread::Builder::new()
        .name(format!("{name}-{replica}"))
        .spawn(move || body.run())
        .context("a thread could not be started")?;
    // Of a replica that has died, the thread may never come back. It ends with the process, which does so now.
    called.serve(stage, status, &changes, timeouts)?;
    if thread.join().is_err() {
        bail!("the thread of the stage panicked");
    }
    Ok(())
}
