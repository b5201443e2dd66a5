use std::time::Duration;

use super::*;

fn raw(args: &[&str]) -> RawConfig {
    RawConfig::arguments_only(["omni-server"].iter().chain(args)).unwrap()
}

#[test]
fn the_defaults_are_usable() {
    let config = raw(&[]).validate().unwrap();
    assert_eq!(config.model, ModelSource::Embedded);
    assert!(config.listen.ip().is_loopback());
}

#[test]
fn studio_is_served_to_this_machine_and_to_others_only_if_that_is_asked_for() {
    let own = "127.0.0.1:1";
    let open = "0.0.0.0:1";
    for (listen, flags, served, shown) in [
        (own, &[][..], true, true),
        (own, &["--studio=off"], false, false),
        (own, &["--studio"], true, true),
        ("[::1]:1", &["--studio=auto"], true, true),
        (open, &[], false, false),
        // Server monitoring requires keys there.
        (open, &["--studio=on"], true, false),
    ] {
        let config = raw(&[&["--listen", listen, "--insecure-plaintext"], flags].concat());
        let config = config.validate().unwrap();
        assert_eq!(
            (config.studio, config.shows_work()),
            (served, shown),
            "{listen} {flags:?}"
        );
    }
}

#[test]
fn a_random_model_is_named_and_a_wrong_name_is_told_with_the_right_ones() {
    let config = raw(&["--model", "random:embedded@7"]).validate().unwrap();
    assert_eq!(
        config.model,
        ModelSource::Random("random:embedded@7".parse().unwrap())
    );
    for (name, told) in [
        ("random:30b", "random:qwen3-omni-30b-a3b-speech"),
        ("random:embedded@x", "\"x\""),
    ] {
        let problem = problem("--model", name).unwrap();
        assert!(
            problem.starts_with(&format!("--model {name}: ")) && problem.contains(told),
            "{problem}"
        );
    }
}

#[test]
fn all_problems_are_reported_together() {
    let raw = raw(&[
        "--listen",
        "0.0.0.0:1",
        "--max-sessions",
        "0",
        "--idle-timeout",
        "0s",
        "--model",
        "/nowhere",
    ]);
    let ConfigError(problems) = raw.validate().unwrap_err();
    assert_eq!(problems.len(), 4, "{problems:?}");
}

#[test]
fn the_flag_for_weights_is_for_talker_and_thinker_unless_one_is_set_apart() {
    let probe = |_| Ok("H200".to_owned());
    let args = [
        "--device",
        "cpu",
        "--weights",
        "int8",
        "--set",
        "stages.thinker.weights=auto",
    ];
    let (config, _) = raw(&args).resolve_on(&probe).unwrap();
    assert_eq!(config.deploy.ar("talker").weights, omni_family::Weights::Int8);
    assert_eq!(config.deploy.ar("thinker").weights, omni_family::Weights::Stored);
}

#[test]
fn the_device_decides_what_nobody_says() {
    let probe = |number| {
        (number == 0)
            .then(|| "H200".to_owned())
            .ok_or_else(|| "there is one".to_owned())
    };
    let on = |args: &[&str], probe: Probe<'_>| raw(args).resolve_on(probe).map(|(config, _)| config);
    let gpu = on(&[], &probe).unwrap();
    assert_eq!((gpu.device.device, gpu.max_active), (Device::Cuda(0), 64));
    assert_eq!(gpu.deploy.ar("talker").stage.device(0), Device::Cuda(0));
    let cpu = on(&["--device", "cpu"], &probe).unwrap();
    assert_eq!(
        (cpu.device.device, cpu.max_active),
        (Device::Cpu, device::max_active(Device::Cpu))
    );
    assert_eq!(cpu.deploy.ar("talker").stage.device(0), Device::Cpu);
    let none = |_| Err("there is no driver".to_owned());
    let without = on(&[], &none).unwrap();
    assert_eq!(
        (without.device.device, without.device.because.as_str()),
        (Device::Cpu, "there is no driver")
    );
    let ConfigError(problems) = on(&["--device", "cuda:1"], &probe).unwrap_err();
    assert_eq!(problems, ["--device cuda:1 was asked for, but there is one"]);
    let few = on(&["--max-active", "3"], &probe).unwrap();
    assert_eq!((few.max_active, few.deploy.ar("talker").max_num_seqs), (3, 6));
    // Counts that follow from it have bounds of their own.
    let ConfigError(problems) = on(&["--max-active", "3000000000"], &probe).unwrap_err();
    assert!(
        problems[0].starts_with("--max-active 3000000000: "),
        "{problems:?}"
    );
}

