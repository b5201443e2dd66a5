//! One replica of a stage, for front ends that connect to it.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use omni_config::Config;
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{
    EventRouter, LinkError, NETWORK_SILENCE_TIMEOUT, Peers, RemoteParts, SharedReplica, StageTransport,
    called, remote_stage,
};
use omni_pipeline::stage::{Changes, MakeReplica, ReplicaId, ReplicaState, ReplicaStats};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::stage_host::{HostedStage, RunningStage, StageThread, find};
use super::stage_process::names;

/// A stage that runs here for others.
#[derive(Debug)]
pub struct StageMember {
    listener: StageListener,
    changes: Changes,
    thread: StageThread,
}

impl StageMember {
    /// Loads the stage of that name and starts it as the replica of that number. Takes its time.
    ///
    /// # Errors
    /// If no family has such a stage, or the model cannot be loaded.
    pub fn start(config: &Config, stage: &str, replica: u32) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let (graph, node) = find(stage)?;
        let hosted = HostedStage {
            node,
            graph,
            replica: ReplicaId(replica),
            deploy: &config.deploy,
            max_active: config.max_active,
        };
        let model = hosted.load(&config.model, clock, || Ok(()))?;
        let router = EventRouter::default();
        let RunningStage {
            handle,
            status,
            changes,
            timeouts,
            thread,
        } = hosted.start(model, Arc::new(router.clone()), clock)?;
        let listener = StageListener {
            stage: node.name,
            shared: SharedReplica::new(handle, (status, router), changes.clone(), (timeouts, clock)),
            clock,
        };
        Ok(Self {
            listener,
            changes,
            thread,
        })
    }

    /// Its stage.
    pub fn stage(&self) -> &'static str {
        self.listener.stage
    }

    /// Its state.
    pub fn state(&self) -> ReplicaState {
        self.listener.shared.status().state()
    }

    /// Notified of state changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.follow()
    }

    /// Its time.
    pub fn clock(&self) -> Clock {
        self.listener.clock
    }

    /// Takes connections to it.
    pub fn listener(&self) -> &StageListener {
        &self.listener
    }

    /// Stops it after the step in progress.
    ///
    /// # Errors
    /// If its thread panicked.
    pub fn stop(self) -> anyhow::Result<()> {
        self.listener.shared.stop();
        self.thread.join()
    }
}

/// Takes connections to a stage. Copies lead to the same stage.
#[derive(Debug, Clone)]
pub struct StageListener {
    stage: &'static str,
    shared: SharedReplica,
    clock: Clock,
}

impl StageListener {
    /// The figures of the stage.
    pub fn stats(&self) -> ReplicaStats {
        self.shared.stats()
    }

    /// Front ends that are connected.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// The same stage, for connections whose sequences may continue to other stages through `peers`.
    pub fn reaching(&self, peers: Peers) -> Self {
        Self {
            shared: self.shared.reaching(peers),
            ..self.clone()
        }
    }

    /// Serves the front end, or the stage, at the other end of `socket` until it disconnects or the replica dies, and
    /// returns which it was. `refuses` validates the peer's greeting.
    ///
    /// # Errors
    /// [`LinkError`] of a front end. Errors of a stage are reported by that stage.
    pub fn serve(
        &self,
        socket: UnixStream,
        refuses: impl Fn(&[u8]) -> Option<String>,
    ) -> Result<Caller, LinkError> {
        let mut session = called(socket, names(), self.clock)?;
        let wrong = if session.stage == self.stage {
            refuses(&session.settings)
        } else {
            Some(format!(
                "stage {} runs here, the other part asks for {}",
                self.stage, session.stage
            ))
        };
        let sender = session.sender;
        let served = session.answer().and_then(|()| match (wrong, sender) {
            (Some(why), _) => session.refuse(&why).and(Err(LinkError::Protocol(why))),
            (None, Some(_)) => session.serve_link(&self.shared),
            (None, None) => session.serve_shared(&self.shared),
        });
        match sender {
            Some(stage) => Ok(Caller::Stage(stage, served.err())),
            None => served.map(|()| Caller::FrontEnd),
        }
    }
}

/// A connection to a stage, by its kind.
#[derive(Debug)]
pub enum Caller {
    /// A front end.
    FrontEnd,
    /// The named previous stage, with the error that broke the link, unless it disconnected.
    Stage(&'static str, Option<LinkError>),
}

/// Makes a remote replica reached by `transport` and greeted with `greeting`, with room for `mailbox` waiting jobs.
pub fn joined(
    transport: Box<dyn StageTransport>,
    greeting: Vec<u8>,
    (mailbox, load_timeout): (usize, Duration),
    clock: Clock,
) -> MakeReplica {
    // A replica is made once.
    let transport = Mutex::new(Some(transport));
    Box::new(move |status| {
        let transport = transport.lock().take();
        let parts = RemoteParts {
            transport: transport
                .unwrap_or_else(|| Box::new(|| Err(std::io::Error::other("the replica was made already")))),
            settings: greeting.clone(),
            stages: names(),
            mailbox,
            load_timeout,
            silence_timeout: NETWORK_SILENCE_TIMEOUT,
        };
        remote_stage(parts, status, clock)
    })
}
