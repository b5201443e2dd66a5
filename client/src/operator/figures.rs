//! Figures of a server, as plain values.

use std::fmt;
use std::time::{Duration, SystemTime};

use omni_proto::v1;

use crate::done::duration;

/// State of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// Something that this client does not know.
    Unknown,
    /// It builds its model for the first time.
    Loading,
    /// It works.
    Ready,
    /// It finishes its work and gets no more.
    Cordoned,
    /// Its model died and is being rebuilt.
    Restarting,
    /// Its model could not be built.
    Failed,
    /// It leaves as soon as its work is finished.
    Leaving,
    /// It is gone.
    Removed,
}

impl ReplicaState {
    pub(crate) fn to_proto(self) -> v1::ReplicaState {
        match self {
            Self::Unknown => v1::ReplicaState::Unspecified,
            Self::Loading => v1::ReplicaState::Loading,
            Self::Ready => v1::ReplicaState::Ready,
            Self::Cordoned => v1::ReplicaState::Cordoned,
            Self::Restarting => v1::ReplicaState::Restarting,
            Self::Failed => v1::ReplicaState::Failed,
            Self::Leaving => v1::ReplicaState::Leaving,
            Self::Removed => v1::ReplicaState::Removed,
        }
    }

    fn from_proto(state: v1::ReplicaState) -> Self {
        match state {
            v1::ReplicaState::Unspecified => Self::Unknown,
            v1::ReplicaState::Loading => Self::Loading,
            v1::ReplicaState::Ready => Self::Ready,
            v1::ReplicaState::Cordoned => Self::Cordoned,
            v1::ReplicaState::Restarting => Self::Restarting,
            v1::ReplicaState::Failed => Self::Failed,
            v1::ReplicaState::Leaving => Self::Leaving,
            v1::ReplicaState::Removed => Self::Removed,
        }
    }
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unknown => "unknown",
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Cordoned => "cordoned",
            Self::Restarting => "restarting",
            Self::Failed => "failed",
            Self::Leaving => "leaving",
            Self::Removed => "removed",
        })
    }
}

/// One replica of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Replica {
    /// Its name within the stage.
    pub id: String,
    /// Its device.
    pub device: String,
    /// Its state.
    pub state: ReplicaState,
    /// Utterances and answers that are bound to it.
    pub in_flight: u32,
    /// Sequences that have a place in its batch.
    pub running: u32,
    /// Sequences that wait for one.
    pub waiting: u32,
    /// Share of its KV cache in use, 0 to 1.
    pub kv_usage: f64,
    /// Steps of its model so far.
    pub steps: u64,
    /// Time spent in them.
    pub busy: Duration,
    /// Number of failures of its model.
    pub deaths: u64,
    /// The last failure, or the reason why it cannot work; empty without one.
    pub last_error: String,
}

/// A stage of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its replicas.
    pub replicas: Vec<Replica>,
    /// Abandoned threads that hang in a step.
    pub threads_left_behind: u32,
}

/// Description of a running server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerInfo {
    /// Version of the server.
    pub version: String,
    /// Time of its start.
    pub started: Option<SystemTime>,
    /// The models that are loaded.
    pub models: Vec<String>,
    /// It shuts down.
    pub draining: bool,
    /// Address of the services.
    pub listens: String,
    /// Most concurrent calls.
    pub max_sessions: u32,
    /// Most utterances and answers in progress.
    pub max_active: u32,
    /// Utterances and answers that wait, at most.
    pub max_waiting: u32,
    /// Longest wait.
    pub max_wait: Duration,
}

/// The 50th, 95th and 99th percentile of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Percentiles {
    /// Requests that were measured.
    pub count: u32,
    /// The median.
    pub p50: Option<Duration>,
    /// 95 of a hundred were not slower.
    pub p95: Option<Duration>,
    /// 99 of a hundred were not slower.
    pub p99: Option<Duration>,
}

/// A call that is open.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its name.
    pub id: String,
    /// The method that was called.
    pub method: String,
    /// Name of the API key; empty without one.
    pub principal: String,
    /// IP address that the call comes from; empty if it is not known.
    pub peer: String,
    /// Time since it was opened.
    pub age: Duration,
    /// Something is being spoken or answered.
    pub active: bool,
    /// Utterances and answers that were begun.
    pub requests: u32,
    /// Playing time of the audio that was sent.
    pub audio: Duration,
    /// Seconds of it that a listener has still to hear; below zero, how long that listener has been hearing nothing.
    pub lead: Option<f64>,
}

