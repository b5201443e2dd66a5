//! Scripts that carry `omni-gpu` to a device and inspect it, tested without one: with substitutes for the programs
//! they call.

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

/// `PATH` with these programs first.
fn path_with(programs: &Path) -> String {
    let others = std::env::var("PATH").unwrap_or_default();
    format!("{}:{others}", programs.display())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Script that reports on a device, in a folder with logs.
struct Report {
    folder: tempfile::TempDir,
}

impl Report {
    /// With a package of substitute programs.
    fn of(omni_gpu: &str, kernels: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        program(&folder.path().join("package/omni-gpu"), omni_gpu);
        program(&folder.path().join("package/omni-gpu-kernels"), kernels);
        Self { folder }
    }

    fn stands_in(&self, name: &str, content: &str) {
        program(&self.folder.path().join("bin").join(name), content);
    }

    /// Commands with one of these arguments report a time-out from `timeout` as soon as they end, so that no test
    /// waits for it.
    fn times_out(&self, commands: &str) {
        self.stands_in(
            "timeout",
            &format!(
                r#"shift 2; "$@"; ended=$?; case "$*" in *"--minutes 0") ;; {commands}) ended=124 ;; esac; exit $ended"#
            ),
        );
    }

    fn run(&self, minutes: &str) -> Output {
        self.run_of("package", minutes)
    }

    fn run_of(&self, package: &str, minutes: &str) -> Output {
        let mut command = Command::new(script("gpu-report"));
        command
            .args([self.folder.path().join(package).as_os_str(), minutes.as_ref()])
            .arg(self.folder.path().join("logs"))
            .env("PATH", path_with(&self.folder.path().join("bin")))
            // No part's time depends on how long the others took, and none is over.
            .env("EACH", "3600");
        command.output().expect("it runs")
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join("logs").join(name)).unwrap_or_default()
    }
}

/// Takes time, as on a device. A command line that the real program rejects is an error here, too.
const WORKS: &str = concat!(
    r#"case "$*" in *"--minutes 0") exit 4 ;; esac; CUDA_VISIBLE_DEVICES= "#,
    env!("CARGO_BIN_EXE_omni-gpu"),
    r#" "$@" 2>/dev/null; [ $? = 3 ] && echo "omni-gpu $*""#
);

#[test]
fn without_a_device_the_report_says_what_it_skips() {
    let report = Report::of(
        &format!(
            "CUDA_VISIBLE_DEVICES= exec {} \"$@\"",
            env!("CARGO_BIN_EXE_omni-gpu")
        ),
        "echo kernels",
    );
    // Packed, as for transport.
    let mut tar = Command::new("tar");
    tar.arg("-C")
        .arg(report.folder.path())
        .args(["-cf", "package.tar", "package"]);
    assert!(
        tar.current_dir(report.folder.path())
            .status()
            .expect("tar runs")
            .success()
    );
    let run = report.run_of("package.tar", "1");
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{said}");
    assert!(
        said.contains("there is no device that can be used") && said.contains("NVIDIA"),
        "{said}"
    );
    assert!(said.contains("skipped: kernels check bench sanitizers"), "{said}");
    assert_eq!(report.log("kernels.log"), "", "nothing is begun");
}

