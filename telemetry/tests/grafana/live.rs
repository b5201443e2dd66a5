//! Against Prometheus itself, as it is configured in `grafana/`: every query of every panel has an answer.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use omni_telemetry::*;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::committed::{Rule, dashboards, list, queries, rules, string, text};
use crate::load::{Gpu, Incident, Load, MODEL};
use crate::programs::{Running, find, free_address, start, until};
use crate::vllm;

/// Values that Grafana puts in the place of its variables when everything is chosen.
fn filled_in(query: &str) -> String {
    let variables = ["$job", "$instance", "$model_name", "$stage", "$replica"];
    let query = query.replace("$__rate_interval", "1m");
    variables
        .iter()
        .fold(query, |query, variable| query.replace(variable, ".*"))
}

/// A query as part of an address.
fn encoded(query: &str) -> String {
    let mut out = String::new();
    for byte in query.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Returns true if an answer has a number in it.
fn has_data(answer: &str) -> bool {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let series = answer.pointer("/data/result").and_then(Value::as_array);
    let number = |series: &Value| series.pointer("/value/1").is_some_and(|value| value != "NaN");
    series.is_some_and(|series| series.iter().any(number))
}

/// Rules in which every time is a fifteenth, as scrapes and evaluations here are fifteen times as frequent.
fn faster(rules: &str) -> String {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let mut out = String::new();
    let mut rest = rules;
    while let Some(first) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let behind = out.chars().next_back();
        let (number, after) = rest.split_at(digits);
        let unit = units.iter().find(|(unit, _)| after.starts_with(*unit));
        let stands_alone = behind.is_some_and(|c| matches!(c, '[' | ' ' | ':'))
            && !after.chars().nth(1).is_some_and(char::is_alphanumeric);
        match (number.parse::<u64>(), unit) {
            (Ok(number), Some((_, seconds))) if stands_alone => {
                let _ = write!(out, "{}s", (number * seconds / 15).max(1));
                rest = &after[1..];
            }
            _ => {
                let taken = digits.max(first.len_utf8());
                out.push_str(&rest[..taken]);
                rest = &rest[taken..];
            }
        }
    }
    out
}

#[test]
fn times_are_a_fifteenth_and_nothing_else_changes() {
    for (rule, expected) in [
        ("rate(a[5m]) > 14.4 * 0.005", "rate(a[20s]) > 14.4 * 0.005"),
        ("avg_over_time(a[1m:15s]) < 0.5", "avg_over_time(a[4s:1s]) < 0.5"),
        ("a[12h] offset 60h", "a[2880s] offset 14400s"),
        ("        for: 30s", "        for: 2s"),
        ("record: a:ratio_rate5m", "record: a:ratio_rate5m"),
    ] {
        assert_eq!(faster(rule), expected);
    }
}

/// A Prometheus as it is configured in `grafana/`, only faster, that reads from `metrics`.
fn prometheus(program: &Path, directory: &Path, metrics: SocketAddr) -> (Running, SocketAddr) {
    for file in ["prometheus.yml", "rules.yml", "alerts.yml"] {
        let text = text(&format!("prometheus/{file}"));
        let text = faster(&text).replace("127.0.0.1:9464", &metrics.to_string());
        fs::write(directory.join(file), text).expect("a file");
    }
    let web = free_address();
    let arguments = [
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=data".to_owned(),
        format!("--web.listen-address={web}"),
    ];
    (start(program, &arguments, directory), web)
}

/// A server that is read by a Prometheus, and has a request now and then.
struct Observed {
    load: Arc<Load>,
    web: SocketAddr,
    stop: CancellationToken,
    tasks: tokio::task::JoinSet<()>,
    _prometheus: Running,
    _directory: tempfile::TempDir,
}

