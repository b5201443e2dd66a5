//! Invalid input gets the right status, reason and limit, and harms no other caller.

use omni_proto::v1;
use omni_tests::{FakeScript, TestServer, audio_of, config, finish, named, reason, text};
use tonic::Code;
use tonic_types::StatusExt as _;

async fn server(args: &[&str]) -> TestServer {
    TestServer::fake(FakeScript::default(), args).await
}

fn format(format: v1::AudioFormat) -> v1::SpeechConfig {
    let output = v1::AudioDelivery {
        format: Some(format),
        ..Default::default()
    };
    v1::SpeechConfig {
        output: Some(output),
        ..Default::default()
    }
}

#[tokio::test]
async fn every_setting_that_cannot_be_honoured_is_refused_by_name() {
    // Hints are refused only in strict mode.
    let server = server(&["--strict"]).await;
    let sampling = |sampling| v1::SpeechConfig {
        sampling: Some(sampling),
        ..Default::default()
    };
    let delivery = |output| v1::SpeechConfig {
        output: Some(output),
        ..Default::default()
    };
    let time = |seconds| Some(omni_proto::Duration { seconds, nanos: 0 });
    let default = v1::SpeechConfig::default;
    let cases = [
        (
            "VOICE_NOT_FOUND",
            "config.voice",
            v1::SpeechConfig {
                voice: "nobody".into(),
                ..default()
            },
        ),
        (
            "MODEL_NOT_FOUND",
            "config.model",
            v1::SpeechConfig {
                model: "other".into(),
                ..default()
            },
        ),
        (
            "LANGUAGE_NOT_FOUND",
            "config.language",
            v1::SpeechConfig {
                language: "de".into(),
                ..default()
            },
        ),
        (
            "UNSUPPORTED_AUDIO_FORMAT",
            "config.output.format.sample_rate_hz",
            format(v1::AudioFormat {
                sample_rate_hz: 96_000,
                ..Default::default()
            }),
        ),
        (
            "UNSUPPORTED_AUDIO_FORMAT",
            "config.output.format.sample_rate_hz",
            format(v1::AudioFormat {
                encoding: v1::AudioEncoding::Mulaw.into(),
                sample_rate_hz: 24_000,
                ..Default::default()
            }),
        ),
        (
            "UNSUPPORTED_AUDIO_FORMAT",
            "config.output.format.sample_rate_hz",
            format(v1::AudioFormat {
                encoding: v1::AudioEncoding::OggOpus.into(),
                sample_rate_hz: 44_100,
                ..Default::default()
            }),
        ),
        (
            "UNSUPPORTED_AUDIO_FORMAT",
            "config.output.format.channels",
            format(v1::AudioFormat {
                channels: 2,
                ..Default::default()
            }),
        ),
        (
            "UNSUPPORTED_AUDIO_FORMAT",
            "config.output.format.encoding",
            format(v1::AudioFormat {
                encoding: 11,
                ..Default::default()
            }),
        ),
        (
            "UNSUPPORTED_AUDIO_FORMAT",
            "config.output.format.encoding",
            format(v1::AudioFormat {
                encoding: 77,
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.output.frame_duration",
            delivery(v1::AudioDelivery {
                frame_duration: time(6),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.output.max_lead",
            delivery(v1::AudioDelivery {
                frame_duration: time(1),
                max_lead: time(1),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.output.max_lead",
            delivery(v1::AudioDelivery {
                max_lead: time(3_601),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.output.leading_silence",
            delivery(v1::AudioDelivery {
                leading_silence: time(11),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.speed",
            v1::SpeechConfig {
                speed: Some(4.1),
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.speed",
            v1::SpeechConfig {
                speed: Some(f64::NAN),
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.volume_gain_db",
            v1::SpeechConfig {
                volume_gain_db: Some(16.5),
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.style_instructions",
            v1::SpeechConfig {
                style_instructions: "sad".into(),
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.clone",
            v1::SpeechConfig {
                clone: Some(v1::VoiceClone::default()),
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.pronunciations",
            v1::SpeechConfig {
                pronunciations: vec![v1::Pronunciation::default()],
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.buffering",
            v1::SpeechConfig {
                buffering: 9,
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.max_buffer_delay",
            v1::SpeechConfig {
                max_buffer_delay: time(-1),
                ..default()
            },
        ),
        (
            "INVALID_FIELD",
            "config.sampling.temperature",
            sampling(v1::SamplingParams {
                temperature: Some(f32::NAN),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.sampling.top_p",
            sampling(v1::SamplingParams {
                top_p: Some(0.0),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.sampling.top_k",
            sampling(v1::SamplingParams {
                top_k: Some(-1),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.sampling.repetition_penalty",
            sampling(v1::SamplingParams {
                repetition_penalty: Some(0.0),
                ..Default::default()
            }),
        ),
        (
            "INVALID_FIELD",
            "config.sampling.max_tokens",
            sampling(v1::SamplingParams {
                max_tokens: Some(0),
                ..Default::default()
            }),
        ),
    ];
    for (expected, field, settings) in cases {
        let call = server.call().await;
        call.send(config(settings.clone())).await;
        let status = call.end().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status:?}");
        assert_eq!(reason(&status), expected, "{field}");
        let violations = status
            .get_details_bad_request()
            .expect("a bad request")
            .field_violations;
        assert_eq!(violations[0].field, field);
        assert_eq!(status.get_details_error_info().unwrap().domain, "omni");

        let unary = audio_of(&mut server.speech(), settings, "hello")
            .await
            .unwrap_err();
        assert_eq!(
            (unary.code(), reason(&unary).as_str()),
            (Code::InvalidArgument, expected)
        );
    }
    server.idle(0).await;
    server.stop().await;
}

#[tokio::test]
async fn what_would_be_right_is_named() {
    let server = server(&[]).await;
    let refused = [
        (
            v1::AudioEncoding::PcmS16le,
            7_999,
            "7999 Hz does not go with 16-bit PCM, expected 8000 to 48000 Hz",
        ),
        (
            v1::AudioEncoding::Alaw,
            48_000,
            "48000 Hz does not go with A-law, expected 8000 or 16000 Hz",
        ),
        (
            v1::AudioEncoding::Opus,
            22_050,
            "22050 Hz does not go with Opus, expected 8000, 12000, 16000, 24000 or 48000 Hz",
        ),
        (
            v1::AudioEncoding::Mp3,
            23_000,
            "23000 Hz does not go with MP3, expected 8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100 or 48000 Hz",
        ),
    ];
    for (encoding, sample_rate_hz, expected) in refused {
        let settings = format(v1::AudioFormat {
            encoding: encoding.into(),
            sample_rate_hz,
            channels: 1,
        });
        let status = audio_of(&mut server.speech(), settings, "hello")
            .await
            .unwrap_err();
        assert!(status.message().contains(expected), "{}", status.message());
    }
    server.stop().await;
}

#[tokio::test]
async fn markup_and_text_that_the_tokenizer_refuses_are_errors() {
    let script = FakeScript {
        tokenizer_refuses: Some('#'),
        ..Default::default()
    };
    let server = TestServer::fake(script, &[]).await;
    let mut call = server.call().await.configured(v1::SpeechConfig::default()).await;
    call.send(text("<speak>hello <prosody rate='slow'>there</prosody></speak>"))
        .await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.error_reason(), "MARKUP_NOT_SUPPORTED");
    call.send(text("a # b.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.error_reason(), "INVALID_FIELD");
    call.send(text("fine.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Stop);
    server.stop().await;
}

#[tokio::test]
async fn what_a_caller_made_up_is_echoed_in_part_only() {
    let server = server(&[]).await;
    let long = "x".repeat(100_000);
    let default = v1::SpeechConfig::default;
    let cases = [
        (
            "VOICE_NOT_FOUND",
            v1::SpeechConfig {
                voice: long.clone(),
                ..default()
            },
        ),
        (
            "MODEL_NOT_FOUND",
            v1::SpeechConfig {
                model: long.clone(),
                ..default()
            },
        ),
        (
            "LANGUAGE_NOT_FOUND",
            v1::SpeechConfig {
                language: long.clone(),
                ..default()
            },
        ),
    ];
    for (expected, settings) in cases {
        let call = server.call().await;
        call.send(config(settings)).await;
        let status = call.end().await.unwrap_err();
        assert_eq!(reason(&status), expected, "{status:?}");
        assert!(status.message().len() < 200, "{}", status.message());
    }
    let request = v1::ListVoicesRequest {
        model: long.clone(),
        ..Default::default()
    };
    let status = server.catalog().list_voices(request).await.unwrap_err();
    assert_eq!(reason(&status), "MODEL_NOT_FOUND", "{status:?}");

    for names in [vec![long.clone()], vec!["a".to_owned(), long]] {
        let call = server.call().await.configured(v1::SpeechConfig::default()).await;
        for name in names {
            call.send(named(&name, "hello ")).await;
        }
        let status = call.end().await.unwrap_err();
        assert_eq!(reason(&status), "UTTERANCE_ID_INVALID", "{status:?}");
    }
    server.stop().await;
}
