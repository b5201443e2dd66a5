//! Voices while other things happen: damaged files, deletion, many recordings at once, the end of the room.

use futures::future::join_all;
use omni_proto::v1;
use omni_tests::{reason, text};
use tonic::Code;

use crate::support::{
    TEXT, babble, base, file, goldens, greedy, recorded, recorded_with, spoken, voices, wav,
};

/// A voice of its vector alone, which takes the least time.
fn alone(name: &str) -> v1::CreateVoiceRequest {
    recorded_with(name, wav(&babble(2.0, 120.0)), |r| r.x_vector_only = true)
}

async fn names(server: &omni_tests::TestServer) -> Vec<String> {
    let request = v1::ListKeptVoicesRequest::default();
    let kept = voices(server).list_kept_voices(request).await;
    let kept = kept.expect("a list").into_inner().voices;
    kept.into_iter().map(|voice| voice.name).collect()
}

#[tokio::test]
async fn a_damaged_file_costs_its_own_voice_alone_and_is_never_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--voices", dir.path().to_str().expect("text")];
    let server = base(&args).await;
    for name in ["anna", "otto"] {
        voices(&server).create_voice(alone(name)).await.expect("a voice");
    }
    server.stop().await;
    let files = std::fs::read_dir(dir.path()).expect("the folder");
    let anna = files
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().contains("anna"))
        .expect("a readable name");
    let whole = std::fs::read(&anna).expect("the file");
    let half = &whole[..whole.len() / 2];
    std::fs::write(&anna, half).expect("written");

    let server = base(&args).await;
    assert_eq!(names(&server).await, ["otto"]);
    let refused = voices(&server).create_voice(alone("anna")).await;
    let refused = refused.expect_err("its file is in the way");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unavailable, "VOICE_NOT_STORED")
    );
    assert!(refused.message().contains("anna-"), "{refused:?}");
    assert_eq!(std::fs::read(&anna).expect("the file"), half);
    assert!(spoken(&server, greedy("otto", "en", 4)).await.is_ok());
    server.stop().await;

    std::fs::write(&anna, whole).expect("written");
    let server = base(&args).await;
    assert_eq!(names(&server).await, ["anna", "otto"]);
    server.stop().await;
}

#[tokio::test]
async fn an_utterance_goes_on_when_its_voice_is_deleted_and_the_next_one_is_refused() {
    let server = base(&[]).await;
    voices(&server)
        .create_voice(alone("anna"))
        .await
        .expect("a voice");
    let expected = spoken(&server, greedy("anna", "en", 30)).await.expect("audio");
    let mut call = server.call().await.configured(greedy("anna", "en", 30)).await;
    let request = v1::DeleteVoiceRequest {
        name: "anna".to_owned(),
    };
    voices(&server).delete_voice(request).await.expect("deleted");
    call.send(text(TEXT)).await;
    call.send(omni_tests::finish()).await;
    let heard = call.utterance().await;
    assert_eq!(heard.samples() as usize, expected.len(), "all of it");
    call.hang_up();
    call.end().await.expect("an end");
    let refused = spoken(&server, greedy("anna", "en", 30))
        .await
        .expect_err("it is gone");
    assert_eq!(reason(&refused), "VOICE_NOT_FOUND");
    server.stop().await;
}

#[tokio::test]
async fn more_recordings_than_may_wait_are_refused_and_later_taken() {
    let server = base(&[]).await;
    // Long enough that none is done before all have come.
    let recording = wav(&babble(12.0, 120.0));
    let create = async |n: usize| {
        let request = recorded(&format!("voice {n}"), recording.clone());
        voices(&server).create_voice(request).await
    };
    let results = join_all((0..20).map(&create)).await;
    let refused: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(!refused.is_empty());
    for status in &refused {
        assert_eq!(
            (status.code(), reason(status).as_str()),
            (Code::ResourceExhausted, "VOICES_BUSY")
        );
        assert!(status.message().contains('8'), "{status:?}");
    }
    assert_eq!(names(&server).await.len(), 20 - refused.len());
    create(99).await.expect("a voice");
    server.stop().await;
}

#[tokio::test]
async fn what_is_kept_is_bounded_in_bytes_and_room_comes_back_with_a_deletion() {
    let server = base(&["--set", "voices.max_memory=2KiB"]).await;
    let import = async |name: &str| {
        let data = file(name, &goldens().floats("ref.spk_embedding"), None);
        let request = v1::ImportVoiceRequest {
            data,
            name: String::new(),
        };
        voices(&server).import_voice(request).await
    };
    let mut kept = 0;
    let refused = loop {
        match import(&format!("v{kept}")).await {
            Ok(_) => kept += 1,
            Err(status) => break status,
        }
    };
    assert!(kept > 0);
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::ResourceExhausted, "VOICES_FULL")
    );
    assert!(refused.message().contains("delete one first"), "{refused:?}");
    let request = v1::DeleteVoiceRequest {
        name: "v0".to_owned(),
    };
    voices(&server).delete_voice(request).await.expect("deleted");
    import("v0").await.expect("there is room");
    server.stop().await;
}
