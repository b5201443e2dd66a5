//! The standard gRPC health service.

use std::fmt;

use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::credentials::Transport;

/// Health of a server or of one of its services.
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
        // The standard answer for an unknown service.
        Err(status) if status.code() == Code::NotFound => Ok(Serving::Unknown),
        Err(status) => Err(status),
    }
}
