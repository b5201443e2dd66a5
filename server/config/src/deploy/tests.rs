//! Deploy files as users write them.

use std::path::PathBuf;
use std::time::Duration;

use omni_family::{DType, Weights};
use omni_pipeline::connector::LATEST_LOSS;

use super::*;

fn with(text: &str, sets: &[&str]) -> Result<Resolution, Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deploy.yaml");
    std::fs::write(&path, text).unwrap();
    let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
    resolve(Some(&path), &sets, 64)
}

#[test]
fn without_a_file_everything_has_its_default() {
    let deploy = resolve(None, &[], 8).unwrap().deploy;
    assert_eq!(deploy.ar("talker").stage.replicas, 1);
    assert_eq!(deploy.ar("talker").max_num_seqs, 16);
    assert_eq!(deploy.ar("talker").max_num_batched_tokens, 512);
    assert_eq!(deploy.chunk("code2wav").ramp, [1, 2, 4, 8]);
    assert_eq!(deploy.ar("talker").temperature, None);
    assert!(
        deploy.ar("thinker").prefix_caching()
            && !deploy.ar("talker").prefix_caching()
            && deploy.ar("talker").max_model_len.is_none()
    );
    // More callers than the usual budget has tokens: it grows with them.
    assert_eq!(
        resolve(None, &[], 1000)
            .unwrap()
            .deploy
            .ar("talker")
            .max_num_batched_tokens,
        2000
    );
}

#[test]
fn a_file_and_flags_set_what_they_name_and_nothing_else() {
    let text = "stages:\n  talker: {replicas: 2, routing: round-robin, sampling: {temperature: 0}}\n  code2wav:\n    ramp: [2, 4]\n    placement: process\n";
    let resolution = with(
        text,
        &[
            "stages.talker.kv.memory=64MiB",
            "stages.talker.replicas=3",
            "stages.talker.restart.first_delay=1s",
        ],
    )
    .unwrap();
    let talker = resolution.deploy.ar("talker");
    assert_eq!(
        (talker.kv_memory, resolution.deploy.ar("thinker").kv_memory),
        (Some(64 << 20), None)
    );
    assert_eq!(
        (talker.stage.replicas, talker.stage.routing),
        (3, Routing::RoundRobin)
    );
    assert_eq!(talker.stage.restart().first_delay.as_secs(), 1);
    assert_eq!(talker.temperature, Some(0.0));
    assert_eq!(resolution.deploy.chunk("code2wav").ramp, [2, 4]);
    assert_eq!(
        resolution.deploy.chunk("code2wav").stage.placement,
        Placement::Process
    );
    assert_eq!(talker.stage.placement, Placement::Thread);
    assert_eq!(resolution.deploy.ar("thinker").stage.replicas, 1);
}

