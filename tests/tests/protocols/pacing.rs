//! Paced audio, which stays within the requested lead ahead of the listener, and audio in messages of one length.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::AudioEncoding as E;
use omni_proto::v1::speak_response::Event;
use omni_tests::{
    FAKE_RATE, FAKE_SAMPLES_PER_FRAME, FakeScript, TestServer, audio_of, cancel, chat_config, config,
    endless, finish, interrupt, seeded, text,
};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn time(time: Duration) -> Option<omni_proto::Duration> {
    time.try_into().ok()
}

fn delivered(output: v1::AudioDelivery) -> v1::SpeechConfig {
    v1::SpeechConfig {
        output: Some(output),
        ..seeded(9)
    }
}

fn led(max_lead: Duration) -> v1::AudioDelivery {
    v1::AudioDelivery {
        max_lead: time(max_lead),
        ..v1::AudioDelivery::default()
    }
}

#[tokio::test]
async fn audio_never_runs_further_ahead_than_asked_and_is_the_same() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let story = "a sentence that is held back while it is heard.";
    let (free, _) = audio_of(&mut server.speech(), seeded(9), story).await.unwrap();
    server.records.forget();
    let (paced, outcome) = audio_of(&mut server.speech(), delivered(led(MS(200))), story)
        .await
        .unwrap();
    assert!(paced == free, "pacing changes when audio comes, and nothing else");
    let leads: Vec<_> = server
        .records
        .packets()
        .iter()
        .map(|packet| packet.lead)
        .collect();
    let audio = Duration::from_secs_f64(free.len() as f64 / 2.0 / f64::from(FAKE_RATE));
    assert!(leads.len() > 4, "several messages: {leads:?}");
    // Unplayed audio when a message came, and the message: within the lead.
    assert!(leads.iter().all(|lead| *lead <= MS(200)), "{leads:?}");
    // The local client received it over its playing time, less the lead.
    let total = Duration::try_from(outcome.timings.unwrap().total.unwrap()).unwrap();
    assert!(total >= audio - MS(200), "{audio:?} in {total:?}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_held_back_is_not_made_and_an_interruption_is_heard_at_once() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--stall-timeout", "1s"]).await;
    let mut call = server.call().await.configured(delivered(led(MS(1_000)))).await;
    call.send(text(&endless())).await;
    call.send(finish()).await;
    let mut sent = 0;
    // For longer than a slow reader would be kept.
    while sent < FAKE_RATE * 3 {
        sent += call.first_audio().await.sample_count;
    }
    call.send(cancel("")).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Interrupted);
    // Bounded edges are all that lies between generated and sent audio.
    let made = script.code2wav.passed();
    let edges = FAKE_RATE * 20 / FAKE_SAMPLES_PER_FRAME;
    assert!(
        made < u64::from(sent / FAKE_SAMPLES_PER_FRAME + edges),
        "{made} steps for {sent} samples"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_answer_is_held_back_too_and_its_words_are_not() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = server.converse().await;
    chat.configure(v1::ChatConfig {
        output_audio: Some(led(MS(300))),
        ..chat_config(true)
    })
    .await;
    chat.ask("say one two three four five six seven eight nine ten eleven twelve")
        .await;
    let answer = chat.answer().await;
    assert_eq!(answer.finish(), v1::FinishReason::Stop);
    let leads: Vec<_> = server
        .records
        .packets()
        .iter()
        .map(|packet| packet.lead)
        .collect();
    assert!(
        leads.len() > 5 && leads.iter().all(|lead| *lead <= MS(300)),
        "{leads:?}"
    );
    chat.ask("forever").await;
    chat.until(|event| matches!(event, v1::converse_response::Event::Audio(_)).then_some(()))
        .await;
    chat.send(interrupt(None)).await;
    assert_eq!(chat.answer().await.finish(), v1::FinishReason::Interrupted);
    server.stop().await;
}

#[tokio::test]
async fn every_message_plays_for_as_long_as_was_asked_in_every_format() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (encoding, hz, frame) in [
        (E::PcmS16le, 16_000, MS(10)),
        (E::PcmF32le, 24_000, MS(250)),
        (E::Mulaw, 8_000, MS(20)),
        (E::Alaw, 8_000, MS(30)),
        (E::Wav, 22_050, MS(20)),
        (E::Opus, 48_000, Duration::from_micros(2_500)),
        (E::Opus, 16_000, MS(60)),
        (E::OggOpus, 24_000, MS(100)),
        (E::Flac, 44_100, MS(80)),
    ] {
        let output = v1::AudioDelivery {
            format: Some(v1::AudioFormat {
                encoding: encoding.into(),
                sample_rate_hz: hz,
                channels: 1,
            }),
            frame_duration: time(frame),
            ..v1::AudioDelivery::default()
        };
        let mut call = server.call().await;
        call.send(config(delivered(output))).await;
        let resolved = call.ready().await.resolved.unwrap().output.unwrap();
        assert_eq!(resolved.frame_duration, time(frame));
        call.send(text("one sentence, and no more.")).await;
        call.send(finish()).await;
        call.utterance().await;
        let whole = (frame.as_secs_f64() * f64::from(hz)).round() as u32;
        let responses = call.history().responses.iter();
        let counts: Vec<_> = responses
            .filter_map(|response| match &response.event {
                Some(Event::Audio(audio)) => Some(audio.sample_count),
                _ => None,
            })
            .collect();
        let (last, others) = counts.split_last().expect("audio");
        assert!(*last <= whole, "{encoding:?}: {counts:?}");
        assert!(
            others.iter().skip(1).all(|count| *count == whole),
            "{encoding:?}: {counts:?}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_length_that_cannot_be_is_refused_with_those_that_can() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for (encoding, frame, told) in [
        (E::Opus, MS(30), "2.5, 5, 10, 20, 40 or 60 ms"),
        (E::OggOpus, MS(50), "10 ms or a multiple of 20 ms up to 1 s"),
        (E::Flac, MS(100), "2.5 to 80 ms"),
        (E::Mulaw, MS(1), "2.5 ms to 5 s"),
        (E::Mulaw, Duration::from_micros(10_001), "whole number of samples"),
    ] {
        let output = v1::AudioDelivery {
            format: Some(v1::AudioFormat {
                encoding: encoding.into(),
                ..v1::AudioFormat::default()
            }),
            frame_duration: time(frame),
            ..v1::AudioDelivery::default()
        };
        let refused = audio_of(&mut server.speech(), delivered(output), "no.")
            .await
            .unwrap_err();
        assert!(refused.message().contains(told), "{refused}");
    }
    server.stop().await;
}
