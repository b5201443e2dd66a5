//! Instruments of the components. Methods are named after events and take plain values.
//!
//! Every handle is made when the instrument is, so that recording is one atomic operation per value and every series
//! exists at zero before its first event.

mod audio;
mod computing;
mod connections;
mod engine;
mod exporter;
mod grpc;
mod hearing;
mod http;
mod own_process;
mod pipeline;
mod protocols;
mod session;
mod torchserve;
mod traces;
mod transfer;
mod voices;

pub use audio::AudioInstruments;
pub use computing::{ComputingInstruments, ComputingStats};
pub use connections::{CertificateInstrument, Connected, ConnectionInstruments, Listener, OpenConnection};
pub use engine::{CacheConfig, EngineInstruments};
pub use exporter::ExporterInstruments;
pub use grpc::{CallKind, GrpcCode, GrpcInstruments};
pub use hearing::HearingInstruments;
pub use http::{HttpExchange, HttpInstruments};
pub use own_process::OwnProcessInstruments;
pub use pipeline::{PipelineInstruments, StageInfo};
pub use protocols::{Protocol, ProtocolInstruments, RequestResult};
pub use session::{RejectionReason, SessionInstruments, StreamAbort};
pub use torchserve::{TorchServeInstruments, TorchServeRequest};
pub use traces::TraceInstruments;
pub use transfer::EdgeInstruments;
pub use voices::{VoiceCreation, VoiceDeletion, VoiceInstruments, VoiceKind, VoiceMaterial, VoiceProvenance};
