//! Small checkpoints that tests make, and those of others where they were fetched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use omni_backend::DryRun;
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};

use crate::checkpoint::{Checkpoint, CheckpointSource, LoadError};
use crate::loader::Loader;
use crate::testing::Goldens;

/// Tensors by name, with their shapes and numbers.
pub(crate) type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Uniform numbers from -1 to 1.
pub(crate) fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Random tensors of all that `load` asks for, matrices with outputs as large as their inputs.
pub(crate) fn tensors(seed: u64, load: impl FnOnce(&Loader<'_, DryRun>) -> Result<(), LoadError>) -> Tensors {
    let empty = Checkpoint::of(CheckpointSource::Memory(&[]), BTreeMap::new());
    let dry = Loader::new(&empty, &DryRun);
    load(&dry).expect("a dry run reads nothing");
    let asked = dry.into_asked().into_iter().zip(seed..);
    asked
        .map(|((name, shape), seed)| {
            let count = shape.iter().product();
            let inputs: usize = shape.iter().skip(1).product();
            let scale = if shape.len() == 1 {
                0.3
            } else {
                (3.0 / inputs as f32).sqrt()
            };
            let numbers = random(seed, count).iter().map(|v| v * scale).collect();
            (name, (shape, numbers))
        })
        .collect()
}

pub(crate) fn write_tensors(tensors: &Tensors, path: &Path) {
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let stored: Vec<_> = tensors
        .iter()
        .map(|(name, (shape, numbers))| (name, shape, bytes(numbers)))
        .collect();
    let views = stored.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, (*shape).clone(), bytes).expect("as many as its shape says");
        (name.as_str(), view)
    });
    serialize_to_file(views, None, path).expect("the tensors are written");
}

/// A folder with a checkpoint.
pub(crate) fn folder(config: &str, tensors: &Tensors) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("config.json"), config).expect("written");
    write_tensors(tensors, &folder.path().join("model.safetensors"));
    folder
}

/// The folder of fetched weights, if they are there.
pub(crate) fn fetched(name: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../.tools/weights")
        .join(name);
    if place.join("complete").exists() {
        return Some(place);
    }
    eprintln!("{name} is not there: skipped; `scripts/weights {name}` fetches it");
    None
}

pub(crate) fn goldens(name: &str) -> Goldens {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/real");
    Goldens::new(std::fs::read(place.join(format!("{name}.safetensors"))).expect("the goldens are readable"))
}
