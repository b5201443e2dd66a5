use super::*;
use crate::custom::CustomKind;

/// The facts of the file that TorchServe ships, in its format.
const DEFAULT: &str = r#"
dimensions:
  - &model_name "ModelName"
  - &worker_name "WorkerName"
  - &level "Level"
  - &device_id "DeviceId"
  - &hostname "Hostname"

ts_metrics:
  counter:
    - name: Requests2XX
      unit: Count
      dimensions: [*level, *hostname]
    - name: Requests4XX
      unit: Count
      dimensions: [*level, *hostname]
    - name: Requests5XX
      unit: Count
      dimensions: [*level, *hostname]
    - name: ts_inference_requests_total
      unit: Count
      dimensions: ["model_name", "model_version", "hostname"]
    - name: ts_inference_latency_microseconds
      unit: Microseconds
      dimensions: ["model_name", "model_version", "hostname"]
    - name: ts_queue_latency_microseconds
      unit: Microseconds
      dimensions: ["model_name", "model_version", "hostname"]
  gauge:
    - name: QueueTime
      unit: Milliseconds
      dimensions: [*level, *hostname]
    - name: WorkerThreadTime
      unit: Milliseconds
      dimensions: [*level, *hostname]
    - name: WorkerLoadTime
      unit: Milliseconds
      dimensions: [*worker_name, *level, *hostname]
    - name: CPUUtilization
      unit: Percent
      dimensions: [*level, *hostname]
    - name: MemoryUsed
      unit: Megabytes
      dimensions: [*level, *hostname]
    - name: MemoryAvailable
      unit: Megabytes
      dimensions: [*level, *hostname]
    - name: MemoryUtilization
      unit: Percent
      dimensions: [*level, *hostname]
    - name: DiskUsage
      unit: Gigabytes
      dimensions: [*level, *hostname]
    - name: DiskUtilization
      unit: Percent
      dimensions: [*level, *hostname]
    - name: DiskAvailable
      unit: Gigabytes
      dimensions: [*level, *hostname]
    - name: GPUMemoryUtilization
      unit: Percent
      dimensions: [*level, *device_id, *hostname]
    - name: GPUMemoryUsed
      unit: Megabytes
      dimensions: [*level, *device_id, *hostname]
    - name: GPUUtilization
      unit: Percent
      dimensions: [*level, *device_id, *hostname]

model_metrics:
  gauge:
    - name: HandlerTime
      unit: ms
      dimensions: [*model_name, *level]
    - name: PredictionTime
      unit: ms
      dimensions: [*model_name, *level]
"#;

fn read(text: &str) -> Result<MetricsConfig, MetricsConfigError> {
    MetricsConfig::parse("metrics.yaml", text)
}

#[test]
fn the_default_file_is_taken_and_lists_every_family_of_the_profile() {
    let config = read(DEFAULT).expect("the default file");
    assert_eq!((config.torchserve.len(), config.custom.len()), (21, 0));
    let catalogue = Catalogue::built_in();
    let group = catalogue
        .families()
        .iter()
        .filter(|family| family.group.as_ref() == "torchserve");
    for family in group {
        assert!(
            config.torchserve.iter().any(|name| **name == *family.name),
            "{}",
            family.name
        );
    }
}

#[test]
fn a_models_own_metric_gets_the_hostname_and_a_servers_does_not() {
    let text = "dimensions: [&m ModelName]\n\
                ts_metrics: {counter: [{name: A, unit: Count}]}\n\
                model_metrics: {histogram: [{name: B, unit: ms, dimensions: [*m], buckets: [1, 5], help: Times.}]}\n";
    let config = read(text).expect("a good file");
    assert_eq!(config.custom[0].labels, Vec::<String>::new());
    assert_eq!(config.custom[0].kind, CustomKind::Counter);
    assert_eq!(config.custom[1].labels, ["ModelName", "Hostname"]);
    assert_eq!(config.custom[1].bounds.as_deref(), Some([1.0, 5.0].as_slice()));
}

