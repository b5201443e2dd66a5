//! The script that packs `omni-gpu` for a machine with a device: with programs that stand in for others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn script(name: &str) -> PathBuf {
    root().join("scripts").join(name)
}

/// A program in shell.
fn program(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{content}\n")).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it can be run");
}

/// With these programs in front of all others.
fn path_with(programs: &Path) -> String {
    let others = std::env::var("PATH").unwrap_or_default();
    format!("{}:{others}", programs.display())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A checkout with a file of a kilobyte, and what stands in for the building.
fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder.path()).args(args);
        assert!(git.output().expect("git runs").status.success(), "{args:?}");
    };
    git(&["init", "--quiet"]);
    fs::write(at(".gitignore"), "/target\n/bin\n").expect("a file");
    fs::write(at("large"), vec![b'x'; 10_000]).expect("a file");
    program(&at("scripts/cuda-toolkit"), "echo /nowhere");
    git(&["add", "."]);
    // A file that git does not know and does not ignore is carried, too.
    fs::write(at("new"), vec![b'x'; 1_000]).expect("a file");
    fs::create_dir_all(at("target/release")).expect("a folder");
    program(
        &at("target/release/omni-gpu"),
        "echo there is no device >&2; exit 3",
    );
    program(&at("target/release/kernels"), "exit 0");
    program(
        &at("bin/cargo"),
        r#"[ "$OMNI_SKIP_EMBEDDED" = 1 ] || exit 1
[ "$1" = build ] || echo '{"executable":"target/release/kernels"}'"#,
    );
    program(&at("bin/strip"), "exit 0");
    program(&at("bin/xz"), "cat");
    folder
}

fn carry(checkout: &Path, most: &str) -> Output {
    let mut command = Command::new(script("gpu-folder"));
    command
        .current_dir(checkout)
        .env("PATH", path_with(&checkout.join("bin")))
        .env("CARGO_TARGET_DIR", "target")
        .env("MOST", most);
    command.output().expect("it runs")
}

#[test]
fn checkout_and_package_are_to_be_carried_together() {
    let checkout = checkout();
    let run = carry(checkout.path(), "100000");
    let said = text(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert_eq!(text(&run.stdout), "target/release/gpu-folder\n");
    let packed = fs::metadata(checkout.path().join("target/release/gpu-folder.tar.xz"));
    let packed = packed.expect("a package").len();
    let tree: u64 = ["large", "new", ".gitignore", "scripts/cuda-toolkit"]
        .iter()
        .map(|name| fs::metadata(checkout.path().join(name)).expect("a file").len())
        .sum();
    for known in [tree, packed, tree + packed] {
        assert!(
            said.contains(&format!(" {known} ")) || said.contains(&format!(" {known}:")),
            "{known}: {said}"
        );
    }
    let most = tree + packed;
    assert!(carry(checkout.path(), &most.to_string()).status.success());
    let run = carry(checkout.path(), &(most - 1).to_string());
    assert_eq!(run.status.code(), Some(1));
    let said = text(&run.stderr);
    assert!(
        said.contains(&format!("the checkout has {tree} bytes")) && said.contains(&format!("has {packed}:")),
        "{said}"
    );
}
