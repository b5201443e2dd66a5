//! Parts that come and go under load.

use crate::part::{Cluster, SENTENCE};

#[tokio::test]
async fn replicas_that_come_and_go_under_load_lose_nothing() {
    let cluster = Cluster::new();
    let [front, talker, vocoder] = cluster.speaking(&["--set", "handover.attempts=8"]);
    let mut expected = Vec::new();
    for seed in 0..4 {
        expected.push(front.spoken(seed, SENTENCE).await);
    }
    let mut old = vec![talker, vocoder];
    let mut joined = 2;
    for round in 0..6 {
        let stage = ["talker", "code2wav"][round % 2];
        let fresh = cluster.stage(stage, &[]);
        joined += 1;
        front.says_times("a replica takes work", joined);
        let said = (0..8_u64).map(|n| front.spoken(n % 4, SENTENCE));
        let said = futures::future::join_all(said);
        let mut victim = old.remove(0);
        let (said, ()) = tokio::join!(said, async {
            tokio::task::yield_now().await;
            match round % 3 {
                0 => victim.signal("-TERM"),
                _ => victim.signal("-KILL"),
            }
        });
        victim.ended();
        old.push(fresh);
        for (n, audio) in said.iter().enumerate() {
            assert!(*audio == expected[n % 4], "caller {n} of round {round}");
        }
    }
}
