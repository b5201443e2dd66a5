//! Admin listener, with the log of ended requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use omni_engine::Stamp;
use omni_grpc::{Access, Admin, AdminState, CountCalls, serve_admin};
use omni_pipeline::clock::Clock;
use omni_session::{Courses, EndedRequest, Packet, Recent, RecordSink, SessionChange, Track};
use omni_telemetry::{TraceContext, TraceParent};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic_health::pb::health_server::{Health, HealthServer};

use super::bind::bind;
use super::records::Sinks;

/// Time in which operators' connections may close.
const CLOSING: Duration = Duration::from_secs(1);

/// The listener.
#[derive(Debug)]
pub(super) struct AdminListener {
    address: SocketAddr,
    close: CancellationToken,
    task: JoinHandle<()>,
}

impl AdminListener {
    /// Listens at `wanted` and serves `state` to callers admitted by `access`.
    pub(super) async fn start<H: Health>(
        wanted: SocketAddr,
        state: AdminState,
        health: HealthServer<H>,
        calls: CountCalls,
        access: Access,
    ) -> anyhow::Result<Self> {
        let listener = bind("the admin API", "--admin-listen", wanted).await?;
        let address = listener.local_addr()?;
        // Scripts read `address` of the line about callers.
        tracing::info!(admin_address = %address, "admin API listening");
        let close = state.close.clone();
        let closing = close.clone().cancelled_owned();
        let admin = Admin::new(state);
        let serving = serve_admin(listener, admin, health, calls, access, closing);
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "admin API ended");
            }
        });
        Ok(Self { address, close, task })
    }

    /// Its address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it.
    pub(super) async fn close(mut self) {
        self.close.cancel();
        if tokio::time::timeout(CLOSING, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = self.task.await;
        }
    }
}

/// Sinks that keep what ended in `recent`, and in `courses` if they may be watched, and feed `sinks` as well.
pub(super) fn beside(
    recent: &Arc<Recent>,
    courses: Option<&Arc<Courses>>,
    clock: Clock,
    sinks: Sinks,
) -> Sinks {
    let recent = Arc::clone(recent);
    Sinks {
        records: Arc::new(Beside {
            recent,
            courses: courses.cloned(),
            clock,
            sink: sinks.records,
        }),
        edges: sinks.edges,
    }
}

struct Beside {
    recent: Arc<Recent>,
    courses: Option<Arc<Courses>>,
    clock: Clock,
    sink: Arc<dyn RecordSink>,
}

impl RecordSink for Beside {
    fn begins(&self, caller: Option<&TraceParent>, now: Stamp) -> Option<Arc<TraceContext>> {
        self.sink.begins(caller, now)
    }

    fn ended(&self, request: &EndedRequest, track: Option<&Track>) {
        self.recent.add(request, self.clock.now());
        if let Some(courses) = &self.courses {
            courses.add(request.clone());
        }
        self.sink.ended(request, track);
    }

    fn packet(&self, packet: &Packet) {
        self.sink.packet(packet);
    }

    fn session(&self, change: SessionChange<'_>) {
        if matches!(change, SessionChange::Refused(_)) {
            self.recent.refused();
        }
        self.sink.session(change);
    }
}
