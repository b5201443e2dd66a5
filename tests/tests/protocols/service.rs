//! Services around speech: health, catalogue, reflection, start and shutdown.

use omni_proto::v1;
use omni_proto::v1::speech_service_client::SpeechServiceClient;
use omni_tests::{
    Call, FakeScript, FakeSpeech, Gate, TestServer, audio_of, endless, finish, http2, reason, text,
};
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

const SERVICES: [&str; 3] = ["", "omni.v1.SpeechService", "omni.v1.CatalogService"];

async fn health(server: &TestServer, service: &str) -> ServingStatus {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    server
        .health()
        .check(request)
        .await
        .unwrap()
        .into_inner()
        .status()
}

#[tokio::test]
async fn nothing_serves_before_the_model_is_warm() {
    let load = Gate::default();
    load.close();
    let script = FakeScript {
        load: load.clone(),
        ..Default::default()
    };
    let mut server = TestServer::launch(&[], move || Ok(FakeSpeech::new(script))).await;
    for service in SERVICES {
        assert_eq!(
            health(&server, service).await,
            ServingStatus::NotServing,
            "{service:?}"
        );
    }
    let refused = Call::try_open(&mut server.speech(), None).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unavailable, "MODEL_LOADING")
    );
    assert!(refused.get_details_retry_info().is_some());
    // A proxy that asked a server that starts again goes on to the next one.
    let kind = [("content-type", "application/grpc"), ("te", "trailers")];
    let path = "/omni.v1.SpeechService/Speak";
    let seen = http2(server.app.address(), "POST", path, &kind, "").await;
    assert_eq!((seen.status.as_u16(), seen.header("grpc-status")), (503, "14"));
    load.open();
    server.app.ready().await.unwrap();
    for service in SERVICES {
        assert_eq!(
            health(&server, service).await,
            ServingStatus::Serving,
            "{service:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_model_that_cannot_be_loaded_is_reported() {
    let load = || -> anyhow::Result<FakeSpeech> { anyhow::bail!("no such file") };
    let mut server = TestServer::launch(&[], load).await;
    let error = server.app.ready().await.unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
    assert_eq!(health(&server, "").await, ServingStatus::NotServing);
    server.stop().await;
}

#[tokio::test]
async fn the_catalogue_lists_models_and_voices() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut catalog = server.catalog();
    let models = catalog
        .list_models(v1::ListModelsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .models;
    assert_eq!(models.len(), 1);
    assert!(models[0].ready && models[0].native_output.unwrap().sample_rate_hz == 16_000);

    let request = v1::ListVoicesRequest {
        page_size: 1,
        ..Default::default()
    };
    let first = catalog.list_voices(request.clone()).await.unwrap().into_inner();
    assert_eq!(
        (first.voices[0].id.as_str(), first.voices[0].is_default),
        ("alto", true)
    );
    let request = v1::ListVoicesRequest {
        page_token: first.next_page_token,
        ..request
    };
    let second = catalog.list_voices(request).await.unwrap().into_inner();
    assert_eq!(
        (second.voices[0].id.as_str(), second.next_page_token.as_str()),
        ("bass", "")
    );

    let german = v1::ListVoicesRequest {
        language: "de".into(),
        ..Default::default()
    };
    assert!(
        catalog
            .list_voices(german)
            .await
            .unwrap()
            .into_inner()
            .voices
            .is_empty()
    );
    let other = v1::ListVoicesRequest {
        model: "other".into(),
        ..Default::default()
    };
    assert_eq!(
        catalog.list_voices(other).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    server.stop().await;
}

#[tokio::test]
async fn reflection_answers_in_both_versions() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    macro_rules! services {
        ($version:ident) => {{
            use tonic_reflection::pb::$version as pb;
            let mut client =
                pb::server_reflection_client::ServerReflectionClient::new(server.channel.clone());
            let list = pb::server_reflection_request::MessageRequest::ListServices(String::new());
            let request = pb::ServerReflectionRequest {
                host: String::new(),
                message_request: Some(list),
            };
            let mut answers = client
                .server_reflection_info(tokio_stream::once(request))
                .await
                .unwrap()
                .into_inner();
            match answers
                .message()
                .await
                .unwrap()
                .unwrap()
                .message_response
                .unwrap()
            {
                pb::server_reflection_response::MessageResponse::ListServicesResponse(list) => list
                    .service
                    .into_iter()
                    .map(|service| service.name)
                    .collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            }
        }};
    }
    for names in [services!(v1), services!(v1alpha)] {
        for service in [
            "omni.v1.SpeechService",
            "omni.v1.CatalogService",
            "omni.v1.WatchService",
            "grpc.health.v1.Health",
        ] {
            assert!(
                names.iter().any(|name| name == service),
                "{service} is missing in {names:?}"
            );
        }
        // It is off.
        assert!(
            !names.iter().any(|name| name == "omni.v1.MetricsService"),
            "{names:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn reflection_knows_the_details_of_errors() {
    use tonic_reflection::pb::v1 as pb;
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut client = pb::server_reflection_client::ServerReflectionClient::new(server.channel.clone());
    for name in ["Status", "ErrorInfo", "BadRequest", "RetryInfo"] {
        let symbol = format!("google.rpc.{name}");
        let wanted = pb::server_reflection_request::MessageRequest::FileContainingSymbol(symbol);
        let request = pb::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(wanted),
        };
        let answers = client.server_reflection_info(tokio_stream::once(request)).await;
        let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
        let Some(pb::server_reflection_response::MessageResponse::FileDescriptorResponse(files)) =
            answer.message_response
        else {
            panic!("{name}: {answer:?}");
        };
        assert!(!files.file_descriptor_proto.is_empty(), "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn every_port_tells_the_health_of_the_services_that_it_has() {
    let server = TestServer::fake(FakeScript::default(), &["--admin-listen", "127.0.0.1:0"]).await;
    let operators = format!("http://{}", server.app.admin_address().unwrap());
    let operators = tonic::transport::Channel::from_shared(operators)
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut operators = tonic_health::pb::health_client::HealthClient::new(operators);
    let mut callers = server.health();
    for (service, to_callers, to_operators) in [
        ("", true, true),
        ("omni.v1.SpeechService", true, false),
        ("omni.v1.WatchService", true, false),
        ("omni.v1.AdminService", false, true),
        ("omni.v1.MetricsService", false, false),
    ] {
        let ask = || HealthCheckRequest {
            service: service.to_owned(),
        };
        let told = [
            callers.check(ask()).await.map_err(|status| status.code()),
            operators.check(ask()).await.map_err(|status| status.code()),
        ];
        let told = told.map(|answer| answer.map(|answer| answer.into_inner().status()));
        let expected = [to_callers, to_operators].map(|known| {
            if known {
                Ok(ServingStatus::Serving)
            } else {
                Err(Code::NotFound)
            }
        });
        assert_eq!(told, expected, "{service:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_compressed_is_taken_and_answered_compressed_and_what_is_not_is_not() {
    use tonic::codec::CompressionEncoding::Gzip;
    let server = TestServer::fake(FakeScript::default(), &["--max-message-bytes", "65536"]).await;
    let request = |text: &str| v1::SynthesizeRequest {
        text: text.to_owned(),
        ..v1::SynthesizeRequest::default()
    };
    let mut packed = server.speech().accept_compressed(Gzip).send_compressed(Gzip);
    let answers = packed.synthesize(request("Packed.")).await.unwrap();
    assert_eq!(answers.metadata().get("grpc-encoding").unwrap(), "gzip");
    let mut answers = answers.into_inner();
    while answers.message().await.unwrap().is_some() {}
    // As clients of gRPC's own library: it could be compressed.
    let mut plain = server.speech().accept_compressed(Gzip);
    let answers = plain.synthesize(request("Plain.")).await.unwrap();
    assert!(answers.metadata().get("grpc-encoding").is_none());
    let mut answers = answers.into_inner();
    while answers.message().await.unwrap().is_some() {}
    // A few KiB that are far more when they are unpacked.
    let bomb = packed.synthesize(request(&" ".repeat(4 << 20))).await;
    assert_eq!(bomb.unwrap_err().code(), Code::ResourceExhausted);
    server.idle(2).await;
    server.stop().await;
}

#[tokio::test]
async fn shutdown_finishes_open_utterances_and_refuses_new_ones() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut busy = server.call().await.configured(v1::SpeechConfig::default()).await;
    let mut idle = server.call().await.configured(v1::SpeechConfig::default()).await;
    script.talker.close();
    busy.send(text("the last words. And")).await;
    script.talker.reached().await;

    let address = server.app.address();
    let TestServer {
        app,
        channel,
        records,
        ..
    } = server;
    let shutdown = tokio::spawn(app.shut_down(std::future::pending()));
    let (id, event) = idle.next().await.expect("a warning");
    assert!(id.is_empty(), "{event:?}");
    assert!(matches!(event, v1::speak_response::Event::Warning(warning) if warning.reason == "DRAINING"));
    let ended = idle.end().await.unwrap_err();
    assert_eq!(
        (ended.code(), reason(&ended).as_str()),
        (Code::Unavailable, "DRAINING")
    );
    // Existing connections are told to go away: later calls connect anew.
    let later = Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_lazy();
    let mut speech = SpeechServiceClient::new(later.clone());
    let mut health = HealthClient::new(later);
    let refused = audio_of(&mut speech, v1::SpeechConfig::default(), "too late.")
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unavailable, "DRAINING")
    );
    let status = health
        .check(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner()
        .status();
    assert_eq!(status, ServingStatus::NotServing);

    script.talker.open();
    busy.hang_up();
    assert_eq!(busy.utterance().await.finish(), v1::FinishReason::Stop);
    busy.end().await.unwrap();
    shutdown.await.unwrap();
    assert_eq!(records.all().len(), 1);
    drop(channel);
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let script = FakeScript::default();
    let server = TestServer::fake(script, &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text(&endless())).await;
    call.send(finish()).await;
    call.first_audio().await;
    let records = server.records.clone();
    let (now, told) = tokio::sync::oneshot::channel();
    let shutdown = tokio::spawn(server.app.shut_down(async move { told.await.unwrap() }));
    now.send(()).unwrap();
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "STOPPED")
    );
    shutdown.await.unwrap();
    assert_eq!(records.all().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_still_loading_stops_at_once() {
    let (go, wait) = std::sync::mpsc::sync_channel::<()>(0);
    let load = move || -> anyhow::Result<FakeSpeech> {
        let _ = wait.recv();
        anyhow::bail!("told to go on")
    };
    let server = TestServer::launch(&[], load).await;
    // Longer than anything takes; only a test that fails waits for it.
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(30), server.stop()).await;
    drop(go);
    assert!(stopped.is_ok(), "it waited for the model");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_while_it_starts_its_stages_waits_for_them() {
    let script = FakeScript::default();
    script.info.close();
    let theirs = script.clone();
    let server = TestServer::launch(&[], move || Ok(FakeSpeech::new(theirs))).await;
    script.info.reached().await;
    let mut stop = Box::pin(server.stop());
    let early = tokio::time::timeout(std::time::Duration::from_millis(1_500), &mut stop).await;
    assert!(early.is_err(), "it forgot the stages that were being started");
    script.info.open();
    stop.await;
}