#[test]
fn all_problems_are_reported_together_with_place_value_and_remedy() {
    let text = "\
stages:
  talker:
    replica: 2
    replicas: 0
    devices: [gpu]
  code2wav:
    ramp: []
    routing: fastest
  vocoder: {}
replicas: 2
";
    let problems = with(text, &["stages.talker.max_num_seqs=many"]).unwrap_err();
    let expected = [
        (
            "deploy.yaml:3:5: stages.talker.replica: there is no such key, did you mean replicas?",
            "",
        ),
        (
            "deploy.yaml:4:15: stages.talker.replicas: found 0, expected a whole number from 1 to 64",
            "",
        ),
        (
            "deploy.yaml:5:14: stages.talker.devices: found gpu",
            "cpu or cuda:N",
        ),
        ("deploy.yaml:7:11: stages.code2wav.ramp: found a list of 0", ""),
        (
            "deploy.yaml:8:14: stages.code2wav.routing: found fastest",
            "least-queue, round-robin",
        ),
        (
            "deploy.yaml:9:3: stages.vocoder: there is no such key",
            "thinker, talker, code2wav",
        ),
        (
            "deploy.yaml:10:1: replicas: there is no such key",
            "family, model_aliases, load_timeout, handover, voices, stages",
        ),
        (
            "--set stages.talker.max_num_seqs=many: stages.talker.max_num_seqs: found many",
            "or auto",
        ),
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (place, remedy) in expected {
        assert!(
            problems
                .iter()
                .any(|problem| problem.contains(place) && problem.contains(remedy)),
            "{place} is missing in {problems:#?}"
        );
    }
}

#[test]
fn a_step_may_have_fewer_positions_than_there_are_sequences() {
    let text = "stages:\n  talker: {max_num_seqs: 64, max_num_batched_tokens: 16}\n  thinker: {max_num_seqs: 1, max_num_batched_tokens: 1}\n";
    let deploy = with(text, &[]).unwrap().deploy;
    assert_eq!(
        (
            deploy.ar("talker").max_num_seqs,
            deploy.ar("talker").max_num_batched_tokens
        ),
        (64, 16)
    );
}

#[test]
fn values_that_contradict_each_other_are_reported_at_one_of_them() {
    let text = "\
stages:
  talker:
    replicas: 3
    devices: [cpu, cuda:0]
    max_num_batched_tokens: 1
    restart: {first_delay: 5m}
    dtype: f16
    kv: {blocks: 16777216, block_size: 4096}
";
    let problems = with(text, &[]).unwrap_err();
    for expected in [
        "deploy.yaml:4:14: stages.talker.devices: found 2 devices, expected 1 or one for each of 3 replicas",
        "deploy.yaml:5:29: stages.talker.max_num_batched_tokens: found 1, expected at least 2 where max_num_seqs is 128",
        "deploy.yaml:6:28: stages.talker.restart.first_delay: found 5m, expected at most restart.max_delay, which is 30s",
        "deploy.yaml:8:18: stages.talker.kv.blocks: found 16777216 blocks of 4096 positions, expected at most 2147483648",
        "deploy.yaml:4:14: stages.talker.devices: found cuda:0, which cannot be used: ",
        "deploy.yaml:7:12: stages.talker.dtype: found f16, expected f32 or bf16, in which GPUs compute",
    ] {
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{expected} is missing in {problems:#?}"
        );
    }
}

#[test]
fn what_is_shown_says_where_each_value_comes_from_and_reads_back_as_the_same() {
    let text = "stages:\n  talker:\n    replicas: 2\n    sampling: {top_p: 0.8}\n";
    let resolution = with(text, &["handover.wait=90s"]).unwrap();
    let shown = resolution.yaml();
    let line = |key: &str| {
        shown
            .lines()
            .find(|line| line.trim_start().starts_with(key))
            .unwrap()
    };
    assert!(
        line("wait: 90s").ends_with("# --set handover.wait=90s"),
        "{shown}"
    );
    assert!(line("replicas: 2").ends_with("deploy.yaml:3"), "{shown}");
    assert!(
        line("max_num_seqs: 128").ends_with("# default: 2 x --max-active"),
        "{shown}"
    );
    assert!(
        line("temperature: auto").ends_with("# default: the checkpoint's own"),
        "{shown}"
    );
    assert_eq!(with(&shown, &[]).unwrap().deploy, resolution.deploy);
    assert_eq!(read_back(&shown, 1).unwrap().deploy, resolution.deploy);
}

#[test]
fn weights_are_quantised_where_the_processor_computes() {
    let probe = |_| Ok("H200".to_owned());
    let with = |device, sets: &[&str]| {
        let given = Given {
            max_active: 8,
            device,
            probe: &probe,
        };
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        resolve(None, &sets, given)
    };
    let deploy = with(Device::Cpu, &["stages.talker.weights=int4"]).unwrap().deploy;
    assert_eq!(deploy.ar("talker").weights, Weights::Int4);
    assert_eq!(deploy.ar("thinker").weights, Weights::Stored);
    let all = super::all_weights("int8");
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let on_gpu = [&all[..], &["stages.code2wav.devices=[cuda:0]"]].concat();
    with(Device::Cpu, &on_gpu).expect("a vocoder on a GPU computes in its own format");
    for (device, sets, expected) in [
        (
            Device::Cuda(0),
            &["stages.code2wav.products=bf16"][..],
            "stages.code2wav.products: found bf16, expected f32: GPUs compute in `dtype`",
        ),
        (
            Device::Cuda(0),
            &["stages.talker.weights=int8"][..],
            "stages.talker.weights: found int8, expected auto: GPUs keep weights in `dtype`",
        ),
        (
            Device::Cpu,
            &["stages.talker.weights=int8", "stages.talker.dtype=bf16"],
            "stages.talker.weights: found int8 with dtype bf16, expected dtype f32",
        ),
    ] {
        let refused = with(device, sets).unwrap_err();
        assert!(
            refused.len() == 1 && refused[0].ends_with(expected),
            "{refused:?}"
        );
    }
}

#[test]
fn defaults_fit_the_device_that_a_stage_is_on() {
    let probe = |number| {
        (number < 2)
            .then(|| "H200".to_owned())
            .ok_or_else(|| "there are two".to_owned())
    };
    let given = Given {
        max_active: 64,
        device: Device::Cuda(0),
        probe: &probe,
    };
    let with = |sets: &[&str]| {
        let sets: Vec<_> = sets.iter().map(|set| (*set).to_owned()).collect();
        resolve(None, &sets, given)
    };
    let deploy = with(&["stages.talker.devices=[cpu]"]).unwrap().deploy;
    let talker = deploy.ar("talker");
    let thinker = deploy.ar("thinker");
    assert_eq!(
        (talker.stage.device(0), talker.stage.device(3)),
        (Device::Cpu, Device::Cpu)
    );
    assert_eq!((talker.stage.dtype, talker.max_prefill_tokens), (DType::F32, 64));
    assert_eq!(thinker.stage.device(0), Device::Cuda(0));
    assert_eq!(
        (thinker.stage.dtype, thinker.max_prefill_tokens),
        (DType::Bf16, 512)
    );
    assert_eq!(
        (
            deploy.chunk("code2wav").max_batch,
            deploy.chunk("code2wav").max_batched_frames
        ),
        (64, 256)
    );

    let two = ["stages.talker.replicas=2", "stages.talker.devices=[cuda:1, cpu]"];
    let deploy = with(&two).unwrap().deploy;
    let talker = deploy.ar("talker");
    assert_eq!(
        (talker.stage.device(0), talker.stage.device(1)),
        (Device::Cuda(1), Device::Cpu)
    );
    // One that joins later takes its turn.
    assert_eq!(talker.stage.device(2), Device::Cuda(1));
    // Both can compute in it.
    assert_eq!(talker.stage.dtype, DType::F32);

    let third = with(&["stages.encoder.devices=cuda:2"]).unwrap_err();
    assert!(
        third[0].contains("found cuda:2, which cannot be used: there are two"),
        "{third:?}"
    );
    assert_eq!(third.len(), 1, "{third:?}");
}

#[test]
fn null_takes_back_what_the_base_says() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base.yaml");
    std::fs::write(&base, "stages: {talker: {replicas: 4, max_prefill_tokens: 7}}\n").unwrap();
    let path = directory.path().join("over.yaml");
    std::fs::write(&path, "base: base.yaml\nstages: {talker: {replicas: null}}\n").unwrap();
    let deploy = resolve(Some(&path), &[], 1).unwrap().deploy;
    let talker = deploy.ar("talker");
    assert_eq!((talker.stage.replicas, talker.max_prefill_tokens), (1, 7));
}

