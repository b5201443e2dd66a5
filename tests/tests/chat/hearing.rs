//! Spoken messages of the user.

use std::sync::Arc;
use std::time::Duration;

use omni_audio::{Encoder, Encoding, Format};
use omni_pipeline::request::ContextRow;
use omni_proto::v1;
use omni_proto::v1::content_part::Part;
use omni_proto::v1::converse_request::Event as Request;
use omni_proto::v1::converse_response::Event;
use omni_tests::{ChatCall, FakeScript, TestServer, chat_config, reason, respond, said};
use tonic::Code;

async fn hearing() -> (TestServer, FakeScript) {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    (TestServer::fake(script.clone(), &[]).await, script)
}

fn audio(bytes: usize) -> Request {
    Request::InputAudio(v1::InputAudio {
        data: vec![1; bytes].into(),
    })
}

fn commit(respond: bool) -> Request {
    Request::Commit(v1::CommitInput { respond })
}

fn format(encoding: v1::AudioEncoding, channels: u32) -> v1::AudioFormat {
    v1::AudioFormat {
        encoding: encoding.into(),
        sample_rate_hz: 0,
        channels,
    }
}

async fn added(chat: &mut ChatCall) -> v1::MessageAdded {
    chat.until(|event| match event {
        Event::MessageAdded(added) => Some(added.clone()),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn pieces_of_speech_are_one_message_and_are_answered() {
    let (server, _) = hearing().await;
    let mut chat = server.converse().await;
    let ready = chat.configure(chat_config(false)).await;
    let input = ready.resolved.unwrap().input_audio.unwrap();
    assert_eq!(
        (input.encoding(), input.sample_rate_hz, input.channels),
        (v1::AudioEncoding::PcmS16le, 16_000, 1)
    );
    assert_eq!(ready.limits.unwrap().max_input_audio.unwrap().seconds, 2);
    for bytes in [2, 998, 1_000] {
        chat.send(audio(bytes)).await;
    }
    chat.send(commit(true)).await;
    let added = added(&mut chat).await;
    assert_eq!(added.message.unwrap().role(), v1::Role::User);
    let length = Duration::try_from(added.audio_duration.unwrap()).unwrap();
    assert_eq!(length, Duration::from_micros(62_500));
    let answer = chat.answer().await;
    assert_eq!(answer.text, "You said: [1000 samples]");
    let usage = answer.outcome.usage.unwrap();
    assert_eq!((usage.input_audio_tokens, usage.input_text_tokens), (1, 1));
    server.stop().await;
}

#[tokio::test]
async fn speech_may_go_on_while_an_answer_is_in_progress() {
    let (server, script) = hearing().await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    script.thinker.close();
    chat.send(respond()).await;
    script.thinker.reached().await;
    chat.send(audio(200)).await;
    script.thinker.open();
    assert_eq!(chat.answer().await.text, "Hello.");
    chat.send(audio(200)).await;
    chat.send(commit(true)).await;
    assert_eq!(chat.answer().await.text, "You said: [200 samples]");
    server.stop().await;
}

#[tokio::test]
async fn the_talker_gets_what_the_thinker_made_of_the_users_voice() {
    let (server, script) = hearing().await;
    let before = script.contexts.all().len();
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        input_audio: Some(format(v1::AudioEncoding::PcmF32le, 2)),
        ..chat_config(true)
    };
    chat.configure(config).await;
    // Two channels of floats: 2,000 samples, two rows.
    let data = 0.25_f32.to_le_bytes().repeat(4_000);
    chat.send(Request::InputAudio(v1::InputAudio { data: data.into() }))
        .await;
    chat.send(commit(true)).await;
    let answer = chat.answer().await;
    assert_eq!(answer.text, "You said: [2000 samples]");
    assert!(answer.samples() > 0);
    let contexts = script.contexts.all().split_off(before);
    let rows = contexts[0].as_ref().expect("the talker is told");
    let heard = ContextRow::Hidden(Arc::from([0.5]));
    assert!(matches!(rows[0], ContextRow::Token(_)));
    assert_eq!(rows[1..], [heard.clone(), heard]);
    server.stop().await;
}

#[tokio::test]
async fn an_empty_answer_to_a_voice_ends_as_any_other() {
    let (server, _) = hearing().await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    chat.send(audio(2_000)).await;
    chat.send(commit(false)).await;
    chat.send(said(v1::Role::User, "say ")).await;
    chat.send(respond()).await;
    let answer = chat.answer().await;
    assert_eq!((answer.text.as_str(), answer.samples()), ("", 0));
    assert_eq!(answer.finish(), v1::FinishReason::Stop);
    assert_eq!(chat.turn("say more").await.text, "more");
    server.stop().await;
}

#[tokio::test]
async fn what_is_too_short_to_be_heard_is_refused_when_it_comes() {
    let (server, _) = hearing().await;
    let clip = v1::AudioClip {
        format: None,
        data: vec![0; 18].into(),
    };
    let message = v1::ChatMessage {
        id: String::new(),
        role: v1::Role::User.into(),
        parts: vec![v1::ContentPart {
            part: Some(Part::Audio(clip)),
        }],
    };
    for requests in [vec![audio(18), commit(true)], vec![Request::Message(message)]] {
        let mut chat = server.converse().await;
        chat.configure(chat_config(false)).await;
        for request in requests {
            chat.send(request).await;
        }
        let status = chat.end().await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, "AUDIO_TOO_SHORT")
        );
        assert!(status.message().contains("0.625 ms"), "{}", status.message());
    }
    server.stop().await;
}