/// Figures of a server at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// The moment, by the server's clock.
    pub time: Option<SystemTime>,
    /// Its stages.
    pub stages: Vec<Stage>,
    /// Calls that are open.
    pub sessions: u32,
    /// Utterances and answers that are worked on.
    pub running: u32,
    /// Utterances and answers that wait.
    pub waiting: u32,
    /// Expected wait of the next caller, if known.
    pub expected_wait: Option<Duration>,
    /// Requests that were refused since the start.
    pub refused: u64,
    /// From the request to the first audio packet; of the requests that ended within the last minute, like what
    /// follows.
    pub first_packet: Percentiles,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Playing time of their audio per second.
    pub audio_per_second: f64,
    /// Share without a gap, 0 to 1.
    pub continuity: Option<f64>,
    /// The server shuts down.
    pub draining: bool,
    /// Open sessions, oldest first, if requested.
    pub session_list: Vec<Session>,
}

/// Progress of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainProgress {
    /// Calls that are still open.
    pub sessions: u32,
    /// Time left for them.
    pub time_left: Option<Duration>,
}

impl Replica {
    pub(crate) fn from_proto(replica: v1::Replica) -> Self {
        Self {
            state: ReplicaState::from_proto(replica.state()),
            id: replica.id,
            device: replica.device,
            in_flight: replica.in_flight,
            running: replica.running,
            waiting: replica.waiting,
            kv_usage: replica.kv_cache_usage_ratio,
            steps: replica.steps,
            busy: duration(replica.busy).unwrap_or_default(),
            deaths: replica.deaths,
            last_error: replica.last_error,
        }
    }
}

impl Stage {
    pub(crate) fn from_proto(stage: v1::Stage) -> Self {
        Self {
            name: stage.name,
            replicas: stage.replicas.into_iter().map(Replica::from_proto).collect(),
            threads_left_behind: stage.threads_left_behind,
        }
    }
}

impl ServerInfo {
    pub(crate) fn from_proto(info: v1::GetServerInfoResponse) -> Self {
        Self {
            version: info.version,
            started: info.start_time.and_then(|time| time.try_into().ok()),
            models: info.models,
            draining: info.draining,
            listens: info.listen_address,
            max_sessions: info.max_sessions,
            max_active: info.max_active,
            max_waiting: info.max_waiting,
            max_wait: duration(info.max_wait).unwrap_or_default(),
        }
    }
}

impl Percentiles {
    fn from_proto(wire: &v1::Percentiles) -> Self {
        Self {
            count: wire.count,
            p50: duration(wire.p50),
            p95: duration(wire.p95),
            p99: duration(wire.p99),
        }
    }
}

impl Session {
    fn from_proto(session: v1::SessionStats) -> Self {
        let lead = session.playback_lead;
        Self {
            id: session.session_id,
            method: session.method,
            principal: session.principal,
            peer: session.peer,
            age: duration(session.age).unwrap_or_default(),
            active: session.active,
            requests: session.requests,
            audio: duration(session.audio_sent).unwrap_or_default(),
            lead: lead.map(|lead| lead.seconds as f64 + f64::from(lead.nanos) / 1e9),
        }
    }
}

impl Stats {
    pub(crate) fn from_proto(stats: v1::WatchStatsResponse) -> Self {
        let first_packet = stats.first_packet.as_ref().map(Percentiles::from_proto);
        Self {
            time: stats.time.and_then(|time| time.try_into().ok()),
            stages: stats.stages.into_iter().map(Stage::from_proto).collect(),
            sessions: stats.sessions,
            running: stats.running,
            waiting: stats.waiting,
            expected_wait: duration(stats.expected_wait),
            refused: stats.refused,
            first_packet: first_packet.unwrap_or_default(),
            requests_per_second: stats.requests_per_second,
            audio_per_second: stats.audio_seconds_per_second,
            continuity: stats.continuity_ratio,
            draining: stats.draining,
            session_list: stats.session_stats.into_iter().map(Session::from_proto).collect(),
        }
    }
}

impl DrainProgress {
    pub(crate) fn from_proto(wire: &v1::DrainResponse) -> Self {
        Self {
            sessions: wire.sessions,
            time_left: duration(wire.time_left),
        }
    }
}
