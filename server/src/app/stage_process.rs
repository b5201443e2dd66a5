//! Stages in child processes: spawning this program for one, and the child's side.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, anyhow};
use omni_config::deploy;
use omni_config::{Config, LogFormat, LogLevel, ModelSource};
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{
    HostSession, RemoteParts, SILENCE_TIMEOUT, StageNames, called, inherited, remote_stage, spawn_peer,
};
use omni_pipeline::stage::{MakeReplica, ReplicaId, ReplicaStatus};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use super::log::init_logging;
use super::stage_host::{HostedStage, RunningStage, find};

/// The order that a stage's process gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    /// The server's own.
    model: ModelSource,
    /// Utterances worked on at once.
    max_active: usize,
    /// The resolved deploy configuration: a file may have changed since it was read.
    deploy: String,
    /// Its replica.
    replica: u32,
}

/// Names of the stages of all families.
pub(super) fn names() -> StageNames {
    deploy::stage_names().into()
}

/// Makes replicas that are processes, with `mailbox` jobs that may wait for each.
pub(super) fn replicas(config: &Config, mailbox: usize, clock: Clock) -> anyhow::Result<MakeReplica> {
    let order = Order {
        model: config.model.clone(),
        max_active: config.max_active,
        deploy: config.deploy_yaml.clone(),
        replica: 0,
    };
    serde_json::to_vec(&order).context("the path of the model cannot be passed on")?;
    let level = config.log_level.clone();
    let format = config.log_format;
    let load_timeout = config.deploy.load_timeout;
    Ok(Box::new(move |status: ReplicaStatus| {
        let replica = status.id().0;
        let level = level.clone();
        let order = Order {
            replica,
            ..order.clone()
        };
        let parts = RemoteParts {
            transport: Box::new(move || spawn_peer(&mut this_program(&level, format)?)),
            settings: serde_json::to_vec(&order).unwrap_or_default(),
            stages: names(),
            mailbox,
            load_timeout,
            silence_timeout: SILENCE_TIMEOUT,
        };
        remote_stage(parts, status, clock)
    }))
}

/// Makes replicas of a stage whose replicas join: none is to be added here.
pub(super) fn absent(mailbox: usize, clock: Clock) -> MakeReplica {
    Box::new(move |status| {
        let refused = || Err(std::io::Error::other("replicas of this stage join by themselves"));
        let parts = RemoteParts {
            transport: Box::new(refused),
            settings: Vec::new(),
            stages: names(),
            mailbox,
            load_timeout: SILENCE_TIMEOUT,
            silence_timeout: SILENCE_TIMEOUT,
        };
        remote_stage(parts, status, clock)
    })
}

/// This very program, also when its file was replaced since it was started.
fn this_program(log_level: &LogLevel, log_format: LogFormat) -> std::io::Result<Command> {
    let program = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe()?
    };
    let mut command = Command::new(program);
    // Environment settings of this process do not apply to the child.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OMNI_")) {
        command.env_remove(name);
    }
    let format = match log_format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    // Its order names the device; no other is probed.
    command.args([
        "--device",
        "cpu",
        "--log-level",
        log_level.directives(),
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
    init_logging(config, &[])?;
    let clock = Clock::start();
    let socket =
        inherited().context("stage-worker is started by omni-server itself, with a socket for its input")?;
    outlive_signals()?;
    let mut called = called(socket, names(), clock)?;
    called.answer()?;
    match start(&mut called, clock) {
        Ok(running) => {
            // Of a replica that has died, the thread may never come back. It ends with the process, which does so now.
            called.serve(running.handle, running.status, &running.changes, running.timeouts)?;
            running.thread.join()
        }
        Err(error) => {
            called.refuse(&format!("{error:#}"))?;
            Err(error)
        }
    }
}

/// Starts the requested stage.
fn start(called: &mut HostSession, clock: Clock) -> anyhow::Result<RunningStage> {
    let order: Order = serde_json::from_slice(&called.settings).context("the settings cannot be read")?;
    let resolution = deploy::read_back(&order.deploy, order.max_active)
        .map_err(|problems| anyhow!("the deploy configuration cannot be used: {}", problems.join("; ")))?;
    let (graph, node) = find(&called.stage)?;
    let hosted = HostedStage {
        node,
        graph,
        replica: ReplicaId(order.replica),
        deploy: &resolution.deploy,
        max_active: order.max_active,
    };
    let model = hosted.load(&order.model, clock, || Ok(called.beat()?))?;
    hosted.start(model, called.listener(), clock)
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