#[test]
fn a_program_that_cannot_run_is_no_missing_device() {
    for (does, said) in [
        (
            "echo no such library >&2; exit 127",
            "it ended with 127: no such library",
        ),
        ("exit 124", "it timed out after 30 s"),
        ("exit 0", "it ended with 0"),
    ] {
        let run = Report::of(does, "echo kernels").run("1");
        let all = text(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{all}");
        assert!(
            all.contains(&format!("omni-gpu cannot run: {said}")) && all.contains("skipped: kernels"),
            "{all}"
        );
    }
}

#[test]
fn a_wrong_call_of_the_report_is_told_from_a_missing_device() {
    let report = Report::of(WORKS, "echo kernels");
    for minutes in ["soon", "-1", "1.25", "99999"] {
        assert_eq!(report.run(minutes).status.code(), Some(2), "{minutes}");
    }
    fs::write(report.folder.path().join("broken.tar"), "no archive").expect("a file");
    let run = report.run_of("broken.tar", "1");
    assert_eq!(run.status.code(), Some(2));
    assert!(
        text(&run.stderr).contains("cannot be unpacked"),
        "{}",
        text(&run.stderr)
    );
    fs::remove_file(report.folder.path().join("package/omni-gpu-kernels")).expect("it is there");
    let run = report.run("1");
    assert_eq!(run.status.code(), Some(2));
    assert!(
        text(&run.stderr).contains("omni-gpu-kernels"),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn every_part_of_the_report_has_its_turn_although_one_fails() {
    let report = Report::of(
        WORKS,
        r#"echo "kernels $*"; case "$*" in *everything_goes*misuse*) ;; *everything_goes*) exit 1 ;; esac"#,
    );
    report.stands_in("nvidia-smi", "echo a device, 1980 MHz");
    report.stands_in(
        "compute-sanitizer",
        r#"echo "sanitizer $*"; case "$*" in *initcheck*) exit 9 ;; esac; while [ "$1" != --print-limit ]; do shift; done; shift 2; exec "$@""#,
    );
    let run = report.run("1");
    let summary = report.log("summary.txt");
    assert_eq!(run.status.code(), Some(1), "{summary}{}", text(&run.stderr));
    let lines: Vec<_> = summary.lines().collect();
    let parts = ["kernels", "check", "bench", "sanitizers"];
    assert_eq!(lines.len(), parts.len() + 3, "{summary}");
    assert!(lines[0].contains("before: a device, 1980 MHz") && lines[5].contains("after: a device"));
    for (line, part) in lines[1..].iter().zip(parts) {
        let word = match part {
            "kernels" | "sanitizers" => "failed, ended with 1",
            _ => "passed (",
        };
        assert!(line.starts_with(&format!("{part}: {word}")), "{line}");
    }
    assert!(
        summary.contains("failed: kernels sanitizers; left out: nothing"),
        "{summary}"
    );
    assert!(report.log("check.log").contains("check --embedded "));
    assert!(report.log("bench.log").contains("--batches 1,64"));
    let sanitized = report.log("sanitizers.log");
    for tool in ["memcheck", "racecheck", "synccheck"] {
        assert!(
            sanitized.contains(&format!("== {tool}: nothing was found")),
            "{sanitized}"
        );
        // First some kernels, then all others.
        assert_eq!(
            sanitized.matches(&format!("sanitizer --tool {tool}")).count(),
            2,
            "{sanitized}"
        );
    }
    assert!(
        sanitized.contains("== initcheck: failed, ended with 9"),
        "{sanitized}"
    );
}

/// Program that answers the query for a device, and then does this.
fn with_device(does: &str) -> String {
    format!(r#"case "$*" in *"--minutes 0") exit 4 ;; esac; {does}"#)
}

/// Tools that find nothing on any machine.
fn tools(report: &Report) {
    report.stands_in("nvidia-smi", "echo a device");
    report.stands_in("compute-sanitizer", "echo compute-sanitizer");
}

#[test]
fn what_the_report_has_no_time_or_no_tool_for_is_left_out() {
    let left_out = with_device(
        r#"echo begun; case "$1" in check) echo "- Left out: a"; echo "- Left out: b"; exit 4 ;; esac"#,
    );
    let report = Report::of(&left_out, "echo kernels");
    tools(&report);
    report.times_out("*omni-gpu*bench*");
    let run = report.run("1");
    let summary = report.log("summary.txt");
    assert_eq!(run.status.code(), Some(4), "{summary}");
    for line in [
        "kernels: passed (",
        "check: passed, left out: 2 cases (",
        "bench: timed out (",
        "sanitizers: passed (",
        "failed: nothing; left out: a part of check,a part of bench",
    ] {
        assert!(summary.contains(line), "{line}: {summary}");
    }
    assert_eq!(report.log("bench.log"), "begun\n", "what was written is kept");
}

#[test]
fn a_failure_that_was_told_before_the_limit_is_one() {
    let bench = with_device(
        r#"case "$1" in bench) echo "- Failed: frames of 64" ;; check) echo "| a | **DOES NOT HOLD** | b | 0.1 |" ;; esac"#,
    );
    let report = Report::of(&bench, "echo test a::b ... FAILED");
    tools(&report);
    report.stands_in(
        "compute-sanitizer",
        r#"echo "========= COMPUTE-SANITIZER"; case "$*" in *racecheck*) echo "========= Error: Race reported" ;; esac"#,
    );
    report.times_out("*omni-gpu*|*compute-sanitizer*");
    let run = report.run("1");
    let summary = report.log("summary.txt");
    assert_eq!(run.status.code(), Some(1), "{summary}");
    for (part, found) in [
        ("kernels", "test a::b ... FAILED"),
        ("check", "| a | **DOES NOT HOLD**"),
        ("bench", "- Failed: frames of 64"),
        ("sanitizers", "========= Error: Race reported"),
    ] {
        let line = format!("{part}: failed, and left something out: {found}");
        assert!(summary.contains(&line), "{line}: {summary}");
    }
}

#[test]
fn a_sanitizer_that_finds_nothing_before_the_limit_has_not_failed() {
    let report = Report::of(&with_device("echo begun"), "echo kernels");
    tools(&report);
    report.stands_in(
        "compute-sanitizer",
        r#"echo "========= COMPUTE-SANITIZER"; echo "========= Error: process didn't terminate successfully"; echo "========= ERROR SUMMARY: 0 errors""#,
    );
    report.times_out("*compute-sanitizer*");
    let run = report.run("1");
    let summary = report.log("summary.txt");
    assert_eq!(run.status.code(), Some(4), "{summary}");
    assert!(
        summary.contains("sanitizers: passed, left out: == initcheck: timed out"),
        "{summary}"
    );
}

/// A checkout with a file of a kilobyte, and a substitute build.
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
