//! Compares the kernels' machine code with a table of limits, so that a regression of the compiled code is found
//! without a device.
//!
//! Run by `scripts/machine-code`. The limits are set by hand: `scripts/machine-code --show TEXT` prints the figures
//! of the kernels whose names contain a text (none: all), as rows of the table, and changes nothing.
//!
//! The kernels of this build are disassembled (`cuobjdump`). A kernel fails if it needs more registers or local
//! memory than its row allows, or has fewer loads in flight, matrix loads, asynchronous copies or tensor instructions
//! than its row requires. The figures apply to one compiler, named in the table.
#![expect(clippy::print_stdout, reason = "the report is what this is for")]

mod disassembly;
mod table;

use std::path::Path;
use std::process::{Command, ExitCode};

/// The compiled kernels of this build and their compiler's version.
#[cfg(feature = "cuda")]
fn build() -> (&'static [(&'static str, &'static [u8])], String) {
    (omni_gpu::Cuda::modules(), omni_gpu::Cuda::compiler())
}

#[cfg(not(feature = "cuda"))]
fn build() -> (&'static [(&'static str, &'static [u8])], String) {
    (&[], "no version".to_owned())
}

/// The devices whose machine code is compared.
const ARCH: &str = "sm_90";

/// Exit code: the table is of another compiler.
const NOT_COMPARED: i32 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (paths, shown) = match arguments.as_slice() {
        [cuobjdump, table] => ([cuobjdump, table], None),
        [cuobjdump, table, show, names @ ..] if show == "--show" => ([cuobjdump, table], Some(names)),
        _ => {
            eprintln!("expected: machine_code CUOBJDUMP TABLE [--show [TEXT ...]]");
            return ExitCode::from(2);
        }
    };
    let [cuobjdump, table] = paths.map(Path::new);
    match run(cuobjdump, table, shown) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("machine-code: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Compares every kernel with the table and returns true if all satisfy it; or shows kernels whose names contain one
/// of these texts.
fn run(cuobjdump: &Path, path: &Path, shown: Option<&[String]>) -> Result<bool, String> {
    let (modules, compiler) = build();
    if modules.is_empty() {
        return Err("this build has no kernels for a device".into());
    }
    let found = found(cuobjdump, modules)?;
    if let Some(names) = shown {
        let asked = |kernel: &str| names.is_empty() || names.iter().any(|name| kernel.contains(name));
        for (kernel, figures) in found.iter().filter(|(kernel, _)| asked(kernel)) {
            println!("{}", table::row(kernel, *figures));
        }
        return Ok(true);
    }
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let asked = table::read(&text)?;
    if asked.compiler != compiler {
        println!(
            "not compared: the kernels are compiled by CUDA {compiler}, the table is of {}",
            asked.compiler
        );
        std::process::exit(NOT_COMPARED);
    }
    let (failures, notes) = table::compare(&asked.rows, &found);
    for note in &notes {
        println!("{note}");
    }
    for failure in &failures {
        println!("FAILED {failure}");
    }
    if failures.is_empty() {
        println!("{} kernels are as {} asks", found.len(), path.display());
    } else {
        println!(
            "where a change is meant: edit the kernel's limits in {}, and commit them with the reason; scripts/machine-code --show TEXT prints what it shows",
            path.display()
        );
    }
    Ok(failures.is_empty())
}

/// Every kernel of these modules.
fn found(cuobjdump: &Path, modules: &[(&str, &[u8])]) -> Result<table::Rows, String> {
    let folder = std::env::temp_dir().join(format!("omni-machine-code-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut found = table::Rows::new();
    let mut all = || {
        for (name, binary) in modules {
            let file = folder.join(format!("{name}.fatbin"));
            std::fs::write(&file, binary).map_err(|e| format!("{}: {e}", file.display()))?;
            let dump = |what: &str| dumped(cuobjdump, what, &file);
            disassembly::read(&dump("-res-usage")?, &dump("-sass")?, &mut found)?;
        }
        Ok(())
    };
    let done = all();
    // A folder that stays behind is not worth a failure.
    let _ = std::fs::remove_dir_all(&folder);
    done.map(|()| found)
}

fn dumped(cuobjdump: &Path, what: &str, file: &Path) -> Result<String, String> {
    let output = Command::new(cuobjdump)
        .args(["-arch", ARCH, what])
        .arg(file)
        .output()
        .map_err(|e| format!("{}: {e}", cuobjdump.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("cuobjdump {what} of {}: {said}", file.display()));
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
}
