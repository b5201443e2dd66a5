//! Every kernel against its plain reference: runs the tests of `omni-gpu` as a program.
//!
//! They live in that crate's test module, with generators and references that nothing else needs; so the test program
//! is shipped beside this one, and its output is parsed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::Case;
use crate::gpu::judge::Judge;
use crate::gpu::models::Place;

/// The program's name.
const PROGRAM: &str = "omni-gpu-kernels";
/// Has the tests fail where there is no device, instead of leaving it out.
const REQUIRED: &str = "OMNI_TEST_REQUIRE_DEVICE";
/// The test that builds a library with a compiler, which is not carried.
const NEEDS_COMPILER: &str = "everything_goes_through_a_driver_as_well";

pub(super) fn cases(place: Place) -> Vec<Case> {
    match place {
        Place::Device(device) => vec![Case::new(
            "kernels: every one against its reference, f32 and bf16",
            move |_, judge| run(&beside()?, device, judge),
        )],
        // There they are compared by `cargo test`, with nothing to carry.
        #[cfg(feature = "emulator")]
        Place::Emulated => Vec::new(),
    }
}

fn beside() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where this program is")?;
    let program = own.with_file_name(PROGRAM);
    anyhow::ensure!(
        program.is_file(),
        "{PROGRAM} is not beside this program (`make gpu-folder` puts it there)"
    );
    Ok(program)
}

fn run(program: &Path, device: usize, judge: &mut Judge) -> anyhow::Result<()> {
    let said = Command::new(program)
        .args(["--skip", NEEDS_COMPILER])
        .env(REQUIRED, "1")
        // The tests take the first device.
        .env(VISIBLE, only(device, std::env::var(VISIBLE).ok().as_deref()))
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let text = String::from_utf8_lossy(&said.stdout);
    for failed in text.lines().filter(|line| line.ends_with("... FAILED")) {
        judge.must(failed, false);
    }
    match result(&text) {
        Some((passed, failed)) => judge.must(
            format!("{passed} tests passed, {failed} failed"),
            said.status.success() && passed > 0 && failed == 0,
        ),
        None => judge.must(
            format!("it ended with {} and without a result", said.status),
            false,
        ),
    }
    Ok(())
}

/// Variable that selects the devices that a program sees, and their order.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The value of [`VISIBLE`] under which the only device is the one that is number `device` now.
fn only(device: usize, visible: Option<&str>) -> String {
    let seen = visible.and_then(|seen| seen.split(',').nth(device));
    seen.map_or_else(|| device.to_string(), |name| name.trim().to_owned())
}

/// Passed and failed, as a test program says at its end.
fn result(said: &str) -> Option<(u32, u32)> {
    let line = said.lines().rfind(|line| line.starts_with("test result:"))?;
    let count = |what: &str| {
        let before = line.split(what).next()?;
        before.split_whitespace().next_back()?.parse().ok()
    };
    Some((count(" passed")?, count(" failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_program_says_is_read() {
        let said = "running 3 tests\ntest a ... ok\ntest result: ok. 61 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n";
        assert_eq!(result(said), Some((61, 0)));
        assert_eq!(
            result("test result: FAILED. 60 passed; 1 failed; 0 ignored"),
            Some((60, 1))
        );
        assert_eq!(result("running 3 tests"), None);
    }

    #[test]
    fn the_device_is_the_same_where_only_some_are_seen() {
        assert_eq!(only(1, None), "1");
        assert_eq!(only(1, Some("3, 5")), "5");
        assert_eq!(only(0, Some("GPU-8a1b")), "GPU-8a1b");
    }

    #[test]
    fn a_program_that_says_nothing_does_not_hold() {
        let mut judge = Judge::default();
        run(Path::new("/bin/true"), 0, &mut judge).expect("it starts");
        assert!(!judge.holds());
        assert!(run(Path::new("/nowhere/at-all"), 0, &mut judge).is_err());
    }
}
