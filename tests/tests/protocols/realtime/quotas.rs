//! Quotas: the cost of a call, and when it is charged.

use std::fs;

use omni_config::{Quotas, Scope, new_key};
use omni_tests::{FakeScript, TestServer};
use serde_json::json;
use tempfile::TempDir;

use super::{Client, Heard};

/// A server, a client whose key has `characters` characters per minute, and the folder of the keys.
async fn limited(characters: u32) -> (TestServer, Client, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let quotas = Quotas {
        characters_per_minute: Some(characters),
        ..Quotas::default()
    };
    let (key, line) = new_key("chatty", &[Scope::Chat], &quotas).expect("random bytes");
    fs::write(&file, format!("{line}\n")).unwrap();
    let server = TestServer::fake(
        FakeScript::default(),
        &["--api-keys", file.to_str().expect("text")],
    )
    .await;
    let bearer = format!("Bearer {key}");
    let opened = Client::open(&server, "", &[("authorization", &bearer)]).await;
    let mut client = opened.expect("accepted").0;
    client.expect("session.created").await;
    (server, client, folder)
}

fn is_over(heard: &Heard) -> bool {
    heard.done["status_details"]["error"]["code"] == "rate_limited"
}

#[tokio::test]
async fn messages_are_paid_for_once() {
    let (server, mut client, _keys) = limited(40).await;
    for _ in 0..3 {
        assert_eq!(client.ask("say Hello.").await.status(), "completed");
    }
    client.ask("say Hello.").await;
    assert!(is_over(&client.ask("say Hello.").await));
    server.stop().await;
}

#[tokio::test]
async fn messages_whose_response_was_refused_are_paid_for_by_the_next_one() {
    let (server, mut client, _keys) = limited(60).await;
    let text = format!("say {}", "a".repeat(46));
    assert_eq!(client.ask(&text).await.status(), "completed");
    assert!(is_over(&client.ask(&text).await));
    client.respond(json!({})).await;
    assert!(is_over(&client.heard().await));
    server.stop().await;
}

#[tokio::test]
async fn instructions_and_functions_are_paid_for_when_they_change() {
    let tools = json!([{"type": "function", "name": "f", "description": "d".repeat(100)}]);
    for settings in [json!({"instructions": "i".repeat(100)}), json!({"tools": tools})] {
        let (server, mut client, _keys) = limited(60).await;
        client.update(settings.clone()).await;
        // More than the quota is lent once.
        assert_eq!(client.ask("say Hello.").await.status(), "completed");
        assert!(is_over(&client.ask("say Hello.").await), "{settings}");
        server.stop().await;

        let (server, mut client, _keys) = limited(60).await;
        client.say("say Hello.").await;
        client.respond(settings.clone()).await;
        assert_eq!(client.heard().await.status(), "completed");
        assert!(is_over(&client.ask("say Hello.").await), "{settings}");
        server.stop().await;
    }
    let (server, mut client, _keys) = limited(60).await;
    let settings = json!({"instructions": "i".repeat(20)});
    for _ in 0..3 {
        client.update(settings.clone()).await;
        assert_eq!(client.ask("say Hi.").await.status(), "completed");
    }
    server.stop().await;
}
