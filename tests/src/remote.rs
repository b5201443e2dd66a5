//! A replica at the other end of a socket, without a process of its own: its host is a thread.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use omni_config::deploy::Restart;
use omni_pipeline::clock::Clock;
use omni_pipeline::connector::{
    EdgeRecord, EdgeSink, Hop, LinkError, Peer, RemoteParts, StageNames, StageTransport, TransferStamps,
    called, remote_stage,
};
use omni_pipeline::stage::{
    Changes, EngineSink, IgnoreEngines, ReplicaId, ReplicaState, ReplicaStats, ReplicaStatus, StageBody,
    StageHandle, TurnTimeouts,
};
use parking_lot::Mutex;

/// Settings that are passed on.
pub const SETTINGS: &[u8] = b"as usual";

/// Name of the stage on both sides, whichever it is.
const STAGE: &str = "code2wav";

/// The stages that ends may name.
pub fn stage_names() -> StageNames {
    ["talker", "code2wav"].into()
}

/// Makes a replica.
pub type Make = Arc<dyn Fn(ReplicaStatus) -> (StageHandle, StageBody) + Send + Sync>;

/// A replica at the other end of a socket.
#[derive(Debug)]
pub struct RemoteStage {
    handle: StageHandle,
    status: ReplicaStatus,
    changes: Changes,
    thread: JoinHandle<()>,
    lives: Lives,
}

/// The other side's lives: a handle on the socket of one that has not ended, or how the host ended.
#[derive(Debug, Clone, Default)]
struct Lives(Arc<Mutex<Vec<Life>>>);

#[derive(Debug)]
enum Life {
    Open(UnixStream),
    Ended(Result<(), LinkError>),
}

impl Lives {
    fn with<T>(&self, look: impl FnOnce(&mut Vec<Life>) -> T) -> T {
        look(&mut self.0.lock())
    }
}

impl RemoteStage {
    /// Starts with a replica from `make`, called anew after each failure; returns when it is ready.
    pub async fn start(
        make: impl Fn(ReplicaStatus) -> (StageHandle, StageBody) + Send + Sync + 'static,
    ) -> Self {
        // Longer than any test.
        Self::with(Duration::from_secs(3600), Arc::new(IgnoreEngines), make).await
    }

    /// One whose engine `listener` hears at the near side.
    pub async fn observed_by(
        listener: Arc<dyn EngineSink>,
        make: impl Fn(ReplicaStatus) -> (StageHandle, StageBody) + Send + Sync + 'static,
    ) -> Self {
        Self::with(Duration::from_secs(3600), listener, make).await
    }

    /// One whose steps may take no longer than this.
    pub async fn with_step_timeout(
        step_timeout: Duration,
        make: impl Fn(ReplicaStatus) -> (StageHandle, StageBody) + Send + Sync + 'static,
    ) -> Self {
        Self::with(step_timeout, Arc::new(IgnoreEngines), make).await
    }

    async fn with(
        step_timeout: Duration,
        listener: Arc<dyn EngineSink>,
        make: impl Fn(ReplicaStatus) -> (StageHandle, StageBody) + Send + Sync + 'static,
    ) -> Self {
        let (make, lives): (Make, _) = (Arc::new(make), Lives::default());
        let kept = lives.clone();
        let transport: Box<dyn StageTransport> = Box::new(move || {
            let (here, there) = UnixStream::pair()?;
            let life = kept.with(|lives| -> std::io::Result<_> {
                lives.push(Life::Open(there.try_clone()?));
                Ok(lives.len() - 1)
            })?;
            let make = Arc::clone(&make);
            let kept = kept.clone();
            let host = std::thread::spawn(move || {
                let ended = host(there, &make, step_timeout);
                kept.with(|lives| lives[life] = Life::Ended(ended));
            });
            Ok((here, Box::new(HostThread(host)) as Box<dyn Peer>))
        });
        let changes = Changes::default();
        let status =
            ReplicaStatus::new(STAGE, ReplicaId(0), restart(), changes.clone()).observed_by(listener);
        let parts = RemoteParts {
            transport,
            settings: SETTINGS.to_vec(),
            stages: stage_names(),
            mailbox: 16,
            load_timeout: Duration::from_secs(3600),
            silence_timeout: Duration::from_secs(3600),
        };
        let (handle, body) = remote_stage(parts, status.clone(), Clock::start());
        let stage = Self {
            handle,
            status,
            changes,
            thread: std::thread::spawn(move || body.run()),
            lives,
        };
        stage
            .until(|stage| stage.status.state() == ReplicaState::Ready)
            .await;
        stage
    }

