//! promtool accepts the configuration and the rules, and the tests of the alerts notice when an alert is broken.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::committed::{folder, rules, text};
use crate::programs::find;

const FILES: [&str; 4] = ["prometheus.yml", "rules.yml", "alerts.yml", "tests.yml"];

/// What promtool says, and whether it is content.
fn promtool(program: &Path, arguments: &[&str], directory: &Path) -> (bool, String) {
    let output = Command::new(program)
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
        &["test", "rules", "tests.yml"],
    ] {
        let (content, said) = promtool(&program, arguments, &directory);
        assert!(content, "{arguments:?}: {said}");
    }
}

/// The tests that concern an alert, as a file of their own.
fn tests_of(alert: &str) -> String {
    let tests = text("prometheus/tests.yml");
    let mut parts = tests.split("\n  - name: ");
    let head = parts.next().expect("a head").to_owned();
    parts
        .filter(|part| part.contains(&format!("alertname: {alert}\n")))
        .fold(head, |all, part| all + "\n  - name: " + part)
}

#[test]
fn the_tests_fail_for_every_alert_that_is_missing_or_compares_the_wrong_way() {
    let Some(program) = find("promtool") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    for file in FILES {
        fs::write(directory.path().join(file), text(&format!("prometheus/{file}"))).expect("a file");
    }
    let alerts = text("prometheus/alerts.yml");
    for rule in rules("prometheus/alerts.yml") {
        fs::write(directory.path().join("tests.yml"), tests_of(&rule.name)).expect("a file");
        let begin = alerts
            .find(&format!("- alert: {}\n", rule.name))
            .expect("the alert");
        let end = alerts[begin + 1..]
            .find("- alert: ")
            .map_or(alerts.len(), |next| begin + 1 + next);
        let own = &alerts[begin..end];
        let broken = [
            own.replacen(&rule.name, "OmniSomethingElse", 1),
            own.replace(" > ", " <= ").replace(" < ", " > "),
        ];
        for broken in broken {
            let all = format!("{}{broken}{}", &alerts[..begin], &alerts[end..]);
            fs::write(directory.path().join("alerts.yml"), all).expect("a file");
            let (accepted, said) = promtool(&program, &["check", "rules", "alerts.yml"], directory.path());
            assert!(accepted, "{said}\n{broken}");
            let (content, _) = promtool(&program, &["test", "rules", "tests.yml"], directory.path());
            assert!(!content, "nothing notices:\n{broken}");
        }
        fs::write(directory.path().join("alerts.yml"), &alerts).expect("a file");
        let (content, said) = promtool(&program, &["test", "rules", "tests.yml"], directory.path());
        assert!(content, "{}: {said}", rule.name);
    }
}
