//! Isolation of callers from each other: keys, quotas, TLS, crowds, large bodies.

mod api_keys;
mod connections;
mod crowds;
mod quotas;
mod request_bodies;
mod tls;
