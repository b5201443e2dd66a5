//! Processes that are killed, drained or never there.

use std::collections::BTreeMap;

use crate::figures::value;
use crate::part::{Cluster, PROBES, Part, SENTENCE, http, long_text, until};
use crate::speech::alone;

/// Little may be ahead of the listener, so that much is left to say when a process is killed.
const SLOWLY: [&str; 2] = ["--max-buffered-audio", "200ms"];

async fn killed_in_mid_speech(stage: &str) {
    let cluster = Cluster::new();
    let [front, talker, vocoder] = cluster.speaking(&SLOWLY);
    let expected = front.spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    // Bound to the replicas that were there.
    let _another = cluster.stage(stage, &[]);
    front.says_times("replica ready", 3);
    let mut victim = if stage == "talker" { talker } else { vocoder };
    victim.kill();
    let heard = speech.rest().await.expect("it goes on elsewhere");
    assert!(heard == expected, "{} of {} bytes", heard.len(), expected.len());
    front.says("is retried on another replica");
    front.says("replica left");
}

#[tokio::test]
async fn what_a_killed_talker_spoke_goes_on_at_another_with_the_same_samples() {
    killed_in_mid_speech("talker").await;
}

#[tokio::test]
async fn what_a_killed_code2wav_decoded_goes_on_at_another_with_the_same_samples() {
    killed_in_mid_speech("code2wav").await;
}

/// Stands still for longer than silence is borne and than its files are left.
async fn frozen_in_mid_speech(stage: &str) {
    let cluster = Cluster::new();
    let [front, talker, vocoder] = cluster.speaking(&SLOWLY);
    let expected = front.spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    let _another = cluster.stage(stage, &[]);
    front.says_times("replica ready", 3);
    let victim = if stage == "talker" { talker } else { vocoder };
    victim.signal("-STOP");
    let heard = speech.rest().await.expect("it goes on elsewhere");
    assert!(heard == expected, "{} of {} bytes", heard.len(), expected.len());
    front.says("is retried on another replica");
    front.says("replica left");
    victim.signal("-CONT");
    victim.says("registration expired");
    front.says_times("replica ready", 4);
    assert!(front.spoken(1, SENTENCE).await == alone().spoken(1, SENTENCE).await);
    assert!(!victim.log().contains(" ERROR "), "{}", victim.log());
}

#[tokio::test]
async fn what_a_frozen_talker_spoke_goes_on_at_another_and_it_is_used_again() {
    frozen_in_mid_speech("talker").await;
}

#[tokio::test]
async fn what_a_frozen_code2wav_decoded_goes_on_at_another_and_it_is_used_again() {
    frozen_in_mid_speech("code2wav").await;
}

#[tokio::test]
async fn what_the_only_talker_spoke_goes_on_when_it_is_started_again() {
    let cluster = Cluster::new();
    let [front, mut talker, _vocoder] =
        cluster.speaking(&[&SLOWLY[..], &["--set", "handover.wait=60s"]].concat());
    let expected = front.spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    talker.kill();
    // Under its number, as a service manager starts it.
    let _again = cluster.stage("talker", &["--replica", "0"]);
    assert!(speech.rest().await.expect("it goes on") == expected);
    front.says("is retried on another replica");
}

#[tokio::test]
async fn what_no_replica_can_take_ends_with_an_error_that_names_the_stage() {
    let cluster = Cluster::new();
    let [front, mut talker, _vocoder] =
        cluster.speaking(&[&SLOWLY[..], &["--set", "handover.wait=500ms"]].concat());
    let expected = front.spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    talker.kill();
    let status = speech.rest().await.expect_err("no talker is left");
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    assert!(status.message().contains("talker"), "{status:?}");
    let details = String::from_utf8_lossy(status.details());
    assert!(details.contains("STAGE_UNAVAILABLE"), "{details}");
    // New calls succeed, too, and nothing else is wrong.
    let request = omni_proto::v1::SynthesizeRequest {
        config: None,
        text: SENTENCE.to_owned(),
    };
    let status = front.client().await.synthesize(request).await;
    let status = status.map(drop).expect_err("no talker is left");
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    let _again = cluster.stage("talker", &["--replica", "0"]);
    front.says_times("replica ready", 3);
    assert!(front.spoken(1, &long_text()).await == expected);
}

