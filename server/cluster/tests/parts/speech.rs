//! Speech through three processes.

use std::net::TcpListener;

use crate::part::{Cluster, PROBES, Part, SENTENCE, http, long_text, until};

/// A server that is one process.
pub(crate) fn alone() -> Part {
    let args = [
        "--speech-only",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
    ];
    let part = Part::start(&args);
    part.serves();
    part
}

#[tokio::test]
async fn three_processes_say_what_one_process_says() {
    let cluster = Cluster::new();
    let alone = alone();
    let [front, talker, vocoder] = cluster.speaking(&[]);
    for (seed, text) in [
        (1, SENTENCE),
        (2, "At 3 pm it was 5 degrees."),
        (3, "Yes! Three parts. This is one."),
    ] {
        let expected = alone.spoken(seed, text).await;
        assert!(expected.len() > 10_000);
        // In company, too.
        let (first, second) = tokio::join!(front.spoken(seed, text), front.spoken(seed, text));
        assert!(first == expected && second == expected, "{text}");
    }
    drop((talker, vocoder));
}

#[tokio::test]
async fn one_process_whose_stages_are_processes_says_what_one_process_says() {
    let args = [
        "--speech-only",
        "--listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
        "--set",
        "stages.code2wav.placement=process",
    ];
    let alone = alone();
    let placed = Part::start(&args);
    placed.serves();
    assert!(placed.spoken(1, SENTENCE).await == alone.spoken(1, SENTENCE).await);
}

#[tokio::test]
async fn a_stage_takes_no_setting_of_the_runtime_from_its_environment() {
    let cluster = Cluster::new();
    let folder = cluster.path().display().to_string();
    let args = ["--role", "stage", "--stage", "code2wav"];
    let found = ["--cluster-discovery", "file", "--cluster-dir", &folder];
    let address = free_address();
    let port = address.rsplit(':').next().expect("it has a port");
    let environment = [("DYN_SYSTEM_HOST", "127.0.0.1"), ("DYN_SYSTEM_PORT", port)];
    let stage = Part::start_in(&environment, &[args, found].concat());
    stage.says("registered");
    assert!(std::net::TcpStream::connect(&address).is_err());
}

/// An address of which the runtime would take the port: none that the system gives by itself.
fn free_address() -> String {
    let first = 20_000 + (std::process::id() % 7_000) as u16;
    let mut ports = first..32_767;
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    format!("127.0.0.1:{}", free.expect("a port"))
}

#[tokio::test]
async fn two_front_ends_share_the_replicas_and_name_them_alike() {
    let cluster = Cluster::new();
    let [first, _talker, _vocoder] = cluster.speaking(&[]);
    let _another = cluster.stage("talker", &["--replica", "7"]);
    let second = cluster.frontend(&[]);
    second.serves();
    for front in [&first, &second] {
        front.says_times("replica ready", 3);
    }
    let all = [(1, &first), (2, &second), (3, &first), (4, &second)];
    let said = all.map(|(seed, front)| front.spoken(seed, SENTENCE));
    let said = futures::future::join_all(said).await;
    let again = all.map(|(seed, _)| second.spoken(seed, SENTENCE));
    assert!(said == futures::future::join_all(again).await);
    // A replica's own counters are equal on every page; requests are counted at the front end.
    for (stage, replica) in [(TALKER, 0), (TALKER, 7), (CODE2WAV, 0)] {
        let labels = format!("replica=\"{replica}\",stage=\"{stage}\"");
        let of = |front: &Part| value(front, "vllm:generation_tokens_total", &labels);
        until("both have been told", || of(&first) == of(&second)).await;
        assert!(of(&first) > 0.0, "{labels}");
    }
    // Each of two stages is done with each of its own sequences once.
    let done = |front: &Part| value(front, "vllm:request_success_total", "finished_reason=\"stop\"");
    until("both know the ends", || {
        (done(&first), done(&second)) == (4.0, 12.0)
    })
    .await;
}

#[tokio::test]
async fn a_front_end_counts_what_a_replica_has_of_another_front_end() {
    let cluster = Cluster::new();
    let [first, talker, _vocoder] = cluster.speaking(&["--max-buffered-audio", "200ms"]);
    let mut waits = first.speak(1, &long_text()).await;
    waits.begun().await;
    let second = cluster.frontend(&[]);
    let another = cluster.stage("talker", &["--replica", "7"]);
    second.serves();
    second.says_times("replica ready", 3);
    let labels = |replica: u32| format!("replica=\"{replica}\",stage=\"{TALKER}\"");
    let of = |family: &str, replica| value(&second, family, &labels(replica));
    until("it knows", || of("vllm:num_requests_running", 0) == 1.0).await;
    for seed in 0..4 {
        assert!(second.spoken(seed, SENTENCE).await.len() > 10_000);
    }
    let done = |replica| of("vllm:request_success_total", replica);
    until("all have ended", || done(0) + done(7) == 4.0).await;
    assert_eq!((done(0), done(7)), (0.0, 4.0), "by the queue that is published");
    drop((waits, talker, another));
}

