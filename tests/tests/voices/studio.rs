//! Voices that are made in Studio, the page for browsers.

use omni_tests::browse;

use super::support::{babble, base, design, wav};

#[tokio::test]
async fn a_voice_is_recorded_or_uploaded_heard_and_deleted_on_the_page() {
    let folder = tempfile::tempdir().expect("a directory");
    let recording = folder.path().join("recording.wav");
    std::fs::write(&recording, wav(&babble(4.0, 120.0))).expect("written");
    let server = base(&[]).await;
    let url = format!("http://{}/studio/", server.app.address());
    let values = serde_json::json!({"recording": recording, "transcript": "Short ref."});
    browse("clone", &url, &values.to_string()).await;
    server.stop().await;
}

#[tokio::test]
async fn a_voice_is_described_and_heard_on_the_page() {
    let server = design(&[]).await;
    let url = format!("http://{}/studio/", server.app.address());
    browse("design", &url, "{}").await;
    server.stop().await;
}
