//! Speech of recorded voices, compared with the reference implementation.

use omni_audio::{from_i16, i16_from_s16le};
use omni_models::testing::{Goldens, LONG_RECORDINGS, published_window};
use omni_proto::v1;
use omni_tests::TestServer;

use crate::support::{base, checkpoint, file, goldens, greedy, served, spoken, voices};

async fn import(server: &TestServer, data: Vec<u8>) {
    let request = v1::ImportVoiceRequest {
        data,
        name: String::new(),
    };
    let imported = voices(server).import_voice(request).await.expect("it is kept");
    let voice = imported.into_inner().voice.expect("a voice");
    assert_eq!(voice.problem, "");
}

fn assert_equal(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    // The server fades in and out, and a sample of 16 bits is a step of 1/32768.
    let faded = 240;
    for i in faded..expected.len() - faded {
        let apart = (got[i] - expected[i]).abs();
        assert!(
            apart < 2e-4,
            "{what}, sample {i}: {}, expected {}",
            got[i],
            expected[i]
        );
    }
}

#[tokio::test]
async fn voices_of_recordings_speak_as_the_reference_does() {
    let g = goldens();
    let server = base(&[]).await;
    let x_vector = g.floats("ref.spk_embedding");
    import(&server, file("vector", &x_vector, None)).await;
    let codes = g.ids("ref.codes");
    let ids = g.ids("vc_icl.ref_ids");
    // Without the marks of its turn.
    let text = &ids[3..ids.len() - 2];
    let reference = Some((&codes[..], g.shape("ref.codes")[1], text));
    import(&server, file("context", &x_vector, reference)).await;

    let by_vector = spoken(&server, greedy("vector", "en", 13)).await.expect("audio");
    assert_equal(&by_vector, &g.floats("vc_xvec.wav"), "by its vector");
    // It continues the recording, of which nothing is heard, and ends by itself.
    let in_context = spoken(&server, greedy("Context", "en", 50)).await.expect("audio");
    assert_equal(&in_context, &g.floats("vc_icl.wav"), "in context");
    server.stop().await;
}

/// Speech continues from all of the recording, also one longer than the attention window of the vocoder.
#[tokio::test]
async fn a_long_recording_is_continued_as_the_reference_continues_it() {
    let g = Goldens::new(LONG_RECORDINGS);
    let server = served(checkpoint(published_window(), None), &[]).await;
    for name in ["icl30", "icl80"] {
        let part = |part: &str| format!("{name}.{part}");
        let codes = g.ids(&part("ref_codes"));
        let ids = g.ids(&part("ref_ids"));
        let reference = Some((&codes[..], g.shape(&part("ref_codes"))[1], &ids[3..ids.len() - 2]));
        import(&server, file(name, &g.floats(&part("spk_embedding")), reference)).await;
        let frames = u32::try_from(g.shape(&part("codes"))[0]).expect("few frames");
        let heard = spoken(&server, greedy(name, "en", frames)).await.expect("audio");
        assert_equal(&heard, &g.floats(&part("wav")), name);
    }
    server.stop().await;
}

/// Text that comes in pieces is read as the reference reads it: the prompt waits for what of it stands beside the
/// recording's frames.
#[tokio::test]
async fn text_in_pieces_changes_nothing_of_a_voice_in_context() {
    let g = goldens();
    let server = base(&[]).await;
    let codes = g.ids("ref.codes");
    let ids = g.ids("vc_icl.ref_ids");
    let reference = Some((&codes[..], g.shape("ref.codes")[1], &ids[3..ids.len() - 2]));
    import(&server, file("anna", &g.floats("ref.spk_embedding"), reference)).await;
    let eager = v1::SpeechConfig {
        buffering: v1::TextBuffering::Eager.into(),
        ..greedy("anna", "en", 50)
    };
    let mut call = server.call().await.configured(eager).await;
    for piece in ["Hel", "lo, ", "the ", "us", "er!"] {
        call.send(omni_tests::text(piece)).await;
    }
    call.send(omni_tests::finish()).await;
    let utterance = call.utterance().await;
    let heard: Vec<f32> = i16_from_s16le(&utterance.audio).map(from_i16).collect();
    assert_equal(&heard, &g.floats("vc_icl.wav"), "in pieces");
    call.hang_up();
    call.end().await.expect("an end");
    server.stop().await;
}

#[tokio::test]
async fn every_replica_speaks_with_a_voice() {
    let g = goldens();
    let sets = [
        "--set",
        "stages.talker.replicas=2",
        "--set",
        "stages.code2wav.replicas=2",
    ];
    let server = base(&sets).await;
    let x_vector = g.floats("ref.spk_embedding");
    let codes = g.ids("ref.codes");
    let groups = g.shape("ref.codes")[1];
    import(
        &server,
        file("anna", &x_vector, Some((&codes, groups, &[5, 6, 7]))),
    )
    .await;
    let first = spoken(&server, greedy("anna", "en", 8)).await.expect("audio");
    for _ in 0..3 {
        assert_eq!(
            spoken(&server, greedy("anna", "en", 8)).await.expect("audio"),
            first
        );
    }
    server.stop().await;
}

/// Position of `wanted` in `heard` after `from`, without the fades at both ends.
fn found(heard: &[f32], wanted: &[f32], from: usize) -> Option<usize> {
    let faded = 240;
    let inner = &wanted[faded..wanted.len() - faded];
    let alike = |at: &usize| {
        let there = &heard[*at..*at + inner.len()];
        there.iter().zip(inner).all(|(a, b)| (a - b).abs() < 2e-4)
    };
    let last = heard.len().checked_sub(inner.len())?;
    (from..=last).find(alike).map(|at| at + inner.len())
}

/// A voice does not depend on how much was said before: every sentence is conditioned on the recording, and on nothing
/// that was spoken.
#[tokio::test]
async fn every_sentence_of_a_long_text_is_spoken_from_the_same_recording() {
    const SENTENCES: usize = 8;
    let g = goldens();
    let server = base(&[]).await;
    let codes = g.ids("ref.codes");
    let ids = g.ids("vc_icl.ref_ids");
    let reference = Some((&codes[..], g.shape("ref.codes")[1], &ids[3..ids.len() - 2]));
    import(&server, file("anna", &g.floats("ref.spk_embedding"), reference)).await;
    let config = || greedy("anna", "en", 400);
    let text = [crate::support::TEXT; SENTENCES].join(" ");
    let (audio, _) = omni_tests::audio_of(&mut server.speech(), config(), &text)
        .await
        .expect("audio");
    let heard: Vec<f32> = i16_from_s16le(&audio).map(from_i16).collect();
    // The reference implementation's audio of the sentence alone.
    let sentence = g.floats("vc_icl.wav");
    let mut at = 0;
    for nth in 1..=SENTENCES {
        at = found(&heard, &sentence, at).unwrap_or_else(|| panic!("sentence {nth} is another one"));
    }
    server.stop().await;
}
