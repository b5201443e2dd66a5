//! `scripts/gpu-cublas.py` times the shapes of the products that the networks compute.

use std::collections::BTreeSet;
use std::process::Command;

use omni_models::CheckpointSource;
use omni_models::testing::{Product, products};

/// Products that the script lists for a frame of one sequence; nothing without Python.
fn listed(model: &str) -> Option<BTreeSet<Product>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/gpu-cublas.py");
    let output = Command::new("python3")
        .args([
            script,
            "--model",
            model,
            "--batches",
            "1",
            "--frames",
            "1",
            "--shapes",
        ])
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let product = |line: &str| {
        let mut cells = line.split('\t');
        let name = cells.next().expect("a name");
        let numbers: Vec<usize> = cells.map(|n| n.parse().expect("a number")).collect();
        let part = ["text", "talker", "predictor"]
            .into_iter()
            .find(|part| name.starts_with(part));
        Product {
            part: part.unwrap_or("vocoder"),
            // The predictor's first pass has two rows for the same matrices.
            rows: if part.is_none() { numbers[0] } else { 1 },
            outputs: numbers[1],
            inputs: numbers[2],
        }
    };
    Some(text.lines().map(product).collect())
}

#[test]
fn cublas_is_timed_on_the_shapes_of_the_products_that_are_loaded() {
    for (shapes, file) in [
        ("random:qwen3-omni-30b-a3b-speech", "qwen3-omni-30b-a3b"),
        ("random:qwen3-tts-0.6b", "qwen3-tts-0.6b"),
        ("random:qwen3-tts-1.7b", "qwen3-tts-1.7b"),
    ] {
        let Some(listed) = listed(file) else { return };
        let source = CheckpointSource::Random(shapes.parse().expect("a name"));
        let loaded = products(source).expect("a list of tensors");
        let missing: Vec<_> = loaded.difference(&listed).collect();
        let more: Vec<_> = listed.difference(&loaded).collect();
        assert!(
            missing.is_empty() && more.is_empty(),
            "{shapes}: not listed {missing:?}, not loaded {more:?}"
        );
    }
}
