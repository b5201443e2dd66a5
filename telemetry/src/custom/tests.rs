use super::*;
use crate::{Selection, TelemetryOptions};

fn telemetry() -> Telemetry {
    let options = TelemetryOptions {
        hostname: "here".to_owned(),
        ..TelemetryOptions::default()
    };
    Telemetry::new(&options).expect("good options")
}

fn custom(telemetry: &Telemetry, undeclared: Undeclared) -> CustomMetrics {
    let options = CustomOptions {
        undeclared,
        defaults: BTreeMap::from([("Level".to_owned(), "Model".to_owned())]),
        sinks: Sinks {
            prometheus: true,
            log: false,
        },
    };
    CustomMetrics::new(telemetry, options)
}

fn spec(name: &str, kind: CustomKind) -> MetricSpec {
    MetricSpec {
        name: name.to_owned(),
        kind,
        unit: "ms".to_owned(),
        help: String::new(),
        labels: ["Voice", "Level", "Hostname"].map(str::to_owned).to_vec(),
        bounds: None,
        sinks: None,
    }
}

fn sample(name: &str, value: f64) -> Sample {
    Sample {
        name: name.to_owned(),
        labels: vec![("Voice".to_owned(), "basil".to_owned())],
        value,
        kind: None,
        unit: None,
        request: None,
    }
}

fn text(telemetry: &Telemetry, name: &str) -> String {
    telemetry.exposition().render(&Selection::of([name.to_owned()]))
}

#[test]
fn counters_add_gauges_replace_and_histograms_collect() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Refused);
    for (name, kind) in [
        ("Sum", CustomKind::Counter),
        ("Last", CustomKind::Gauge),
        ("Times", CustomKind::Histogram),
    ] {
        custom.declare(&spec(name, kind)).expect("a declaration");
        for value in [1.0, 2.0] {
            custom.record(&sample(name, value)).expect("a sample");
        }
    }
    let labels = "{Hostname=\"here\",Level=\"Model\",Voice=\"basil\"}";
    assert!(text(&telemetry, "Sum").ends_with(&format!("# TYPE Sum counter\nSum{labels} 3.0\n")));
    assert!(text(&telemetry, "Last").ends_with(&format!("# TYPE Last gauge\nLast{labels} 2.0\n")));
    let times = text(&telemetry, "Times");
    assert!(times.contains(&format!("Times_sum{labels} 3.0\n")), "{times}");
    assert!(times.contains(&format!("Times_count{labels} 2.0\n")), "{times}");
    assert!(
        times.contains("le=\"5.0\"} 2.0\n"),
        "bounds are those of milliseconds: {times}"
    );
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason_and_nothing_is_recorded() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Refused);
    custom
        .declare(&spec("Latency", CustomKind::Counter))
        .expect("a declaration");
    let good = sample("Latency", 1.0);
    let with = |label: &str, value: &str| {
        let mut sample = good.clone();
        sample.labels.push((label.to_owned(), value.to_owned()));
        sample
    };
    let cases = [
        (sample("Else", 1.0), "metric \"Else\" is not declared"),
        (
            sample(&"x".repeat(129), 1.0),
            "the name has 129 bytes, expected at most 128",
        ),
        (sample("QueueTime", 1.0), "is the server's own"),
        (sample("Latency", -1.0), "a counter cannot grow by -1"),
        (sample("Latency", f64::NAN), "NaN is not a finite number"),
        (sample("Latency", f64::INFINITY), "inf is not a finite number"),
        (
            with("Colour", "red"),
            "has no label \"Colour\", it has: Voice, Level, Hostname",
        ),
        (with("Voice", "again"), "label \"Voice\" is there twice"),
        (with("Level", "a\nb"), "too long or has control characters"),
        (
            Sample {
                labels: vec![],
                ..good.clone()
            },
            "needs a value for label \"Voice\"",
        ),
        (
            Sample {
                kind: Some(CustomKind::Gauge),
                ..good.clone()
            },
            "is a counter, not a gauge",
        ),
        (
            Sample {
                unit: Some("s".to_owned()),
                ..good.clone()
            },
            "is in ms, not in s",
        ),
        (
            Sample {
                request: Some("r".repeat(129)),
                ..good.clone()
            },
            "the request id is too long",
        ),
    ];
    for (sample, expected) in cases {
        let error = custom.record(&sample).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(!text(&telemetry, "Latency").contains("Latency{"));
    assert_eq!(custom.similar("Latencyy").as_deref(), Some("Latency"));
    assert_eq!(custom.similar("Else"), None);
    let spelt_out = Sample {
        unit: Some("Milliseconds".to_owned()),
        ..good
    };
    custom.record(&spelt_out).expect("the same unit in another word");
}