/// The problem of one flag with this value.
fn problem(flag: &str, value: &str) -> Option<String> {
    let ConfigError(mut problems) = raw(&[flag, value]).validate().err()?;
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.pop()
}

#[test]
fn every_number_is_good_up_to_its_limits_and_not_beyond() {
    for (flag, _, least, most) in raw(&[]).counts(64) {
        let allowed = format!("expected {least} to {most}");
        for (value, good) in [
            (least.checked_sub(1), false),
            (Some(least), true),
            (Some(most), true),
            (Some(most + 1), false),
        ] {
            let Some(value) = value else { continue };
            let problem = problem(flag, &value.to_string());
            let said = problem.as_ref().is_some_and(|problem| {
                problem.starts_with(&format!("{flag} {value}: ")) && problem.ends_with(&allowed)
            });
            assert_eq!(
                (problem.is_none(), said),
                (good, !good),
                "{flag} {value}: {problem:?}"
            );
        }
    }
}

#[test]
fn every_time_is_good_up_to_its_limits_and_not_beyond() {
    const TICK: Duration = Duration::from_millis(1);
    for (flag, _, least, most) in raw(&[]).times() {
        let allowed = format!("expected {} to {}", time::written(least), time::written(most));
        for (value, good) in [
            (least.checked_sub(TICK), false),
            (Some(least), true),
            (Some(most), true),
            (Some(most + TICK), false),
        ] {
            let Some(value) = value else { continue };
            let problem = problem(flag, &format!("{}ms", value.as_millis()));
            let said = problem
                .as_ref()
                .is_some_and(|problem| problem.ends_with(&allowed));
            assert_eq!(
                (problem.is_none(), said),
                (good, !good),
                "{flag} {value:?}: {problem:?}"
            );
        }
    }
    let beyond_a_year = ["omni-server", "--idle-timeout", "5000000000h"];
    assert!(RawConfig::arguments_only(beyond_a_year).is_err());
}

#[test]
fn listening_for_other_machines_in_plaintext_must_be_asked_for() {
    assert!(raw(&["--listen", "[::]:5"]).validate().is_err());
    assert!(
        raw(&["--listen", "[::]:5", "--insecure-plaintext"])
            .validate()
            .is_ok()
    );
}

#[test]
fn operators_are_served_to_other_machines_only_where_a_key_is_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("keys");
    let problems = |scopes: &[Scope], flags: &[&str]| {
        let (_, line) = new_key("somebody", scopes, &Quotas::default()).unwrap();
        std::fs::write(&file, line).unwrap();
        let keys = ["--api-keys", file.to_str().unwrap(), "--insecure-plaintext"];
        let raw = raw(&[&keys, flags].concat());
        raw.validate()
            .err()
            .map_or(0, |ConfigError(problems)| problems.len())
    };
    let far = ["--admin-listen", "0.0.0.0:1"];
    assert_eq!(problems(&[Scope::Speech], &far), 1);
    assert_eq!(problems(&[Scope::Admin], &far), 0);
    assert_eq!(problems(&[Scope::Speech], &["--admin-listen", "127.0.0.1:1"]), 0);
    let ConfigError(plain) = raw(&far).validate().unwrap_err();
    assert_eq!(plain.len(), 2, "{plain:?}");
}

#[test]
fn the_command_line_is_consistent() {
    use clap::CommandFactory as _;
    RawConfig::command().debug_assert();
}

#[test]
fn the_help_of_the_model_names_both_families_and_every_random_model() {
    let command = <RawConfig as clap::CommandFactory>::command();
    let model = command
        .get_arguments()
        .find(|argument| argument.get_id() == "model");
    let help = model
        .and_then(clap::Arg::get_help)
        .expect("a help text")
        .to_string();
    for family in ["Qwen3-TTS", "Qwen3-Omni"] {
        assert!(help.contains(family), "{help}");
    }
    for name in omni_models::RandomModel::names() {
        let name = name.trim_start_matches("random:");
        assert!(help.contains(&format!(" {name}")), "{name}: {help}");
    }
}
