use super::*;

/// A catalogue with the given metrics, each in YAML's flow form.
fn with_metrics(metrics: &[&str]) -> Result<Catalogue, CatalogueError> {
    let metrics: String = metrics
        .iter()
        .map(|metric| format!("      - {metric}\n"))
        .collect();
    Catalogue::parse(&format!(
        "supplied: [model_name]\nbucket_sets: {{fast: [0.1, 1]}}\ngroups:\n  - name: g\n    about: a\n    \
         enabled: true\n    sinks: [prometheus]\n    series: 3\n    metrics:\n{metrics}absent: []\n"
    ))
}

fn problem(metric: &str) -> String {
    with_metrics(&[metric]).expect_err("a problem").to_string()
}

#[test]
fn the_built_in_catalogue_has_the_fifteen_families_of_the_pipeline_by_name_and_label() {
    let catalogue = Catalogue::built_in();
    let replica = ["model_name", "stage", "replica"];
    let edge = [
        "model_name",
        "from_stage",
        "from_replica",
        "to_stage",
        "to_replica",
    ];
    let with = |more: &'static str| [replica.as_slice(), &[more]].concat();
    let expected = [
        ("num_requests_running", "gauge", vec!["model_name"]),
        ("num_requests_waiting", "gauge", vec!["model_name"]),
        (
            "requests_success_total",
            "counter",
            vec!["model_name", "finished_reason"],
        ),
        ("e2e_request_latency_s", "histogram", vec!["model_name"]),
        ("audio_ttfp_s", "histogram", replica.to_vec()),
        ("audio_duration_s", "histogram", replica.to_vec()),
        ("audio_rtf", "histogram", replica.to_vec()),
        ("audio_frames_total", "counter", replica.to_vec()),
        ("audio_underrun_s", "histogram", replica.to_vec()),
        ("audio_continuity_ok_total", "counter", with("threshold_ms")),
        ("audio_skipped_requests_total", "counter", with("reason")),
        ("transfer_size_bytes", "histogram", edge.to_vec()),
        ("transfer_tx_s", "histogram", edge.to_vec()),
        ("transfer_rx_s", "histogram", edge.to_vec()),
        ("transfer_in_flight_s", "histogram", edge.to_vec()),
    ];
    for (name, kind, labels) in expected {
        let family = catalogue.find(&format!("vllm:omni_{name}")).expect(name);
        assert_eq!(family.kind.exposed(), kind, "{name}");
        assert_eq!(family.exposed_labels(), labels, "{name}");
    }
}

#[test]
fn engine_is_reshaped_in_its_place() {
    let catalogue = Catalogue::built_in();
    let family = catalogue
        .find("vllm:engine_sleep_state")
        .expect("a family of the engine");
    assert_eq!(
        family.exposed_labels(),
        ["model_name", "stage", "replica", "sleep_state"]
    );
}

#[test]
fn the_bucket_families_are_those_of_the_sources() {
    let catalogue = Catalogue::built_in();
    let bounds = |name: &str| {
        catalogue
            .find(name)
            .and_then(|family| family.buckets.clone())
            .expect(name)
            .bounds
    };
    let seconds = [
        0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0,
    ];
    assert_eq!(bounds("vllm:omni_audio_ttfp_s"), seconds);
    let fast = [
        0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
    ];
    assert_eq!(bounds("vllm:omni_transfer_tx_s"), fast);
    let rtf = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0, 5.0, 10.0];
    assert_eq!(bounds("vllm:omni_audio_rtf"), rtf);
    let tokens = [
        1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0,
    ];
    assert_eq!(bounds("vllm:request_prompt_tokens"), tokens);
}

