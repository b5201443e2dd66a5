//! `AdminService`: operators' view of the server, and their control of it.
//!
//! In: requests of operators. Out: views of stages, admission and sessions, taken on request; nothing here is on the
//! path of a served call. A drain is a request ([`Drain`]) that the process observes.

mod convert;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::{Stream, StreamExt as _, stream};
use omni_core::drain::{Drain, ShutdownError};
use omni_core::error::{ErrorKind, ServeError, excerpt};
use omni_core::orchestrator::Orchestrator;
use omni_engine::Stamp;
use omni_pipeline::clock::Clock;
use omni_pipeline::orchestrator::StageError;
use omni_pipeline::stage::{PoolError, ReplicaId, ReplicaState, ReplicaView, StagePool};
use omni_proto::v1;
use omni_proto::v1::admin_service_server::AdminService;
use omni_services::settings::invalid;
use omni_session::{Recent, Registry};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::status::status;

pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Calls of `WatchStats` and `Drain` at once.
const MOST_WATCHERS: usize = 32;
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// Retry delay of an operator that finds no place to watch.
const RETRY: Duration = Duration::from_secs(1);
/// Most sessions of one answer.
const MOST_SESSIONS: usize = 1_000;
/// Most characters of a reason.
const MOST_REASON: usize = 256;
/// Poll interval of a drain, and the longest time between two messages about it.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
const DRAIN_TELL: Duration = Duration::from_secs(1);

/// An unknown name in a request, or too many watchers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum AdminError {
    #[error("stage {got:?} does not exist, the server has: {known}")]
    StageNotFound { got: String, known: String },
    #[error("stage {stage} has no replica {got:?}")]
    ReplicaNotFound { stage: &'static str, got: String },
    #[error("session {got:?} is not open")]
    SessionNotFound { got: String },
    #[error("{limit} operators watch, no more are served now")]
    TooManyWatchers { limit: usize },
}

impl From<AdminError> for ServeError {
    fn from(error: AdminError) -> Self {
        let not_found = |reason| Self::new(ErrorKind::NotFound, reason, error.to_string());
        match error {
            AdminError::StageNotFound { .. } => not_found("STAGE_NOT_FOUND"),
            AdminError::ReplicaNotFound { .. } => not_found("REPLICA_NOT_FOUND"),
            AdminError::SessionNotFound { .. } => not_found("SESSION_NOT_FOUND"),
            AdminError::TooManyWatchers { limit } => {
                Self::new(ErrorKind::LimitReached, "CONCURRENCY_LIMIT", error.to_string())
                    .with_limit(limit)
                    .retry_in(RETRY)
            }
        }
    }
}

/// The name of a state in messages.
fn state_name(state: v1::ReplicaState) -> String {
    let name = state.as_str_name();
    name.strip_prefix("REPLICA_STATE_")
        .unwrap_or(name)
        .to_ascii_lowercase()
}

/// Converts an operator's times; for tests.
pub(super) fn take(watch: &v1::WatchStatsRequest, drain: &v1::DrainRequest) {
    let _ = convert::interval(watch.interval, INTERVAL, INTERVALS);
    let _ = convert::timeout(drain.timeout);
}

/// Properties that do not change while the server runs.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// Time of the start.
    pub started: SystemTime,
    /// Address for callers.
    pub listen: SocketAddr,
    /// Most calls at once.
    pub max_sessions: usize,
}

/// State that operators look at. Clones share it.
#[derive(Debug, Clone)]
pub struct AdminState {
    /// Properties that do not change.
    pub about: ServerInfo,
    /// Stages and admission.
    pub orchestrator: Orchestrator,
    /// Open sessions.
    pub registry: Registry,
    /// Requests that ended.
    pub recent: Arc<Recent>,
    /// The time.
    pub clock: Clock,
    /// Request to end the server.
    pub drain: Drain,
    /// Cancelled when watchers must end.
    pub close: CancellationToken,
}

/// The service.
#[derive(Debug)]
pub struct Admin {
    state: AdminState,
    watchers: Arc<Semaphore>,
}

impl Admin {
    /// Creates the service over this state.
    pub fn new(state: AdminState) -> Self {
        Self {
            state,
            watchers: Arc::new(Semaphore::new(MOST_WATCHERS)),
        }
    }

    /// Takes a place for a watcher.
    pub(super) fn watch(&self) -> Result<OwnedSemaphorePermit, ServeError> {
        let limit = MOST_WATCHERS;
        let place = Arc::clone(&self.watchers).try_acquire_owned();
        place.map_err(|_| AdminError::TooManyWatchers { limit }.into())
    }

