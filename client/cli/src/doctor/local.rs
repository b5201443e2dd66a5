//! This machine: its clocks, and the place where audio is going to be written.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::check::Check;
use super::speech::Heard;
use crate::summary::milliseconds;

/// Largest difference of the clock of the day from the monotonic clock while the checks run.
const JUMP: Duration = Duration::from_millis(100);
/// Largest excess of the server's measured time over the wait here; beyond it the clocks run differently.
const SLACK: Duration = Duration::from_millis(5);
/// 2025-01-01: this program is younger.
const BORN: Duration = Duration::from_secs(1_735_689_600);
/// A little over 50 minutes of audio at 16 kHz.
const ROOM: u64 = 100_000_000;

/// Both clocks, at the beginning of the checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    monotonic: Instant,
    day: SystemTime,
}

impl Clocks {
    pub(super) fn start() -> Self {
        Self {
            monotonic: Instant::now(),
            day: SystemTime::now(),
        }
    }

    /// Checks that clocks here are good enough for the measured times.
    pub(super) fn check(&self, heard: Option<&Heard>) -> Check {
        let now = SystemTime::now();
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let passed = self.monotonic.elapsed();
        // Backwards counts as nothing having passed.
        let day = now.duration_since(self.day).unwrap_or_default();
        judge(since_1970, passed, day, heard.and_then(waits))
    }
}

/// The wait for the first audio, as it was measured here and by the server.
fn waits(heard: &Heard) -> Option<(Duration, Duration)> {
    let here = heard.measured.as_ref()?.first_audio?;
    let there = heard.outcome.as_ref()?.timings.time_to_first_audio?;
    Some((here, there))
}

/// `passed` and `day`: how far the monotonic clock and the clock of the day came meanwhile.
fn judge(
    since_1970: Duration,
    passed: Duration,
    day: Duration,
    waits: Option<(Duration, Duration)>,
) -> Check {
    if since_1970 < BORN {
        let advice = "set it, or let NTP do so: logs and certificates depend on it";
        return Check::doubtful("clock", "this machine's clock shows a day in the past", advice);
    }
    if passed.abs_diff(day) > JUMP {
        let finding = format!(
            "the clock of the day was set by {} meanwhile",
            milliseconds(passed.abs_diff(day))
        );
        return Check::doubtful(
            "clock",
            finding,
            "times in logs do not fit together; is NTP still at work?",
        );
    }
    if let Some((here, there)) = waits
        && there > here + SLACK
    {
        let finding = format!(
            "the server measured {} until the first audio, and it was here after {}",
            milliseconds(there),
            milliseconds(here)
        );
        return Check::doubtful(
            "clock",
            finding,
            "one of the two clocks runs wrong; do not compare their figures",
        );
    }
    let both = waits.map_or_else(String::new, |(here, there)| {
        format!(
            "; until the first audio {} here, {} at the server",
            milliseconds(here),
            milliseconds(there)
        )
    });
    Check::good("clock", format!("steady{both}"))
}

/// Checks that the destination of audio can be written, and has room.
pub(super) fn output(path: &Path) -> Check {
    let folder = if path.is_dir() {
        path.to_owned()
    } else {
        parent(path)
    };
    let shown = folder.display();
    let probe = folder.join(format!(".omni-client-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&probe);
    if let Err(error) = written.and_then(|_| fs::remove_file(&probe)) {
        let advice = "choose another place with -o";
        return Check::wrong("output", format!("cannot write in {shown}: {error}"), advice);
    }
    let Ok(disk) = rustix::fs::statvfs(&folder) else {
        return Check::good("output", format!("{shown} can be written to"));
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let finding = format!("{shown} can be written to, {:.1} GB are free", free as f64 / 1e9);
    let check = if free < ROOM {
        Check::doubtful("output", finding, "that is soon full of audio: make room")
    } else {
        Check::good("output", finding)
    };
    check.with(json!({ "free_bytes": free }))
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn clocks_that_disagree_are_noticed() {
        let today = BORN * 2;
        let waits = |here, there| Some((here * MS, there * MS));
        assert_eq!(
            judge(today, 500 * MS, 510 * MS, waits(20, 15)).verdict,
            Verdict::Good
        );
        assert_eq!(judge(today, 500 * MS, 510 * MS, None).verdict, Verdict::Good);
        for (check, says) in [
            (judge(Duration::ZERO, MS, MS, None), "in the past"),
            (judge(today, 500 * MS, 3_500 * MS, None), "set by 3000 ms"),
            (judge(today, 500 * MS, Duration::ZERO, None), "set by 500 ms"),
            (judge(today, MS, MS, waits(20, 60)), "measured 60 ms"),
        ] {
            assert!(
                check.verdict == Verdict::Doubtful && check.finding.contains(says),
                "{check:?}"
            );
        }
    }

    #[test]
    fn the_folder_of_a_file_is_looked_at_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let check = output(&folder.path().join("speech.wav"));
        assert!(
            check.verdict != Verdict::Wrong && check.figures["free_bytes"].is_u64(),
            "{check:?}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let missing = output(&folder.path().join("no/such/speech.wav"));
        assert!(
            missing.verdict == Verdict::Wrong && missing.finding.contains("cannot write in"),
            "{missing:?}"
        );
    }
}
