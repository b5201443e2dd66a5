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
        (
            sample("Latencyy", 1.0),
            "is not declared, did you mean \"Latency\"?",
        ),
        (sample("Else", 1.0), "metric \"Else\" is not declared"),
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
    ];
    for (sample, expected) in cases {
        let error = custom.record(&sample).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(!text(&telemetry, "Latency").contains("Latency{"));
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
