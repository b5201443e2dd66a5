//! Operators, who change the server while it is busy.

use std::time::Duration;

use omni_client::{Endpoint, Operator, ReplicaState};

use super::callers::Visit;

/// Stages whose replicas are small.
const STAGES: [&str; 2] = ["talker", "code2wav"];
/// Between two looks at a replica.
const LOOK: Duration = Duration::from_millis(100);

/// Adds a replica to a stage, mostly lets it work for a moment, and removes it.
pub(super) async fn changes_replicas(visit: &mut Visit) -> String {
    let address = visit.target.admin.expect("--admin-listen");
    let endpoint = Endpoint::parse(&format!("http://{address}")).expect("an address");
    let operator = Operator::connect(&endpoint).await.expect("it listens");
    let stage = visit.dice.of(&STAGES);
    let id = operator.add_replica(stage).await.expect("a replica is added").id;
    if !visit.dice.one_in(4) {
        reaches(&operator, stage, &id, ReplicaState::Ready).await;
        tokio::time::sleep(visit.dice.moment(Duration::from_secs(2))).await;
    }
    let removed = operator.set_replica(stage, &id, ReplicaState::Removed).await;
    removed.expect("it is known");
    reaches(&operator, stage, &id, ReplicaState::Removed).await;
    format!("{stage} had one more")
}

/// Waits until the replica is in this state, or no longer listed.
async fn reaches(operator: &Operator, stage: &str, id: &str, wanted: ReplicaState) {
    let mut looks = operator.watch(LOOK, false).await.expect("figures");
    loop {
        let stats = looks.next().await.expect("figures").expect("they go on");
        let stage = stats.stages.iter().find(|known| known.name == stage);
        let replica = stage.and_then(|stage| stage.replicas.iter().find(|replica| replica.id == id));
        if replica.is_none_or(|replica| replica.state == wanted) {
            return;
        }
    }
}
