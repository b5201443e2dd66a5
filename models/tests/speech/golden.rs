//! The reference outputs.

use std::path::{Path, PathBuf};

pub(crate) use omni_models::testing::Goldens;

/// The directory of the tiny checkpoint.
pub(crate) fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/qwen3-omni-tiny")
}

/// The goldens of the tiny checkpoint.
pub(crate) fn goldens() -> Goldens {
    goldens_of(&tiny())
}

pub(crate) fn goldens_of(dir: &Path) -> Goldens {
    Goldens::new(std::fs::read(dir.join("goldens.safetensors")).expect("the goldens are readable"))
}

/// Asserts that two sequences of numbers agree to `tolerance`.
pub(crate) fn assert_close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what}: count");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= tolerance, "{what}[{i}]: {g}, expected {e}");
    }
}