#[test]
fn the_forms_of_the_design_text_are_taken_too() {
    let text = "mode: tslog\ndimensions:\n  model_name: &m \"model\"\n  host: &h \"host\"\n\
                model_metrics:\n  gauge:\n    - name: G\n      unit: ms\n      dimensions: [*m, *h]\n";
    let config = read(text).expect("a good file");
    assert_eq!(config.mode, Some(MetricsMode::Log));
    assert_eq!(config.custom[0].labels, ["model", "host", "Hostname"]);
}

#[test]
fn every_problem_is_told_with_its_file_line_and_column() {
    let text = "mode: loud\n\
                dimensions: [a, a, '']\n\
                ts_metrics:\n  counter:\n    - unit: Count\n    - name: ''\n      unit: Count\n    - name: A\n    \
                - {name: B, unit: x, dimensions: [c, c]}\n    - {name: C, unit: x}\n    - {name: C, unit: x}\n    \
                - {name: D-E, unit: x}\n    - {name: QueueTime, unit: s}\n    - {name: 'vllm:num_requests_running', unit: x}\n    \
                - {name: F, unit: x, dimension: [a]}\n  summary: []\n";
    let error = read(text).expect_err("problems").to_string();
    for expected in [
        "metrics.yaml:1:7: mode \"loud\", expected one of log, prometheus, legacy, all",
        "metrics.yaml:2:17: dimension \"a\" is there twice",
        "metrics.yaml:2:20: dimension: the name is empty",
        "metrics.yaml:5:7: counter: name is missing",
        "metrics.yaml:6:13: name is empty",
        "metrics.yaml:8:7: counter: unit is missing",
        "metrics.yaml:9:42: dimension \"c\" is there twice",
        "metrics.yaml:11:14: metric \"C\" is declared already, in line 10",
        "metrics.yaml:12:14: metric \"D-E\": the name has characters",
        "metrics.yaml:13:14: metric \"QueueTime\" is TorchServe's own: it is a gauge, its unit is Milliseconds, its dimensions are Level, Hostname",
        "metrics.yaml:14:14: metric \"vllm:num_requests_running\" is the server's own",
        "metrics.yaml:15:26: counter: unknown key \"dimension\", expected one of name, unit, dimensions, help, buckets",
        "metrics.yaml:16:3: ts_metrics: unknown key \"summary\"",
    ] {
        assert!(error.contains(expected), "{expected}\nin\n{error}");
    }
}

#[test]
fn files_that_are_none_are_three_different_errors() {
    let missing = MetricsConfig::read(Path::new("/no/such/file.yaml")).expect_err("no file");
    assert!(
        missing.to_string().starts_with("/no/such/file.yaml: "),
        "{missing}"
    );
    let broken = read("ts_metrics: [\n").expect_err("no YAML").to_string();
    assert!(broken.contains("this is not YAML"), "{broken}");
    let empty = read("").expect_err("nothing in it").to_string();
    assert!(empty.contains("no metric is declared"), "{empty}");
    let unknown =
        read("model_metrics: {gauge: [{name: A, unit: x, dimensions: [*nobody]}]}\n").expect_err("no anchor");
    assert!(unknown.to_string().starts_with("metrics.yaml:1:"), "{unknown}");
}

#[test]
fn modes_say_where_families_go() {
    let sinks = |mode: MetricsMode, name: &str| {
        let sinks = mode.sinks(name);
        (sinks.prometheus, sinks.log)
    };
    assert_eq!(sinks(MetricsMode::Log, "QueueTime"), (false, true));
    assert_eq!(sinks(MetricsMode::Prometheus, "QueueTime"), (true, false));
    assert_eq!(sinks(MetricsMode::Legacy, "QueueTime"), (false, true));
    assert_eq!(
        sinks(MetricsMode::Legacy, "ts_inference_requests_total"),
        (true, false)
    );
    assert_eq!(sinks(MetricsMode::All, "QueueTime"), (true, true));
    assert_eq!(MetricsMode::parse(" Legacy "), Some(MetricsMode::Legacy));
    assert_eq!(MetricsMode::parse("json"), None);
}
