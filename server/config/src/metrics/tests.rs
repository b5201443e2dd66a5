use std::io::Write as _;

use super::*;
use crate::RawConfig;

fn raw(args: &[&str]) -> RawConfig {
    RawConfig::arguments_only(["omni-server"].iter().chain(args)).expect("arguments")
}

fn resolve(args: &[&str]) -> Result<MetricsSettings, String> {
    let config = raw(args).validate().map(|config| config.metrics);
    config.map_err(|error| error.to_string())
}

#[test]
fn metrics_are_on_and_local_by_default() {
    let settings = resolve(&[]).expect("the defaults");
    assert!(settings.enabled);
    assert_eq!(
        settings.listen,
        MetricsListen::At(SocketAddr::from(([127, 0, 0, 1], 9464)))
    );
    assert_eq!(settings.push, None);
    let off = resolve(&["--metrics-listen", "off", "--log-stats", "off"]).expect("off");
    assert_eq!((off.listen, off.enabled), (MetricsListen::Off, false));
}

#[test]
fn what_is_wrong_is_told_together_and_without_secrets() {
    let error = resolve(&[
        "--metrics-listen",
        "0.0.0.0:1",
        "--push-gateway",
        "ftp://ann:s3cret@h",
        "--metrics-config",
        "/no/such/file.yaml",
        "--metrics-prefix",
        "omni_",
    ])
    .expect_err("problems");
    for expected in [
        "0.0.0.0:1: other machines",
        "--push-gateway: ",
        "/no/such/file.yaml: ",
        "--metrics-prefix: ",
    ] {
        assert!(error.contains(expected), "{expected} in {error}");
    }
    assert!(!error.contains("s3cret"), "{error}");
}

#[test]
fn a_group_that_does_not_exist_is_named_with_those_that_do() {
    let error = resolve(&["--metrics-enable", "torchserv"]).expect_err("no such group");
    assert!(
        error.contains("torchserv") && error.contains("sessions"),
        "{error}"
    );
    assert!(resolve(&["--metrics-enable", "torchserve"]).is_ok());
}

#[test]
fn metrics_of_callers_are_taken_only_where_that_was_asked_for_and_can_be_done() {
    let settings = resolve(&[]).expect("the defaults");
    assert_eq!(
        (settings.service, settings.undeclared),
        (false, Undeclared::Refused)
    );
    let on = resolve(&["--metrics-service", "on", "--metrics-auto-declare"]).expect("on");
    assert_eq!((on.service, on.undeclared), (true, Undeclared::Declared));
    let error = resolve(&["--metrics-service", "on", "--log-stats", "off"]).expect_err("nothing is recorded");
    assert!(error.contains("--metrics-service on"), "{error}");
    let error = resolve(&["--metrics-auto-declare"]).expect_err("nobody could send any");
    assert!(error.contains("add --metrics-service on"), "{error}");
}

#[test]
fn secrets_of_the_gateway_are_in_no_debug_output() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "t0ken").expect("it is written");
    let path = file.path().to_str().expect("plain").to_owned();
    for args in [
        vec!["--push-gateway", "http://ann:s3cret@gateway:9091"],
        vec![
            "--push-gateway",
            "http://gateway:9091",
            "--push-token-file",
            path.as_str(),
        ],
    ] {
        let raw = raw(&args);
        let typed = format!("{raw:?}");
        let config = raw.validate().expect("a gateway");
        assert!(config.metrics.push.is_some());
        for text in [typed, format!("{config:?}")] {
            assert!(!text.contains("s3cret") && !text.contains("t0ken"), "{text}");
        }
    }
}

#[test]
fn a_server_keeps_its_group_over_restarts() {
    let group = |args: &[&str]| {
        let args: Vec<_> = ["--push-gateway", "http://gateway:9091"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let push = resolve(&args).expect("a gateway").push.expect("a gateway");
        push.target.to_string()
    };
    let first = group(&["--listen", "127.0.0.1:4001"]);
    assert_eq!(first, group(&["--listen", "127.0.0.1:4001"]));
    assert!(first.ends_with("%3A4001"), "{first}");
    let own = group(&["--push-job", "speech", "--push-grouping", "zone=a,rack=7"]);
    assert_eq!(own, "http://gateway:9091/metrics/job/speech/zone/a/rack/7");
}

#[test]
fn flags_of_the_gateway_are_checked() {
    for (args, expected) in [
        (["--push-grouping", "instance"], "LABEL=VALUE"),
        (["--push-interval", "1ms"], "100ms to 1h"),
        (["--push-timeout", "2h"], "100ms to 1h"),
        (["--push-token-file", "/no/such/token"], "/no/such/token"),
        (["--push-job", ""], "job"),
        (["--push-grouping", "handler=tts"], "\"handler\" cannot be"),
        (["--push-grouping", "version=1"], "\"version\" cannot be"),
    ] {
        let args: Vec<_> = ["--push-gateway", "http://gateway:9091"]
            .iter()
            .chain(&args)
            .copied()
            .collect();
        let error = resolve(&args).expect_err("a problem");
        assert!(error.contains(expected), "{expected} in {error}");
    }
}

#[test]
fn statistics_are_told_every_five_seconds_unless_another_time_is_asked_for() {
    let settings = resolve(&[]).expect("the defaults");
    assert_eq!(settings.log_interval, Duration::from_secs(5));
    let other = resolve(&["--log-stats-interval", "30s"]).expect("a time");
    assert_eq!(other.log_interval, Duration::from_secs(30));
    let error = resolve(&["--log-stats-interval", "1ms"]).expect_err("too short");
    assert!(error.contains("--log-stats-interval"), "{error}");
}

#[test]
fn bounds_and_releases_that_cannot_be_read_are_named() {
    let settings = resolve(&[
        "--metrics-buckets",
        "seconds=0.5,1",
        "--show-hidden-metrics-for-version",
        "0.1",
    ]);
    let settings = settings.expect("good ones");
    assert_eq!(settings.catalogue.buckets["seconds"], [0.5, 1.0]);
    for (flag, wrong) in [
        ("--metrics-buckets", "seconds"),
        ("--metrics-buckets", "seconds=a"),
        ("--metrics-buckets", "seconds=2,1"),
        ("--metrics-buckets", "no_such_set=1"),
        ("--show-hidden-metrics-for-version", "newest"),
    ] {
        let error = resolve(&[flag, wrong]).expect_err(wrong);
        assert!(error.contains("buckets") || error.contains("newest"), "{error}");
    }
}