#[tokio::test]
async fn clips_stand_between_words() {
    let (server, _) = hearing().await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    let clip = |format, data: Vec<u8>| v1::ContentPart {
        part: Some(Part::Audio(v1::AudioClip {
            format: Some(format),
            data: data.into(),
        })),
    };
    let text = |text: &str| v1::ContentPart {
        part: Some(Part::Text(text.to_owned())),
    };
    let parts = vec![
        text("this "),
        clip(format(v1::AudioEncoding::PcmS16le, 1), vec![0; 20]),
        text(" and that "),
        clip(format(v1::AudioEncoding::PcmS16le, 2), vec![0; 40]),
    ];
    let message = v1::ChatMessage {
        id: "mine".to_owned(),
        role: v1::Role::User.into(),
        parts,
    };
    chat.send(Request::Message(message)).await;
    let added = added(&mut chat).await;
    assert_eq!(added.message.unwrap().id, "mine");
    chat.send(respond()).await;
    assert_eq!(
        chat.answer().await.text,
        "You said: this [10 samples] and that [10 samples]"
    );
    server.stop().await;
}

fn ogg_opus(samples: usize) -> Vec<u8> {
    let format = Format::new(Encoding::OggOpus, 48_000).unwrap();
    let mut encoder = Encoder::new(format, 1);
    let mut chunks = Vec::new();
    encoder.push(&vec![0.1; samples], &mut chunks);
    encoder.finish(&mut chunks);
    chunks.into_iter().flat_map(|chunk| chunk.data).collect()
}

fn said_in(encoding: v1::AudioEncoding, sample_rate_hz: u32, channels: u32) -> v1::ChatConfig {
    v1::ChatConfig {
        input_audio: Some(v1::AudioFormat {
            encoding: encoding.into(),
            sample_rate_hz,
            channels,
        }),
        ..chat_config(false)
    }
}

