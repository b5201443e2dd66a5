//! Lists the files of the embedded checkpoint, to be compiled in.
//!
//! A checkout without them still builds; such a server has no embedded model and says so when it is requested. With
//! `OMNI_SKIP_EMBEDDED=1` none is compiled in either: for a small program that finds the checkpoint elsewhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const DIRECTORY: &str = "../embedded/checkpoint";
const SKIP: &str = "OMNI_SKIP_EMBEDDED";

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let directory = Path::new(&root).join(DIRECTORY);
    println!("cargo::rerun-if-changed={}", directory.display());
    println!("cargo::rerun-if-env-changed={SKIP}");
    let files = if env::var_os(SKIP).is_some_and(|skip| skip == "1") {
        Vec::new()
    } else {
        files(&directory)
    };

    let mut table = String::from("&[\n");
    for path in files {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("file names are plain");
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),").expect("a string takes everything");
    }
    table.push(']');
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("embedded.rs"), table).expect("the output directory can be written");
}

/// In order of name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .map(|entries| {
            entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| path.is_file())
                .collect()
        })
        .unwrap_or_default();
    files.sort();
    files
}
