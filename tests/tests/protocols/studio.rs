//! Studio, the page for browsers, as a person uses it: presses, listens and looks.

use std::fs;

use omni_audio::{SampleRate, Samples, WavHeader};
use omni_config::{ModelSource, Quotas, Scope, deploy::resolve, new_key};
use omni_server::app::load_model;
use omni_tests::{FakeScript, TestServer, browse, http};

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
async fn two_tabs_speak_at_once_and_know_nothing_of_each_other() {
    tried("tabs", &[]).await;
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

#[tokio::test]
async fn an_answer_that_is_interrupted_before_its_audio_is_never_heard() {
    tried("unheard", &[]).await;
}

#[tokio::test]
async fn the_ledger_of_an_answer_that_is_interrupted_before_its_audio_is_empty() {
    let folder = tempfile::tempdir().expect("a directory");
    let signal = folder.path().join("interrupted");
    let script = FakeScript::default();
    let talker = script.talker.clone();
    let server = TestServer::fake(script, &[]).await;
    talker.close();
    let values = serde_json::json!({"signal": signal}).to_string();
    let url = page(&server);
    let browsed = browse("early", &url, &values);
    tokio::pin!(browsed);
    let interrupted = server.until("it is interrupted", || signal.exists());
    let done = tokio::select! {
        _ = &mut browsed => true,
        () = interrupted => false,
    };
    talker.open();
    if !done {
        browsed.await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_and_an_old_conversation_is_silent() {
    tried("lines", &[]).await;
}

#[tokio::test]
async fn a_browser_that_cannot_play_says_so_and_plays_when_it_can() {
    tried("mute", &[]).await;
}

#[tokio::test]
async fn why_a_key_is_refused_is_told_where_it_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("keys");
    let quotas = Quotas {
        streams: Some(1),
        ..Quotas::default()
    };
    let (speaks, first) = new_key("speaks", &[Scope::Speech], &Quotas::default()).expect("random bytes");
    let (one, second) = new_key("one", &[Scope::Speech, Scope::Chat], &quotas).expect("random bytes");
    fs::write(&file, format!("{first}\n{second}\n")).expect("written");
    let server = fake(&["--api-keys", file.to_str().expect("text")]).await;
    let values = serde_json::json!({"speaks": speaks, "one": one}).to_string();
    browse("refusals", &page(&server), &values).await;
    server.stop().await;
}

#[tokio::test]
async fn however_it_ends_the_microphone_is_released() {
    let speaking = embedded().await;
    let recording = spoken(&speaking).await;
    speaking.stop().await;
    let server = hearing().await;
    let values = serde_json::json!({"recording": recording.path()}).to_string();
    browse("released", &page(&server), &values).await;
    server.stop().await;
}

#[tokio::test]
async fn a_conversation_in_writing_is_heard_turn_by_turn() {
    tried("talk", &[]).await;
}

async fn embedded() -> TestServer {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Embedded, &deploy, false);
    let mut server = TestServer::launch(&[], load).await;
    server.app.ready().await.expect("the embedded model loads");
    server
}

#[tokio::test]
async fn an_answer_is_interrupted_where_it_is_heard_and_the_conversation_keeps_that() {
    tried("interrupt", &[]).await;
}

/// A server whose model hears.
async fn hearing() -> TestServer {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    TestServer::fake(script, &[]).await
}

#[tokio::test]
async fn a_text_is_shown_as_the_words_that_the_model_reads() {
    let server = embedded().await;
    browse("explain", &page(&server), "{}").await;
    server.stop().await;
}

#[tokio::test]
async fn the_page_works_below_a_prefix_of_a_proxy() {
    tried("prefix", &[]).await;
}

/// A file in which the embedded voice speaks, with silence around it.
async fn spoken(server: &TestServer) -> tempfile::NamedTempFile {
    let body = r#"{"input": "Good morning. How are you today?", "response_format": "pcm", "seed": 1}"#;
    let kind = [("content-type", "application/json")];
    let speech = http(server, "POST", "/v1/audio/speech", &kind, body).await.body;
    let rate = SampleRate::new(24_000).expect("a rate");
    let silence = vec![0; 3 * 2 * 24_000];
    let samples = [&silence[..], &speech, &silence].concat();
    let mut file = WavHeader::mono(rate)
        .finished(Samples(samples.len() as u64 / 2))
        .to_vec();
    file.extend(samples);
    let recording = tempfile::Builder::new().suffix(".wav").tempfile();
    let recording = recording.expect("a file");
    fs::write(recording.path(), file).expect("written");
    recording
}

#[tokio::test]
async fn what_is_said_into_the_microphone_is_a_turn_and_a_model_without_audio_input_offers_none() {
    let deaf = embedded().await;
    let recording = spoken(&deaf).await;
    let hearing = hearing().await;
    for (server, hears) in [(&deaf, false), (&hearing, true)] {
        let values = serde_json::json!({"recording": recording.path(), "hears": hears});
        browse("microphone", &page(server), &values.to_string()).await;
    }
    deaf.stop().await;
    hearing.stop().await;
}
