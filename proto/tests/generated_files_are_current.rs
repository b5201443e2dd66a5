//! The committed generated files are what the .proto files give.

#[path = "../codegen/generate.rs"]
mod generate;

use std::fs;
use std::path::Path;

#[test]
fn generated_files_are_current() {
    let fresh = tempfile::tempdir().expect("a temporary directory");
    generate::generate(fresh.path()).expect("the .proto files compile");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    for name in generate::OUTPUTS {
        assert!(
            fs::read(fresh.path().join(name)).unwrap() == fs::read(committed.join(name)).unwrap(),
            "{name} is stale: run `cargo run -p omni-proto --example regenerate_proto`"
        );
    }
}
