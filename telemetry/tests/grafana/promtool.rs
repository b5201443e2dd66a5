//! promtool accepts the configuration and the rules, and the tests of the alerts notice when an alert is broken.

use std::fs;
use std::path::Path;

use crate::committed::{folder, rules, text};
use crate::programs::{call, find};

/// The output of promtool, and its verdict.
fn promtool(program: &Path, arguments: &[&str], directory: &Path) -> (bool, String) {
    let own = tempfile::tempdir().expect("a directory");
    let output = call(program, own.path())
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn configuration_and_rules_are_accepted_and_alerts_do_what_their_tests_say() {
    let Some(program) = find("promtool") else {
        return;
    };
    let directory = folder().join("prometheus");
    for arguments in [
        &["check", "config", "prometheus.yml"][..],
        &["check", "rules", "rules.yml", "alerts.yml"],
        &["test", "rules", "tests.yml", "incidents.yml", "days.yml"],
    ] {
        let (content, said) = promtool(&program, arguments, &directory);
        assert!(content, "{arguments:?}: {said}");
    }
}

/// The files of tests.
const TESTS: [&str; 3] = ["tests.yml", "incidents.yml", "days.yml"];

/// The tests that concern an alert and expect it to fire, each file's as a file of its own.
fn tests_of(alert: &str) -> Vec<(&'static str, String)> {
    let of = |file: &'static str| {
        let tests = text(&format!("prometheus/{file}"));
        let mut parts = tests.split("\n  - name: ");
        let head = parts.next().expect("a head").to_owned();
        let name = format!("        alertname: {alert}\n");
        let own: String = parts
            .filter(|part| part.contains(&name))
            .map(|part| format!("\n  - name: {part}"))
            .collect();
        (!own.is_empty()).then(|| (file, head + &own))
    };
    TESTS.into_iter().filter_map(of).collect()
}

/// An alert as it is written, in the lines from its name on.
fn written<'a>(alerts: &'a str, alert: &str) -> &'a str {
    let begin = alerts.find(&format!("- alert: {alert}\n")).expect("the alert");
    let rest = &alerts[begin..];
    let end = ["\n      - alert: ", "\n  - name: "].map(|next| rest.find(next).unwrap_or(rest.len()));
    &rest[..end[0].min(end[1])]
}

#[test]
fn the_tests_fail_for_every_alert_that_is_missing_or_compares_the_wrong_way() {
    let Some(program) = find("promtool") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let write = |file: &str, text: &str| fs::write(directory.path().join(file), text).expect("a file");
    write("rules.yml", &text("prometheus/rules.yml"));
    let alerts = text("prometheus/alerts.yml");
    let all = rules("prometheus/alerts.yml");
    for rule in &all {
        let tests = tests_of(&rule.name);
        assert!(!tests.is_empty(), "{} fires in no test", rule.name);
        let files: Vec<_> = tests.iter().map(|(file, _)| *file).collect();
        for (file, tests) in &tests {
            write(file, tests);
        }
        // Others that the same tests speak of stay as they are.
        let others = all.iter().filter(|other| {
            let name = format!("alertname: {}\n", other.name);
            other.name != rule.name && tests.iter().any(|(_, tests)| tests.contains(&name))
        });
        let others: String = others
            .map(|other| format!("      {}\n", written(&alerts, &other.name)))
            .collect();
        let passes = |alert: &str| {
            let all = format!("groups:\n  - name: omni-metrics\n    rules:\n      {alert}\n{others}");
            write("alerts.yml", &all);
            let (accepted, said) = promtool(&program, &["check", "rules", "alerts.yml"], directory.path());
            assert!(accepted, "{said}\n{alert}");
            let arguments = [&["test", "rules"], files.as_slice()].concat();
            promtool(&program, &arguments, directory.path())
        };
        let whole = written(&alerts, &rule.name);
        let (content, said) = passes(whole);
        assert!(content, "{whole}\n{said}");
        for broken in [
            whole.replacen(&rule.name, "OmniSomethingElse", 1),
            whole.replace(" > ", " <= ").replace(" < ", " > "),
        ] {
            let (content, _) = passes(&broken);
            assert!(!content, "nothing notices:\n{broken}");
        }
    }
}