#[test]
fn a_declaration_can_be_repeated_and_not_changed() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Refused);
    let first = spec("Mine", CustomKind::Gauge);
    custom.declare(&first).expect("a declaration");
    custom.declare(&first).expect("the same again");
    let error = custom
        .declare(&spec("Mine", CustomKind::Counter))
        .expect_err("another kind");
    assert_eq!(
        error.to_string(),
        "metric \"Mine\" is declared already, with another kind"
    );
    let clash = MetricSpec {
        name: "Mine_sum".to_owned(),
        ..spec("Mine_sum", CustomKind::Gauge)
    };
    assert!(custom.declare(&clash).is_err());
    let own = spec("vllm:num_requests_running", CustomKind::Gauge);
    assert!(matches!(custom.declare(&own), Err(MetricError::BuiltIn { .. })));
}

#[test]
fn declarations_that_make_no_sense_are_refused() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Refused);
    let good = spec("Good", CustomKind::Gauge);
    let bad = [
        MetricSpec {
            name: "my-metric".to_owned(),
            ..good.clone()
        },
        MetricSpec {
            unit: " ".to_owned(),
            ..good.clone()
        },
        MetricSpec {
            labels: vec!["le".to_owned()],
            ..good.clone()
        },
        MetricSpec {
            labels: vec!["a".to_owned(), "a".to_owned()],
            ..good.clone()
        },
        MetricSpec {
            labels: vec!["engine".to_owned()],
            ..good.clone()
        },
        MetricSpec {
            name: "vllm:mine".to_owned(),
            ..good.clone()
        },
        MetricSpec {
            name: "vllm_omni:mine".to_owned(),
            ..good.clone()
        },
        MetricSpec {
            name: "n".repeat(129),
            ..good.clone()
        },
        MetricSpec {
            unit: "a|b".to_owned(),
            ..good.clone()
        },
        MetricSpec {
            help: "h".repeat(513),
            ..good.clone()
        },
        MetricSpec {
            kind: CustomKind::Histogram,
            bounds: Some((0..65).map(f64::from).collect()),
            ..good.clone()
        },
        MetricSpec {
            bounds: Some(vec![1.0]),
            ..good
        },
    ];
    for spec in bad {
        assert!(
            matches!(custom.declare(&spec), Err(MetricError::Invalid { .. })),
            "{spec:?}"
        );
    }
}

#[test]
fn an_undeclared_metric_is_declared_by_a_sample_that_says_what_it_is() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Declared);
    let error = custom.record(&sample("New", 1.0)).expect_err("no kind");
    assert_eq!(
        error.to_string(),
        "metric \"New\" is not declared, and its first sample does not say its kind"
    );
    let described = Sample {
        kind: Some(CustomKind::Gauge),
        unit: Some("count".to_owned()),
        ..sample("New", 7.0)
    };
    custom.record(&described).expect("a sample that declares");
    assert!(text(&telemetry, "New").ends_with("New{Voice=\"basil\"} 7.0\n"));
    custom.record(&sample("New", 8.0)).expect("a later one");
}

#[test]
fn label_sets_are_bounded() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Refused);
    custom
        .declare(&spec("Many", CustomKind::Gauge))
        .expect("a declaration");
    let of_voice = |voice: usize| Sample {
        labels: vec![("Voice".to_owned(), voice.to_string())],
        ..sample("Many", 1.0)
    };
    for voice in 0..MOST_SERIES {
        custom.record(&of_voice(voice)).expect("a sample");
    }
    let error = custom.record(&of_voice(MOST_SERIES)).expect_err("one too many");
    assert!(matches!(error, MetricError::TooManySeries { .. }));
    custom.record(&of_voice(0)).expect("a known one");
}

