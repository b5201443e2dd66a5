//! Voices of recordings, whose data travels to the processes with every request.

use omni_proto::v1;
use tempfile::TempDir;

use super::cloning::{checkpoint, keep};
use super::{IN_PROCESSES, Server, ask};

async fn spoken(server: &Server, voice: &str) -> Vec<u8> {
    let config = v1::SpeechConfig {
        voice: voice.to_owned(),
        language: "en".to_owned(),
        sampling: Some(v1::SamplingParams {
            seed: Some(7),
            max_tokens: Some(24),
            ..v1::SamplingParams::default()
        }),
        ..v1::SpeechConfig::default()
    };
    let speech = ask(server, config, "Hello, the user! And again, the user.").await;
    speech.rest().await.expect("audio")
}

#[tokio::test]
async fn a_kept_voice_is_the_same_whether_stages_are_threads_or_processes() {
    let model = checkpoint();
    let dir = tempfile::tempdir().expect("a directory");
    let path = |dir: &TempDir| dir.path().to_str().expect("text").to_owned();
    let model_path = path(&model);
    let voices_path = path(&dir);
    let args = ["--model", &model_path, "--voices", &voices_path];
    let here = Server::start(&args);
    keep(&here.address, "context", "Short ref.")
        .await
        .expect("a voice");
    keep(&here.address, "vector", "").await.expect("a voice");
    let expected = [spoken(&here, "context").await, spoken(&here, "vector").await];
    assert!(expected.iter().all(|audio| audio.len() > 10_000) && expected[0] != expected[1]);
    here.stop();

    let there = Server::start(&[&args[..], &IN_PROCESSES].concat());
    assert_eq!(there.children().len(), 2);
    for (voice, expected) in ["context", "vector"].into_iter().zip(expected) {
        // In company, too.
        let (first, second) = tokio::join!(spoken(&there, voice), spoken(&there, voice));
        assert!(first == expected && second == expected, "{voice}");
    }
    there.stop();
}