impl Observed {
    async fn start(program: &Path) -> Self {
        let load = Arc::new(Load::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let metrics = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        let endpoint = PullEndpoint::new(load.telemetry(), Arc::new(|| true));
        tasks.spawn(endpoint.serve(listener, stop.clone()));
        let busy = Arc::clone(&load);
        let stopped = stop.clone();
        tasks.spawn(async move {
            for number in 0.. {
                busy.request(number);
                let pause = tokio::time::sleep(Duration::from_millis(20));
                if stopped.run_until_cancelled(pause).await.is_none() {
                    break;
                }
            }
        });
        let directory = tempfile::tempdir().expect("a directory");
        let (prometheus, web) = prometheus(program, directory.path(), metrics);
        Self {
            load,
            web,
            stop,
            tasks,
            _prometheus: prometheus,
            _directory: directory,
        }
    }

    /// Asks until there is data.
    async fn data(&self, query: &str) -> Result<String, String> {
        let path = format!("/api/v1/query?query={}", encoded(query));
        until(self.web, &path, has_data).await
    }

    async fn answer(&self, path: &str) -> String {
        let answer = until(self.web, path, |answer| !answer.is_empty()).await;
        answer.unwrap_or_else(|_| panic!("{path} has no answer"))
    }

    async fn end(mut self) {
        self.stop.cancel();
        while let Some(task) = self.tasks.join_next().await {
            task.expect("a task that ends");
        }
    }
}

/// Panels in which something moves do so from the second reading on.
async fn warm(observed: &Observed) {
    let moving = format!("rate(vllm:omni_requests_success_total{{model_name=\"{MODEL}\"}}[1m]) > 0");
    let seen = observed.data(&moving).await;
    assert!(seen.is_ok(), "nothing was read: {seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_every_panel_has_an_answer() {
    let Some(program) = find("prometheus") else {
        return;
    };
    let observed = Observed::start(&program).await;
    warm(&observed).await;
    let has_gpu = Nvml::find().is_some();
    let (optional, needed): (Vec<_>, Vec<_>) = queries().into_iter().partition(|query| query.may_be_empty);
    for query in needed {
        let answer = observed.data(&filled_in(&query.expression)).await;
        assert!(
            answer.is_ok(),
            "{}: {} gives {answer:?}",
            query.place,
            query.expression
        );
    }
    // What says that it may be empty is so while all is well.
    for query in optional
        .iter()
        .filter(|query| !(has_gpu && query.place.contains("GPU")))
    {
        let path = format!("/api/v1/query?query={}", encoded(&filled_in(&query.expression)));
        let answer = observed.answer(&path).await;
        assert!(!has_data(&answer), "{} is not empty: {answer}", query.place);
    }
    observed.load.get_into_trouble();
    let telemetry = observed.load.telemetry();
    let gpu = GpuCollector::new(telemetry.meter(), Gpu);
    telemetry.exposition().collect_from(Arc::new(gpu));
    ExporterInstruments::new(telemetry.meter()).pushed(SystemTime::now());
    for query in optional {
        let answer = observed.data(&filled_in(&query.expression)).await;
        assert!(
            answer.is_ok(),
            "{}: {} gives {answer:?}",
            query.place,
            query.expression
        );
    }
    observed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn incidents_page() {
    let Some(program) = find("prometheus") else {
        return;
    };
    let observed = Observed::start(&program).await;
    warm(&observed).await;
    let suffering = async {
        loop {
            for incident in [
                Incident::Outage,
                Incident::Overload,
                Incident::Silence,
                Incident::CrashLoop,
            ] {
                observed.load.suffer(incident);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let paged = async {
        for alert in [
            "OmniRequestsFail",
            "OmniOverloaded",
            "OmniSilentAudio",
            "OmniReplicaCrashLoop",
        ] {
            let firing = format!("ALERTS{{alertname=\"{alert}\", alertstate=\"firing\", severity=\"page\"}}");
            let answer = observed.data(&firing).await;
            assert!(answer.is_ok(), "{alert}: {answer:?}");
        }
    };
    tokio::select! {
        () = suffering => {}
        () = paged => {}
    }
    observed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_vllms_dashboards_have_an_answer() {
    let Some(program) = find("prometheus") else {
        return;
    };
    let observed = Observed::start(&program).await;
    warm(&observed).await;
    for query in vllm::queries(MODEL, "1m") {
        let answer = observed.data(&query).await;
        assert!(answer.is_ok(), "{query} gives {answer:?}");
    }
    observed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_offer_what_there_is_and_rules_can_be_evaluated() {
    let Some(program) = find("prometheus") else {
        return;
    };
    let observed = Observed::start(&program).await;
    warm(&observed).await;
    for (name, dashboard) in dashboards() {
        for variable in &list(&dashboard, "/templating/list")[1..] {
            let query = filled_in(string(variable, "/query/query"));
            let inner = query.split_once('(').expect("a call").1.trim_end_matches(')');
            let (selector, label) = inner.rsplit_once(", ").unwrap_or((inner, "stage_name"));
            // A comma inside a selector is none before a label.
            let (selector, label) = if label.contains('}') {
                (inner, "stage_name")
            } else {
                (selector, label)
            };
            let path = format!("/api/v1/label/{label}/values?match[]={}", encoded(selector));
            let answer: Value = serde_json::from_str(&observed.answer(&path).await).expect("JSON");
            assert!(
                !list(&answer, "/data").is_empty(),
                "{name}: {query} offers nothing"
            );
        }
    }
    let recorded = rules("prometheus/rules.yml");
    // These are there after days, for a server that stopped pushing, and for replicas with processes of their own.
    let seldom = ["ratio_rate3d", ":push:", "stage_memory"];
    let often = |rule: &&Rule| !seldom.iter().any(|part| rule.name.contains(part));
    for rule in recorded.iter().filter(often) {
        let answer = observed.data(&rule.name).await;
        assert!(answer.is_ok(), "{} is not recorded: {answer:?}", rule.name);
    }
    let evaluated = until(observed.web, "/api/v1/rules", |answer| {
        !answer.contains("\"health\":\"unknown\"")
    })
    .await;
    let answer = evaluated.expect("every rule is evaluated");
    assert!(!answer.contains("\"health\":\"err\""), "{answer}");
    assert_eq!(
        answer.matches("\"health\":\"ok\"").count(),
        recorded.len() + rules("prometheus/alerts.yml").len()
    );
    // Nothing is wrong with this server, and nothing is said to be; the disk of the machine may be full.
    let alerts = observed.answer("/api/v1/alerts").await;
    let named = |name: &str| alerts.matches(&format!("\"alertname\":\"{name}")).count();
    assert_eq!(named(""), named("OmniDiskFills"), "{alerts}");
    observed.end().await;
}
