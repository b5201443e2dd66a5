//! Metrics of the Omni server: one catalogue, typed instruments, recorder layers, and the ways out.
//!
//! In: plain values (durations, counts, ids) from the components that own the events. Out: Prometheus text over HTTP or
//! pushed to a gateway, log lines, and spans in batches for an exporter. Of the workspace the crate uses `omni-yaml`
//! only; it knows no tensor and no wire type of the API.
//!
//! A component holds an instrument ([`PipelineInstruments`], [`EngineInstruments`] ...), made once from a [`Meter`],
//! and calls its methods, which are named after events. Handles come through the recorder's layers from the
//! [`Exposition`], which readers render.

mod catalogue;
mod codegen;
mod config;
mod custom;
mod drops;
mod exposition;
mod family;
mod instruments;
mod log;
mod meter;
mod problems;
mod pull;
mod push;
mod recorder;
mod records;
mod schema;
mod system;
mod telemetry;
mod timeline;
mod traces;

/// Typed constants, one per family of the catalogue.
#[path = "generated/families.rs"]
pub mod families;

pub use catalogue::{
    Absent, Buckets, Catalogue, CatalogueError, CatalogueOptions, Deprecated, Family, FamilyKind, Group,
    MetricsMode, OptionsError, Prefix, Release, Sinks, is_label_name, is_metric_name,
};
pub use codegen::families_source;
pub use config::{MetricsConfig, MetricsConfigError};
pub use custom::{
    CustomHandle, CustomKind, CustomMetrics, CustomOptions, MetricError, MetricSpec, Sample, Undeclared,
};
pub use drops::{DropReason, Drops};
pub use exposition::{Collector, Exposition, ForeignText, Format, Selection, with_exemplar};
pub use family::{
    CounterFamily, FloatCounterFamily, GaugeFamily, HistogramFamily, SummaryFamily, TypedFamily,
};
pub use instruments::{
    AudioInstruments, CacheConfig, CallKind, CertificateInstrument, ComputingInstruments, ComputingStats,
    Connected, ConnectionInstruments, EdgeInstruments, EngineInstruments, ExporterInstruments, GrpcCode,
    GrpcInstruments, HearingInstruments, HttpExchange, HttpInstruments, Listener, OpenConnection,
    OwnProcessInstruments, PipelineInstruments, Protocol, ProtocolInstruments, RejectionReason,
    RequestResult, SessionInstruments, StageInfo, StreamAbort, TorchServeInstruments, TorchServeRequest,
    TraceInstruments, VoiceCreation, VoiceDeletion, VoiceInstruments, VoiceKind, VoiceMaterial,
    VoiceProvenance,
};
pub use log::{EngineLog, LineFormat, LogLine, LogSink, LogWriter, StatsLog, Throughput, with_request};
pub use meter::{FloatCounter, Meter};
pub use pull::{Admission, HostCheck, PullEndpoint, PullGuard, Readiness, TlsSource, queried_names};
pub use push::{Credentials, PushError, PushOptions, PushTarget, PushTargetError, Pusher, Secret};
pub use recorder::{
    Cardinality, Check, DefaultLabels, Fanout, Gate, KnownSeries, RecorderContext, Relabel, SharedRecorder,
    Sink, stack,
};
pub use records::{
    AudioRecord, EdgeEnd, FailureReason, FinishReason, FinishedRequest, HopRecord, IterationRecord, Replica,
    RequestOutcome, RequestRecord, SchedulerRecord, Silence, StageKind, StageRecord,
};
pub use schema::Schema;
pub use system::{
    DiskReading, GpuCollector, GpuReader, GpuReading, HostCollector, HostReading, Nvml, OneProcess,
    ProcessCollector, collect_system,
};
pub use telemetry::{Telemetry, TelemetryOptions};
pub use timeline::{Intervals, Output, Timeline};
pub use traces::{
    SamplerError, Span, SpanSendError, SpanTransport, TraceContext, TraceLimits, TraceParent, TraceSampler,
    Tracer,
};
