use std::sync::atomic::AtomicU64;

use super::*;
use crate::catalogue::Catalogue;
use crate::drops::DropReason;
use crate::meter::METADATA;
use crate::recorder::tests::key;

fn exposition() -> Exposition {
    let schema = Schema::new(Arc::new(Catalogue::built_in()));
    Exposition::new(Arc::new(schema), Arc::default())
}

/// The rendered lines that are about `name`.
fn lines(exposition: &Exposition, name: &str) -> Vec<String> {
    let text = exposition.render(&Selection::of([name.to_owned()]));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_family_without_samples_is_still_shown() {
    let help = "# HELP process_open_fds File descriptors that are open.";
    assert_eq!(
        lines(&exposition(), "process_open_fds"),
        [help, "# TYPE process_open_fds gauge"]
    );
}

#[test]
fn a_histogram_has_cumulative_buckets_count_and_sum_with_bounds_in_pythons_form() {
    let exposition = exposition();
    let rtf = exposition.register_histogram(
        &key("vllm:omni_audio_rtf", &[("stage", "1"), ("replica", "0")]),
        &METADATA,
    );
    for value in [0.05, 0.95, 1.0, 1.01, 99.0] {
        rtf.record(value);
    }
    let lines = lines(&exposition, "vllm:omni_audio_rtf");
    let line = |le: &str, count: &str| {
        format!("vllm:omni_audio_rtf_bucket{{replica=\"0\",stage=\"1\",le=\"{le}\"}} {count}")
    };
    for expected in [
        line("0.1", "1.0"),
        line("0.9", "1.0"),
        line("1.0", "3.0"),
        line("1.25", "4.0"),
        line("+Inf", "5.0"),
    ] {
        assert!(lines.contains(&expected), "{expected} in {lines:#?}");
    }
    assert!(lines.contains(&"vllm:omni_audio_rtf_count{replica=\"0\",stage=\"1\"} 5.0".to_owned()));
    assert!(lines.contains(&"vllm:omni_audio_rtf_sum{replica=\"0\",stage=\"1\"} 102.01".to_owned()));
}

#[test]
fn families_come_in_the_catalogues_order_and_series_in_that_of_their_labels() {
    let exposition = exposition();
    for replica in ["2", "0", "1"] {
        let labels = [("stage", "0"), ("replica", replica)];
        for name in ["vllm:num_requests_waiting", "vllm:num_requests_running"] {
            exposition.register_gauge(&key(name, &labels), &METADATA).set(1.0);
        }
    }
    let text = exposition.render(&Selection::default());
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: Vec<_> = families.filter_map(|line| line.split(' ').next()).collect();
    let catalogue = exposition.schema.catalogue();
    let served = exposition.schema.served();
    let read = served.iter().filter(|family| family.sinks.prometheus);
    let expected = read.flat_map(|family| {
        let others = catalogue.other_names(&family.name).map(|other| &other.name);
        [&family.name].into_iter().chain(others)
    });
    assert_eq!(families, expected.map(AsRef::as_ref).collect::<Vec<&str>>());
    let series: Vec<_> = lines(&exposition, "vllm:num_requests_running").split_off(2);
    let sorted = ["0", "1", "2"]
        .map(|replica| format!("vllm:num_requests_running{{replica=\"{replica}\",stage=\"0\"}} 1.0"));
    assert_eq!(series, sorted);
}

#[test]
fn a_label_set_is_one_series_in_whatever_order_it_comes() {
    let exposition = exposition();
    let running = "vllm:num_requests_running";
    for labels in [
        [("stage", "0"), ("replica", "1")],
        [("replica", "1"), ("stage", "0")],
    ] {
        exposition
            .register_gauge(&key(running, &labels), &METADATA)
            .increment(1.0);
    }
    assert_eq!(
        lines(&exposition, running)[2..],
        ["vllm:num_requests_running{replica=\"1\",stage=\"0\"} 2.0"]
    );
}

#[test]
fn label_values_are_escaped_and_never_fall_together() {
    let exposition = exposition();
    for value in ["a\\nb", "a\nb", "a\"b", "a\\\"b"] {
        exposition
            .register_gauge(&key("vllm:omni_build_info", &[("version", value)]), &METADATA)
            .set(1.0);
    }
    let lines = lines(&exposition, "vllm:omni_build_info");
    assert_eq!(lines.len(), 2 + 4);
    for escaped in ["a\\\\nb", "a\\nb", "a\\\"b", "a\\\\\\\"b"] {
        assert!(lines.contains(&format!("vllm:omni_build_info{{version=\"{escaped}\"}} 1.0")));
    }
}

#[test]
fn a_name_selects_its_family_or_one_of_its_series_and_no_sibling() {
    let exposition = exposition();
    exposition
        .register_histogram(&key("vllm:omni_audio_underrun_s", &[]), &METADATA)
        .record(1.0);
    let sum = lines(&exposition, "vllm:omni_audio_underrun_s_sum");
    assert_eq!(
        sum[1..],
        [
            "# TYPE vllm:omni_audio_underrun_s histogram",
            "vllm:omni_audio_underrun_s_sum 1.0"
        ]
    );
    assert!(lines(&exposition, "vllm:omni_audio_underrun").is_empty());
    let two = Selection::of(["process_open_fds".to_owned(), "process_max_fds".to_owned()]);
    assert_eq!(exposition.render(&two).matches("# TYPE").count(), 2);
}

#[test]
fn values_that_are_no_numbers_are_counted_and_poison_nothing() {
    let exposition = exposition();
    let rtf = exposition.register_histogram(&key("vllm:omni_audio_rtf", &[]), &METADATA);
    let gauge = exposition.register_gauge(&key("process_open_fds", &[]), &METADATA);
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        rtf.record(value);
        gauge.set(value);
        gauge.increment(value);
    }
    rtf.record(0.5);
    assert!(
        lines(&exposition, "vllm:omni_audio_rtf_sum").contains(&"vllm:omni_audio_rtf_sum 0.5".to_owned())
    );
    assert!(lines(&exposition, "process_open_fds").contains(&"process_open_fds 0.0".to_owned()));
    assert_eq!(exposition.drops.total(DropReason::NonFinite), 9);
}

