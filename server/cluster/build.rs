//! Names the build: a hash of all its sources. Many builds share a version, and sources without git, or changed ones,
//! have no commit.

use std::io;
use std::path::PathBuf;

/// The crates that the program is built from, beside this one.
const CRATES: &[&str] = &[
    "audio",
    "client/manual",
    "engine",
    "models",
    "models/backend",
    "models/family",
    "models/gpu",
    "pipeline",
    "proto",
    "server",
    "server/cluster",
    "server/config",
    "server/core",
    "server/grpc",
    "server/json",
    "server/openai",
    "server/services",
    "server/session",
    "server/studio",
    "server/transport",
    "server/wyoming",
    "telemetry",
    "telemetry/yaml",
    "text",
];
/// Sources of a crate; checkpoints are a part of the model's identity.
const SOURCES: &[&str] = &["Cargo.toml", "build.rs", "src", "kernels", "catalogue.yaml"];
/// Other sources of the program.
const OTHERS: &[&str] = &[
    "Cargo.toml",
    "rust-toolchain.toml",
    "server/cluster/Cargo.lock",
    "server/studio/page/dist",
];

/// FNV-1a of 64 bits: distinguishes builds, and is not for security.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        // The length separates two parts.
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in bytes.iter().chain(&length) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The files at or below `path`, if there is something.
fn files(path: PathBuf, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        // A file may be added.
        println!("cargo::rerun-if-changed={}", path.display());
        for entry in std::fs::read_dir(path)? {
            files(entry?.path(), found)?;
        }
    } else if path.is_file() {
        found.push(path);
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.ancestors().nth(2).unwrap_or(&here);
    let sources = CRATES.iter().flat_map(|name| {
        let of_crate = root.join(name);
        SOURCES.iter().map(move |source| of_crate.join(source))
    });
    let mut found = Vec::new();
    for path in sources.chain(OTHERS.iter().map(|other| root.join(other))) {
        files(path, &mut found)?;
    }
    found.sort_unstable();
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    for path in &found {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.strip_prefix(root).unwrap_or(path);
        hash.add(name.as_os_str().as_encoded_bytes());
        hash.add(&std::fs::read(path)?);
    }
    println!("cargo::rustc-env=OMNI_CLUSTER_BUILD={:016x}", hash.0);
    Ok(())
}