#[test]
fn a_first_sample_that_is_refused_declares_nothing() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Declared);
    let described = Sample {
        kind: Some(CustomKind::Counter),
        unit: Some("count".to_owned()),
        ..sample("New", -1.0)
    };
    custom.record(&described).expect_err("it would go down");
    assert!(custom.list().is_empty());
    let other_order = [("b", "2"), ("a", "1")];
    let labels = |pairs: [(&str, &str); 2]| pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for pairs in [other_order, [other_order[1], other_order[0]]] {
        let sample = Sample {
            labels: labels(pairs).to_vec(),
            value: 1.0,
            ..described.clone()
        };
        custom
            .record(&sample)
            .expect("the order of labels is of no interest");
    }
    assert!(text(&telemetry, "New").ends_with("New{a=\"1\",b=\"2\"} 2.0\n"));
}

#[test]
fn a_label_that_is_supplied_and_one_that_is_given_are_never_mistaken_for_each_other() {
    let options = TelemetryOptions {
        hostname: "here".to_owned(),
        model_name: Some("mine".to_owned()),
        ..TelemetryOptions::default()
    };
    let telemetry = Telemetry::new(&options).expect("good options");
    let custom = custom(&telemetry, Undeclared::Refused);
    let labels = ["model_name", "hostname"].map(str::to_owned).to_vec();
    custom
        .declare(&MetricSpec {
            labels,
            ..spec("Both", CustomKind::Gauge)
        })
        .expect("a declaration");
    for (label, value) in [("model_name", 1.0), ("hostname", 2.0)] {
        let sample = Sample {
            labels: vec![(label.to_owned(), "x".to_owned())],
            ..sample("Both", value)
        };
        custom.record(&sample).expect("a sample");
    }
    let shown = text(&telemetry, "Both");
    assert!(
        shown.contains("Both{hostname=\"here\",model_name=\"x\"} 1.0"),
        "{shown}"
    );
    assert!(
        shown.contains("Both{hostname=\"x\",model_name=\"mine\"} 2.0"),
        "{shown}"
    );
}

#[test]
fn the_name_of_a_model_that_is_not_loaded_is_missing_and_not_empty() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Refused);
    custom
        .declare(&MetricSpec {
            labels: vec!["model_name".to_owned()],
            ..spec("Early", CustomKind::Gauge)
        })
        .expect("a declaration");
    let unlabelled = Sample {
        labels: vec![],
        ..sample("Early", 1.0)
    };
    let error = custom.record(&unlabelled).expect_err("the name is not declared");
    assert!(matches!(error, MetricError::MissingLabel { .. }), "{error}");
    telemetry.model_is_called("mine");
    custom.record(&unlabelled).expect("it is known");
    assert!(text(&telemetry, "Early").ends_with("Early{model_name=\"mine\"} 1.0\n"));
}

#[test]
fn the_label_sets_of_all_custom_metrics_are_bounded_together() {
    let telemetry = telemetry();
    let custom = custom(&telemetry, Undeclared::Refused);
    let full = MOST_SERIES_IN_ALL / MOST_SERIES;
    let histogram = MetricSpec {
        bounds: Some((0..64).map(f64::from).collect()),
        ..spec("H", CustomKind::Histogram)
    };
    custom.declare(&histogram).expect("a declaration");
    for metric in 0..=full {
        custom
            .declare(&spec(&format!("M{metric}"), CustomKind::Gauge))
            .expect("a declaration");
    }
    let record = |metric: usize, voice: usize| {
        custom.record(&Sample {
            labels: vec![("Voice".to_owned(), voice.to_string())],
            ..sample(&format!("M{metric}"), 1.0)
        })
    };
    for metric in 0..full {
        for voice in 0..MOST_SERIES {
            record(metric, voice).expect("a sample");
        }
    }
    let error = record(full, 0).expect_err("one too many");
    assert!(matches!(error, MetricError::TooManySeriesInAll { .. }));
    record(0, 0).expect("a known one");
    let error = custom.record(&sample("H", 1.0)).expect_err("one too many");
    assert!(matches!(error, MetricError::TooManySeriesInAll { .. }), "{error}");
}