    fn pool(&self, stage: &str) -> Result<&StagePool, ServeError> {
        let pipeline = &self.state.orchestrator.model()?.pipeline;
        let known: Vec<_> = pipeline.pools().map(StagePool::stage).collect();
        let pool = pipeline.pool(stage);
        pool.ok_or_else(|| {
            let got = excerpt(stage);
            let known = known.join(", ");
            AdminError::StageNotFound { got, known }.into()
        })
    }

    fn set_replica(&self, request: &v1::SetReplicaStateRequest) -> Result<v1::Replica, ServeError> {
        let pool = self.pool(&request.stage)?;
        let unknown = || AdminError::ReplicaNotFound {
            stage: pool.stage(),
            got: excerpt(&request.replica),
        };
        let id = ReplicaId(request.replica.parse().map_err(|_| unknown())?);
        let before = view(pool, id).ok_or_else(unknown)?;
        let gone = before.leaving || before.state == ReplicaState::Removed;
        let changed = match request.state() {
            v1::ReplicaState::Removed if gone => Ok(()),
            v1::ReplicaState::Removed => pool.remove(id),
            v1::ReplicaState::Cordoned => pool.cordon(id),
            v1::ReplicaState::Ready => pool.uncordon(id),
            other => {
                let problem = format!(
                    "is {}, expected READY, CORDONED or REMOVED",
                    state_name(other).to_ascii_uppercase()
                );
                return Err(invalid("state", problem));
            }
        };
        changed.map_err(refused)?;
        tracing::info!(stage = pool.stage(), replica = %id, state = state_name(request.state()), "replica changed over the admin API");
        let after = view(pool, id).ok_or_else(unknown)?;
        Ok(convert::replica(&after))
    }

    fn add_replica(&self, request: &v1::AddReplicaRequest) -> Result<v1::Replica, ServeError> {
        let pool = self.pool(&request.stage)?;
        let id = pool.add().map_err(refused)?;
        tracing::info!(stage = pool.stage(), replica = %id, "replica added over the admin API");
        let unknown = || AdminError::ReplicaNotFound {
            stage: pool.stage(),
            got: id.to_string(),
        };
        Ok(convert::replica(&view(pool, id).ok_or_else(unknown)?))
    }

    fn cancel(&self, request: &v1::CancelSessionRequest) -> Result<(), ServeError> {
        if request.reason.chars().count() > MOST_REASON {
            let problem = format!("has more than the {MOST_REASON} characters that are allowed");
            return Err(invalid("reason", problem));
        }
        let reason = match request.reason.trim() {
            "" => "no reason was given",
            reason => reason,
        };
        if self.state.registry.cancel(&request.session_id, reason) {
            tracing::info!(
                session = request.session_id,
                "session cancelled over the admin API"
            );
            Ok(())
        } else {
            let got = excerpt(&request.session_id);
            Err(AdminError::SessionNotFound { got }.into())
        }
    }
}

fn view(pool: &StagePool, id: ReplicaId) -> Option<ReplicaView> {
    pool.replicas().into_iter().find(|view| view.id == id)
}

fn refused(error: PoolError) -> ServeError {
    match error {
        PoolError::Unknown { stage, id } => AdminError::ReplicaNotFound {
            stage,
            got: id.to_string(),
        }
        .into(),
        PoolError::Stopped { .. } => ShutdownError::Stopped.into(),
        PoolError::Thread { stage, source } => StageError::Failed {
            stage,
            message: format!("a thread could not be started: {source}"),
        }
        .into(),
    }
}

impl AdminState {
    fn stages(&self) -> Vec<v1::Stage> {
        let model = self.orchestrator.model().ok();
        let pools = model.into_iter().flat_map(|model| model.pipeline.pools());
        pools.map(convert::stage).collect()
    }

    fn info(&self) -> v1::GetServerInfoResponse {
        let limits = self.orchestrator.admission().limits();
        let model = self.orchestrator.model().ok();
        v1::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            start_time: Some(self.about.started.into()),
            models: model.map(|model| model.info.id.clone()).into_iter().collect(),
            draining: self.orchestrator.draining().is_cancelled(),
            listen_address: self.about.listen.to_string(),
            max_sessions: convert::count(self.about.max_sessions),
            max_active: convert::count(limits.max_active),
            max_waiting: convert::count(limits.max_waiting),
            max_wait: limits.max_wait.try_into().ok(),
        }
    }

    fn stats(&self, sessions: bool) -> v1::WatchStatsResponse {
        let now = self.clock.now();
        let admission = self.orchestrator.admission();
        let recent = self.recent.figures(now);
        let views = if sessions {
            self.registry.views(now)
        } else {
            Vec::new()
        };
        let running = admission.limits().max_active.saturating_sub(admission.free());
        v1::WatchStatsResponse {
            time: Some(SystemTime::now().into()),
            stages: self.stages(),
            sessions: convert::count(self.registry.len()),
            running: convert::count(running),
            waiting: convert::count(admission.waiting()),
            expected_wait: admission.expected_wait().and_then(|wait| wait.try_into().ok()),
            refused: admission.refused() as u64 + self.recent.refusals(),
            first_packet: Some(convert::percentiles(&recent)),
            requests_per_second: recent.requests,
            audio_seconds_per_second: recent.audio,
            continuity_ratio: recent.continuity,
            draining: self.orchestrator.draining().is_cancelled(),
            session_stats: views.iter().take(MOST_SESSIONS).map(convert::session).collect(),
        }
    }

    fn drained(&self) -> v1::DrainResponse {
        let left = self.drain.time_left(self.clock.now());
        v1::DrainResponse {
            sessions: convert::count(self.registry.len()),
            time_left: left.and_then(|left| left.try_into().ok()),
        }
    }
}

