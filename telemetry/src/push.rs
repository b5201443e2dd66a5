//! Push: what is pulled elsewhere, sent to a Pushgateway.
//!
//! In: [`PushOptions`], the exposition, two signals. Out: a `PUT` of the whole group at once and then every interval, a
//! last one when the server has drained, and a `DELETE` when it exits. Failures are counted, logged once per change of
//! state, and tried again later and later. Nothing here ever holds up serving, and no secret is ever written down.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::Method;
use tokio_util::sync::CancellationToken;

use crate::exposition::{Exposition, Selection};
use crate::instruments::ExporterInstruments;
use crate::telemetry::Telemetry;

mod client;
mod target;
mod verifier;

use client::Client;
pub use client::PushError;
pub use target::{Credentials, PushTarget, PushTargetError, Secret};

/// Longest time between two attempts, unless the interval is longer: so soon after a gateway is back its values are new
/// again.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Options of pushes: the gateway, their interval and their timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushOptions {
    /// The gateway.
    pub target: PushTarget,
    /// Time between two pushes.
    pub interval: Duration,
    /// Longest time one push may take.
    pub timeout: Duration,
    /// Deletes the group on exit.
    pub delete_on_exit: bool,
    /// Time for which the last push stays before it is deleted, so that it can be read.
    pub linger: Duration,
}

impl PushOptions {
    /// Every 15 s, 10 s at most for each, and the group deleted in the end.
    pub fn new(target: PushTarget) -> Self {
        Self {
            target,
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
            delete_on_exit: true,
            linger: Duration::ZERO,
        }
    }
}

/// The pushing task. A value with a `run` method: the composition root decides when it runs.
#[derive(derive_more::Debug)]
#[debug("Pusher {{ options: {:?}, .. }}", self.options)]
pub struct Pusher {
    exposition: Arc<Exposition>,
    instruments: ExporterInstruments,
    client: Client,
    options: PushOptions,
    failures: u32,
}

impl Pusher {
    /// Pushes what `telemetry` records.
    ///
    /// # Errors
    /// Certificates that cannot be read, and a label of the grouping key that metrics have.
    pub fn new(telemetry: &Telemetry, options: PushOptions) -> Result<Self, PushTargetError> {
        let custom = telemetry.schema().custom();
        let families = telemetry.schema().catalogue().families().iter().chain(&custom);
        options.target.check(families.map(AsRef::as_ref))?;
        telemetry.schema().groups_by(&options.target.grouping);
        let instruments = ExporterInstruments::new(telemetry.meter());
        instruments.pushes_every(options.interval);
        Ok(Self {
            exposition: Arc::clone(telemetry.exposition()),
            instruments,
            client: Client::new(&options.target)?,
            options,
            failures: 0,
        })
    }

    /// Pushes until `drained`, once more then, and takes the group away on `exit`.
    pub async fn run(mut self, drained: CancellationToken, exit: CancellationToken) {
        loop {
            self.push().await;
            tokio::select! {
                () = drained.cancelled() => break,
                () = exit.cancelled() => break,
                () = tokio::time::sleep(self.delay()) => {}
            }
        }
        self.push().await;
        exit.cancelled().await;
        if self.options.delete_on_exit && !self.options.linger.is_zero() && self.failures == 0 {
            tokio::time::sleep(self.options.linger).await;
        }
        if self.options.delete_on_exit
            && let Err(error) = self.send(Method::DELETE, Bytes::new()).await
        {
            tracing::warn!(%error, gateway = %self.options.target, "the metrics could not be deleted from the gateway");
        }
    }

    async fn push(&mut self) {
        let exposition = Arc::clone(&self.exposition);
        let rendered = tokio::task::spawn_blocking(move || exposition.render(&Selection::default()));
        let Ok(text) = rendered.await else {
            return;
        };
        match self.send(Method::PUT, Bytes::from(text)).await {
            Ok(()) => {
                if self.failures > 0 {
                    tracing::info!(gateway = %self.options.target, after = self.failures, "pushing metrics works again");
                }
                self.failures = 0;
                self.instruments.pushed(SystemTime::now());
            }
            Err(error) => {
                if self.failures == 0 {
                    tracing::warn!(%error, gateway = %self.options.target, "pushing metrics failed, trying again");
                }
                self.failures = self.failures.saturating_add(1);
                self.instruments.push_failed();
            }
        }
    }

    async fn send(&self, method: Method, body: Bytes) -> Result<(), PushError> {
        let sending = self.client.send(&self.options.target, method, body);
        match tokio::time::timeout(self.options.timeout, sending).await {
            Ok(result) => result,
            Err(_) => Err(PushError::Timeout(self.options.timeout)),
        }
    }

    /// The interval, doubled for every failure in a row; up to a tenth less, so that many servers do not push at once.
    fn delay(&self) -> Duration {
        let doubled = 1_u32 << self.failures.min(5);
        let delay = self
            .options
            .interval
            .saturating_mul(doubled)
            .min(LONGEST_DELAY.max(self.options.interval));
        let chance = RandomState::new().hash_one(self.failures) as f64 / u64::MAX as f64;
        delay.mul_f64(1.0 - chance / 10.0)
    }
}

#[cfg(test)]
mod tests;
