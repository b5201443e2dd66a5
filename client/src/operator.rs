//! The admin service: figures of a server, and its control.

mod figures;

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::admin_service_client::AdminServiceClient;
use tonic::{Response, Status, Streaming};

use crate::client::Client;
use crate::credentials::Transport;
use crate::endpoint::Endpoint;
use crate::error::ClientError;

pub use figures::{DrainProgress, Percentiles, Replica, ReplicaState, ServerInfo, Session, Stage, Stats};

/// A connection to the address at which a server serves its operators. Clones share it.
///
/// ```no_run
/// # async fn look() -> Result<(), Box<dyn std::error::Error>> {
/// use omni_client::{Endpoint, Operator};
///
/// let operator = Operator::connect(&Endpoint::parse("127.0.0.1:50052")?).await?;
/// for stage in operator.stages().await? {
///     println!("{}: {} replicas", stage.name, stage.replicas.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Operator {
    endpoint: Endpoint,
    service: AdminServiceClient<Transport>,
}

impl Operator {
    /// Connects, or says within five seconds why not.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`].
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        let client = Client::connect(endpoint).await?;
        Ok(Self {
            endpoint: endpoint.clone(),
            service: AdminServiceClient::new(client.transport()),
        })
    }

    /// Description of the server.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn info(&self) -> Result<ServerInfo, ClientError> {
        let request = v1::GetServerInfoRequest {};
        let answer = self.service.clone().get_server_info(request).await;
        Ok(ServerInfo::from_proto(self.answer(answer)?))
    }

    /// Its stages.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn stages(&self) -> Result<Vec<Stage>, ClientError> {
        let answer = self.service.clone().list_stages(v1::ListStagesRequest {}).await;
        let stages = self.answer(answer)?.stages;
        Ok(stages.into_iter().map(Stage::from_proto).collect())
    }

    /// Its figures, now and again at every `interval` (100 ms to 60 s); with the open sessions if these are wanted.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn watch(&self, interval: Duration, sessions: bool) -> Result<StatsEvents, ClientError> {
        let request = v1::WatchStatsRequest {
            interval: interval.try_into().ok(),
            include_sessions: sessions,
        };
        let answer = self.service.clone().watch_stats(request).await;
        Ok(StatsEvents {
            endpoint: self.endpoint.clone(),
            answers: self.answer(answer)?,
        })
    }

    /// Its figures as they are now, with the open sessions.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn stats(&self) -> Result<Stats, ClientError> {
        // The first look comes at once, whatever the interval.
        let mut looks = self.watch(Duration::from_secs(60), true).await?;
        let none = || ClientError::protocol(&self.endpoint, "it gave no figures");
        looks.next().await?.ok_or_else(none)
    }

    /// Ends a session; its caller gets `reason`.
    ///
    /// # Errors
    /// The error of the server or the transport: NOT_FOUND for an unknown session.
    pub async fn cancel(&self, session: &str, reason: &str) -> Result<(), ClientError> {
        let request = v1::CancelSessionRequest {
            session_id: session.to_owned(),
            reason: reason.to_owned(),
        };
        let answer = self.service.clone().cancel_session(request).await;
        self.answer(answer).map(drop)
    }

    /// Puts a replica in service, takes it out ([`ReplicaState::Cordoned`]), or away for good
    /// ([`ReplicaState::Removed`]).
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn set_replica(
        &self,
        stage: &str,
        replica: &str,
        state: ReplicaState,
    ) -> Result<Replica, ClientError> {
        let request = v1::SetReplicaStateRequest {
            stage: stage.to_owned(),
            replica: replica.to_owned(),
            state: state.to_proto().into(),
        };
        let answer = self.service.clone().set_replica_state(request).await;
        self.replica(self.answer(answer)?.replica)
    }

    /// Adds a replica to a stage.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn add_replica(&self, stage: &str) -> Result<Replica, ClientError> {
        let request = v1::AddReplicaRequest {
            stage: stage.to_owned(),
        };
        let answer = self.service.clone().add_replica(request).await;
        self.replica(self.answer(answer)?.replica)
    }

    /// Shuts the server down as SIGTERM does, and reports its progress until nothing is left. Work in progress may
    /// take `timeout`, or the server's configured time.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn drain(&self, timeout: Option<Duration>) -> Result<Draining, ClientError> {
        let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
        let answer = self.service.clone().drain(v1::DrainRequest { timeout }).await;
        Ok(Draining {
            endpoint: self.endpoint.clone(),
            answers: self.answer(answer)?,
        })
    }

    fn answer<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, ClientError> {
        answer
            .map(Response::into_inner)
            .map_err(|status| ClientError::from_status(&self.endpoint, &status))
    }

    fn replica(&self, replica: Option<v1::Replica>) -> Result<Replica, ClientError> {
        let missing = || ClientError::protocol(&self.endpoint, "it changed a replica and does not show it");
        replica.map(Replica::from_proto).ok_or_else(missing)
    }
}

/// Figures of a server as they come. Dropping it ends the call.
#[derive(Debug)]
pub struct StatsEvents {
    endpoint: Endpoint,
    answers: Streaming<v1::WatchStatsResponse>,
}

impl StatsEvents {
    /// The next ones; none when the server has ended the call well.
    ///
    /// # Errors
    /// The error of the server or the transport: UNAVAILABLE when the server stops.
    pub async fn next(&mut self) -> Result<Option<Stats>, ClientError> {
        let answer = self.answers.message().await;
        let answer = answer.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
        Ok(answer.map(Stats::from_proto))
    }
}

/// Progress of a drain, as it comes. Dropping it does not stop the drain.
#[derive(Debug)]
pub struct Draining {
    endpoint: Endpoint,
    answers: Streaming<v1::DrainResponse>,
}

impl Draining {
    /// The next report; none when nothing is left.
    ///
    /// # Errors
    /// The error of the server or the transport.
    pub async fn next(&mut self) -> Result<Option<DrainProgress>, ClientError> {
        let answer = self.answers.message().await;
        let answer = answer.map_err(|status| ClientError::from_status(&self.endpoint, &status))?;
        Ok(answer.map(|answer| DrainProgress::from_proto(&answer)))
    }
}
