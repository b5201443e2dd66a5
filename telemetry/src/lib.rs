//! Metrics of the Omni server: one catalogue, typed instruments, recorder layers, and the ways out.
//!
//! In: plain values (durations, counts, ids) from the components that own the events. Out: Prometheus text over HTTP or pushed to
//! a gateway, and log lines. The crate knows no other crate of the workspace, no tensor and no wire type of the API.

mod catalogue;
mod codegen;
mod family;

/// Typed constants, one per family of the catalogue.
#[path = "generated/families.rs"]
pub mod families;

pub use catalogue::{
    Absent, Buckets, Catalogue, CatalogueError, CatalogueOptions, Family, FamilyKind, Group, OptionsError,
    Prefix, Sinks, is_label_name, is_metric_name,
};
pub use codegen::families_source;
pub use family::{CounterFamily, FloatCounterFamily, GaugeFamily, HistogramFamily, TypedFamily};
