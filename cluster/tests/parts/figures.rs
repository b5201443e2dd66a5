//! What an operator sees of a cluster at a front end: `omni-client stats` and `top` show what this asks for.

use omni_client::{Endpoint, Operator, Replica, ReplicaState, Stats};

use crate::part::{Cluster, PATIENCE, Part, SENTENCE, long_text};

async fn operator(front: &Part) -> Operator {
    let line = front.says("operators are served");
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
