//! What is derived from the catalogue and committed is what the catalogue says now.

use std::fs;
use std::path::Path;

use omni_telemetry::{Catalogue, families_source};

fn committed(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(path).expect("a committed file")
}

const HINT: &str = "run `cargo run -p omni-telemetry --example regenerate`";

#[test]
fn the_typed_families_follow_the_catalogue() {
    let source = families_source(&Catalogue::built_in());
    assert!(committed("src/generated/families.rs") == source, "{HINT}");
}

#[test]
fn the_documentation_follows_the_catalogue() {
    let text = Catalogue::built_in().to_markdown();
    assert!(committed("../docs/metrics.md") == text, "{HINT}");
}