    /// Its near side.
    pub fn handle(&self) -> &StageHandle {
        &self.handle
    }

    /// Number of its starts.
    pub fn starts(&self) -> usize {
        self.lives.with(|lives| lives.len())
    }

    /// Its figures.
    pub fn stats(&self) -> ReplicaStats {
        self.status.stats()
    }

    /// Its state.
    pub fn state(&self) -> ReplicaState {
        self.status.state()
    }

    /// Breaks the connection.
    pub fn break_connection(&self) {
        self.lives.with(|lives| match lives.last() {
            Some(Life::Open(socket)) => socket.shutdown(Shutdown::Both).expect("it is open"),
            other => panic!("there is none: {other:?}"),
        });
    }

    /// Waits for its state to change until `wanted` holds.
    pub async fn until(&self, wanted: impl Fn(&Self) -> bool) {
        let mut changes = self.changes.follow();
        let wait = async {
            while !wanted(self) {
                changes.changed().await.expect("it lives as long as we");
            }
        };
        // Longer than anything takes on a busy machine; only a test that fails waits for it.
        let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
        assert!(waited.is_ok(), "waited too long, it is {:?}", self.status.state());
    }

    /// Stops it; how the host of its last life ended.
    ///
    /// # Errors
    /// The host's.
    pub fn stop(self) -> Result<(), LinkError> {
        self.handle.stop();
        self.thread.join().expect("the near side does not panic");
        match self.lives.with(Vec::pop) {
            Some(Life::Ended(ended)) => ended,
            other => panic!("the near side did not wait for the host: {other:?}"),
        }
    }
}

/// Restarts whose delays are all `delay`.
pub const fn restart_after(delay: Duration) -> Restart {
    Restart {
        first_delay: delay,
        max_delay: delay,
        healthy_after: delay,
    }
}

/// Restarts at once.
pub const fn restart() -> Restart {
    restart_after(Duration::from_millis(1))
}

struct HostThread(JoinHandle<()>);

impl Peer for HostThread {
    fn end(self: Box<Self>, _patience: Duration) -> String {
        match self.0.join() {
            Ok(()) => "it has ended".to_owned(),
            Err(_) => "it panicked".to_owned(),
        }
    }
}

/// Serves the replica that `make` makes at this end of a connection, until the other side hangs up.
///
/// # Errors
/// As [`HostSession::serve`](omni_pipeline::connector::HostSession::serve).
///
/// # Panics
/// If the other side wants something else.
pub fn host(socket: UnixStream, make: &Make, step_timeout: Duration) -> Result<(), LinkError> {
    let mut called = called(socket, stage_names(), Clock::start())?;
    assert_eq!((called.stage.as_str(), &called.settings[..]), (STAGE, SETTINGS));
    called.answer()?;
    let changes = Changes::default();
    let status =
        ReplicaStatus::new(STAGE, ReplicaId(7), restart(), changes.clone()).observed_by(called.listener());
    let (stage, body) = make(status.clone());
    let thread = std::thread::spawn(move || body.run());
    let timeouts = TurnTimeouts {
        step: step_timeout,
        load: step_timeout,
    };
    let served = called.serve(stage, status, &changes, timeouts);
    thread.join().expect("the stage does not panic");
    served
}

/// The chunks that passed an edge that measures.
#[derive(Debug, Clone, Default)]
pub struct Chunks(Arc<Mutex<(Vec<TransferStamps>, Vec<EdgeRecord>)>>);

impl Chunks {
    /// Chunks so far, and records of closed edges.
    pub fn all(&self) -> (Vec<TransferStamps>, Vec<EdgeRecord>) {
        self.0.lock().clone()
    }
}

impl EdgeSink for Chunks {
    fn chunk(&self, _hop: &Hop, chunk: &TransferStamps) {
        self.0.lock().0.push(*chunk);
    }

    fn closed(&self, record: &EdgeRecord) {
        self.0.lock().1.push(record.clone());
    }
}