#[test]
fn docs_are_in_step_with_the_table() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md"));
    let expected = reference();
    if std::env::var_os("OMNI_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/config.md is out of step: run this test with OMNI_UPDATE_DOCS=1"
    );
}

#[test]
fn answers_repeat_themselves_and_share_nothing_unless_it_says_otherwise() {
    let answers = |sets: &[&str]| {
        let deploy = with("", sets)?.deploy;
        let thinker = deploy.ar("thinker");
        Ok::<_, Vec<String>>((thinker.shares_with_all(), thinker.repetition()))
    };
    assert_eq!(answers(&[]), Ok((false, None)), "the checkpoint decides");
    for off in ["0", "1"] {
        let (_, limit) = answers(&[&format!("stages.thinker.repetition.count={off}")]).unwrap();
        assert!(limit.is_some_and(|limit| !limit.is_valid()), "never");
    }
    let (shares_with_all, repetition) = answers(&[
        "stages.thinker.repetition.count=4",
        "stages.thinker.repetition.max_pattern=9",
        "stages.thinker.prefix_sharing=all",
    ])
    .unwrap();
    let limit = repetition.unwrap();
    assert_eq!((limit.min_pattern, limit.max_pattern, limit.count), (1, 9, 4));
    assert!(shares_with_all);
    let problems = answers(&["stages.thinker.repetition.max_pattern=257"]).unwrap_err();
    assert!(
        problems[0].contains("found 257, expected a whole number from 1 to 256"),
        "{problems:?}"
    );
}

#[test]
fn a_patience_is_set_at_the_stage_that_waits() {
    let sets = [
        "stages.talker.upstream_stall=1s",
        "stages.code2wav.upstream_stall=2s",
    ];
    let deploy = with("", &sets).unwrap().deploy;
    let stall = |stage| deploy.stage(stage).upstream_stall().map(|time| time.as_secs());
    assert_eq!(
        (stall("talker"), stall("code2wav"), stall("thinker")),
        (Some(1), Some(2), None)
    );
    let problems = with("", &["stages.thinker.upstream_stall=1s"]).unwrap_err();
    assert!(problems[0].contains("there is no such key"), "{problems:?}");
}

#[test]
fn a_process_that_is_stuck_counts_as_dead_before_the_next_stage_gives_up_its_input() {
    let deploy = with("", &[]).unwrap().deploy;
    for stage in ["talker", "code2wav"] {
        let stall = deploy.stage(stage).upstream_stall();
        // The last item may have come some time before the last word.
        let latest = LATEST_LOSS + Duration::from_secs(5);
        assert!(stall.is_some_and(|stall| stall >= latest), "{stage}: {stall:?}");
    }
}

#[test]
fn the_family_that_a_file_names_is_in_the_plan() {
    let family = |yaml| with(yaml, &[]).expect("legal").deploy.compute_plan().family;
    assert_eq!(family("family: qwen3-omni"), Some("qwen3-omni"));
    assert_eq!(family("family: auto"), None);
}