/// Progress of a drain, as its caller sees it.
struct Course {
    state: AdminState,
    look: Interval,
    told: Option<(u32, Stamp)>,
    over: bool,
}

impl Course {
    /// Waits for the next message about a drain; `None` after the last.
    async fn next(mut self) -> Option<(Result<v1::DrainResponse, Status>, Self)> {
        if self.over {
            return None;
        }
        // Earlier a session that is just beginning would be missed.
        self.state.orchestrator.draining().cancelled().await;
        loop {
            self.look.tick().await;
            let now = self.state.clock.now();
            let drained = self.state.drained();
            self.over = drained.sessions == 0;
            let news = self
                .told
                .is_none_or(|(sessions, at)| sessions != drained.sessions || now.since(at) >= DRAIN_TELL);
            if news || self.over {
                self.told = Some((drained.sessions, now));
                return Some((Ok(drained), self));
            }
        }
    }
}

fn every(time: Duration) -> Interval {
    let mut interval = interval(time);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[tonic::async_trait]
impl AdminService for Admin {
    type WatchStatsStream = Answers<v1::WatchStatsResponse>;
    type DrainStream = Answers<v1::DrainResponse>;

    async fn get_server_info(
        &self,
        _: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        Ok(Response::new(self.state.info()))
    }

    async fn list_stages(
        &self,
        _: Request<v1::ListStagesRequest>,
    ) -> Result<Response<v1::ListStagesResponse>, Status> {
        let stages = self.state.stages();
        Ok(Response::new(v1::ListStagesResponse { stages }))
    }

    async fn watch_stats(
        &self,
        request: Request<v1::WatchStatsRequest>,
    ) -> Result<Response<Self::WatchStatsStream>, Status> {
        let request = request.into_inner();
        let interval = convert::interval(request.interval, INTERVAL, INTERVALS);
        let interval = interval.map_err(|error| status(&error))?;
        let place = self.watch().map_err(|error| status(&error))?;
        let state = self.state.clone();
        let close = self.state.close.clone();
        let looks = stream::unfold(every(interval), move |mut ticks| {
            let state = state.clone();
            let _held = &place;
            async move {
                ticks.tick().await;
                Some((Ok(state.stats(request.include_sessions)), ticks))
            }
        });
        let end = stream::iter([Err(status(&ShutdownError::Stopped.into()))]);
        let looks = looks.take_until(close.cancelled_owned()).chain(end);
        Ok(Response::new(Box::pin(looks)))
    }

    async fn cancel_session(
        &self,
        request: Request<v1::CancelSessionRequest>,
    ) -> Result<Response<v1::CancelSessionResponse>, Status> {
        self.cancel(request.get_ref()).map_err(|error| status(&error))?;
        Ok(Response::new(v1::CancelSessionResponse {}))
    }

    async fn set_replica_state(
        &self,
        request: Request<v1::SetReplicaStateRequest>,
    ) -> Result<Response<v1::SetReplicaStateResponse>, Status> {
        let replica = self.set_replica(request.get_ref());
        let replica = Some(replica.map_err(|error| status(&error))?);
        Ok(Response::new(v1::SetReplicaStateResponse { replica }))
    }

    async fn add_replica(
        &self,
        request: Request<v1::AddReplicaRequest>,
    ) -> Result<Response<v1::AddReplicaResponse>, Status> {
        let replica = self.add_replica(request.get_ref());
        let replica = Some(replica.map_err(|error| status(&error))?);
        Ok(Response::new(v1::AddReplicaResponse { replica }))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<Self::DrainStream>, Status> {
        let timeout = convert::timeout(request.get_ref().timeout).map_err(|error| status(&error))?;
        let place = self.watch().map_err(|error| status(&error))?;
        tracing::info!("drain requested over the admin API");
        self.state.drain.ask(timeout);
        let course = Course {
            state: self.state.clone(),
            look: every(DRAIN_LOOK),
            told: None,
            over: false,
        };
        let answers = stream::unfold(course, Course::next).map(move |answer| {
            let _held = &place;
            answer
        });
        Ok(Response::new(Box::pin(answers)))
    }
}
