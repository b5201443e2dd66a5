//! The flags: where they may be written, and what `check-config` says of them.

use super::{omni_server, run};

fn shown(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// True if a line has both.
fn says(shown: &str, value: &str, origin: &str) -> bool {
    shown
        .lines()
        .any(|line| line.contains(value) && line.ends_with(origin))
}

#[test]
fn check_config_takes_every_flag_before_and_behind_its_name_and_says_where_each_comes_from() {
    for args in [
        &["check-config", "--weights", "int8", "--max-sessions", "7"][..],
        &["--weights", "int8", "--max-sessions", "7", "check-config"],
        &["--weights=int8", "check-config", "--max-sessions=7"],
    ] {
        let shown = shown(args);
        for (value, origin) in [
            ("--max-sessions 7", "# command line"),
            ("--weights int8", "# command line"),
            ("--listen 127.0.0.1:50051", "# default"),
            ("--api-keys", "# not set"),
            ("--max-active ", "# default"),
            ("weights: int8", "# --set stages.talker.weights=int8"),
        ] {
            assert!(
                says(&shown, value, origin),
                "{args:?}: {value} {origin} is missing in\n{shown}"
            );
        }
    }
    let output = omni_server()
        .args(["check-config"])
        .env("OMNI_MAX_WAIT", "3s")
        .output()
        .expect("it starts");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(says(&shown, "--max-wait 3s", "# OMNI_MAX_WAIT"), "{shown}");
}

#[test]
fn check_config_can_show_only_what_is_changed_and_no_password() {
    let shown = shown(&[
        "check-config",
        "--changed",
        "--max-active",
        "3",
        "--push-gateway",
        "https://me:s3cret@gateway:9091",
        "--set",
        "stages.talker.replicas=2",
    ]);
    assert!(!shown.contains("s3cret") && !shown.contains("default"), "{shown}");
    assert!(
        says(&shown, "--push-gateway (not shown)", "# command line"),
        "{shown}"
    );
    assert!(
        says(&shown, "replicas: 2", "# --set stages.talker.replicas=2"),
        "{shown}"
    );
    // 2 metrics lines come from the environment of the tests.
    assert!(shown.lines().count() < 12, "{shown}");
}

#[test]
fn what_check_config_prints_is_a_deploy_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.yaml");
    let printed = shown(&["check-config", "--set", "stages.talker.max_num_seqs=5"]);
    std::fs::write(&path, &printed).expect("it can be written");
    let again = shown(&["check-config", "--deploy", path.to_str().expect("plain")]);
    assert!(again.contains("max_num_seqs: 5"), "{again}");
    assert!(
        printed.lines().all(|line| line.chars().count() < 200),
        "{printed}"
    );
}

#[test]
fn the_words_of_vllm_are_understood() {
    for (args, listen) in [
        (&["--host", "127.0.0.1", "--port", "8000"][..], "127.0.0.1:8000"),
        (&["--port", "8000"], "127.0.0.1:8000"),
        (&["--host", "::1"], "[::1]:50051"),
        (&["--host", "localhost", "--port=8000"], "127.0.0.1:8000"),
    ] {
        // A port that is taken names the address.
        let output = run(&[&["serve", "random:none"], args].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("--model random:none"), "{message}");
        let parsed = omni_config::RawConfig::arguments_only([&["omni-server"], args].concat());
        let config = parsed
            .expect("good flags")
            .validate()
            .expect("a good configuration");
        assert_eq!(config.listen.to_string(), listen, "{args:?}");
    }
    let output = run(&["--host", "0.0.0.0"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("--insecure-plaintext"), "{message}");
    let output = run(&["check-config", "--max-num-seqs", "9"]);
    assert!(says(
        &String::from_utf8_lossy(&output.stdout),
        "--max-active 9",
        "# command line"
    ));
}

#[test]
fn the_help_has_its_flags_in_groups_and_says_what_the_program_is() {
    let help = shown(&["--help"]);
    assert!(
        help.starts_with("A speech server: text to streaming speech, and spoken conversations"),
        "{help}"
    );
    for heading in [
        "Model:",
        "Stages:",
        "Ports and access:",
        "Limits:",
        "Connections:",
        "Metrics:",
        "Traces:",
        "Log:",
    ] {
        assert_eq!(
            help.lines().filter(|line| *line == heading).count(),
            1,
            "{heading} in\n{help}"
        );
    }
    let own = help
        .split("\nOptions:\n")
        .nth(1)
        .expect("options without a group")
        .split("\n\n\n")
        .next();
    let own = own
        .unwrap_or_default()
        .split("\nModel:")
        .next()
        .unwrap_or_default();
    let flags = own.lines().filter(|line| line.trim_start().starts_with("--"));
    assert_eq!(flags.count(), 0, "every flag has a group:\n{own}");
    // Flags of the server are no flags of commands that do not take them.
    assert!(!shown(&["new-key", "--help"]).contains("--deploy"));
    assert!(shown(&["check-config", "--help"]).contains("--changed"));
}

#[test]
fn stages_are_suggested_by_what_a_word_means() {
    for (word, stage) in [
        ("vocoder", "code2wav"),
        ("Decoder", "code2wav"),
        ("llm", "thinker"),
        ("tts", "talker"),
        ("asr", "encoder"),
        ("audio-encoder", "encoder"),
        ("talkr", "talker"),
    ] {
        let output = run(&["check-config", "--set", &format!("stages.{word}.replicas=2")]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            message.contains(&format!("did you mean {stage}?")),
            "{word}: {message}"
        );
    }
}

#[test]
fn a_folder_for_voices_that_cannot_be_made_says_so() {
    let output = run(&["--listen", "127.0.0.1:0", "--voices", "/proc/x"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains("--voices /proc/x: the folder cannot be made"),
        "{message}"
    );
}