#[test]
fn token_bounds_follow_the_longest_sequence() {
    let options = CatalogueOptions {
        max_model_len: Some(4096),
        ..CatalogueOptions::default()
    };
    let catalogue = Catalogue::built_in().with(&options).expect("good options");
    let family = catalogue.find("vllm:request_prompt_tokens").expect("a family");
    let bounds = &family.buckets.as_ref().expect("buckets").bounds;
    assert_eq!(bounds.last(), Some(&2000.0));
    assert_eq!(bounds.len(), 11);
}

#[test]
fn an_override_replaces_one_set_and_no_other() {
    let options = CatalogueOptions {
        buckets: [("rtf".to_owned(), vec![0.5, 1.0])].into(),
        ..CatalogueOptions::default()
    };
    let catalogue = Catalogue::built_in().with(&options).expect("good options");
    let bounds = |name: &str| {
        catalogue
            .find(name)
            .and_then(|family| family.buckets.clone())
            .expect(name)
            .bounds
    };
    assert_eq!(bounds("vllm:omni_audio_rtf"), [0.5, 1.0]);
    assert_eq!(bounds("vllm:omni_audio_ttfp_s").len(), 13);
}

#[test]
fn options_that_do_not_fit_are_all_named() {
    let options = CatalogueOptions {
        enable: vec!["torchserv".to_owned()],
        buckets: [
            ("nope".to_owned(), vec![1.0]),
            ("rtf".to_owned(), vec![2.0, 1.0]),
            ("bytes".to_owned(), vec![]),
            ("grpc".to_owned(), vec![0.0, 1.0]),
            ("seconds".to_owned(), vec![1.0, f64::INFINITY]),
        ]
        .into(),
        ..CatalogueOptions::default()
    };
    let problems = Catalogue::built_in().with(&options).expect_err("problems");
    assert_eq!(problems.len(), 6, "{problems:?}");
    assert!(
        problems[0]
            .to_string()
            .contains("\"torchserv\" does not exist, there are: pipeline")
    );
}

#[test]
fn the_newer_prefix_renames_the_pipeline_and_leaves_the_engine() {
    let options = CatalogueOptions {
        prefix: Prefix::parse("vllm_omni:").expect("a prefix"),
        ..CatalogueOptions::default()
    };
    let catalogue = Catalogue::built_in().with(&options).expect("good options");
    assert!(catalogue.find("vllm_omni:audio_ttfp_s").is_some());
    assert!(catalogue.find("vllm:omni_audio_ttfp_s").is_none());
    assert!(catalogue.find("vllm:num_requests_running").is_some());
    assert!(Prefix::parse("omni_").is_err());
}

#[test]
fn torchserve_is_off_until_asked_for() {
    let built_in = Catalogue::built_in();
    let family = built_in.find("QueueTime").expect("a family");
    assert!(!built_in.serves(family));
    let options = CatalogueOptions {
        enable: vec!["torchserve".to_owned()],
        ..CatalogueOptions::default()
    };
    let catalogue = built_in.with(&options).expect("good options");
    assert!(catalogue.serves(family));
}

#[test]
fn a_family_that_nobody_feeds_yet_is_declared_and_not_served() {
    let metric = "{name: a, pending: a feed, kind: gauge, unit: x, help: h, labels: []}";
    let catalogue = with_metrics(&[metric]).expect("a good catalogue");
    let family = catalogue.find("a").expect("a family");
    assert!(!catalogue.serves(family));
    let options = CatalogueOptions {
        pending: true,
        ..CatalogueOptions::default()
    };
    let all = catalogue.with(&options).expect("good options");
    assert!(all.serves(all.find("a").expect("a family")));
    assert!(
        catalogue
            .to_markdown()
            .contains("*Not served yet: waits for a feed.*")
    );
}

