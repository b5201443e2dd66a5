//! `VoiceService`, and speech with its voices.

use omni_proto::v1;
use omni_tests::{TestServer, reason};
use tonic::{Code, Status};

use crate::support::{
    CONSENT, babble, base, checkpoint, design, file, goldens, greedy, recorded, recorded_with, served,
    spoken, voices, wav,
};

async fn create(server: &TestServer, request: v1::CreateVoiceRequest) -> Result<v1::KeptVoice, Status> {
    let created = voices(server).create_voice(request).await?;
    Ok(created.into_inner().voice.expect("a voice"))
}

async fn names(server: &TestServer) -> Vec<String> {
    let kept = voices(server)
        .list_kept_voices(v1::ListKeptVoicesRequest::default())
        .await;
    let kept = kept.expect("a list").into_inner().voices;
    kept.into_iter().map(|voice| voice.name).collect()
}

fn named<T>(result: Result<T, Status>) -> (Code, String) {
    let status = result.err().expect("a refusal");
    (status.code(), reason(&status))
}

#[tokio::test]
async fn a_voice_is_made_of_a_recording_spoken_with_and_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--voices", dir.path().to_str().expect("text")];
    let server = base(&args).await;
    let none = spoken(&server, greedy("anna", "en", 4))
        .await
        .expect_err("no voice yet");
    assert!(none.message().contains("omni-client voices add"), "{none:?}");

    let voice = create(&server, recorded("Anna", wav(&babble(2.0, 120.0))))
        .await
        .expect("a voice");
    assert_eq!(
        (voice.name.as_str(), voice.kind()),
        ("Anna", v1::VoiceKind::InContext)
    );
    assert_eq!(
        (voice.transcript.as_str(), voice.consent.as_str()),
        ("Short ref.", CONSENT)
    );
    assert!(voice.durable && voice.shared && voice.problem.is_empty());
    let seconds = voice.duration.expect("a duration");
    assert!((1..=2).contains(&seconds.seconds), "{seconds:?}");
    let alone = recorded_with("Otto", wav(&babble(2.0, 200.0)), |r| {
        r.transcript = String::new();
        r.x_vector_only = true;
    });
    assert_eq!(
        create(&server, alone).await.expect("a voice").kind(),
        v1::VoiceKind::XVector
    );
    let anna = spoken(&server, greedy("anna", "en", 6)).await.expect("audio");
    let otto = spoken(&server, greedy("otto", "en", 6)).await.expect("audio");
    assert!(!anna.is_empty() && anna != otto);
    let listed = server
        .catalog()
        .list_voices(v1::ListVoicesRequest::default())
        .await;
    let listed = listed.expect("a list").into_inner().voices;
    assert_eq!(
        listed.iter().map(|voice| voice.id.as_str()).collect::<Vec<_>>(),
        ["Anna", "Otto"]
    );
    server.stop().await;

    let server = base(&args).await;
    assert_eq!(names(&server).await, ["Anna", "Otto"]);
    assert!(spoken(&server, greedy("anna", "en", 6)).await.expect("audio") == anna);
    let request = v1::DeleteVoiceRequest {
        name: "anna".to_owned(),
    };
    voices(&server)
        .delete_voice(request.clone())
        .await
        .expect("deleted");
    assert_eq!(
        named(voices(&server).delete_voice(request).await),
        (Code::NotFound, "VOICE_NOT_FOUND".to_owned())
    );
    server.stop().await;
    let server = base(&args).await;
    assert_eq!(names(&server).await, ["Otto"]);
    server.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_recording_is_told_and_nothing_is_kept() {
    let server = base(&[]).await;
    let good = || wav(&babble(2.0, 120.0));
    let loud: Vec<f32> = babble(2.0, 120.0)
        .iter()
        .map(|s| (9.0 * s).clamp(-1.0, 1.0))
        .collect();
    let hum: Vec<f32> = (0..48_000).map(|n| 0.3 * (n as f32 * 0.04).sin()).collect();
    for (request, expected) in [
        (recorded("a", wav(&vec![0.0; 48_000])), "RECORDING_SILENT"),
        (recorded("a", wav(&babble(0.5, 120.0))), "RECORDING_TOO_SHORT"),
        (recorded("a", wav(&babble(62.0, 120.0))), "RECORDING_TOO_LONG"),
        (recorded("a", wav(&loud)), "RECORDING_CLIPPED"),
        (recorded("a", wav(&hum)), "RECORDING_WITHOUT_SPEECH"),
        (
            recorded("a", b"no audio at all".to_vec()),
            "RECORDING_FORMAT_UNKNOWN",
        ),
        (recorded("a", good()[..30].to_vec()), "RECORDING_UNREADABLE"),
        (recorded("a/b", good()), "VOICE_NAME_INVALID"),
        (
            recorded_with("a", good(), |r| r.transcript.clear()),
            "TRANSCRIPT_MISSING",
        ),
        (
            recorded_with("a", good(), |r| r.consent = " ".to_owned()),
            "CONSENT_MISSING",
        ),
        (
            recorded_with("a", good(), |r| {
                r.format = Some(v1::AudioFormat {
                    encoding: v1::AudioEncoding::Mp3.into(),
                    ..v1::AudioFormat::default()
                });
            }),
            "INVALID_FIELD",
        ),
    ] {
        let (code, told) = named(create(&server, request).await);
        assert_eq!((code, told.as_str()), (Code::InvalidArgument, expected));
    }
    let described = v1::CreateVoiceRequest {
        origin: Some(v1::create_voice_request::Origin::Design(
            "A low voice.".to_owned(),
        )),
        ..recorded("a", Vec::new())
    };
    assert_eq!(named(create(&server, described).await).1, "VOICES_NOT_SUPPORTED");
    assert!(names(&server).await.is_empty());
    create(&server, recorded("a", good())).await.expect("a voice");
    assert_eq!(
        named(create(&server, recorded("A", good())).await).1,
        "VOICE_EXISTS"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_soft_recording_gives_the_voice_of_a_loud_one_unless_levels_are_left_alone() {
    // As floats, in which a soft recording has no coarser steps than a loud one.
    let at = |level: f32| {
        let mut header =
            omni_audio::WavHeader::mono(omni_audio::SampleRate::new(24_000).expect("a rate")).streaming();
        (header[20], header[32], header[34]) = (3, 4, 32);
        let said = babble(2.0, 120.0)
            .into_iter()
            .flat_map(|s| (s * level).to_le_bytes());
        header.into_iter().chain(said).collect::<Vec<u8>>()
    };
    for (args, alike) in [(&[][..], true), (&["--set", "voices.loudness=0"], false)] {
        let server = base(args).await;
        for (name, level) in [("loud", 1.0), ("soft", 0.25)] {
            let request = recorded_with(name, at(level), |r| r.x_vector_only = true);
            create(&server, request).await.expect("a voice");
        }
        let vector = async |name: &str| {
            let request = v1::ExportVoiceRequest {
                name: name.to_owned(),
            };
            let file = voices(&server).export_voice(request).await.expect("a file");
            let file = file.into_inner().data;
            let tensors = safetensors::SafeTensors::deserialize(&file).expect("safetensors");
            let numbers = tensors.tensor("x_vector").expect("a vector").data().to_vec();
            let numbers = numbers.chunks_exact(4);
            numbers
                .map(|four| f32::from_le_bytes(four.try_into().expect("four bytes")))
                .collect::<Vec<_>>()
        };
        let loud = vector("loud").await;
        let soft = vector("soft").await;
        let apart = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let most = loud.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert_eq!(
            apart(&loud, &soft) < 0.01 * most,
            alike,
            "{args:?}: {}",
            apart(&loud, &soft) / most
        );
        server.stop().await;
    }
}

#[tokio::test]
async fn no_more_voices_are_kept_than_may_be() {
    let server = base(&["--set", "voices.max_voices=1"]).await;
    create(&server, recorded("a", wav(&babble(2.0, 120.0))))
        .await
        .expect("a voice");
    let full = create(&server, recorded("b", wav(&babble(2.0, 120.0)))).await;
    assert_eq!(named(full), (Code::ResourceExhausted, "VOICES_FULL".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn a_voice_goes_to_another_server_and_one_of_another_width_is_refused() {
    let first = base(&[]).await;
    let second = base(&[]).await;
    let made = create(&first, recorded("Anna", wav(&babble(2.0, 120.0))))
        .await
        .expect("a voice");
    assert!(!made.durable);
    let exported = voices(&first)
        .export_voice(v1::ExportVoiceRequest {
            name: "anna".to_owned(),
        })
        .await;
    let data = exported.expect("a file").into_inner().data;
    let request = v1::ImportVoiceRequest {
        data,
        name: "Berta".to_owned(),
    };
    let imported = voices(&second).import_voice(request).await.expect("it is kept");
    let voice = imported.into_inner().voice.expect("a voice");
    assert_eq!(
        voice,
        v1::KeptVoice {
            name: "Berta".to_owned(),
            ..made
        }
    );
    let anna = greedy("anna", "en", 5);
    let berta = greedy("berta", "en", 5);
    assert!(spoken(&first, anna).await.expect("audio") == spoken(&second, berta).await.expect("audio"));

    let wide = file("wide", &[0.5; 33], None);
    let wide = v1::ImportVoiceRequest {
        data: wide,
        name: String::new(),
    };
    let refused = voices(&second)
        .import_voice(wide)
        .await
        .expect_err("another width");
    assert_eq!(reason(&refused), "VOICE_OF_ANOTHER_MODEL");
    assert!(
        refused.message().contains("33") && refused.message().contains("32"),
        "{refused:?}"
    );
    let mut data = file("a", &goldens().floats("ref.spk_embedding"), None);
    let at = data
        .windows(CONSENT.len())
        .position(|window| window == CONSENT.as_bytes());
    let at = at.expect("it is stated");
    data[at..at + CONSENT.len()].fill(b' ');
    let unstated = v1::ImportVoiceRequest {
        data,
        name: String::new(),
    };
    assert_eq!(
        named(voices(&second).import_voice(unstated).await).1,
        "CONSENT_MISSING"
    );
    let long = file(
        "long",
        &goldens().floats("ref.spk_embedding"),
        Some((&vec![1; 16 * 1_100], 16, &[5])),
    );
    let long = v1::ImportVoiceRequest {
        data: long,
        name: String::new(),
    };
    let refused = voices(&second)
        .import_voice(long)
        .await
        .expect_err("more than a minute");
    assert!(refused.message().contains("1100 frames"), "{refused:?}");
    let junk = v1::ImportVoiceRequest {
        data: vec![1, 2, 3],
        name: String::new(),
    };
    assert_eq!(
        named(voices(&second).import_voice(junk).await).1,
        "VOICE_FILE_INVALID"
    );
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_file_of_another_model_is_told_of_and_not_spoken_with() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(
        dir.path().join("wide.safetensors"),
        file("wide", &[0.5; 33], None),
    )
    .expect("written");
    std::fs::write(dir.path().join("broken.safetensors"), b"junk").expect("written");
    let server = base(&["--voices", dir.path().to_str().expect("text")]).await;
    let found = voices(&server)
        .get_voice(v1::GetVoiceRequest {
            name: "wide".to_owned(),
        })
        .await;
    let problem = found
        .expect("it is there")
        .into_inner()
        .voice
        .expect("a voice")
        .problem;
    assert!(problem.contains("33 numbers"), "{problem}");
    let refused = spoken(&server, greedy("wide", "en", 3))
        .await
        .expect_err("another width");
    assert_eq!(reason(&refused), "VOICE_OF_ANOTHER_MODEL");
    server.stop().await;
}

#[tokio::test]
async fn a_preview_is_spoken_and_a_recording_in_a_request_is_not_kept() {
    let server = base(&[]).await;
    create(&server, recorded("a", wav(&babble(2.0, 120.0))))
        .await
        .expect("a voice");
    let request = v1::PreviewVoiceRequest {
        name: "a".to_owned(),
        text: "Hello.".to_owned(),
        output: None,
    };
    let mut replies = voices(&server)
        .preview_voice(request)
        .await
        .expect("a stream")
        .into_inner();
    let mut audio = 0;
    while let Some(reply) = replies.message().await.expect("no failure") {
        if let Some(v1::synthesize_response::Event::Audio(chunk)) = reply.event.and_then(|reply| reply.event)
        {
            audio += chunk.data.len();
        }
    }
    assert!(audio > 0);
    let clone = |transcript: &str| v1::SpeechConfig {
        clone: Some(v1::VoiceClone {
            audio: wav(&babble(2.0, 120.0)),
            format: None,
            transcript: transcript.to_owned(),
        }),
        ..greedy("", "en", 5)
    };
    let kept = spoken(&server, greedy("a", "en", 5)).await.expect("audio");
    assert!(
        spoken(&server, clone("Short ref.")).await.expect("audio") == kept,
        "the same recording"
    );
    assert!(
        spoken(&server, clone("")).await.expect("audio") != kept,
        "its vector alone"
    );
    let mut call = server.call().await.configured(clone("Short ref.")).await;
    call.send(omni_tests::text(crate::support::TEXT)).await;
    call.send(omni_tests::finish()).await;
    assert!(call.utterance().await.samples() > 0);
    call.hang_up();
    call.end().await.expect("an end");
    assert_eq!(names(&server).await, ["a"]);
    server.stop().await;
}

#[tokio::test]
async fn a_description_is_kept_where_the_model_follows_descriptions() {
    let server = design(&[]).await;
    let described = |name: &str, words: &str| v1::CreateVoiceRequest {
        name: name.to_owned(),
        origin: Some(v1::create_voice_request::Origin::Design(words.to_owned())),
        ..v1::CreateVoiceRequest::default()
    };
    let voice = create(&server, described("low", "A low voice."))
        .await
        .expect("a voice");
    assert_eq!(
        (voice.kind(), voice.design.as_str()),
        (v1::VoiceKind::Description, "A low voice.")
    );
    create(&server, described("high", "A high voice."))
        .await
        .expect("a voice");
    assert_eq!(
        named(create(&server, described("Described", "As the model's own.")).await).1,
        "VOICE_EXISTS"
    );
    let low = spoken(&server, greedy("low", "de", 6)).await.expect("audio");
    let told = v1::SpeechConfig {
        style_instructions: "A low voice.".to_owned(),
        ..greedy("", "de", 6)
    };
    assert!(
        spoken(&server, told).await.expect("audio") == low,
        "the words are told the model"
    );
    assert!(spoken(&server, greedy("high", "de", 6)).await.expect("audio") != low);
    let recording = create(&server, recorded("a", wav(&babble(2.0, 120.0)))).await;
    assert_eq!(named(recording).1, "VOICES_NOT_SUPPORTED");
    server.stop().await;
}

#[tokio::test]
async fn a_model_with_voices_of_its_own_makes_none() {
    let server = served(checkpoint(omni_models::testing::TINY_TTS, None), &[]).await;
    let refused = create(&server, recorded("a", wav(&babble(2.0, 120.0))))
        .await
        .expect_err("none");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unimplemented, "VOICES_NOT_SUPPORTED")
    );
    assert!(refused.message().contains("Base checkpoints"), "{refused:?}");
    let x_vector = goldens().floats("ref.spk_embedding");
    let request = v1::ImportVoiceRequest {
        data: file("a", &x_vector, None),
        name: String::new(),
    };
    assert_eq!(
        named(voices(&server).import_voice(request).await).1,
        "VOICE_OF_ANOTHER_MODEL"
    );
    server.stop().await;
}