#[tokio::test]
async fn speech_of_any_format_is_heard_at_the_models_rate() {
    use v1::AudioEncoding as E;
    let (server, _) = hearing().await;
    // 100 ms each, which the model hears as 1,600 samples; the pieces end anywhere.
    let cases = [
        (E::PcmS16le, 48_000, 2, vec![1; 19_200], 400),
        (E::PcmS16le, 44_100, 1, vec![1; 8_820], 2_000),
        (E::Mulaw, 0, 0, vec![0xFF; 800], 160),
        (E::Alaw, 16_000, 1, vec![0xD5; 1_600], 100),
        (E::OggOpus, 0, 0, ogg_opus(4_800), 77),
    ];
    for (encoding, rate, channels, bytes, piece) in cases {
        let mut chat = server.converse().await;
        chat.configure(said_in(encoding, rate, channels)).await;
        // A turn starts afresh after anything before it.
        for _ in 0..2 {
            for data in bytes.chunks(piece) {
                let data = data.to_vec().into();
                chat.send(Request::InputAudio(v1::InputAudio { data })).await;
            }
            chat.send(commit(true)).await;
            let added = added(&mut chat).await;
            let length = Duration::try_from(added.audio_duration.unwrap()).unwrap();
            assert_eq!(length, Duration::from_millis(100), "{encoding:?} at {rate} Hz");
            assert!(chat.answer().await.text.ends_with("[1600 samples]"));
        }
        chat.hang_up();
        chat.end().await.unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn a_clip_may_be_an_ogg_opus_file() {
    let (server, _) = hearing().await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    let clip = |data: Vec<u8>| {
        let format = Some(format(v1::AudioEncoding::OggOpus, 0));
        let clip = v1::AudioClip {
            format,
            data: data.into(),
        };
        Request::Message(v1::ChatMessage {
            id: String::new(),
            role: v1::Role::User.into(),
            parts: vec![v1::ContentPart {
                part: Some(Part::Audio(clip)),
            }],
        })
    };
    chat.send(clip(ogg_opus(48_000))).await;
    added(&mut chat).await;
    chat.send(respond()).await;
    assert_eq!(chat.answer().await.text, "You said: [16000 samples]");
    // The model hears two seconds at most, however few bytes they take.
    chat.send(clip(ogg_opus(100_000))).await;
    let status = chat.end().await.unwrap_err();
    assert_eq!(reason(&status), "AUDIO_TOO_LONG");
    server.stop().await;
}

#[tokio::test]
async fn clips_beyond_what_a_message_may_have_are_not_even_decoded() {
    let (server, _) = hearing().await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    let part = |encoding, data: Vec<u8>| {
        let format = Some(format(encoding, 0));
        let data = data.into();
        let part = Some(Part::Audio(v1::AudioClip { format, data }));
        v1::ContentPart { part }
    };
    let second = || vec![0; 32_000];
    let pcm = |data| part(v1::AudioEncoding::PcmS16le, data);
    let nonsense = part(v1::AudioEncoding::OggOpus, b"nonsense".to_vec());
    chat.send(Request::Message(v1::ChatMessage {
        id: String::new(),
        role: v1::Role::User.into(),
        parts: vec![pcm(second()), pcm(second()), pcm(second()), nonsense],
    }))
    .await;
    let status = chat.end().await.unwrap_err();
    assert_eq!(reason(&status), "AUDIO_TOO_LONG");
    server.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_off_or_nonsense_is_refused() {
    let (server, _) = hearing().await;
    let whole = ogg_opus(4_800);
    for (data, excerpt) in [
        (whole[..whole.len() - 5].to_vec(), "ends within a page"),
        (b"nonsense".to_vec(), "Ogg pages"),
    ] {
        let mut chat = server.converse().await;
        chat.configure(said_in(v1::AudioEncoding::OggOpus, 0, 0)).await;
        let data = data.into();
        chat.send(Request::InputAudio(v1::InputAudio { data })).await;
        chat.send(commit(true)).await;
        let status = chat.end().await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, "UNSUPPORTED_AUDIO_FORMAT")
        );
        assert!(status.message().contains(excerpt), "{}", status.message());
    }
    server.stop().await;
}

#[tokio::test]
async fn more_than_may_be_said_at_once_ends_the_call() {
    let (server, _) = hearing().await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    for _ in 0..3 {
        chat.send(audio(32_000)).await;
    }
    let status = chat.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::InvalidArgument, "AUDIO_TOO_LONG")
    );
    assert!(status.message().contains("2 s"), "{}", status.message());

    for (bytes, excerpt) in [(0, "at least one"), (3, "whole samples")] {
        let mut chat = server.converse().await;
        chat.configure(chat_config(false)).await;
        chat.send(audio(bytes)).await;
        let status = chat.end().await.unwrap_err();
        assert!(status.message().contains(excerpt), "{}", status.message());
    }
    server.stop().await;
}

/// A user turn of `samples` samples.
async fn speaker(server: &TestServer, samples: usize) -> ChatCall {
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    chat.send(audio(2 * samples)).await;
    chat.send(commit(true)).await;
    chat
}

/// Waits until `recordings` recordings are in the encoder or queued for it.
async fn at_the_encoder(server: &TestServer, recordings: usize) {
    let pool = server.app.orchestrator().pool("encoder").expect("it hears");
    let there = || pool.replicas()[0].in_flight == recordings;
    server.until("the recordings are there", there).await;
}

