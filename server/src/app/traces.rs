//! Traces of requests: selection, the spans of their records, and the export queue.
//!
//! In: records of sessions and edges. Out: spans to the collector. Spans are created when a record is complete, so a
//! traced request pays nothing while it runs. Without an endpoint there is no queue, and no span is created.

use std::sync::Arc;

use anyhow::Context as _;
use omni_config::TraceSettings;
use omni_core::error::log::Refusal;
use omni_core::id::{OnRefused, WEBSOCKET, current_request};
use omni_core::orchestrator::Orchestrator;
use omni_engine::Stamp;
use omni_pipeline::connector::{EdgeRecord, EdgeSink, Hop, TransferStamps};
use omni_session::{EndedRequest, Packet, RecordSink, SessionChange, Track};
use omni_telemetry::{Telemetry, TraceContext, TraceInstruments, TraceParent, Tracer};
use opentelemetry::InstrumentationScope;
use tokio::time::Instant;

use super::records::Sinks;

mod otlp;
mod spans;

use otlp::Otlp;

/// Traces that can be sent, or none.
#[derive(derive_more::Debug)]
#[debug("Traces {{ on: {:?} }}", self.running.is_some())]
pub(super) struct Traces {
    running: Option<Running>,
}

struct Running {
    tracer: Tracer,
    orchestrator: Orchestrator,
}

/// The way to the collector, before anything runs.
pub(super) struct Prepared(Option<(TraceSettings, Otlp)>);

impl Prepared {
    /// As configured.
    pub(super) fn new(settings: Option<&TraceSettings>) -> anyhow::Result<Self> {
        let prepared = settings.map(|settings| {
            let otlp = Otlp::new(settings).context("traces cannot be sent")?;
            anyhow::Ok((settings.clone(), otlp))
        });
        prepared.transpose().map(Self)
    }

    /// Sends from now on, and counts in `telemetry` what becomes of spans.
    pub(super) fn start(self, telemetry: &Telemetry, orchestrator: &Orchestrator) -> Traces {
        let instruments = TraceInstruments::new(telemetry.meter());
        let running = self.0.map(|(settings, otlp)| {
            tracing::info!(collector = %settings.endpoint, "sending traces");
            let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
                .with_version(env!("CARGO_PKG_VERSION"))
                .build();
            Running {
                tracer: Tracer::new(settings.sampler, settings.limits, scope, instruments, otlp),
                orchestrator: orchestrator.clone(),
            }
        });
        Traces { running }
    }
}

impl Traces {
    /// Wraps `sinks` to create spans, if tracing is on.
    pub(super) fn observe(&self, sinks: Sinks) -> Sinks {
        let Some(running) = &self.running else {
            return sinks;
        };
        let spans = Spans {
            tracer: running.tracer.clone(),
            orchestrator: running.orchestrator.clone(),
            sinks,
        };
        let spans = Arc::new(spans);
        Sinks {
            records: Arc::clone(&spans) as Arc<dyn RecordSink>,
            edges: spans,
        }
    }

    /// Makes a span of every request that is refused before anything of it begins, if anything is traced.
    pub(super) fn on_refused(&self) -> OnRefused {
        let Some(running) = &self.running else {
            return OnRefused::new(|_, _| {});
        };
        let tracer = running.tracer.clone();
        OnRefused::new(move |request, refusal| {
            // Its stamps begin with it.
            let took = request.arrived.elapsed();
            if let Some(context) = tracer.begin(request.parent.as_ref(), took) {
                tracer.span(spans::refused(&context, request, refusal, took));
            }
        })
    }

    /// Exports the remaining spans, until `deadline`, and ends.
    pub(super) async fn close(self, deadline: Instant) {
        if let Some(running) = self.running {
            running.tracer.close(deadline).await;
        }
    }
}

/// Makes spans, after telling `sinks`.
struct Spans {
    tracer: Tracer,
    orchestrator: Orchestrator,
    sinks: Sinks,
}

impl Spans {
    fn model(&self) -> String {
        let model = self.orchestrator.model();
        model.map_or_else(|_| String::new(), |model| model.info.id.clone())
    }
}

impl RecordSink for Spans {
    fn begins(&self, caller: Option<&TraceParent>, now: Stamp) -> Option<Arc<TraceContext>> {
        if let Some(request) = current_request() {
            request.begins();
        }
        // The other sinks count what begins.
        let other = self.sinks.records.begins(caller, now);
        other.or_else(|| self.tracer.begin(caller, now.0))
    }

    fn ended(&self, request: &EndedRequest, track: Option<&Track>) {
        self.sinks.records.ended(request, track);
        if let Some(track) = track {
            for span in spans::of(self.model(), request, track) {
                self.tracer.span(span);
            }
        }
    }

    fn packet(&self, packet: &Packet) {
        self.sinks.records.packet(packet);
    }

    fn session(&self, change: SessionChange<'_>) {
        // Of a call by gRPC or HTTP its status tells; a WebSocket has none but its first.
        if let SessionChange::NothingBegan(why) = change
            && let Some(request) = current_request().filter(|request| request.protocol == WEBSOCKET)
        {
            request.refused(&Refusal {
                fault: why.kind().fault(),
                status: &"error",
                reason: why.reason(),
                message: why.message(),
            });
        }
        self.sinks.records.session(change);
    }
}

impl EdgeSink for Spans {
    fn chunk(&self, hop: &Hop, chunk: &TransferStamps) {
        self.sinks.edges.chunk(hop, chunk);
    }

    fn closed(&self, record: &EdgeRecord) {
        self.sinks.edges.closed(record);
        let context = record.trace.as_ref();
        if let Some(context) = context.and_then(|trace| trace.get::<TraceContext>()) {
            self.tracer.span(spans::edge(&context, record));
        }
    }
}
