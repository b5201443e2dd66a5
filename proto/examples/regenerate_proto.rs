//! Rewrites the committed generated files: `cargo run -p omni-proto --example regenerate_proto`.

#[path = "../codegen/generate.rs"]
#[allow(dead_code)]
mod generate;

use std::path::Path;

fn main() -> anyhow::Result<()> {
    generate::generate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated"))
}