#[tokio::test]
async fn recordings_of_several_callers_share_a_step_and_each_gets_his_own() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script.clone(), &["--set", "stages.encoder.max_batch=4"]).await;
    let before = script.ears.passed();
    script.ears.close();
    let mut first = speaker(&server, 100).await;
    script.ears.reached().await;
    let mut second = speaker(&server, 200).await;
    let mut third = speaker(&server, 300).await;
    at_the_encoder(&server, 3).await;
    script.ears.open();
    for (chat, samples) in [(&mut first, 100), (&mut second, 200), (&mut third, 300)] {
        let answer = chat.answer().await;
        assert_eq!(answer.text, format!("You said: [{samples} samples]"));
        let stages = answer.outcome.timings.unwrap().stages;
        let stages: Vec<_> = stages
            .iter()
            .map(|timing| (&*timing.stage, &*timing.replica))
            .collect();
        assert_eq!(stages, [("thinker", "0"), ("encoder", "0")]);
    }
    assert_eq!(
        script.ears.passed(),
        before + 2,
        "the second and the third shared one"
    );
    at_the_encoder(&server, 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_recording_is_heard_once_however_often_it_is_answered() {
    let (server, script) = hearing().await;
    let before = script.ears.passed();
    let mut chat = speaker(&server, 100).await;
    assert_eq!(chat.answer().await.text, "You said: [100 samples]");
    assert_eq!(
        chat.turn("recite").await.text,
        "user:[100 samples]|assistant:You said: [100 samples]|user:recite|"
    );
    assert_eq!(script.ears.passed(), before + 1);
    server.stop().await;
}

#[tokio::test]
async fn a_caller_who_vanishes_before_it_is_his_turn_is_not_heard() {
    let (server, script) = hearing().await;
    let before = script.ears.passed();
    script.ears.close();
    let mut first = speaker(&server, 100).await;
    script.ears.reached().await;
    let second = speaker(&server, 200).await;
    at_the_encoder(&server, 2).await;
    drop(second);
    at_the_encoder(&server, 1).await;
    script.ears.open();
    assert_eq!(first.answer().await.text, "You said: [100 samples]");
    assert_eq!(
        speaker(&server, 300).await.answer().await.text,
        "You said: [300 samples]"
    );
    assert_eq!(
        script.ears.passed(),
        before + 2,
        "the first and the third were heard"
    );
    server.stop().await;
}

#[tokio::test]
async fn more_recordings_than_may_wait_are_refused() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script.clone(), &["--set", "stages.encoder.max_waiting=1"]).await;
    script.ears.close();
    let mut first = speaker(&server, 100).await;
    script.ears.reached().await;
    let mut second = speaker(&server, 200).await;
    at_the_encoder(&server, 2).await;
    let mut third = speaker(&server, 300).await;
    at_the_encoder(&server, 3).await;
    script.ears.open();
    let refused = third.answer().await;
    assert_eq!(refused.error_reason(), "SERVER_OVERLOADED");
    let error = refused.outcome.error.unwrap();
    assert_eq!(error.code, Code::ResourceExhausted as i32);
    assert!(
        error.message.contains("waiting queue is full (1 of 1)"),
        "{}",
        error.message
    );
    assert_eq!(first.answer().await.text, "You said: [100 samples]");
    assert_eq!(second.answer().await.text, "You said: [200 samples]");
    // The audio is kept, and encoded when there is room.
    third.send(respond()).await;
    assert_eq!(third.answer().await.text, "You said: [300 samples]");
    server.stop().await;
}

#[tokio::test]
async fn an_encoder_that_dies_is_built_anew_and_hears_what_it_was_given() {
    let script = FakeScript {
        hears: true,
        ..FakeScript::default()
    };
    let args = ["--set", "stages.encoder.restart.first_delay=1ms"];
    let server = TestServer::fake(script.clone(), &args).await;
    script.ears_die.light();
    let mut chat = speaker(&server, 100).await;
    assert_eq!(chat.answer().await.text, "You said: [100 samples]");
    let pool = server.app.orchestrator().pool("encoder").expect("it hears");
    assert_eq!(pool.replicas()[0].stats.deaths, 1);
    server.stop().await;
}
