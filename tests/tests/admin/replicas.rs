//! Replicas as operators see and change them.

use omni_proto::v1;
use omni_tests::{FakeScript, audio_of, reason, seeded};
use tonic::Code;

use super::{refusal, server, set, stage, until};

#[tokio::test]
async fn replicas_are_taken_out_of_service_and_back_added_and_removed() {
    let (server, mut admin) = server(&FakeScript::default(), &[]).await;
    let cordoned = set(&mut admin, "talker", "0", v1::ReplicaState::Cordoned)
        .await
        .unwrap();
    assert_eq!(cordoned.state(), v1::ReplicaState::Cordoned);
    let refused = audio_of(&mut server.speech(), seeded(1), "Hello.")
        .await
        .unwrap_err();
    assert_eq!(reason(&refused), "STAGE_UNAVAILABLE");

    let request = v1::AddReplicaRequest {
        stage: "talker".to_owned(),
    };
    let added = admin.add_replica(request).await.unwrap().into_inner();
    let added = added.replica.expect("the replica");
    until(&mut admin, |stats| {
        let talker = stats.stages.iter().find(|stage| stage.name == "talker");
        talker.is_some_and(|talker| talker.replicas[1].state() == v1::ReplicaState::Ready)
    })
    .await;
    audio_of(&mut server.speech(), seeded(1), "Hello.").await.unwrap();

    let back = set(&mut admin, "talker", "0", v1::ReplicaState::Ready)
        .await
        .unwrap();
    assert_eq!(back.state(), v1::ReplicaState::Ready);
    for _ in 0..2 {
        set(&mut admin, "talker", &added.id, v1::ReplicaState::Removed)
            .await
            .unwrap();
    }
    until(&mut admin, |stats| {
        stats.stages[1].replicas[1].state() == v1::ReplicaState::Removed
    })
    .await;
    audio_of(&mut server.speech(), seeded(1), "Hello.").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn what_there_is_not_cannot_be_changed() {
    let (server, mut admin) = server(&FakeScript::default(), &[]).await;
    let ready = v1::ReplicaState::Ready;
    let no_stage = set(&mut admin, "dancer", "0", ready).await;
    assert_eq!(refusal(no_stage), (Code::NotFound, "STAGE_NOT_FOUND".to_owned()));
    for replica in ["9", "one", ""] {
        let no_replica = set(&mut admin, "talker", replica, ready).await;
        assert_eq!(
            refusal(no_replica),
            (Code::NotFound, "REPLICA_NOT_FOUND".to_owned())
        );
    }
    for state in [v1::ReplicaState::Unspecified, v1::ReplicaState::Failed] {
        let wrong = set(&mut admin, "talker", "0", state).await;
        assert_eq!(refusal(wrong).0, Code::InvalidArgument);
    }
    let add = v1::AddReplicaRequest {
        stage: "dancer".to_owned(),
    };
    assert_eq!(refusal(admin.add_replica(add).await).0, Code::NotFound);
    let backwards = omni_proto::Duration {
        seconds: -1,
        nanos: 0,
    };
    let drain = v1::DrainRequest {
        timeout: Some(backwards),
    };
    assert_eq!(refusal(admin.drain(drain).await).0, Code::InvalidArgument);
    audio_of(&mut server.speech(), seeded(1), "Still here.")
        .await
        .unwrap();
    server.stop().await;
}

#[tokio::test]
async fn the_death_of_a_replica_is_shown_with_its_reason() {
    let script = FakeScript {
        talker_panics_on: Some('#'),
        ..FakeScript::default()
    };
    let fast = ["--set", "stages.talker.restart.first_delay=1ms"];
    let (server, mut admin) = server(&script, &fast).await;
    audio_of(&mut server.speech(), seeded(1), "Dies # here.")
        .await
        .unwrap_err();
    until(&mut admin, |stats| {
        let talker = &stats.stages[1].replicas[0];
        talker.deaths > 0 && talker.state() == v1::ReplicaState::Ready
    })
    .await;
    let talker = stage(&mut admin, "talker").await;
    assert!(
        talker.replicas[0].last_error.contains("the script says so"),
        "{talker:?}"
    );
    server.stop().await;
}