#[test]
fn a_real_counter_only_grows_and_is_a_counter() {
    let exposition = exposition();
    let cpu = exposition.register_gauge(&key("process_cpu_seconds_total", &[]), &METADATA);
    cpu.increment(1.5);
    cpu.increment(-1.0);
    cpu.decrement(0.5);
    cpu.set(0.25);
    cpu.set(2.75);
    let lines = lines(&exposition, "process_cpu_seconds_total");
    assert_eq!(
        lines[1..],
        [
            "# TYPE process_cpu_seconds_total counter",
            "process_cpu_seconds_total 2.75"
        ]
    );
}

#[test]
fn threads_that_register_one_series_at_once_share_it() {
    let exposition = exposition();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let count =
                        exposition.register_counter(&key("vllm:omni_metrics_scrapes_total", &[]), &METADATA);
                    count.increment(1);
                    exposition
                        .register_histogram(&key("vllm:omni_audio_rtf", &[]), &METADATA)
                        .record(0.5);
                }
            });
        }
    });
    assert!(
        lines(&exposition, "vllm:omni_metrics_scrapes_total")
            .contains(&"vllm:omni_metrics_scrapes_total 4000.0".to_owned())
    );
    assert!(
        lines(&exposition, "vllm:omni_audio_rtf_count")
            .contains(&"vllm:omni_audio_rtf_count 4000.0".to_owned())
    );
    assert!(
        lines(&exposition, "vllm:omni_audio_rtf_sum").contains(&"vllm:omni_audio_rtf_sum 2000.0".to_owned())
    );
}

#[test]
fn collectors_are_asked_before_every_rendering_and_may_record() {
    struct Asked(AtomicU64, Gauge);
    impl Collector for Asked {
        fn collect(&self) {
            let times = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            self.1.set(times as f64);
        }
    }
    let exposition = exposition();
    let gauge = exposition.register_gauge(&key("process_open_fds", &[]), &METADATA);
    let collector: Arc<dyn Collector> = Arc::new(Asked(AtomicU64::new(0), gauge));
    exposition.collect_from(Arc::clone(&collector));
    let value = |exposition: &Exposition| lines(exposition, "process_open_fds").last().cloned();
    assert_eq!(value(&exposition).as_deref(), Some("process_open_fds 1.0"));
    assert_eq!(value(&exposition).as_deref(), Some("process_open_fds 2.0"));
}
