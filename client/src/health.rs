//! The standard gRPC health service: asking it once, and waiting for it.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::client::Client;
use crate::credentials::Transport;
use crate::endpoint::Endpoint;
use crate::error::ClientError;

/// First and longest pause between two questions while waiting.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// What a server says of itself or of one of its services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// It takes requests.
    Serving,
    /// It does not, for example because its model is still loading.
    NotServing,
    /// It does not have this service.
    Unknown,
}

impl fmt::Display for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "SERVING",
            Self::NotServing => "NOT_SERVING",
            Self::Unknown => "SERVICE_UNKNOWN",
        })
    }
}

pub(crate) async fn check(transport: Transport, service: &str) -> Result<Serving, Status> {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    match HealthClient::new(transport).check(request).await {
        Ok(response) => Ok(match response.into_inner().status() {
            ServingStatus::Serving => Serving::Serving,
            ServingStatus::NotServing => Serving::NotServing,
            ServingStatus::Unknown | ServingStatus::ServiceUnknown => Serving::Unknown,
        }),
        // How the standard answers for a service it has never heard of.
        Err(status) if status.code() == Code::NotFound => Ok(Serving::Unknown),
        Err(status) => Err(status),
    }
}

/// Asks again and again, connecting anew each time, until the server serves or `patience` runs out; the last answer then.
///
/// ```no_run
/// # async fn wait() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use omni_client::{Endpoint, Serving, wait_until_serving};
///
/// let endpoint = Endpoint::parse("127.0.0.1:50051")?;
/// let serving = wait_until_serving(&endpoint, "", Duration::from_secs(30)).await?;
/// assert_eq!(serving, Serving::Serving);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The last failure, if the server could not be asked when time ran out.
pub async fn wait_until_serving(
    endpoint: &Endpoint,
    service: &str,
    patience: Duration,
) -> Result<Serving, ClientError> {
    let deadline = Instant::now() + patience;
    let mut pause = PAUSES.0;
    let mut last = Err(ClientError::Unreachable {
        endpoint: endpoint.clone(),
        cause: "no answer in time".into(),
    });
    loop {
        match timeout_at(deadline, ask(endpoint, service)).await {
            Ok(Ok(Serving::Serving)) => return Ok(Serving::Serving),
            Ok(answer) => last = answer,
            Err(_) => return last,
        }
        if Instant::now() + pause >= deadline {
            return last;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

async fn ask(endpoint: &Endpoint, service: &str) -> Result<Serving, ClientError> {
    Client::connect(endpoint).await?.health(service).await
}
