//! The reference outputs.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

/// The directory of the tiny checkpoint.
pub(crate) fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/qwen3-omni-tiny")
}

/// The tensors of `goldens.safetensors`.
pub(crate) struct Goldens(Vec<u8>);

impl Goldens {
    pub(crate) fn load() -> Self {
        Self::from(&tiny())
    }

    pub(crate) fn from(dir: &Path) -> Self {
        Self(std::fs::read(dir.join("goldens.safetensors")).expect("the goldens are readable"))
    }

    fn bytes(&self, name: &str) -> (Dtype, Vec<u8>) {
        let tensors = SafeTensors::deserialize(&self.0).expect("the goldens are safetensors");
        let view = tensors
            .tensor(name)
            .unwrap_or_else(|e| panic!("golden {name}: {e}"));
        (view.dtype(), view.data().to_vec())
    }

    pub(crate) fn floats(&self, name: &str) -> Vec<f32> {
        let (dtype, bytes) = self.bytes(name);
        assert_eq!(dtype, Dtype::F32, "golden {name}");
        bytes
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect()
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<u32> {
        let (dtype, bytes) = self.bytes(name);
        let narrow = |id: i64| u32::try_from(id).expect("ids are not negative");
        match dtype {
            Dtype::I64 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| narrow(i64::from_le_bytes(*b)))
                .collect(),
            Dtype::I32 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| narrow(i32::from_le_bytes(*b).into()))
                .collect(),
            other => panic!("golden {name} is of type {other:?}"),
        }
    }

    pub(crate) fn shape(&self, name: &str) -> Vec<usize> {
        let tensors = SafeTensors::deserialize(&self.0).expect("the goldens are safetensors");
        tensors
            .tensor(name)
            .unwrap_or_else(|e| panic!("golden {name}: {e}"))
            .shape()
            .to_vec()
    }
}

/// Asserts that two sequences of numbers agree to `tolerance`.
pub(crate) fn assert_close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what}: count");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= tolerance, "{what}[{i}]: {g}, expected {e}");
    }
}