#[tokio::test]
async fn a_stage_whose_only_replica_is_being_reached_is_unavailable_by_name_and_loads_no_model() {
    let cluster = Cluster::new();
    let [front, mut talker, _vocoder] = cluster.speaking(&[]);
    let expected = front.spoken(1, SENTENCE).await;
    talker.kill();
    front.says("replica lost");
    // One that is found and does not answer.
    front.signal("-STOP");
    let again = cluster.stage("talker", &["--replica", "0"]);
    again.signal("-STOP");
    front.signal("-CONT");
    front.says_times("replica joined", 3);
    let request = omni_proto::v1::SynthesizeRequest {
        config: None,
        text: SENTENCE.to_owned(),
    };
    let status = front.client().await.synthesize(request).await;
    let status = status.map(drop).expect_err("no talker answers");
    let details = String::from_utf8_lossy(status.details());
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    assert!(
        status.message().contains("talker") && details.contains("STAGE_UNAVAILABLE"),
        "{status:?}"
    );
    again.signal("-CONT");
    front.says_times("replica ready", 3);
    assert!(front.spoken(1, SENTENCE).await == expected);
}

#[tokio::test]
async fn of_a_killed_stage_the_log_has_a_line_of_its_loss_one_that_it_left_and_its_return() {
    let cluster = Cluster::new();
    let [front, mut talker, _vocoder] = cluster.speaking(&["--log-stats-interval", "1h"]);
    let expected = front.spoken(1, SENTENCE).await;
    let before = front.log().lines().count();
    talker.kill();
    // Until its card is gone every attempt to reach it fails.
    let tried = |page: &str| value(page, "dynamo_transport_tcp_errors_total");
    until("it was tried again", || tried(&front.metrics()) >= 3.0).await;
    let page = front.metrics();
    front.says("replica left");
    let _again = cluster.stage("talker", &["--replica", "0"]);
    front.says_times("replica ready", 3);
    let log = front.log();
    // The part that notices and reports the old card varies.
    let is_news = |line: &&str| !line.contains(" INFO dynamo_runtime::");
    let lines: Vec<_> = log.lines().skip(before).filter(is_news).collect();
    let said = [
        "replica lost; reconnecting until it is back or has left",
        "replica left",
        "replica joined",
        "replica ready",
    ];
    assert!(
        lines.len() == said.len() && lines.iter().zip(said).all(|(line, said)| line.contains(said)),
        "{lines:#?}"
    );
    let died = page
        .lines()
        .find(|line| line.starts_with("vllm:omni_replica_deaths_total{") && line.contains("stage=\"0\""));
    assert!(died.is_some_and(|line| line.ends_with("} 1.0")), "{page}");
    assert!(front.spoken(1, SENTENCE).await == expected);
}

/// The series of stage 0 on a page, and their values.
fn series_of_first_stage(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| line.contains("stage=\"0\""));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs
        .map(|(series, value)| (series, value.parse().expect("a number")))
        .collect()
}

