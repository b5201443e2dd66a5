//! The end of a server as operators ask for it.

use std::time::Duration;

use omni_proto::v1;
use omni_tests::{FakeScript, finish, reason, seeded, text};

use super::{PATIENCE, server, speaking};

#[tokio::test]
async fn a_drain_tells_how_far_it_is_and_loses_nothing() {
    const STREAMS: usize = 32;
    let script = FakeScript::default();
    let (server, mut admin) = server(&script, &["--drain-timeout", "60s"]).await;
    let mut calls = Vec::new();
    for n in 0..STREAMS {
        let mut call = server.call().await.configured(seeded(n as u64)).await;
        call.send(text(
            "A sentence that is being spoken while the server is told to end. ",
        ))
        .await;
        call.first_audio().await;
        calls.push(call);
    }
    let records = server.records.clone();
    let app = server.app;
    let ends = tokio::spawn(async move {
        app.drain().asked().await;
        app.shut_down(std::future::pending()).await;
    });
    let mut progress = admin
        .drain(v1::DrainRequest::default())
        .await
        .unwrap()
        .into_inner();
    let first = progress.message().await.unwrap().expect("how far it is");
    assert_eq!(first.sessions as usize, STREAMS);
    assert!(first.time_left.is_some());
    // A second request shows the same drain.
    let again = v1::DrainRequest {
        timeout: Duration::ZERO.try_into().ok(),
    };
    let mut second = admin.drain(again).await.unwrap().into_inner();
    let shown = second.message().await.unwrap().expect("how far it is");
    assert!(
        shown.time_left.is_some_and(|left| left.seconds > 1),
        "the first timeout counts"
    );

    for call in &mut calls {
        call.send(text("This is still said.")).await;
        call.send(finish()).await;
        let utterance = call.utterance().await;
        assert_eq!(utterance.finish(), v1::FinishReason::Stop);
        assert!(utterance.samples() > 0);
    }
    drop(calls);
    let mut last = None;
    while let Some(told) = progress.message().await.unwrap() {
        last = Some(told.sessions);
    }
    assert_eq!(last, Some(0));
    tokio::time::timeout(PATIENCE, ends)
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(records.all().len(), STREAMS);
}

#[tokio::test]
async fn a_drain_ends_what_takes_too_long() {
    let (server, mut admin) = server(&FakeScript::default(), &[]).await;
    let call = speaking(&server).await;
    let app = server.app;
    let ends = tokio::spawn(async move {
        app.drain().asked().await;
        app.shut_down(std::future::pending()).await;
    });
    let request = v1::DrainRequest {
        timeout: Duration::from_millis(200).try_into().ok(),
    };
    let mut progress = admin.drain(request).await.unwrap().into_inner();
    let status = call.end().await.unwrap_err();
    assert_eq!(reason(&status), "STOPPED");
    while progress.message().await.unwrap().is_some() {}
    tokio::time::timeout(PATIENCE, ends)
        .await
        .expect("it ends")
        .unwrap();
}
