//! Operators' view of a cluster at a front end: `omni-client stats` and `top` show the values requested here.

use std::process::{Command, Stdio};

use omni_client::{Endpoint, Operator, Replica, ReplicaState, Stats};

use crate::part::{Cluster, PATIENCE, Part, SENTENCE, lacks, long_text};

async fn operator(front: &Part) -> Operator {
    let line = front.says("admin API listening");
    let (_, address) = line.split_once("address=").expect("the address is there");
    let address = address.split_whitespace().next().unwrap_or_default();
    let endpoint = Endpoint::parse(address).expect("an address");
    Operator::connect(&endpoint).await.expect("it listens")
}

fn stage<'a>(stats: &'a Stats, name: &str) -> Vec<&'a Replica> {
    let stage = stats
        .stages
        .iter()
        .find(|stage| stage.name == name)
        .expect("it has the stage");
    let replicas = stage.replicas.iter();
    replicas
        .filter(|replica| replica.state != ReplicaState::Removed)
        .collect()
}

/// The figures when they are as wanted.
async fn when(operator: &Operator, what: &str, wanted: impl Fn(&Stats) -> bool) -> Stats {
    let seen = async {
        loop {
            let stats = operator.stats().await.expect("figures");
            if wanted(&stats) {
                return stats;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    seen.unwrap_or_else(|_| panic!("waited too long until {what}"))
}

#[tokio::test]
async fn an_operator_sees_replicas_that_work_join_and_are_lost() {
    let cluster = Cluster::new();
    let mut talker = cluster.stage("talker", &["--replica", "4"]);
    let _vocoder = cluster.stage("code2wav", &[]);
    let front = cluster.frontend(&["--admin-listen", "127.0.0.1:0", "--max-buffered-audio", "200ms"]);
    front.serves();
    let operator = operator(&front).await;
    let info = operator.info().await.expect("it says what it is");
    assert_eq!(info.models, ["omni-embedded"]);

    let stats = when(&operator, "both are ready", |stats| {
        ["talker", "code2wav"].iter().all(|name| {
            let of = stage(stats, name);
            of.len() == 1 && of[0].state == ReplicaState::Ready
        })
    })
    .await;
    assert_eq!(stage(&stats, "talker")[0].id, "4");
    assert_eq!(stage(&stats, "code2wav")[0].id, "0");

    // What runs is shown where it runs.
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    let stats = when(&operator, "both work", |stats| {
        ["talker", "code2wav"].iter().all(|name| {
            let replica = stage(stats, name)[0];
            replica.in_flight == 1 && replica.running > 0 && replica.steps > 0
        })
    })
    .await;
    assert_eq!((stats.running, stats.sessions), (1, 1));

    // One joins, and takes over when the other is lost.
    let _another = cluster.stage("talker", &["--replica", "7"]);
    let ready = |stats: &Stats, id: &str| {
        let mut of = stage(stats, "talker").into_iter();
        of.any(|replica| replica.id == id && replica.state == ReplicaState::Ready)
    };
    when(&operator, "the other is there", |stats| {
        ready(stats, "4") && ready(stats, "7")
    })
    .await;
    talker.kill();
    let stats = when(&operator, "the first is lost", |stats| {
        let of = stage(stats, "talker");
        of.len() == 1 && of[0].id == "7" && of[0].running > 0
    })
    .await;
    assert_eq!(stage(&stats, "code2wav").len(), 1);
    drop(speech);
    when(&operator, "nothing runs", |stats| {
        let mut all = ["talker", "code2wav"]
            .into_iter()
            .flat_map(|name| stage(stats, name));
        stats.running == 0 && all.all(|replica| (replica.running, replica.in_flight) == (0, 0))
    })
    .await;
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);
}

/// The value of the series with that name on a page, without labels.
pub(crate) fn value(page: &str, name: &str) -> f64 {
    let mut lines = page.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = line.and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not on the page: {page}"))
}

#[tokio::test]
async fn a_front_ends_page_has_the_figures_of_dynamos_runtime_beside_its_own() {
    let cluster = Cluster::new();
    let [front, _talker, _vocoder] = cluster.speaking(&[]);
    front.spoken(1, SENTENCE).await;
    let page = front.metrics();
    assert!(
        page.contains("\nvllm:num_requests_running{"),
        "the server's own: {page}"
    );
    // A stream to each stage, which lasts.
    assert_eq!(value(&page, "dynamo_request_plane_inflight_requests"), 2.0);
    assert_eq!(value(&page, "dynamo_request_plane_send_seconds_count"), 2.0);
    assert!(value(&page, "dynamo_transport_tcp_bytes_sent_total") > 0.0);
    assert!(page.contains("\ndynamo_component_uptime_seconds"), "{page}");
    let mut names: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a family is on the page once");
    let one = front.page("/metrics?name[]=dynamo_request_plane_inflight_requests");
    let samples = body(&one).lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(samples, 1, "{one}");
    if let Some(judged) = promtool(body(&page)) {
        assert_eq!(judged, Ok(()), "{page}");
        let twice = promtool(&body(&page).repeat(2));
        assert!(matches!(twice, Some(Err(_))), "{twice:?}");
    }
}

/// Result of Prometheus' own parser for a page, if there is a promtool (Debian's prometheus has one).
fn promtool(page: &str) -> Option<Result<(), String>> {
    let program = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut program) = program else {
        lacks("promtool");
        return None;
    };
    let mut input = program.stdin.take().expect("it is piped");
    // It may exit at an error without reading the rest.
    let _ = std::io::Write::write_all(&mut input, page.as_bytes());
    drop(input);
    let output = program.wait_with_output().expect("it ends");
    // It also remarks on names that follow other habits than Prometheus' own, with a code of their own.
    match output.status.code() {
        Some(0 | 3) => Some(Ok(())),
        _ => Some(Err(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// A page without its head.
fn body(page: &str) -> &str {
    let (_, body) = page.split_once("\r\n\r\n").expect("a body");
    body
}
