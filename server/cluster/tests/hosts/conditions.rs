//! A slow and lossy network, and callers that are slow or leave.

use std::time::Duration;

use crate::hosts::Network;
use crate::part::{Part, SENTENCE, http, long_text, until};

const TALKER: &str = "talker";
const CODE2WAV: &str = "code2wav";

/// A figure of the stage on that host, from its own page.
fn figure(network: &Network, host: &str, name: &str) -> f64 {
    let page = http(&network.probes(host), "/metrics");
    let begin = format!("omni_stage_{name}{{");
    let line = page.lines().find(|line| line.starts_with(&begin));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not on the page: {page}"))
}

/// Three hosts with a part each, and a server that is one process.
fn three(network: &Network, args: &[&str]) -> [Part; 4] {
    let found = network.by_files();
    let stages = [TALKER, CODE2WAV].map(|stage| network.stage(stage, stage, &found, &[]));
    let front = network.frontend(&found, args);
    front.serves();
    let [talker, vocoder] = stages;
    [network.alone(), front, talker, vocoder]
}

#[tokio::test]
async fn three_hosts_far_apart_that_lose_packets_say_what_one_process_says() {
    let Some(network) = Network::with(&[TALKER, CODE2WAV]) else {
        return;
    };
    network.relay.delay(Duration::from_millis(20));
    network.relay.lose(10_000);
    let [alone, front, _talker, _vocoder] = three(&network, &[]);
    for seed in 0.. {
        let text = SENTENCE.repeat(1 + seed % 4);
        let seed = seed as u64;
        assert!(
            front.spoken(seed, &text).await == alone.spoken(seed, &text).await,
            "{seed}"
        );
        if seed >= 3 && network.relay.dropped() >= 10 {
            break;
        }
    }
    assert!(!front.log().contains("is retried"), "{}", front.log());
}

#[tokio::test]
async fn a_caller_who_does_not_read_pauses_the_talker_on_another_host() {
    let Some(network) = Network::with(&[TALKER, CODE2WAV]) else {
        return;
    };
    let [alone, front, _talker, _vocoder] = three(&network, &["--max-buffered-audio", "200ms"]);
    let expected = alone.spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    let steps = || figure(&network, TALKER, "steps_total");
    let mut seen = (steps(), 0);
    // It makes a step in a few milliseconds while it is not paused.
    while seen.1 < 40 {
        tokio::time::sleep(Duration::from_millis(25)).await;
        let now = steps();
        seen = if now > seen.0 { (now, 0) } else { (now, seen.1 + 1) };
    }
    assert_eq!(figure(&network, TALKER, "running"), 1.0);
    assert!(speech.rest().await.expect("it goes on") == expected);
    let all = steps();
    // Audio in sockets on its way was made ahead.
    assert!(
        seen.0 + 100.0 < all,
        "{} of {all} steps were made for a caller who read nothing",
        seen.0
    );
}

#[tokio::test]
async fn what_a_caller_gives_up_ends_on_all_hosts() {
    let Some(network) = Network::with(&[TALKER, CODE2WAV]) else {
        return;
    };
    network.relay.delay(Duration::from_millis(5));
    let [_alone, front, _talker, _vocoder] = three(&network, &["--max-buffered-audio", "200ms"]);
    let mut given_up = front.speak(1, &long_text()).await;
    given_up.begun().await;
    let running = |count: f64| [TALKER, CODE2WAV].map(|host| figure(&network, host, "running")) == [count; 2];
    until("both hosts work", || running(1.0)).await;
    drop(given_up);
    until("nothing runs", || running(0.0)).await;
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);
}

#[tokio::test]
async fn codec_frames_go_by_the_front_end_while_the_hosts_of_two_stages_cannot_reach_each_other() {
    let Some(network) = Network::with(&[TALKER, CODE2WAV]) else {
        return;
    };
    let [alone, front, talker, _vocoder] = three(&network, &["--max-buffered-audio", "200ms"]);
    let short = alone.spoken(1, SENTENCE).await;
    let long = alone.spoken(2, &long_text()).await;
    let counted = |name| figure(&network, TALKER, name);
    assert!(front.spoken(1, SENTENCE).await == short);
    until("there is a link", || counted("links") == 1.0).await;
    let relayed = counted("relayed_sequences_total");
    let mut speech = front.speak(2, &long_text()).await;
    speech.begun().await;
    assert!(counted("linked_sequences_total") > 0.0);
    assert_eq!(counted("relayed_sequences_total"), relayed);
    network
        .relay
        .cut(network.address(TALKER), network.address(CODE2WAV));
    assert!(speech.rest().await.expect("it goes on") == long);
    front.says("is retried on another replica");
    talker.says("link to the next stage failed");
    assert!(counted("relayed_sequences_total") > relayed);
    assert_eq!(counted("links"), 0.0);
    network.relay.heal();
    let linked = counted("linked_sequences_total");
    for _ in 0..100 {
        assert!(front.spoken(1, SENTENCE).await == short);
        if counted("linked_sequences_total") > linked {
            return;
        }
    }
    panic!("there is no link again: {}", talker.log());
}
