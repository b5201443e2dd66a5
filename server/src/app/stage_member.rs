//! One replica of a stage, for front ends that connect to it.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use omni_engine::{StageGraph, StageNode};
use omni_family::{LoadedModel, ModelInfo as _, ProcessRole};
use omni_models::GRAPHS;
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{
    EventRouter, LinkError, RemoteParts, SILENCE_TIMEOUT, SharedReplica, StageTransport, called, remote_stage,
};
use omni_pipeline::stage::{
    Changes, Launch, MakeReplica, ReplicaId, ReplicaState, ReplicaStats, ReplicaStatus, StageFamily as _,
};
use tokio::sync::watch;

use super::loading::{LoadError, load_blocking};
use super::stage_process::names;
use super::stages::{Stages, timeouts};
use super::{App, Readiness};
use crate::config::Config;

/// A stage that runs here for others.
#[derive(Debug)]
pub struct StageMember {
    stage: &'static str,
    shared: SharedReplica,
    changes: Changes,
    thread: JoinHandle<()>,
    clock: Clock,
}

impl StageMember {
    /// Loads the stage of that name and starts it as the replica of that number. Takes its time.
    ///
    /// # Errors
    /// If no family has such a stage, or the model cannot be loaded.
    pub fn start(config: &Config, stage: &str, replica: u32) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let (graph, node) = find(stage)?;
        let (source, plan) = (config.model.clone(), config.deploy.compute_plan());
        let role = ProcessRole::Stage {
            stage: node.name,
            replica,
        };
        let load = move || omni_family::load(&source, &plan, role);
        let model = load_blocking(load, clock, config.deploy.load_timeout, || Ok::<_, LoadError>(()))?;
        Self::of(Arc::new(model), (graph, node), config, ReplicaId(replica), clock)
    }

    fn of(
        model: Arc<LoadedModel>,
        (graph, node): (&'static StageGraph, &'static StageNode),
        config: &Config,
        replica: ReplicaId,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let (stage, deploy) = (node.name, config.deploy.stage(node.name));
        let stages = Stages {
            graph,
            deploy: &config.deploy,
            info: model.info(),
            max_active: config.max_active,
        };
        let settings = stages.settings(node);
        let (changes, router) = (Changes::default(), EventRouter::default());
        let status = ReplicaStatus::new(stage, replica, deploy.restart, changes.clone())
            .observed_by(Arc::new(router.clone()));
        let launch = Launch::new(settings, status.clone(), clock);
        let (handle, body) = model.launch(stage, launch);
        let thread = std::thread::Builder::new()
            .name(format!("{stage}-{replica}"))
            .spawn(move || body.run())
            .context("a thread could not be started")?;
        let timeouts = timeouts(config.deploy.load_timeout, deploy);
        Ok(Self {
            stage,
            shared: SharedReplica::new(handle, (status, router), changes.clone(), timeouts),
            changes,
            thread,
            clock,
        })
    }

    /// Its stage.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        self.stage
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> ReplicaState {
        self.shared.status().state()
    }

    /// Its figures.
    #[must_use]
    pub fn stats(&self) -> ReplicaStats {
        self.shared.stats()
    }

    /// Front ends that are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Rings when its state changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.follow()
    }

    /// For the threads of connections.
    #[must_use]
    pub fn listener(&self) -> StageListener {
        StageListener {
            stage: self.stage,
            shared: self.shared.clone(),
            clock: self.clock,
        }
    }

    /// Stops it after the step in progress.
    ///
    /// # Errors
    /// If its thread panicked.
    pub fn stop(self) -> anyhow::Result<()> {
        self.shared.stop();
        self.thread
            .join()
            .map_err(|_| anyhow!("the thread of stage {} panicked", self.stage))
    }
}

/// The stage of that name, and its graph.
fn find(wanted: &str) -> anyhow::Result<(&'static StageGraph, &'static StageNode)> {
    let graphs = GRAPHS.iter().copied();
    let mut stages = graphs.flat_map(|graph| graph.stages.iter().map(move |stage| (graph, stage)));
    if let Some(found) = stages.clone().find(|(_, stage)| stage.name == wanted) {
        return Ok(found);
    }
    let mut names: Vec<_> = stages.by_ref().map(|(_, stage)| stage.name).collect();
    names.sort_unstable();
    names.dedup();
    bail!("the stage is {wanted:?}, expected one of {}", names.join(", "))
}

/// Where connections to a stage come in. Copies lead to the same stage.
#[derive(Debug, Clone)]
pub struct StageListener {
    stage: &'static str,
    shared: SharedReplica,
    clock: Clock,
}

impl StageListener {
    /// The figures of the stage.
    #[must_use]
    pub fn stats(&self) -> ReplicaStats {
        self.shared.stats()
    }

    /// Front ends that are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Serves the front end at the other end of `socket` until it hangs up or the replica dies. `refuses` says what is wrong with a front
    /// end, by what it sends of itself.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn serve(
        &self,
        socket: UnixStream,
        refuses: impl Fn(&[u8]) -> Option<String>,
    ) -> Result<(), LinkError> {
        let mut session = called(socket, names(), self.clock)?;
        let wrong = match session.stage == self.stage {
            true => refuses(&session.settings),
            false => Some(format!(
                "stage {} runs here, the front end asks for {}",
                self.stage, session.stage
            )),
        };
        session.answer()?;
        match wrong {
            Some(why) => {
                session.refuse(&why)?;
                Err(LinkError::Protocol(why))
            }
            None => session.serve_shared(&self.shared),
        }
    }
}

/// Makes a replica that `transport` reaches and to which `greeting` says what this front end is, with `mailbox` jobs that may wait for it.
pub fn joined(
    transport: Box<dyn StageTransport>,
    greeting: Vec<u8>,
    (mailbox, load_timeout): (usize, Duration),
    clock: Clock,
) -> MakeReplica {
    // A replica is made once.
    let transport = std::sync::Mutex::new(Some(transport));
    Box::new(move |status| {
        let transport = transport
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        let parts = RemoteParts {
            transport: transport
                .unwrap_or_else(|| Box::new(|| Err(std::io::Error::other("the replica was made already")))),
            settings: greeting.clone(),
            stages: names(),
            mailbox,
            load_timeout,
            silence_timeout: SILENCE_TIMEOUT,
        };
        remote_stage(parts, status, clock)
    })
}

/// What a front end needs so that replicas can join.
impl App {
    /// The time that its stages have.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits until the model is read and its pools are there, to which replicas can be added.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub async fn loaded(&mut self) -> anyhow::Result<()> {
        let state = self
            .readiness
            .wait_for(|state| *state != Readiness::Loading)
            .await;
        match &*state.context("the loading task ended early")? {
            Readiness::Failed(message) => anyhow::bail!("{message}"),
            Readiness::Loaded | Readiness::Ready | Readiness::Loading => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_no_family_has_is_refused_with_those_that_there_are() {
        let error = find("waveform").unwrap_err().to_string();
        assert!(error.contains("\"waveform\"") && error.contains("code2wav") && error.contains("talker"));
        assert_eq!(find("code2wav").unwrap().1.name, "code2wav");
    }
}
