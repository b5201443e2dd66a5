//! A stage of this process for callers in others.

use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow, bail};
use omni_config::deploy::Deploy;
use omni_engine::{StageGraph, StageNode};
use omni_family::{Family, ModelSource, ProcessRole};
use omni_models::GRAPHS;
use omni_pipeline::clock::Clock;
use omni_pipeline::stage::{
    Changes, EngineSink, Launch, ReplicaId, ReplicaStatus, StageHandle, TurnTimeouts,
};

use super::loading::load_blocking;
use super::stages::{Stages, timeouts};

/// The replica of a stage, and its settings.
#[derive(Debug)]
pub(super) struct HostedStage<'a> {
    pub(super) node: &'static StageNode,
    /// That of its family.
    pub(super) graph: &'static StageGraph,
    pub(super) replica: ReplicaId,
    pub(super) deploy: &'a Deploy,
    /// Utterances worked on at once.
    pub(super) max_active: usize,
}

/// A replica that runs.
#[derive(Debug)]
pub(super) struct RunningStage {
    pub(super) handle: StageHandle,
    pub(super) status: ReplicaStatus,
    /// Notified of state changes.
    pub(super) changes: Changes,
    pub(super) timeouts: TurnTimeouts,
    pub(super) thread: StageThread,
}

/// The thread of a replica.
#[derive(Debug)]
pub(super) struct StageThread {
    stage: &'static str,
    thread: JoinHandle<()>,
}

impl StageThread {
    /// Waits for its end.
    ///
    /// # Errors
    /// If it panicked.
    pub(super) fn join(self) -> anyhow::Result<()> {
        let joined = self.thread.join();
        joined.map_err(|_| anyhow!("the thread of stage {} panicked", self.stage))
    }
}

/// The stage of that name, and its graph.
pub(super) fn find(wanted: &str) -> anyhow::Result<(&'static StageGraph, &'static StageNode)> {
    let graphs = GRAPHS.iter().copied();
    let stages = graphs.flat_map(|graph| graph.stages.iter().map(move |stage| (graph, stage)));
    let known: Vec<_> = stages.collect();
    if let Some(found) = known.iter().find(|(_, stage)| stage.name == wanted) {
        return Ok(*found);
    }
    let mut names: Vec<_> = known.iter().map(|(_, stage)| stage.name).collect();
    names.sort_unstable();
    names.dedup();
    bail!("the stage is {wanted:?}, expected one of {}", names.join(", "))
}

impl HostedStage<'_> {
    /// Loads the replica's part of the model, calling `beat` at intervals.
    ///
    /// # Errors
    /// If it cannot be loaded, or that of `beat`.
    pub(super) fn load(
        &self,
        source: &ModelSource,
        clock: Clock,
        beat: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Family> {
        let source = source.clone();
        let plan = self.deploy.compute_plan();
        let role = ProcessRole::Stage {
            stage: self.node.name,
            replica: self.replica.0,
        };
        let load = move || omni_family::load(&source, &plan, role);
        load_blocking(load, clock, self.deploy.load_timeout, beat)
    }

    /// Starts the replica, which `sink` hears.
    ///
    /// # Errors
    /// If the system gives no thread, or if the model does not speak.
    pub(super) fn start(
        &self,
        model: Family,
        sink: Arc<dyn EngineSink>,
        clock: Clock,
    ) -> anyhow::Result<RunningStage> {
        let stage = self.node.name;
        let replica = self.replica;
        let stages = Stages {
            graph: self.graph,
            deploy: self.deploy,
            info: model.speech()?.info(),
            max_active: self.max_active,
        };
        let settings = stages.settings(self.node);
        let deploy = self.deploy.stage(stage);
        let changes = Changes::default();
        let status = ReplicaStatus::new(stage, replica, deploy.restart(), changes.clone()).observed_by(sink);
        let launch = Launch::new(settings, status.clone(), clock);
        let (handle, body) = model.stages.launch(stage, launch);
        let thread = std::thread::Builder::new()
            .name(format!("{stage}-{replica}"))
            .spawn(move || body.run())
            .context("a thread could not be started")?;
        Ok(RunningStage {
            handle,
            status,
            changes,
            timeouts: timeouts(self.deploy.load_timeout, deploy),
            thread: StageThread { stage, thread },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_no_family_has_is_refused_with_those_that_there_are() {
        let error = find("waveform").unwrap_err().to_string();
        assert!(error.contains("\"waveform\"") && error.contains("code2wav") && error.contains("encoder"));
        assert_eq!(find("code2wav").unwrap().1.name, "code2wav");
    }
}
