//! Metrics of voices.

use omni_proto::v1;
use omni_tests::Reading;

use crate::support::{babble, base, file, goldens, greedy, recorded, recorded_with, spoken, voices, wav};

#[tokio::test]
async fn every_family_of_voices_is_fed_and_none_names_a_voice() {
    let server = base(&["--set", "voices.max_voices=2"]).await;
    let start = Reading::of(&server).await;
    assert_eq!(start.sum("vllm:omni_voices", &[]), 0.0);
    let recording = || wav(&babble(2.0, 120.0));
    let mut service = voices(&server);
    service
        .create_voice(recorded("Anna", recording()))
        .await
        .expect("a voice");
    service
        .create_voice(recorded("anna", recording()))
        .await
        .expect_err("it exists");
    let hush = recorded("b", wav(&vec![0.0; 48_000]));
    service.create_voice(hush).await.expect_err("it is silent");
    let unstated = recorded_with("b", recording(), |r| r.consent.clear());
    service.create_voice(unstated).await.expect_err("no consent");
    let import = v1::ImportVoiceRequest {
        data: file("otto", &goldens().floats("ref.spk_embedding"), None),
        name: String::new(),
    };
    service.import_voice(import).await.expect("a voice");
    service
        .create_voice(recorded("c", recording()))
        .await
        .expect_err("it is full");
    for voice in ["anna", "ANNA", "otto"] {
        spoken(&server, greedy(voice, "en", 3)).await.expect("audio");
    }
    let cloned = v1::SpeechConfig {
        clone: Some(v1::VoiceClone {
            audio: recording(),
            format: None,
            transcript: "Short ref.".to_owned(),
        }),
        ..greedy("", "en", 3)
    };
    spoken(&server, cloned).await.expect("audio");
    let full = Reading::of(&server).await;
    let count = |name: &str, labels: &[(&str, &str)]| full.sum(&format!("vllm:omni_voice{name}"), labels);
    assert_eq!(
        (
            count("s", &[("kind", "in_context")]),
            count("s", &[("kind", "x_vector")])
        ),
        (1.0, 1.0)
    );
    assert!(count("s_bytes", &[]) > 100.0);
    let created = |origin, result| count("_creations_total", &[("origin", origin), ("result", result)]);
    for result in ["kept", "exists", "silent", "invalid", "full"] {
        assert_eq!(created("recording", result), 1.0, "{result}");
    }
    assert_eq!(
        (created("file", "kept"), count("_creations_total", &[])),
        (1.0, 6.0)
    );
    let asked = |source, kind| count("_requests_total", &[("source", source), ("kind", kind)]);
    assert_eq!(
        (
            asked("kept", "in_context"),
            asked("kept", "x_vector"),
            asked("request", "in_context")
        ),
        (2.0, 1.0, 1.0)
    );
    assert_eq!(count("_requests_total", &[]), 4.0);
    // The silent recording was looked for as well; the one that came with a request was encoded before.
    assert_eq!(
        (
            count("_cache_queries_total", &[]),
            count("_cache_hits_total", &[])
        ),
        (3.0, 1.0)
    );
    assert_eq!(count("_cache_evictions_total", &[]), 0.0);
    assert_eq!(
        (count("_encode_s_count", &[]), count("_encodings", &[])),
        (1.0, 0.0)
    );
    let text = full.samples.iter().flat_map(|sample| sample.labels.values());
    assert!(!text.clone().any(|value| value.to_lowercase().contains("anna")));

    for _ in 0..2 {
        let delete = v1::DeleteVoiceRequest {
            name: "anna".to_owned(),
        };
        let _ = service.delete_voice(delete).await;
    }
    let end = Reading::of(&server).await;
    let deleted = |result| end.sum("vllm:omni_voice_deletions_total", &[("result", result)]);
    assert_eq!((deleted("deleted"), deleted("not_found")), (1.0, 1.0));
    assert_eq!(end.sum("vllm:omni_voices", &[]), 1.0);
    server.stop().await;
}
