//! Operators' view and control: figures, sessions, replicas, the end of the server.

mod drain;
mod replicas;

use std::time::Duration;

use omni_config::{Quotas, Scope, new_key};
use omni_proto::v1;
use omni_proto::v1::admin_service_client::AdminServiceClient;
use omni_tests::{Call, FakeScript, TestServer, audio_of, config, endless, reason, seeded, text};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

type Admin = AdminServiceClient<Channel>;

const ADMIN: [&str; 2] = ["--admin-listen", "127.0.0.1:0"];
/// Longer than anything here takes; only ever reached by a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

async fn server(script: &FakeScript, more: &[&str]) -> (TestServer, Admin) {
    let server = TestServer::fake(script.clone(), &[&ADMIN, more].concat()).await;
    let admin = server.admin().await;
    (server, admin)
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.expect_err("a refusal");
    (status.code(), reason(&status))
}

/// A call in which an endless utterance is being spoken.
async fn speaking(server: &TestServer) -> Call {
    let mut call = server.call().await.configured(seeded(1)).await;
    call.send(text(&endless())).await;
    call.first_audio().await;
    call
}

/// The first figures that satisfy `wanted`.
async fn until(
    admin: &mut Admin,
    wanted: impl Fn(&v1::WatchStatsResponse) -> bool,
) -> v1::WatchStatsResponse {
    let request = v1::WatchStatsRequest {
        interval: Duration::from_millis(100).try_into().ok(),
        include_sessions: true,
    };
    let mut looks = admin.watch_stats(request).await.unwrap().into_inner();
    let found = async {
        loop {
            let stats = looks.message().await.unwrap().expect("another look");
            if wanted(&stats) {
                return stats;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("in time")
}

async fn stage(admin: &mut Admin, name: &str) -> v1::Stage {
    let stages = admin.list_stages(v1::ListStagesRequest {}).await.unwrap();
    let mut stages = stages.into_inner().stages.into_iter();
    stages.find(|stage| stage.name == name).expect("the stage")
}

async fn set(
    admin: &mut Admin,
    stage: &str,
    replica: &str,
    state: v1::ReplicaState,
) -> Result<v1::Replica, Status> {
    let request = v1::SetReplicaStateRequest {
        stage: stage.to_owned(),
        replica: replica.to_owned(),
        state: state.into(),
    };
    let answer = admin.set_replica_state(request).await?.into_inner();
    Ok(answer.replica.expect("the replica"))
}

#[tokio::test]
async fn the_server_and_its_stages_are_shown() {
    let (server, mut admin) = server(&FakeScript::default(), &["--max-active", "7"]).await;
    let info = admin.get_server_info(v1::GetServerInfoRequest {}).await.unwrap();
    let info = info.into_inner();
    assert_eq!(info.models, ["fake"]);
    assert_eq!(info.listen_address, server.app.address().to_string());
    assert_eq!((info.max_active, info.draining), (7, false));
    assert!(info.start_time.is_some() && !info.version.is_empty());

    let (audio, _) = audio_of(&mut server.speech(), seeded(1), "Hello.").await.unwrap();
    assert!(!audio.is_empty());
    let stages = admin
        .list_stages(v1::ListStagesRequest {})
        .await
        .unwrap()
        .into_inner()
        .stages;
    let names: Vec<_> = stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["thinker", "talker", "code2wav"]);
    let talker = &stages[1].replicas[0];
    assert_eq!((talker.id.as_str(), talker.device.as_str()), ("0", "cpu"));
    assert_eq!(talker.state(), v1::ReplicaState::Ready);
    assert!(talker.steps > 0 && talker.last_error.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn figures_come_again_and_again_with_sessions_and_what_their_listeners_have_left() {
    let script = FakeScript::default();
    let (server, mut admin) = server(&script, &["--max-buffered-audio", "2s"]).await;
    audio_of(&mut server.speech(), seeded(1), "Hello.").await.unwrap();
    let call = speaking(&server).await;
    let stats = until(&mut admin, |stats| {
        let heard = stats.first_packet.as_ref().is_some_and(|first| first.count == 1);
        heard
            && stats
                .session_stats
                .iter()
                .any(|session| session.playback_lead.is_some())
    })
    .await;
    assert_eq!((stats.sessions, stats.running, stats.waiting), (1, 1, 0));
    assert!(stats.first_packet.unwrap().p99.is_some());
    assert!(stats.continuity_ratio.is_some() && stats.requests_per_second > 0.0);
    let session = &stats.session_stats[0];
    assert_eq!(session.method, "SpeechService/Speak");
    assert_eq!((session.active, session.requests), (true, 1));
    assert!(session.principal.is_empty());
    drop(call);
    until(&mut admin, |stats| {
        stats.sessions == 0 && stats.session_stats.is_empty()
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn an_interval_out_of_bounds_is_refused() {
    let (server, mut admin) = server(&FakeScript::default(), &[]).await;
    for time in [99, 60_001] {
        let request = v1::WatchStatsRequest {
            interval: Duration::from_millis(time).try_into().ok(),
            include_sessions: false,
        };
        let refused = admin.watch_stats(request).await;
        assert_eq!(
            refusal(refused),
            (Code::InvalidArgument, "INVALID_FIELD".to_owned())
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_cancelled_session_ends_with_its_reason_and_frees_its_place() {
    let (server, mut admin) = server(&FakeScript::default(), &["--max-active", "1"]).await;
    let call = speaking(&server).await;
    let mut chat = server.converse().await;
    chat.configure(omni_tests::chat_config(false)).await;
    let stats = until(&mut admin, |stats| stats.session_stats.len() == 2).await;
    let named = |method: &str| {
        let found = stats
            .session_stats
            .iter()
            .find(|session| session.method == method);
        found.expect("the session").session_id.clone()
    };
    let cancel = |session_id: String, why: &str| v1::CancelSessionRequest {
        session_id,
        reason: why.to_owned(),
    };
    let id = named("SpeechService/Speak");
    admin
        .cancel_session(cancel(id.clone(), "maintenance"))
        .await
        .unwrap();
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Aborted, "SESSION_CANCELLED")
    );
    assert!(status.message().contains("maintenance"), "{status}");
    // The place is free: another gets it.
    audio_of(&mut server.speech(), seeded(1), "Hello.").await.unwrap();

    admin
        .cancel_session(cancel(named("ChatService/Converse"), ""))
        .await
        .unwrap();
    let status = chat.end().await.unwrap_err();
    assert_eq!(reason(&status), "SESSION_CANCELLED");

    let again = admin.cancel_session(cancel(id, "again")).await;
    assert_eq!(refusal(again), (Code::NotFound, "SESSION_NOT_FOUND".to_owned()));
    let wordy = admin
        .cancel_session(cancel("x".to_owned(), &"y".repeat(257)))
        .await;
    assert_eq!(refusal(wordy).0, Code::InvalidArgument);
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn operators_need_a_key_of_their_own_where_keys_are_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("keys");
    let key = |scope| new_key("somebody", &[scope], &Quotas::default()).unwrap();
    let (operator, first) = key(Scope::Admin);
    let (speaker, second) = key(Scope::Speech);
    std::fs::write(&file, format!("{first}\n{second}\n")).unwrap();
    let (server, mut admin) = server(&FakeScript::default(), &["--api-keys", file.to_str().unwrap()]).await;
    let mut ask = async |key: Option<&str>| {
        let mut request = Request::new(v1::GetServerInfoRequest {});
        if let Some(key) = key {
            request.metadata_mut().insert("x-api-key", key.parse().unwrap());
        }
        admin.get_server_info(request).await
    };
    assert_eq!(refusal(ask(None).await).1, "API_KEY_MISSING");
    assert_eq!(
        refusal(ask(Some(&speaker)).await),
        (Code::PermissionDenied, "SCOPE_MISSING".to_owned())
    );
    ask(Some(&operator)).await.unwrap();
    let mut speech = server.speech();
    let mut request = Request::new(v1::SynthesizeRequest::default());
    request
        .metadata_mut()
        .insert("x-api-key", operator.parse().unwrap());
    assert_eq!(
        refusal(speech.synthesize(request).await).0,
        Code::PermissionDenied
    );
    server.stop().await;
}

#[tokio::test]
async fn operators_are_served_at_their_own_address_only_and_with_health_and_reflection() {
    let (server, _) = server(&FakeScript::default(), &[]).await;
    let channel = server.admin_channel().await;
    let check = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let health = HealthClient::new(channel.clone())
        .check(check("omni.v1.AdminService"))
        .await;
    assert_eq!(health.unwrap().into_inner().status(), ServingStatus::Serving);
    let whole = HealthClient::new(channel.clone()).check(check("")).await;
    assert_eq!(whole.unwrap().into_inner().status(), ServingStatus::Serving);

    let own = services(channel.clone()).await;
    assert!(own.contains(&"omni.v1.AdminService".to_owned()), "{own:?}");
    assert!(!own.contains(&"omni.v1.SpeechService".to_owned()), "{own:?}");
    let theirs = services(server.channel.clone()).await;
    assert!(!theirs.contains(&"omni.v1.AdminService".to_owned()), "{theirs:?}");

    let mut elsewhere = AdminServiceClient::new(server.channel.clone());
    let unknown = elsewhere.get_server_info(v1::GetServerInfoRequest {}).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    let mut speech = v1::speech_service_client::SpeechServiceClient::new(channel);
    let unknown = speech.synthesize(v1::SynthesizeRequest::default()).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    server.stop().await;
}

/// Services that reflection lists there.
async fn services(channel: Channel) -> Vec<String> {
    use tonic_reflection::pb::v1 as pb;
    let list = pb::server_reflection_request::MessageRequest::ListServices(String::new());
    let request = pb::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(list),
    };
    let mut client = pb::server_reflection_client::ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(tokio_stream::once(request)).await;
    let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
    match answer.message_response.unwrap() {
        pb::server_reflection_response::MessageResponse::ListServicesResponse(list) => {
            list.service.into_iter().map(|service| service.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_watches_is_told_when_the_server_stops() {
    let (server, mut admin) = server(&FakeScript::default(), &[]).await;
    let looks = admin.watch_stats(v1::WatchStatsRequest::default()).await;
    let mut looks = looks.unwrap().into_inner();
    assert!(looks.message().await.unwrap().is_some());
    server.stop().await;
    let end = loop {
        match looks.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it looks like a good end"),
            Err(status) => break status,
        }
    };
    assert_eq!(
        (end.code(), reason(&end).as_str()),
        (Code::Unavailable, "STOPPED")
    );
}

#[tokio::test]
async fn a_configured_call_without_speech_is_open_and_not_active() {
    let (server, mut admin) = server(&FakeScript::default(), &[]).await;
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    let id = call.ready().await.session_id;
    let stats = until(&mut admin, |stats| stats.sessions == 1).await;
    let session = &stats.session_stats[0];
    assert_eq!(
        (session.session_id.as_str(), session.active),
        (id.as_str(), false)
    );
    assert!(session.playback_lead.is_none());
    drop(call);
    server.stop().await;
}