#[tokio::test]
async fn a_replica_that_joins_again_counts_in_the_series_that_it_had() {
    let cluster = Cluster::new();
    let [front, mut talker, _vocoder] = cluster.speaking(&[]);
    front.spoken(1, SENTENCE).await;
    let first = front.metrics();
    talker.kill();
    front.says("replica left");
    let _again = cluster.stage("talker", &["--replica", "0"]);
    front.says_times("replica ready", 3);
    front.spoken(1, SENTENCE).await;
    let grown = |page: &str| {
        let now = series_of_first_stage(page);
        let counted = |(name, value): (&&str, &f64)| {
            let is_of_sequences = name.starts_with("vllm:request_success_total{");
            is_of_sequences && now.get(*name).is_some_and(|now| now > value)
        };
        series_of_first_stage(&first)
            .iter()
            .any(|(name, value)| counted((name, value)))
    };
    until("its sequences are counted", || grown(&front.metrics())).await;
    let page = front.metrics();
    let now = series_of_first_stage(&page);
    let lost: Vec<_> = series_of_first_stage(&first)
        .into_keys()
        .filter(|name| !now.contains_key(name))
        .collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[tokio::test]
async fn a_front_end_holds_nothing_of_replicas_that_have_left() {
    let cluster = Cluster::new();
    let [front, _talker, _vocoder] = cluster.speaking(&[]);
    front.spoken(1, SENTENCE).await;
    let before = front.sockets();
    let mut others = ["talker", "code2wav", "talker"].map(|stage| cluster.stage(stage, &[]));
    front.says_times("replica ready", 5);
    for other in &mut others {
        other.kill();
    }
    front.says_times("replica left", 3);
    until("it has the sockets that it had", || front.sockets() <= before).await;
}

#[tokio::test]
async fn a_stage_that_is_told_to_stop_ends_what_it_has_and_gets_nothing_new() {
    let cluster = Cluster::new();
    let _vocoder = cluster.stage("code2wav", &[]);
    // On a busy machine the rest of the text takes longer than the default.
    let mut talker = cluster.stage("talker", &["--drain-timeout", "3m"]);
    let front = cluster.frontend(&SLOWLY);
    front.serves();
    let expected = front.spoken(1, &long_text()).await;
    let short = front.spoken(2, SENTENCE).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    let _another = cluster.stage("talker", &[]);
    front.says_times("replica ready", 3);
    talker.signal("-TERM");
    front.says("replica left");
    assert!(front.spoken(2, SENTENCE).await == short);
    assert!(speech.rest().await.expect("it is spoken to its end") == expected);
    assert_eq!(talker.ended(), Some(0));
    talker.says("last front end disconnected");
    assert!(!front.log().contains("is retried"), "{}", front.log());
}

#[tokio::test]
async fn what_a_stage_has_when_its_drain_times_out_goes_on_at_another_with_the_same_samples() {
    let cluster = Cluster::new();
    let vocoder = cluster.stage("code2wav", &[]);
    let mut talker = cluster.stage("talker", &["--drain-timeout", "100ms"]);
    let front = cluster.frontend(&SLOWLY);
    front.serves();
    let expected = front.spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    let _another = cluster.stage("talker", &[]);
    front.says_times("replica ready", 3);
    talker.signal("-TERM");
    talker.says("the drain timeout is over");
    assert_eq!(talker.ended(), Some(0));
    assert!(speech.rest().await.expect("it goes on elsewhere") == expected);
    front.says("is retried on another replica");
    drop(vocoder);
}

#[tokio::test]
async fn a_replica_whose_number_another_took_for_a_while_is_used_again() {
    let cluster = Cluster::new();
    let [front, _talker, _vocoder] = cluster.speaking(&[]);
    let expected = front.spoken(1, SENTENCE).await;
    let mut second = cluster.stage("talker", &["--replica", "0"]);
    front.says_times("replica joined", 3);
    second.signal("-TERM");
    front.says("replica left: another one has its number");
    front.says_times("replica joined", 4);
    assert_eq!(second.ended(), Some(0));
    assert!(front.spoken(1, SENTENCE).await == expected);
}

#[tokio::test]
async fn a_replica_that_returns_to_find_its_number_taken_takes_another_and_both_are_used() {
    let cluster = Cluster::new();
    let victim = cluster.stage("talker", &PROBES);
    let _vocoder = cluster.stage("code2wav", &[]);
    let front = cluster.frontend(&[]);
    front.serves();
    let expected = front.spoken(1, SENTENCE).await;
    victim.signal("-STOP");
    front.says("replica left");
    let mut next = cluster.stage("talker", &[]);
    assert!(next.says("registered").contains("replica=0"), "{}", next.log());
    front.says_times("replica ready", 3);
    victim.signal("-CONT");
    assert!(
        victim.says("registered again").contains("replica=1"),
        "{}",
        victim.log()
    );
    front.says_times("replica ready", 4);
    assert!(http(&victim.probes(), "/metrics").contains("replica=\"1\""));
    // The other is gone, and it is the one that speaks.
    next.kill();
    front.says("replica lost");
    assert!(front.spoken(1, SENTENCE).await == expected);
}

/// The sequences that a stage has of all front ends, from its own page.
fn running(probes: &str) -> f64 {
    let page = http(probes, "/metrics");
    let line = page.lines().find(|line| line.starts_with("omni_stage_running{"));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.expect("it is on the page")
}

#[tokio::test]
async fn a_front_end_that_is_killed_leaves_nothing_behind_at_the_stages() {
    let cluster = Cluster::new();
    let stages = ["talker", "code2wav"].map(|stage| cluster.stage(stage, &PROBES));
    let probes = [stages[0].probes(), stages[1].probes()];
    let mut front = cluster.frontend(&SLOWLY);
    front.serves();
    let expected = front.spoken(1, SENTENCE).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    until("both stages work", || probes.iter().all(|at| running(at) == 1.0)).await;
    front.kill();
    until("nothing runs", || probes.iter().all(|at| running(at) == 0.0)).await;
    for stage in &stages {
        stage.says("front end disconnected");
    }
    let next = cluster.frontend(&[]);
    next.serves();
    assert!(next.spoken(1, SENTENCE).await == expected);
}

#[tokio::test]
async fn a_front_end_without_stages_is_not_ready_until_they_are_there() {
    let cluster = Cluster::new();
    let front = cluster.frontend(&[]);
    assert!(front.page("/readyz").starts_with("HTTP/1.1 503"));
    let _vocoder = cluster.stage("code2wav", &[]);
    front.says("replica ready");
    assert!(front.page("/readyz").starts_with("HTTP/1.1 503"));
    assert!(!front.log().contains("ready in"), "{}", front.log());
    let _talker = cluster.stage("talker", &[]);
    front.serves();
    assert!(front.page("/readyz").starts_with("HTTP/1.1 200"));
    assert!(front.spoken(1, SENTENCE).await == alone().spoken(1, SENTENCE).await);
}

#[tokio::test]
async fn a_stage_of_another_model_is_refused_by_name() {
    let cluster = Cluster::new();
    let other = cluster.stage("talker", &["--model", "random:embedded@3"]);
    let front = cluster.frontend(&[]);
    let refused = front.says("replica refused");
    assert!(
        refused.contains("random:embedded@3") && refused.contains("expected embedded ("),
        "{refused}"
    );
    let _vocoder = cluster.stage("code2wav", &[]);
    front.says("replica ready");
    // It has no talker yet.
    assert!(front.page("/readyz").starts_with("HTTP/1.1 503"));
    let _talker = cluster.stage("talker", &[]);
    front.serves();
    assert!(front.spoken(1, SENTENCE).await == alone().spoken(1, SENTENCE).await);
    drop(other);
}

#[test]
fn a_stage_that_no_family_has_is_refused_with_those_that_there_are() {
    let cluster = Cluster::new();
    let folder = cluster.path().display().to_string();
    let args = [
        "--role",
        "stage",
        "--stage",
        "waveform",
        "--cluster-discovery",
        "file",
        "--cluster-dir",
        &folder,
    ];
    let mut part = Part::start(&args);
    assert_eq!(part.ended(), Some(1));
    part.says("expected one of code2wav, encoder, talker, thinker");
}
