//! Parts that come and go under load.

use crate::part::{Cluster, SENTENCE, Speech};

/// Much more than a caller gets with its first audio.
const SENTENCES: usize = 4;

#[tokio::test]
async fn replicas_that_come_and_go_under_load_lose_nothing() {
    let cluster = Cluster::new();
    let [front, talker, vocoder] =
        cluster.speaking(&["--set", "handover.attempts=8", "--max-buffered-audio", "200ms"]);
    let text = SENTENCE.repeat(SENTENCES);
    let mut expected = Vec::new();
    for seed in 0..4 {
        expected.push(front.spoken(seed, &text).await);
    }
    let mut old = vec![talker, vocoder];
    let mut joined = 2;
    for round in 0..6 {
        let stage = ["talker", "code2wav"][round % 2];
        let fresh = cluster.stage(stage, &[]);
        joined += 1;
        front.says_times("replica ready", joined);
        let begun = (0..8_u64).map(async |n| {
            let mut speech = front.speak(n % 4, &text).await;
            speech.begun().await;
            speech
        });
        let begun = futures::future::join_all(begun).await;
        let mut victim = old.remove(0);
        match round % 3 {
            0 => victim.signal("-TERM"),
            _ => victim.signal("-KILL"),
        }
        let said = futures::future::join_all(begun.into_iter().map(Speech::rest)).await;
        victim.ended();
        old.push(fresh);
        for (n, audio) in said.into_iter().enumerate() {
            let audio = audio.expect("it is spoken to its end");
            assert!(audio == expected[n % 4], "caller {n} of round {round}");
        }
    }
    front.says("is retried on another replica");
}
