//! Studio, the page for browsers, as a person uses it: what is pressed, heard and seen.

use std::fs;

use omni_server::config::{Quotas, Scope, new_key};
use omni_tests::{FakeScript, TestServer, browse};

async fn fake(arguments: &[&str]) -> TestServer {
    TestServer::fake(FakeScript::default(), arguments).await
}

fn page(server: &TestServer) -> String {
    format!("http://{}/studio/", server.app.address())
}

/// Does a scenario with a server of these arguments, which holds nothing afterwards.
async fn tried(scenario: &str, arguments: &[&str]) {
    let server = fake(arguments).await;
    browse(scenario, &page(&server), "{}").await;
    server
        .until("every session has ended", || server.app.sessions() == 0)
        .await;
    server.stop().await;
}

#[tokio::test]
async fn what_is_written_is_heard_sample_by_sample_and_its_words_light_up() {
    tried("speak", &[]).await;
}

#[tokio::test]
async fn a_long_text_is_stopped_by_the_keyboard() {
    tried("stop", &[]).await;
}

#[tokio::test]
async fn a_text_that_is_refused_is_told_and_the_page_goes_on() {
    tried("refused", &[]).await;
}

#[tokio::test]
async fn stages_and_the_courses_of_requests_are_watched_as_they_end() {
    tried("watch", &[]).await;
}

#[tokio::test]
async fn a_server_for_other_machines_does_not_show_its_work_without_keys() {
    let server = TestServer::adjusted(
        &["--studio=on"],
        |config| config.listen = ([0, 0, 0, 0], 0).into(),
        || Ok(omni_tests::FakeSpeech::new(FakeScript::default())),
    )
    .await;
    let url = format!("http://127.0.0.1:{}/studio/", server.app.address().port());
    browse("hidden", &url, "{}").await;
    server.stop().await;
}

#[tokio::test]
async fn the_voices_of_a_model_are_heard_and_no_dead_buttons_are_shown() {
    tried("voices", &[]).await;
}

#[tokio::test]
async fn where_keys_are_asked_for_the_page_asks_for_one_and_keeps_it_in_its_tab() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("keys");
    let scopes = [Scope::Speech, Scope::Chat, Scope::Admin];
    let (good, line) = new_key("somebody", &scopes, &Quotas::default()).expect("random bytes");
    fs::write(&file, line).expect("written");
    let server = fake(&["--api-keys", file.to_str().expect("text")]).await;
    let values = serde_json::json!({"good": good}).to_string();
    browse("key", &page(&server), &values).await;
    server.stop().await;
}
