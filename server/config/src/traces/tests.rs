use super::*;

type Given<'a> = &'a [(&'a str, &'a str)];

fn resolve(url: Option<&str>, given: Given<'_>) -> Result<Option<TraceSettings>, Vec<String>> {
    let raw = RawTraces {
        otlp_traces_endpoint: url.map(|url| url.to_owned().into()),
        otlp_traces_timeout: None,
    };
    let find = |name: &str| {
        let found = given.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    raw.resolve(&find)
}

fn settings(given: Given<'_>) -> TraceSettings {
    let resolved = resolve(Some("http://collector:4317"), given);
    resolved.expect("good settings").expect("an endpoint")
}

fn problem(given: Given<'_>) -> String {
    let problems = resolve(Some("http://collector:4317"), given).expect_err("a problem");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.concat()
}

#[test]
fn without_an_endpoint_nothing_is_traced() {
    assert_eq!(resolve(None, &[]), Ok(None));
    assert_eq!(
        resolve(Some(""), &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]),
        Ok(None)
    );
    for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
        assert_eq!(
            resolve(Some("http://collector:4317"), &[off]),
            Ok(None),
            "{off:?}"
        );
    }
}

#[test]
fn the_endpoint_for_traces_wins_over_that_for_all_signals() {
    let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", "https://all")];
    let endpoint = |url| {
        let settings = resolve(url, &all).expect("good settings").expect("an endpoint");
        (settings.endpoint.to_string(), settings.is_tls())
    };
    assert_eq!(endpoint(None), ("https://all:4317/".to_owned(), true));
    assert_eq!(
        endpoint(Some("grpc://own:9")),
        ("http://own:9/".to_owned(), false)
    );
    assert_eq!(
        endpoint(Some("http://[::1]:9/x")),
        ("http://[::1]:9/".to_owned(), false)
    );
}

#[test]
fn addresses_that_are_none_are_refused_without_repeating_them() {
    for url in [
        "collector:4317",
        "4317",
        "ftp://h",
        "http://",
        "http://ann:s3cret@h:1",
    ] {
        let problems = resolve(Some(url), &[]).expect_err(url).concat();
        assert!(problems.starts_with("--otlp-traces-endpoint: "), "{problems}");
        assert!(!problems.contains("s3cret"), "{problems}");
    }
}

#[test]
fn headers_are_read_and_never_shown() {
    let settings = settings(&[
        ("OTEL_EXPORTER_OTLP_HEADERS", "x=of all"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            " Authorization=Bearer%20s3cret , x-tenant=7",
        ),
    ]);
    assert_eq!(settings.headers["authorization"], "Bearer s3cret");
    assert_eq!(settings.headers["x-tenant"], "7");
    assert_eq!(settings.headers.len(), 2);
    assert!(!format!("{settings:?}").contains("s3cret"));
    for bad in ["s3cret", "a b=s3cret", "x=s3cret%00", "x=s3cret%ff"] {
        let problem = problem(&[("OTEL_EXPORTER_OTLP_HEADERS", bad)]);
        assert!(problem.starts_with("OTEL_EXPORTER_OTLP_HEADERS: "), "{problem}");
        assert!(!problem.contains("s3cret"), "{problem}");
    }
}

#[test]
fn the_queue_is_bounded_as_the_environment_says() {
    assert_eq!(settings(&[]).limits, TraceLimits::default());
    let limits = settings(&[
        ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
        ("OTEL_BSP_SCHEDULE_DELAY", "250"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "3s"),
    ])
    .limits;
    let expected = TraceLimits {
        queue: 100,
        batch: 100,
        delay: Duration::from_millis(250),
        timeout: Duration::from_secs(3),
    };
    assert_eq!(limits, expected, "a batch is never larger than the queue");
    for bad in [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "many"),
        ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zip"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "key.pem"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_RESOURCE_ATTRIBUTES", "nothing"),
    ] {
        assert!(problem(&[bad]).starts_with(bad.0), "{bad:?}");
    }
}

#[test]
fn the_server_says_who_it_is_unless_the_environment_does() {
    let value = |settings: &TraceSettings, key: &str| {
        let mut found = settings.resource.iter().filter(|(name, _)| name == key);
        let value = found.next().map(|(_, value)| value.clone());
        assert!(found.next().is_none(), "{key} is said once");
        value
    };
    let own = settings(&[]);
    assert_eq!(value(&own, "service.name").as_deref(), Some("omni-server"));
    assert_eq!(
        value(&own, "service.version").as_deref(),
        Some(env!("CARGO_PKG_VERSION"))
    );
    let given = settings(&[
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=a,deployment.environment=a%2Cb,host.name=h",
        ),
        ("OTEL_SERVICE_NAME", "speech"),
    ]);
    assert_eq!(value(&given, "service.name").as_deref(), Some("speech"));
    assert_eq!(value(&given, "deployment.environment").as_deref(), Some("a,b"));
    assert_eq!(value(&given, "host.name").as_deref(), Some("h"));
}

#[test]
fn files_and_samplers_are_taken_over() {
    let settings = settings(&[
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
        ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "own.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "own.key"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
    ]);
    assert_eq!(settings.authority, Some("ca.pem".into()));
    assert_eq!(settings.identity, Some(("own.pem".into(), "own.key".into())));
    assert!(settings.gzip);
    assert_eq!(
        Ok(settings.sampler),
        TraceSampler::parse("traceidratio", Some("0.5"))
    );
}
