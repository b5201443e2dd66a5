//! The wire APIs: messages, clients and servers generated from the .proto files. `omni.v1` is our own; `nvidia.riva` is what
//! clients of NVIDIA Riva speak; `omni.stage.v1` passes between a server and the processes of its stages.
//!
//! The .proto files in `proto/proto` are the contract and its documentation; everything under `generated` follows from
//! them and is committed, so that building needs no protobuf compiler. Change a .proto file, then run
//! `cargo run -p omni-proto --example regenerate_proto`. Nothing is written by hand here but this file.

#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    rustdoc::bare_urls,
    clippy::all,
    clippy::semicolon_if_nothing_returned,
    clippy::needless_pass_by_value,
    clippy::redundant_clone
)]
#[rustfmt::skip]
mod generated {
    /// Package `omni.v1`.
    pub mod v1 {
        include!("generated/omni.v1.rs");
    }
    /// Package `omni.stage.v1`: between a server and the processes of its stages.
    pub mod stage_v1 {
        include!("generated/omni.stage.v1.rs");
    }
    /// Package `nvidia.riva`, whose modules are nested as the packages are.
    pub mod riva {
        include!("generated/nvidia.riva.rs");
        /// Package `nvidia.riva.tts`.
        pub mod tts {
            include!("generated/nvidia.riva.tts.rs");
        }
    }
}

pub use generated::{riva, v1};

/// Packages `omni.stage`.
pub mod stage {
    pub use super::generated::stage_v1 as v1;
}

pub use prost_types::Duration;
pub use tonic_types::Status as RpcStatus;

/// Encoded `FileDescriptorSet` of all packages and everything they import, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/omni.v1.fds");

/// `ErrorInfo.domain` of every error this project reports.
pub const ERROR_DOMAIN: &str = "omni";
