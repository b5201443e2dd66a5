//! Hosts that cannot reach each other for a while: packets are dropped, and no connection gets an error.

use std::process::{Child, Command, Stdio};

use crate::hosts::{Network, bound_to_its_host};
use crate::part::{Part, SENTENCE, lacks, long_text, until};

/// Little may be ahead of the listener, so that much is left to say when a host is cut off.
const SLOWLY: [&str; 2] = ["--max-buffered-audio", "200ms"];

/// A talker is cut off in mid-speech, another continues, and the first is used again when it is back.
async fn cut_off_in_mid_speech(network: &Network, found: &[String]) {
    let _vocoder = network.stage("code2wav", "code2wav", found, &[]);
    let _talker = network.stage("talker", "talker", found, &[]);
    let front = network.frontend(found, &SLOWLY);
    front.serves();
    let expected = network.alone().spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    // Bound to the talker that was there.
    let other = network.stage("other", "talker", found, &[]);
    front.says_times("replica ready", 3);
    network.cut_off("talker");
    let heard = speech.rest().await.expect("it goes on elsewhere");
    assert!(heard == expected, "{} of {} bytes", heard.len(), expected.len());
    front.says("is retried on another replica");
    front.says("has said nothing for 10s");
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);

    network.relay.heal();
    front.says_times("replica ready", 4);
    // There is no other talker.
    drop(other);
    assert!(front.spoken(1, &long_text()).await == expected);
}

#[tokio::test]
async fn what_a_talker_spoke_that_is_cut_off_goes_on_elsewhere_and_it_is_used_again_when_it_is_back() {
    let Some(network) = Network::with(&["talker", "code2wav", "other"]) else {
        return;
    };
    let found = network.by_files();
    cut_off_in_mid_speech(&network, &found).await;
}

/// A server of etcd on a host of its own, killed with its test.
struct Etcd(Child);

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const ETCD: &str = "etcd";

/// Etcd, and how parts find each other by it. None where there is none.
async fn etcd(network: &Network) -> Option<(Etcd, Vec<String>)> {
    if Command::new("etcd").arg("--version").output().is_err() {
        lacks("etcd");
        return None;
    }
    let [clients, peers] = [2379, 2380].map(|port| format!("http://{}:{port}", network.address(ETCD)));
    let folder = network.folder().join("etcd");
    let at = clients.clone();
    let cluster = format!("default={peers}");
    let started = network.on(ETCD, move || {
        bound_to_its_host("etcd")
            .arg("--data-dir")
            .arg(folder)
            .args(["--listen-client-urls", &at, "--advertise-client-urls", &at])
            .args([
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
            ])
            .args(["--initial-cluster", &cluster])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    let etcd = Etcd(started.expect("setpriv is there"));
    let address = (network.address(ETCD), 2379);
    until("etcd listens", || std::net::TcpStream::connect(address).is_ok()).await;
    let found = ["--cluster-discovery", "etcd", "--cluster-etcd", &clients];
    Some((etcd, found.map(str::to_owned).to_vec()))
}

#[tokio::test]
async fn what_a_talker_spoke_that_etcd_cannot_reach_either_goes_on_and_it_is_used_again_when_it_is_back() {
    let Some(network) = Network::with(&["talker", "code2wav", "other", ETCD]) else {
        return;
    };
    let Some((_etcd, found)) = etcd(&network).await else {
        return;
    };
    cut_off_in_mid_speech(&network, &found).await;
}

#[tokio::test]
async fn what_runs_goes_on_at_a_front_end_that_is_cut_off_from_etcd() {
    let Some(network) = Network::with(&["talker", "code2wav", "other", ETCD]) else {
        return;
    };
    let Some((_etcd, found)) = etcd(&network).await else {
        return;
    };
    let [_talker, _vocoder] = ["talker", "code2wav"].map(|stage| network.stage(stage, stage, &found, &[]));
    let front = network.frontend(&found, &SLOWLY);
    front.serves();
    let expected = network.alone().spoken(1, &long_text()).await;
    let mut speech = front.speak(1, &long_text()).await;
    speech.begun().await;
    network
        .relay
        .cut(network.address(crate::hosts::HERE), network.address(ETCD));
    // Running and new calls both succeed.
    assert!(speech.rest().await.expect("it goes on") == expected);
    assert!(front.spoken(1, &long_text()).await == expected);
    // A stage that comes meanwhile is found when etcd is.
    let _other = network.stage("other", "talker", &found, &[]);
    assert!(front.spoken(1, SENTENCE).await.len() > 10_000);
    joined_meanwhile(&front, 2);
    network.relay.heal();
    front.says_times("replica ready", 3);
    assert!(front.spoken(1, &long_text()).await == expected);
}

/// The front end knows `count` replicas.
fn joined_meanwhile(front: &Part, count: usize) {
    let log = front.log();
    assert_eq!(log.matches("replica ready").count(), count, "{log}");
}
