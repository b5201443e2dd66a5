//! A replica in another process: its thread here carries jobs, items and figures, and restarts the process as any
//! replica rebuilds its model.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::Stamp;

use super::link::LinkError;
use super::protocol::{GRACE, LATE, StageNames};
use super::proxy::{Proxy, RemoteStats};
use crate::clock::Clock;
use crate::stage::{
    BackendError, CancelFlag, Core, End, Fault, Notifier, NotifierFd, ReplicaStatus, SharedDevice, StageBody,
    StageHandle, StageJob, StageParts, stage_of,
};

/// Longest wait for the other side's greeting, which comes before it loads anything.
const GREETING: Duration = Duration::from_secs(30);
/// Longest wait for a process to exit on request before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Process at the other end of a connection.
pub trait Peer: Send {
    /// Waits for its end, which follows that of the connection; kills it after `patience`. Returns a description of
    /// its end.
    fn end(self: Box<Self>, patience: Duration) -> String;

    /// Id of the process, if it is one of its own.
    fn id(&self) -> Option<u32> {
        None
    }
}

/// Transport to the process that runs a replica's stage: starts it, or connects to it.
///
/// A connection is a stream socket that carries `omni.stage.v1`. A transport without a socket returns one end of a
/// pair and forwards the bytes at the other.
pub trait StageTransport: Send {
    /// Opens a connection. Called on the replica's thread, again after each death.
    ///
    /// # Errors
    /// The error of the system.
    fn connect(&mut self) -> io::Result<Connected>;
}

/// A connection, and its other end.
pub type Connected = (UnixStream, Box<dyn Peer>);

impl<F: FnMut() -> io::Result<Connected> + Send> StageTransport for F {
    fn connect(&mut self) -> io::Result<Connected> {
        self()
    }
}

/// Parts of a remote replica.
#[derive(derive_more::Debug)]
#[debug("RemoteParts {{ mailbox: {:?}, .. }}", self.mailbox)]
pub struct RemoteParts {
    /// Transport to the other side.
    pub transport: Box<dyn StageTransport>,
    /// Encoded settings of the stage.
    pub settings: Vec<u8>,
    /// The stages of all graphs.
    pub stages: StageNames,
    /// Jobs that may wait to be taken.
    pub mailbox: usize,
    /// Longest silence of the other side while it loads the stage.
    pub load_timeout: Duration,
    /// Longest silence once it is ready.
    pub silence_timeout: Duration,
}

/// Creates a replica whose stage runs at the other end of a connection, and the body of its thread here.
pub fn remote_stage(parts: RemoteParts, status: ReplicaStatus, clock: Clock) -> (StageHandle, StageBody) {
    let wake = Notifier::default();
    let stop = CancelFlag::default();
    let core = Remote {
        transport: parts.transport,
        settings: parts.settings,
        stages: parts.stages,
        load_timeout: parts.load_timeout,
        silence_timeout: parts.silence_timeout,
        wake: wake.clone(),
        line: None,
        stop: stop.clone(),
        status: status.clone(),
        clock,
        connection: None,
        fault: None,
    };
    let parts = StageParts {
        mailbox: parts.mailbox,
        wake,
        stop,
        status,
        clock,
        // The device is another process's.
        device: SharedDevice::default(),
    };
    stage_of(core, parts)
}

struct Remote {
    transport: Box<dyn StageTransport>,
    settings: Vec<u8>,
    stages: StageNames,
    load_timeout: Duration,
    silence_timeout: Duration,
    wake: Notifier,
    /// Descriptor of the notifier; opened when it is first needed.
    line: Option<NotifierFd>,
    stop: CancelFlag,
    status: ReplicaStatus,
    clock: Clock,
    connection: Option<Connection>,
    /// Reason why the connection is to be given up.
    fault: Option<LinkError>,
}

struct Connection {
    proxy: Proxy,
    peer: Box<dyn Peer>,
    /// Time until which silence is not held against the process.
    grace: Stamp,
}

impl Remote {
    /// Waits until the other side is ready.
    fn greet(&self, mut proxy: Proxy, line: &NotifierFd) -> Result<Proxy, String> {
        loop {
            proxy.turn().map_err(|error| error.to_string())?;
            if proxy.is_ready() {
                return Ok(proxy);
            }
            if self.stop.is_set() {
                return Err("the replica was told to stop".to_owned());
            }
            // The process has timeouts of its own for loading; only one that hangs as a whole is silent.
            let (patience, phase) = if proxy.is_greeted() {
                (self.load_timeout, "while it was loading its model")
            } else {
                (GREETING, "when it was started")
            };
            let left = (proxy.silent_since() + patience).since(self.clock.now());
            if left == Duration::ZERO {
                return Err(format!(
                    "the other process has said nothing for {patience:?} {phase}"
                ));
            }
            proxy.wait(line, Some(left)).map_err(|error| error.to_string())?;
        }
    }

