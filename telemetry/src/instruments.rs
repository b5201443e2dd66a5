//! Instruments: what the components hold. Methods are named after events and take plain values.
//!
//! Every handle is made when the instrument is, so that recording is one atomic operation per value and every series exists at
//! zero before its first event.

mod audio;
mod computing;
mod connections;
mod engine;
mod exporter;
mod grpc;
mod pipeline;
mod session;
mod torchserve;
mod traces;
mod transfer;

pub use audio::AudioInstruments;
pub use computing::{ComputingFigures, ComputingInstruments};
pub use connections::{CertificateInstrument, Connected, ConnectionInstruments, Listener, OpenConnection};
pub use engine::{CacheConfig, EngineInstruments};
pub use exporter::ExporterInstruments;
pub use grpc::{CallKind, GrpcCode, GrpcInstruments};
pub use pipeline::{PipelineInstruments, StageInfo};
pub use session::{RejectionReason, SessionInstruments, StreamAbort};
pub use torchserve::{ResponseClass, TorchServeInstruments, TorchServeRequest};
pub use traces::TraceInstruments;
pub use transfer::EdgeInstruments;
