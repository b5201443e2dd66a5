//! Other forms of the text: OpenMetrics with exemplars, older names, series that go with their replica.

use std::time::Duration;

use omni_telemetry::*;

fn telemetry(options: CatalogueOptions) -> Telemetry {
    let options = TelemetryOptions {
        catalogue: options,
        model_name: Some("tiny".to_owned()),
        ..TelemetryOptions::default()
    };
    Telemetry::new(&options).expect("good options")
}

fn text(telemetry: &Telemetry, format: Format) -> String {
    telemetry.exposition().render_as(&Selection::default(), format)
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn openmetrics_names_counters_without_their_suffix_and_shows_the_trace_of_an_observation() {
    let telemetry = telemetry(CatalogueOptions::default());
    let audio = AudioInstruments::new(telemetry.meter(), Replica { stage: 2, replica: 0 });
    with_exemplar(Some(TRACE.to_owned()), || {
        audio.first_packet(Duration::from_millis(300));
    });
    audio.first_packet(Duration::from_millis(700));
    let open = text(&telemetry, Format::OpenMetrics);
    assert!(open.ends_with("# EOF\n"), "{open}");
    assert!(
        open.contains("\n# TYPE vllm:omni_audio_frames counter\n"),
        "{open}"
    );
    let line = |text: &str, le: &str| {
        let begin = "vllm:omni_audio_ttfp_s_bucket{";
        let bound = format!("le=\"{le}\"");
        let found = text
            .lines()
            .find(|line| line.starts_with(begin) && line.contains(&bound));
        found.expect("a bucket").to_owned()
    };
    let with = line(&open, "0.5");
    assert!(
        with.contains(&format!(" 1.0 # {{trace_id=\"{TRACE}\"}} 0.3 ")),
        "{with}"
    );
    assert!(!line(&open, "1.0").contains('#'));
    let plain = text(&telemetry, Format::Text);
    assert!(!plain.contains(TRACE) && !plain.contains("# EOF"), "{plain}");
    assert!(
        plain.contains("\n# TYPE vllm:omni_audio_frames_total counter\n"),
        "{plain}"
    );
}

#[test]
fn no_two_families_of_openmetrics_have_one_name_and_every_sample_belongs_to_the_one_before_it() {
    let options = CatalogueOptions {
        enable: vec!["torchserve".to_owned()],
        ..CatalogueOptions::default()
    };
    let telemetry = telemetry(options);
    telemetry
        .engine(Replica { stage: 1, replica: 0 })
        .first_output(Duration::from_millis(5));
    let open = text(&telemetry, Format::OpenMetrics);
    let mut names = std::collections::BTreeSet::new();
    let mut family = ("", "");
    for line in open.lines().filter(|line| *line != "# EOF") {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            family = declared.split_once(' ').expect("a name and a type");
            assert!(names.insert(family.0), "{line}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().expect("a name");
            let suffixes: &[&str] = match family.1 {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["_sum", "_count"],
                _ => &[""],
            };
            let belongs = suffixes
                .iter()
                .any(|suffix| name == format!("{}{suffix}", family.0));
            assert!(belongs, "{line} behind {family:?}");
        }
    }
}

#[test]
fn older_names_show_what_the_family_shows_and_say_what_it_is_called_now() {
    let telemetry = telemetry(CatalogueOptions::default());
    let engine = telemetry.engine(Replica { stage: 1, replica: 0 });
    engine.next_output(Duration::from_millis(30));
    let text = text(&telemetry, Format::Text);
    let of = |name: &str| {
        let own = text.lines().filter(|line| line.starts_with(&format!("{name}_")));
        own.map(|line| line[name.len()..].to_owned()).collect::<Vec<_>>()
    };
    let old = of("vllm:time_per_output_token_seconds");
    assert!(
        old.iter()
            .any(|line| line.starts_with("_count") && line.ends_with(" 1.0")),
        "{old:?}"
    );
    assert_eq!(old, of("vllm:inter_token_latency_seconds"));
    let help = "# HELP vllm:gpu_cache_usage_perc DEPRECATED since 0.1.0, hidden from 0.2.0 on: use vllm:kv_cache_usage_perc.";
    assert!(text.contains(help), "{text}");
}

#[test]
fn a_replica_that_is_gone_takes_its_series_along_and_no_other_ones() {
    let telemetry = telemetry(CatalogueOptions::default());
    let at = |replica| Replica { stage: 1, replica };
    let engines = [0, 10].map(|replica| {
        let engine = telemetry.engine(at(replica));
        engine.first_output(Duration::from_millis(5));
        engine
    });
    let edges = [0, 10].map(|replica| EdgeInstruments::new(telemetry.meter(), EdgeEnd::Session, at(replica)));
    telemetry.forget_replica(at(0));
    let text = text(&telemetry, Format::Text);
    assert!(!text.contains("replica=\"0\",stage=\"1\""), "{text}");
    assert!(!text.contains("to_replica=\"0\",to_stage=\"1\""), "{text}");
    assert!(
        text.contains("vllm:num_requests_running{model_name=\"tiny\",replica=\"10\",stage=\"1\"}"),
        "{text}"
    );
    assert!(text.contains("to_replica=\"10\",to_stage=\"1\""), "{text}");
    drop((engines, edges));
}

#[test]
fn a_replica_that_is_built_again_has_restarted_once() {
    let telemetry = telemetry(CatalogueOptions::default());
    let engine = telemetry.engine(Replica { stage: 1, replica: 0 });
    let restarts = |expected: &str| {
        let text = text(&telemetry, Format::Text);
        let line = "vllm:omni_replica_restarts_total{model_name=\"tiny\",replica=\"0\",stage=\"1\"}";
        assert!(text.contains(&format!("{line} {expected}\n")), "{text}");
    };
    engine.loaded();
    restarts("0.0");
    engine.loaded();
    restarts("1.0");
}

#[test]
fn the_processes_of_a_replica_use_up_time_together() {
    let telemetry = telemetry(CatalogueOptions::default());
    let process = OwnProcessInstruments::new(telemetry.meter(), Replica { stage: 1, replica: 0 });
    let used = |cpu| OneProcess {
        cpu,
        resident: 4096.0,
        started: 1e9,
    };
    for (id, cpu) in [(7, 2.0), (7, 3.0), (8, 0.5)] {
        process.is(Some((id, used(cpu))));
    }
    let labels = "{model_name=\"tiny\",replica=\"0\",stage=\"1\"}";
    let before = text(&telemetry, Format::Text);
    assert!(
        before.contains(&format!(
            "vllm:omni_stage_process_cpu_seconds_total{labels} 3.5\n"
        )),
        "{before}"
    );
    process.is(None);
    let after = text(&telemetry, Format::Text);
    assert!(
        after.contains(&format!(
            "vllm:omni_stage_process_resident_memory_bytes{labels} 0.0\n"
        )),
        "{after}"
    );
}

#[test]
fn answers_of_both_apis_are_torchserves_classes() {
    let options = CatalogueOptions {
        enable: vec!["torchserve".to_owned()],
        ..CatalogueOptions::default()
    };
    let telemetry = telemetry(options);
    let call = GrpcInstruments::new(telemetry.meter(), CallKind::Unary, "omni.v1.SpeechService", "m");
    for code in [0, 3, 3, 13] {
        call.handled(GrpcCode(code), Duration::ZERO);
    }
    let http = HttpInstruments::new(telemetry.meter());
    for status in [200, 404, 503] {
        http.answered(&HttpExchange {
            handler: "none",
            method: "GET",
            works: true,
            status,
            request_bytes: 0,
            response_bytes: 0,
            took: Duration::ZERO,
        });
    }
    let text = text(&telemetry, Format::Text);
    for (class, expected) in [("2XX", "2.0"), ("4XX", "3.0"), ("5XX", "2.0")] {
        let line = format!("Requests{class}{{Hostname=\"\",Level=\"Host\"}} {expected}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(
        text.contains("http_requests_total{handler=\"none\",method=\"GET\",status=\"4xx\"} 1.0\n"),
        "{text}"
    );
}
