//! Connections between parts that both show a certificate.

use crate::certificates::Authority;
use crate::part::{Cluster, SENTENCE};
use crate::speech::alone;

fn folder(cluster: &Cluster, name: &str) -> std::path::PathBuf {
    let path = cluster.path().join(name);
    std::fs::create_dir(&path).expect("a new folder");
    path
}

fn borrowed(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn parts_with_certificates_of_one_authority_speak() {
    let cluster = Cluster::new();
    let authority = Authority::new();
    let [front, talker, vocoder] =
        ["front", "talker", "code2wav"].map(|name| authority.part(&folder(&cluster, name)));
    let talker = cluster.stage("talker", &borrowed(&talker));
    let vocoder = cluster.stage("code2wav", &borrowed(&vocoder));
    let front = cluster.frontend(&borrowed(&front));
    front.serves();
    assert!(front.spoken(1, SENTENCE).await == alone().spoken(1, SENTENCE).await);
    for part in [&front, &talker, &vocoder] {
        assert!(!part.log().contains("plaintext"), "{}", part.log());
    }
}

/// The front end is not ready: none of its stages can be reached, and it reports `why` where it knows.
async fn not_reached(front: &[String], stage: &[String], cluster: &Cluster, why: Why) {
    let stages = ["talker", "code2wav"].map(|name| cluster.stage(name, &borrowed(stage)));
    let front = cluster.frontend(&borrowed(front));
    front.says_times("replica unreachable", 2);
    match why {
        Why::StageSays(why) => {
            for stage in &stages {
                stage.says(why);
            }
        }
        // The line of an attempt that was given up has no reason; the next attempt has.
        Why::FrontEndSays(why) => assert!(front.says(why).contains("replica unreachable")),
    }
    assert!(front.page("/readyz").starts_with("HTTP/1.1 503"));
    assert!(!front.log().contains("ready in"), "{}", front.log());
}

/// Part that knows why they do not work together.
enum Why {
    StageSays(&'static str),
    FrontEndSays(&'static str),
}

#[tokio::test]
async fn a_front_end_without_a_certificate_reaches_no_stage() {
    let cluster = Cluster::new();
    let authority = Authority::new();
    let stage = authority.part(&folder(&cluster, "stage"));
    not_reached(&[], &stage, &cluster, Why::StageSays("TLS handshake failed")).await;
}

#[tokio::test]
async fn a_front_end_with_a_certificate_of_another_authority_reaches_no_stage() {
    let cluster = Cluster::new();
    let authority = Authority::new();
    let other = Authority::new();
    let stage = authority.part(&folder(&cluster, "stage"));
    let front = other.part(&folder(&cluster, "front"));
    let why = Why::FrontEndSays("invalid peer certificate");
    not_reached(&front, &stage, &cluster, why).await;
}

#[tokio::test]
async fn a_stage_without_a_certificate_is_not_spoken_to() {
    let cluster = Cluster::new();
    let authority = Authority::new();
    let front = authority.part(&folder(&cluster, "front"));
    let why = Why::FrontEndSays("TLS handshake timed out");
    not_reached(&front, &[], &cluster, why).await;
}
