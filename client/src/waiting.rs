//! Waiting for a server that is not there yet, or does not serve yet.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::error::ClientError;
use crate::health::Serving;

/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// Asks again and again, connecting anew each time, until the server serves or `patience` runs out; the last answer
/// then.
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
