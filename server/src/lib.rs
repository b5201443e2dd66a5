//! The Omni server: stages, orchestration, sessions and gRPC services.
