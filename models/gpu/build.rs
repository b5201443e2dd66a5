//! Compiles the kernels: with feature `emulator` for the processor, with feature `cuda` for the device.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The kernel files in `kernels/`, in order of name.
fn kernels(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the kernels' directory");
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "cu"))
        .collect();
    files.sort();
    files
}

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernels");
    let files = kernels(&root.join("kernels"));
    #[cfg(feature = "emulator")]
    emulator(&root, &out, &files);
    if env::var_os("CARGO_FEATURE_CUDA").is_some() {
        cuda(&out, &files);
    }
}

/// One translation unit with the shim, the emulator and all kernels.
#[cfg(feature = "emulator")]
fn emulator(root: &Path, out: &Path, files: &[PathBuf]) {
    println!("cargo::rerun-if-changed=emulator");
    let wrong = root.join("emulator/misuse.cu");
    let files = files.iter().chain([&wrong]);
    let includes: String = files.map(|f| format!("#include {f:?}\n")).collect();
    fs::write(out.join("kernels.inc"), includes).expect("a writable build directory");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file(root.join("emulator/emulator.cpp"))
        .include(root.join("emulator"))
        .include(root.join("kernels"))
        .include(out)
        .opt_level(2)
        .flag_if_supported("-Wno-unknown-pragmas")
        .flag_if_supported("-ftls-model=initial-exec")
        // No fused multiply-adds, so that results are equal on every machine.
        .flag_if_supported("-ffp-contract=off")
        .compile("omni_gpu_emulator");
}

/// nvcc of `CUDA_HOME`, else the first in `PATH`.
fn nvcc() -> Option<PathBuf> {
    let homes = env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = homes.into_iter().chain(env::split_paths(&path));
    folders
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file())
}

/// CUDA version of nvcc, in the driver's form: 13.0 is 13000.
fn version(nvcc: &Path) -> u32 {
    let said = std::process::Command::new(nvcc).arg("--version").output();
    let said = String::from_utf8_lossy(&said.expect("nvcc can be run").stdout).into_owned();
    let release = said
        .split("release ")
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    let parts = release.and_then(|release| release.trim().split_once('.'));
    let number =
        parts.and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    let (major, minor) = number.unwrap_or_else(|| panic!("nvcc says {said:?}, expected a release"));
    1000 * major + 10 * minor
}

/// Compiles every kernel file to machine code for `CUDA_ARCH` (default 90; several with commas) and to PTX for all
/// other devices from 8.0 on. Without nvcc, or with `OMNI_SKIP_PTX=1`, nothing is compiled: the crate can be checked,
/// and opening a device fails with the reason.
fn cuda(out: &Path, files: &[PathBuf]) {
    for name in ["CUDA_HOME", "CUDA_ARCH", "OMNI_SKIP_PTX", "PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let skipped = env::var_os("OMNI_SKIP_PTX").is_some_and(|skip| skip == "1");
    let nvcc = if skipped { None } else { nvcc() };
    let Some(nvcc) = nvcc else {
        println!(
            "cargo::warning=nvcc was not used: this build has no kernels for a GPU (`make cuda` sets it up)"
        );
        fs::write(out.join("modules.rs"), "&[]").expect("a writable build directory");
        fs::write(out.join("version.rs"), "0").expect("a writable build directory");
        fs::write(out.join("archs.rs"), "&[]").expect("a writable build directory");
        return;
    };
    fs::write(out.join("version.rs"), version(&nvcc).to_string()).expect("a writable build directory");
    let archs = env::var("CUDA_ARCH").unwrap_or_else(|_| "90".into());
    // Their numbers alone: 90a is of 90.
    let numbers = archs
        .split(',')
        .map(|arch| arch.trim_end_matches(|c: char| !c.is_ascii_digit()));
    let numbers = format!("&[{}]", numbers.collect::<Vec<_>>().join(", "));
    fs::write(out.join("archs.rs"), numbers).expect("a writable build directory");
    let jobs: Vec<_> = files
        .iter()
        .map(|file| {
            let binary = out
                .join(file.file_name().expect("a file"))
                .with_extension("fatbin");
            let mut command = std::process::Command::new(&nvcc);
            command.args([
                "-std=c++17",
                "-O3",
                "--fatbin",
                "-gencode=arch=compute_80,code=compute_80",
            ]);
            for arch in archs.split(',') {
                command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
            }
            let child = command.arg("-o").arg(&binary).arg(file).spawn();
            (file, binary, child.expect("nvcc can be run"))
        })
        .collect();
    let mut modules = String::from("&[\n");
    for (file, binary, mut child) in jobs {
        let status = child.wait().expect("nvcc ends");
        assert!(status.success(), "nvcc failed for {}", file.display());
        let name = file.file_stem().expect("a file").to_string_lossy();
        modules += &format!("    ({name:?}, include_bytes!({binary:?})),\n");
    }
    fs::write(out.join("modules.rs"), modules + "]").expect("a writable build directory");
}
