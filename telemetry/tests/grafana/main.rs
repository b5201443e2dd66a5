//! Tests of `grafana/`: dashboards, recording rules, alerts, and the configuration that goes with them.

mod committed;
mod layout;
mod live;
mod load;
mod names;
#[path = "../support/programs.rs"]
mod programs;
mod promql;
mod promtool;
mod pushed;
mod vllm;