    fn connect(&mut self, line: &NotifierFd) -> Result<Connection, String> {
        let (socket, peer) = self
            .transport
            .connect()
            .map_err(|error| format!("no process could be reached: {error}"))?;
        let figures = RemoteStats::new(self.status.clone());
        let settings = self.settings.clone();
        let stages = Arc::clone(&self.stages);
        let greeted = Proxy::new(socket, settings, figures, stages, self.clock)
            .map_err(|error| error.to_string())
            .and_then(|proxy| self.greet(proxy, line));
        match greeted {
            Ok(proxy) => Ok(Connection {
                proxy,
                peer,
                grace: Stamp::default(),
            }),
            // It has nothing to finish yet.
            Err(message) => Err(format!("{message}; {}", peer.end(Duration::ZERO))),
        }
    }

    /// Time at which the process counts as dead if it stays silent.
    fn silence_ends(&self) -> Option<Stamp> {
        let Connection { proxy, grace, .. } = self.connection.as_ref()?;
        Some((proxy.silent_since() + self.silence_timeout).max(*grace))
    }

    /// Gives up on a process that has been silent for too long.
    fn look_for_life(&mut self) {
        let now = self.clock.now();
        let Some(ends) = self.silence_ends().filter(|ends| *ends <= now) else {
            return;
        };
        // This thread woke too late itself: the machine stood still, and the process may have had no time either.
        if now.since(ends) >= LATE
            && let Some(connection) = &mut self.connection
        {
            connection.grace = now + GRACE;
            return;
        }
        self.note(Err(LinkError::Silent(self.silence_timeout)));
    }

    fn note(&mut self, outcome: Result<(), LinkError>) {
        if let Err(error) = outcome {
            self.fault.get_or_insert(error);
        }
    }
}

impl Core for Remote {
    type Job = StageJob;

    fn load(&mut self) -> Result<(), BackendError> {
        self.fault = None;
        let line = match self.line.take() {
            Some(line) => line,
            None => self.wake.line().map_err(|error| {
                BackendError::Failed(format!("socket pair could not be created: {error}"))
            })?,
        };
        let connected = self.connect(&line);
        self.line = Some(line);
        let connection = self.connection.insert(connected.map_err(BackendError::Failed)?);
        self.status.works_in(connection.peer.id());
        Ok(())
    }

    fn accept(&mut self, job: StageJob) {
        match &mut self.connection {
            Some(connection) => connection.proxy.accept(job),
            None if job.cancel.is_set() => {}
            None => job.outputs.end(lost(self.status.stage())),
        }
    }

    fn has_room(&self) -> bool {
        self.connection
            .as_ref()
            .is_none_or(|connection| connection.proxy.has_room())
    }

    fn tend(&mut self) {
        if let Some(connection) = &mut self.connection {
            let turned = connection.proxy.turn();
            self.note(turned);
        }
        self.look_for_life();
    }

    fn has_work(&self) -> bool {
        false
    }

    fn wake_at(&self) -> Option<Stamp> {
        self.silence_ends()
    }

    fn step(&mut self) {}

    fn settle(&mut self) {}

    fn end_all(&mut self, end: &End) {
        let Some(Connection { mut proxy, peer, .. }) = self.connection.take() else {
            return;
        };
        proxy.end_all(end);
        drop(proxy);
        // A frozen process does not notice that the connection was closed.
        let patience = match self.fault {
            Some(LinkError::Silent(_)) => Duration::ZERO,
            _ => EXIT_TIMEOUT,
        };
        let ended = peer.end(patience);
        let stage = self.status.stage();
        let replica = self.status.id();
        match self.status.has_joined() {
            // The worker has logged the loss.
            true => tracing::debug!(stage, %replica, ended, "connection to a replica closed"),
            false => tracing::info!(stage, %replica, ended, "process of a replica ended"),
        }
        self.status.works_in(None);
    }

    fn fault(&mut self) -> Option<Fault> {
        self.fault.as_ref().map(|error| Fault {
            message: error.to_string(),
            severed: error.is_severed(),
        })
    }

    fn sleep(&mut self, wake: &Notifier, timeout: Option<Duration>) {
        match (&mut self.connection, &self.line) {
            (Some(connection), Some(line)) => {
                let waited = connection.proxy.wait(line, timeout);
                self.note(waited);
            }
            _ => wake.sleep(timeout),
        }
    }
}

fn lost(stage: &'static str) -> End {
    End::Lost {
        stage,
        message: "its process is being started anew".to_owned(),
    }
}
