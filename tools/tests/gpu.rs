//! `omni-gpu`, the program, where there is no device: on the emulated one, and on none.

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use omni_tools::gpu::{Budget, Place, References, Report, Verdict, check};

fn omni_gpu(args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_omni-gpu"));
    // A device of the machine must not be used.
    program.args(args).env("CUDA_VISIBLE_DEVICES", "");
    program.output().expect("the program starts")
}

/// Rows of the tables: their cells.
fn rows(report: &str) -> Vec<Vec<&str>> {
    let cells = report
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    cells.map(|row| row.split(" | ").collect()).collect()
}

/// Cases of a check with their verdicts.
fn verdicts(report: &str) -> Vec<(&str, &str)> {
    let rows = rows(report)
        .into_iter()
        .filter(|row| row.len() == 4 && row[0] != "case");
    rows.map(|row| (row[0], row[1])).collect()
}

/// A report in memory.
#[derive(Debug, Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn check_emulated(only: &str, minutes: u64, references: &References) -> (Verdict, String) {
    let paper = Paper::default();
    let budget = Budget::of(Duration::from_secs(60 * minutes));
    let mut report = Report::new(paper.clone());
    let verdict = check(
        Place::Emulated,
        &[only.to_owned()],
        budget,
        references,
        &mut report,
    );
    let written = paper.0.lock().expect("no writer panics").clone();
    (
        verdict.expect("memory can be written"),
        String::from_utf8(written).expect("text"),
    )
}

#[test]
fn the_emulated_device_computes_what_it_should() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("check.md");
    let mut args = vec![
        "check",
        "--emulated",
        "--out",
        out.to_str().expect("a plain path"),
    ];
    for only in [
        "reference: tiny checkpoint, text prompt, f32 in graphs",
        "batch of 2: tiny checkpoint, bf16",
        "thinker: tiny checkpoint, text",
    ] {
        args.extend(["--only", only]);
    }
    let run = omni_gpu(&args);
    let report = std::fs::read_to_string(&out).unwrap_or_default();
    let complaints = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{complaints}{report}");
    let found = verdicts(&report);
    assert_eq!(found.len(), 4, "three cases and the fallbacks: {report}");
    assert!(found.iter().all(|(_, word)| *word == "holds"), "{report}");
    assert!(
        report.contains("4 cases hold, 0 do not, 0 were left out"),
        "{report}"
    );
}

#[test]
fn a_code_that_differs_by_one_is_found() {
    let mut references = References::default();
    references.change_code("text.codes");
    let (verdict, report) = check_emulated(
        "reference: tiny checkpoint, text prompt, f32 in graphs",
        5,
        &references,
    );
    assert_eq!(verdict, Verdict::Broken);
    let found = verdicts(&report);
    assert_eq!(found[0].1, "**DOES NOT HOLD**", "{report}");
    assert!(report.contains("codes: 175 of 176 equal"), "{report}");
    // By how much it was not chosen.
    assert!(
        report.contains("first, code 0 of frame 0 is ") && report.contains(" whose logit is greater by -"),
        "{report}"
    );
    assert!(
        report.contains("- Does not hold: reference: tiny checkpoint, text"),
        "{report}"
    );
}

#[test]
fn what_there_is_no_time_for_is_named() {
    let (verdict, report) = check_emulated("reference: tiny checkpoint", 0, &References::default());
    assert_eq!(verdict, Verdict::Unfinished);
    assert_eq!(
        report.matches("- Left out: reference: tiny checkpoint").count(),
        4,
        "{report}"
    );
}

#[test]
fn a_bench_says_how_fast_steps_are_beside_what_they_must_read() {
    let args = [
        "bench",
        "--emulated",
        "--models",
        "embedded",
        "--batches",
        "1",
        "--steps",
        "2",
    ];
    let run = omni_gpu(&[&args[..], &["--requests", "2", "--megabytes", "1"]].concat());
    let report = String::from_utf8(run.stdout).expect("text");
    let complaints = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{complaints}{report}");
    let number = |cell: &str| -> f64 {
        let digits = cell.trim_end_matches(" %");
        digits
            .parse()
            .unwrap_or_else(|_| panic!("{cell:?} is no number: {report}"))
    };
    let tables = rows(&report);
    let ceiling = |what: &str| {
        let row = tables.iter().find(|row| row[0] == what).expect("a ceiling");
        1e9 * number(row[1].split(' ').next().expect("a number"))
    };
    let speed = ceiling("bytes of memory");
    let product = ceiling("products in bf16");

    let at = tables
        .iter()
        .position(|row| row[0] == "what")
        .expect("a table of steps");
    let steps: Vec<_> = tables[at + 1..]
        .iter()
        .take_while(|row| row.len() == 13)
        .collect();
    assert_eq!(
        steps.len(),
        6,
        "three kinds of steps and three of pieces: {report}"
    );
    for row in steps {
        let [count, median, p95, floor, computing, over, bytes, gflop] =
            [2, 3, 4, 5, 6, 7, 8, 9].map(|column| number(row[column]));
        let [launches, busy, device] = [10, 11, 12].map(|column| number(row[column]));
        assert!(device > 0.0, "{row:?}");
        assert!(count >= 1.0 && median > 0.0 && median <= p95, "{row:?}");
        assert!(bytes > 0.0 && launches >= 1.0, "{row:?}");
        // For overlapped ones the report also includes the work of one step before the timed ones.
        let most = if row[0].contains("overlapped") {
            200.0
        } else {
            100.0
        };
        assert!(busy > 0.0 && busy <= most, "{row:?}");
        // The printed figures are rounded.
        let near = |got: f64, expected: f64| (got - expected).abs() <= 0.02 * expected + 0.001;
        assert!(
            near(floor, 1e3 * 1e6 * bytes / speed),
            "{row:?} at {speed} bytes per second"
        );
        // The first digits only are printed of a product on the CPU.
        let least = 1e3 * 1e9 * gflop / product;
        assert!(
            (computing / least - 1.0).abs() <= 0.02 + 0.6e6 / product + 0.001 / gflop,
            "{row:?} at {product} operations per second"
        );
        // Several stages in turn: the larger of two sums is at most the sum of the larger ones, and that at most both
        // sums.
        let fewest = median / (floor + computing);
        let most = median / floor.max(computing);
        assert!(
            over >= 0.98 * fewest - 0.001 && over <= 1.02 * most + 0.001,
            "{row:?}"
        );
    }

    let at = tables
        .iter()
        .position(|row| row[0] == "streams")
        .expect("a table of callers");
    assert_eq!(tables[at + 1][0], "1", "{report}");
    assert!(report.contains("TTFA") && report.contains("RTF"), "{report}");
    assert!(
        report.contains("Nothing: all that was asked for was measured."),
        "{report}"
    );
}

#[test]
fn without_a_device_it_says_so_and_ends_with_a_code_of_its_own() {
    for command in ["check", "bench"] {
        let run = omni_gpu(&[command]);
        assert_eq!(run.status.code(), Some(3));
        assert!(run.stdout.is_empty(), "there is nothing to report");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(
            said.starts_with("error: ") && said.contains("NVIDIA") && !said.contains("panicked"),
            "{said}"
        );
    }
    assert_eq!(omni_gpu(&["check", "--minutes", "-1"]).status.code(), Some(2));
    let run = omni_gpu(&["check", "--embedded", env!("CARGO_MANIFEST_DIR")]);
    assert_eq!(run.status.code(), Some(2));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("there is no config.json"), "{said}");
}