#[tokio::test]
async fn of_what_a_caller_gives_up_little_more_is_computed() {
    let cluster = Cluster::new();
    let _vocoder = cluster.stage("code2wav", &[]);
    let talker = cluster.stage("talker", &PROBES);
    let address = talker.probes();
    let front = cluster.frontend(&["--max-buffered-audio", "1m"]);
    front.serves();
    let figure = |name: &str| {
        let page = http(&address, "/metrics");
        let begin = format!("omni_stage_{name}{{");
        let line = page.lines().find(|line| line.starts_with(&begin));
        let figure = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        figure.expect("it is on the page")
    };
    let mut given_up = front.speak(1, &long_text()).await;
    given_up.begun().await;
    let before = figure("steps_total");
    drop(given_up);
    until("nothing runs", || figure("running") == 0.0).await;
    let more = figure("steps_total") - before;
    // All of it are more than two thousand steps, of a few milliseconds each.
    assert!(more < 200.0, "{more} steps for a caller that has gone");
}

#[tokio::test]
async fn no_part_takes_connections_from_other_machines_unless_it_is_told_to() {
    let cluster = Cluster::new();
    let parts = cluster.speaking(&["--admin-listen", "127.0.0.1:0"]);
    assert!(parts[0].spoken(1, SENTENCE).await.len() > 10_000);
    for part in &parts {
        let at = part.listens_at();
        assert!(!at.is_empty());
        assert!(at.iter().all(|host| host == "0100007F"), "{at:?}");
    }
}

#[tokio::test]
async fn transfers_are_counted_with_the_bytes_that_pass_between_processes() {
    let cluster = Cluster::new();
    let [front, _talker, _vocoder] = cluster.speaking(&[]);
    let audio = front.spoken(1, SENTENCE).await.len() as f64;
    let sum = |to: &str| {
        let labels = format!("to_stage=\"{to}\"");
        value(&front, "vllm:omni_transfer_size_bytes_sum", &labels)
    };
    let codes = CODE2WAV.to_string();
    until("it was told", || sum(&codes) > 0.0).await;
    let frames = value(
        &front,
        "vllm:generation_tokens_total",
        &format!("stage=\"{TALKER}\""),
    );
    // Eight codes each, with a few words around them.
    let each = sum(&codes) / frames;
    assert!(
        (8.0..128.0).contains(&each),
        "{each} bytes for each of {frames} frames"
    );
    let given = sum("session");
    assert!(
        (audio..3.0 * audio).contains(&given),
        "{given} bytes on the way for {audio} at its end"
    );
}

/// The ids of stages in metrics.
const TALKER: u32 = 0;
const CODE2WAV: u32 = 1;

/// The sum of all series of a family that have these labels.
fn value(front: &Part, family: &str, labels: &str) -> f64 {
    let page = front.metrics();
    let begin = format!("{family}{{");
    let series = page
        .lines()
        .filter(|line| line.starts_with(&begin) && line.contains(labels));
    series
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Sequences that run in a stage, as a front end sees it.
fn running(front: &Part, stage: u32) -> f64 {
    value(front, "vllm:num_requests_running", &format!("stage=\"{stage}\""))
}

#[tokio::test]
async fn what_a_caller_gives_up_ends_in_all_processes() {
    let cluster = Cluster::new();
    let [front, _talker, _vocoder] = cluster.speaking(&["--max-buffered-audio", "200ms"]);
    let mut given_up = front.speak(1, &long_text()).await;
    given_up.begun().await;
    until("both stages work", || {
        running(&front, TALKER) > 0.0 && running(&front, CODE2WAV) > 0.0
    })
    .await;
    drop(given_up);
    until("nothing runs", || {
        running(&front, TALKER) == 0.0 && running(&front, CODE2WAV) == 0.0
    })
    .await;
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);
}

#[tokio::test]
async fn the_page_of_a_stage_has_its_figures_and_says_that_it_works() {
    let cluster = Cluster::new();
    let _vocoder = cluster.stage("code2wav", &[]);
    let talker = cluster.stage("talker", &[&PROBES[..], &["--replica", "4"]].concat());
    let address = talker.probes();
    let front = cluster.frontend(&[]);
    front.serves();
    for path in ["/live", "/health"] {
        assert!(http(&address, path).starts_with("HTTP/1.1 200"), "{path}");
    }
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);
    let page = http(&address, "/metrics");
    let labels = "{stage_name=\"talker\",replica=\"4\"}";
    let of = |name: &str| {
        let begin = format!("omni_stage_{name}{labels} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&begin));
        line.and_then(|value| value.parse::<f64>().ok())
            .expect("it is on the page")
    };
    assert!(
        of("decode_tokens_total") > 10.0 && of("steps_total") > 10.0,
        "{page}"
    );
    assert_eq!((of("front_ends"), of("running")), (1.0, 0.0));
    assert!(page.contains("dynamo_component_"), "the runtime's own are there");
}
