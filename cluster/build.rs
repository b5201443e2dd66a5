//! Names the build: a hash of all that the program is made of. The version alone is the same for many builds, and a commit is not there for
//! sources without git, nor for changed ones.

use std::io;
use std::path::{Path, PathBuf};

/// Folders beside this crate that the program is built from.
const CRATES: &[&str] = &[
    "audio",
    "cluster",
    "engine",
    "family",
    "gpu",
    "models",
    "pipeline",
    "proto",
    "server",
    "studio",
    "telemetry",
    "text",
    "yaml",
];
/// In these folders is nothing that becomes a part of it; checkpoints are a part of the model's identity.
const LEFT_OUT: &[&str] = &[
    "benches",
    "embedded",
    "examples",
    "node_modules",
    "sim",
    "target",
    "test",
    "tests",
];
/// Files that decide how it is built.
const FILES: &[&str] = &["Cargo.toml", "rust-toolchain.toml"];

/// FNV-1a of 64 bits: it tells builds apart and guards nothing.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        // What stands between two parts is in neither.
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in bytes.iter().chain(&length) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The files below `folder`, in an order that every machine has.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let left_out = name.starts_with('.') || LEFT_OUT.contains(&name.as_str());
        match (left_out, path.is_dir()) {
            (true, _) => {}
            (false, true) => files(&path, found)?,
            (false, false) => found.push(path),
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.parent().unwrap_or(&here);
    let mut found: Vec<PathBuf> = FILES.iter().map(|file| root.join(file)).collect();
    for name in CRATES {
        files(&root.join(name), &mut found)?;
    }
    found.sort_unstable();
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    for path in &found {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.strip_prefix(root).unwrap_or(path);
        hash.add(name.as_os_str().as_encoded_bytes());
        hash.add(&std::fs::read(path)?);
    }
    for name in CRATES {
        // A file may be added.
        println!(
            "cargo::rerun-if-changed={}",
            root.join(name).join("src").display()
        );
    }
    println!("cargo::rustc-env=OMNI_CLUSTER_BUILD={:016x}", hash.0);
    Ok(())
}