#[test]
fn every_family_is_declared_as_prometheus_wants_it() {
    let catalogue = Catalogue::built_in();
    let mut names = BTreeSet::new();
    for family in catalogue.families() {
        let name = family.name.as_ref();
        assert!(is_metric_name(name), "{name}");
        assert!(
            !family.unit.trim().is_empty() && !family.help.is_empty(),
            "{name}"
        );
        let counts = matches!(family.kind, FamilyKind::Counter | FamilyKind::FloatCounter);
        // TorchServe's keep its names.
        assert!(
            !counts || name.ends_with("_total") || &*family.group == "torchserve",
            "{name}"
        );
        assert_eq!(
            family.buckets.is_some(),
            family.kind == FamilyKind::Histogram,
            "{name}"
        );
        let bounds = family.buckets.iter().map(|buckets| check_bounds(&buckets.bounds));
        assert!(
            bounds.clone().all(|checked| checked.is_ok()),
            "{name}: {bounds:?}"
        );
        for suffix in ["_bucket", "_sum", "_count"] {
            assert!(!name.ends_with(suffix), "{name}");
        }
        assert!(names.insert(name), "{name} is declared twice");
        let labels: BTreeSet<_> = family.labels.iter().collect();
        assert_eq!(labels.len(), family.labels.len(), "{name}: {labels:?}");
        assert!(
            labels.iter().all(|label| is_label_name(label)),
            "{name}: {labels:?}"
        );
        for (label, values) in &family.values {
            let distinct: BTreeSet<_> = values.iter().collect();
            assert!(labels.contains(label) && !values.is_empty(), "{name}: {label}");
            assert_eq!(distinct.len(), values.len(), "{name}: {values:?}");
        }
        let absent = catalogue.absent().iter().find(|absent| absent.covers(name));
        assert!(absent.is_none(), "{name}: {absent:?}");
    }
    for old in catalogue.deprecated() {
        assert!(catalogue.find(&old.family).is_some(), "{old:?}");
        assert!(is_metric_name(&old.name) && names.insert(&old.name), "{old:?}");
    }
    let groups: BTreeSet<_> = catalogue.groups().iter().map(|group| &group.name).collect();
    assert_eq!(groups.len(), catalogue.groups().len());
}

#[test]
fn a_declaration_that_cannot_be_read_is_named() {
    for (metric, expected) in [
        (
            "{name: a, kind: untyped, unit: x, help: h, labels: []}",
            "expected one of `counter`",
        ),
        (
            "{name: a, kind: histogram, unit: x, help: h, labels: [], buckets: slow}",
            "\"slow\" is not declared",
        ),
        (
            "{name: a, kind: gauge, unit: x, help: h, labels: [], sinks: [file]}",
            "groups[0].metrics[0].sinks[0]",
        ),
        (
            "{name: a, kind: gauge, unit: x, labels: []}",
            "missing field `help`",
        ),
    ] {
        let problem = problem(metric);
        assert!(problem.contains(expected), "{metric}: {problem}");
    }
}

#[test]
fn a_key_that_nobody_reads_is_refused() {
    let error = problem("{name: a, kind: gauge, unit: x, help: h, labels: [], bucket: fast}");
    assert!(error.contains("bucket"), "{error}");
}

#[test]
fn absent_families_are_covered_and_none_is_served() {
    let catalogue = Catalogue::built_in();
    for name in [
        "vllm:nixl_xfer_time_seconds",
        "vllm:lora_requests_info",
        "python_info",
    ] {
        assert!(
            catalogue.absent().iter().any(|absent| absent.covers(name)),
            "{name}"
        );
        assert!(catalogue.find(name).is_none(), "{name}");
    }
}

#[test]
fn the_listing_shows_what_is_served() {
    let json = Catalogue::built_in().to_json();
    let families = json["families"].as_array().expect("families");
    let find = |name: &str| families.iter().find(|family| family["name"] == name);
    let ttft = find("vllm:omni_audio_ttfp_s").expect("served");
    assert_eq!(
        ttft["labels"],
        serde_json::json!(["model_name", "stage", "replica"])
    );
    assert_eq!(ttft["buckets"].as_array().map(Vec::len), Some(13));
    assert!(find("QueueTime").is_none());
}
