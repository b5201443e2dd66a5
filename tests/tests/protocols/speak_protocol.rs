//! Protocol of `Speak`: the messages of a caller, their order, and the answers.

use omni_proto::v1;
use omni_proto::v1::speak_response::Event;
use omni_tests::{
    FAKE_SAMPLES_PER_FRAME, FakeScript, TestServer, audio_of, cancel, config, finish, flush, named, reason,
    seeded, text,
};
use tonic::Code;

async fn server() -> TestServer {
    TestServer::fake(FakeScript::default(), &[]).await
}

#[tokio::test]
async fn a_sentence_is_spoken_and_accounted_for() {
    let server = server().await;
    let mut call = server.call().await.configured(seeded(7)).await;
    call.send(text("hello there.")).await;
    call.send(finish()).await;
    let utterance = call.utterance().await;
    assert_eq!(utterance.finish(), v1::FinishReason::Stop);
    assert_eq!(utterance.samples(), 12 * FAKE_SAMPLES_PER_FRAME as usize);
    let usage = utterance.outcome.usage.unwrap();
    assert_eq!(
        (
            usage.input_characters,
            usage.input_text_tokens,
            usage.output_audio_tokens
        ),
        (12, 12, 12)
    );
    assert_eq!(utterance.outcome.seed, Some(7));
    let stages = &utterance.outcome.timings.as_ref().unwrap().stages;
    assert!(
        stages
            .iter()
            .all(|stage| stage.first_output.is_some() && stage.queue.is_some()),
        "{stages:?}"
    );
    call.hang_up();
    call.end().await.unwrap();
    server.idle(1).await;
    server.stop().await;
}

#[tokio::test]
async fn ready_tells_every_default() {
    let server = server().await;
    let mut call = server.call().await;
    call.send(config(v1::SpeechConfig::default())).await;
    let ready = call.ready().await;
    let resolved = ready.resolved.unwrap();
    assert_eq!(
        (
            resolved.model.as_str(),
            resolved.voice.as_str(),
            resolved.language.as_str()
        ),
        ("fake", "alto", "en")
    );
    assert_eq!(resolved.sampling.unwrap().temperature, Some(0.5));
    assert_eq!(resolved.buffering(), v1::TextBuffering::Sentence);
    assert_eq!(ready.limits.unwrap().max_text_bytes_per_utterance, 20_000);
    drop(call);
    server.stop().await;
}

#[tokio::test]
async fn text_in_any_chunking_gives_the_same_audio() {
    let server = server().await;
    let whole = "One sentence is here. Another one, a longer one, follows! Is this the end?";
    for buffering in [
        v1::TextBuffering::Sentence,
        v1::TextBuffering::Clause,
        v1::TextBuffering::Eager,
    ] {
        let settings = v1::SpeechConfig {
            buffering: buffering.into(),
            ..seeded(3)
        };
        let (expected, _) = audio_of(&mut server.speech(), settings.clone(), whole)
            .await
            .unwrap();
        let mut call = server.call().await.configured(settings).await;
        for c in whole.chars() {
            call.send(text(&c.to_string())).await;
        }
        call.send(finish()).await;
        let streamed = call.utterance().await;
        assert!(
            streamed.audio == expected,
            "{buffering:?}: {} and {}",
            streamed.audio.len(),
            expected.len()
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn the_same_seed_gives_the_same_audio_and_another_one_does_not() {
    let server = server().await;
    let mut client = server.speech();
    let (one, outcome) = audio_of(&mut client, v1::SpeechConfig::default(), "say it again.")
        .await
        .unwrap();
    let (again, _) = audio_of(&mut client, seeded(outcome.seed.unwrap()), "say it again.")
        .await
        .unwrap();
    let (other, _) = audio_of(&mut client, seeded(outcome.seed.unwrap() + 1), "say it again.")
        .await
        .unwrap();
    assert!(one == again && one != other);
    server.stop().await;
}

#[tokio::test]
async fn many_utterances_are_answered_in_order() {
    let server = server().await;
    let mut call = server.call().await.configured(seeded(1)).await;
    for n in 0..10 {
        call.send(named(&format!("n{n}"), &format!("number {n}."))).await;
        call.send(finish()).await;
    }
    for n in 0..10 {
        let utterance = call.utterance().await;
        assert_eq!(utterance.id, format!("n{n}"));
        assert!(utterance.samples() > 0);
    }
    call.hang_up();
    call.end().await.unwrap();
    server.idle(10).await;
    server.stop().await;
}

#[tokio::test]
async fn hanging_up_finishes_the_open_utterance() {
    let server = server().await;
    let mut call = server.call().await.configured(seeded(1)).await;
    call.send(text("no full stop")).await;
    call.hang_up();
    let utterance = call.utterance().await;
    assert_eq!(utterance.finish(), v1::FinishReason::Stop);
    assert!(utterance.samples() > 0);
    call.end().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn an_empty_text_is_a_silence_and_a_finish_without_text_is_none() {
    let server = server().await;
    let mut call = server.call().await.configured(seeded(1)).await;
    for said in ["", " ", "\n"] {
        call.send(text(said)).await;
        call.send(finish()).await;
        let silent = call.utterance().await;
        assert!(
            silent.samples() > 0 && silent.audio.iter().all(|&byte| byte == 0),
            "{said:?}"
        );
        assert_eq!(silent.warnings[0].reason, "NOTHING_SPEAKABLE");
    }
    call.send(finish()).await;
    call.hang_up();
    call.end().await.unwrap();
    server.idle(3).await;
    server.stop().await;
}

#[tokio::test]
async fn a_seed_that_the_server_draws_is_kept_exact_by_floating_point() {
    let server = server().await;
    let mut client = server.speech();
    for _ in 0..8 {
        let (_, outcome) = audio_of(&mut client, v1::SpeechConfig::default(), "a.")
            .await
            .unwrap();
        let seed = outcome.seed.unwrap();
        assert_eq!(seed as f64 as u64, seed);
        assert!(seed < 1 << 53, "{seed}");
    }
    server.stop().await;
}

#[tokio::test]
async fn hanging_up_without_a_word_is_fine() {
    let server = server().await;
    let mut call = server.call().await;
    call.hang_up();
    let history = call.end().await.unwrap();
    assert!(history.responses.is_empty());
    server.idle(0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_finish_or_a_flush_of_nothing_is_no_utterance() {
    let server = server().await;
    let mut call = server.call().await.configured(seeded(1)).await;
    for nothing in [
        finish(),
        flush(),
        cancel(""),
        finish(),
        cancel("u1"),
        flush(),
        finish(),
    ] {
        call.send(nothing).await;
    }
    for id in ["u1", "u2", "m1", "1"] {
        call.send(named(id, "hello.")).await;
        call.send(cancel("")).await;
        // The client ends the call that it has cancelled.
        call.send(finish()).await;
        let utterance = call.utterance().await;
        assert_eq!(
            (utterance.id.as_str(), utterance.finish()),
            (id, v1::FinishReason::Interrupted)
        );
    }
    call.send(text("hello.")).await;
    call.send(finish()).await;
    let own = call.utterance().await.id;
    assert!(own.starts_with('~'), "{own}");
    call.send(named("u3", "hello.")).await;
    call.send(finish()).await;
    assert_eq!(call.utterance().await.id, "u3");
    call.hang_up();
    call.end().await.unwrap();
    server.idle(6).await;
    server.stop().await;
}

#[tokio::test]
async fn settings_change_between_utterances_only() {
    let server = server().await;
    let mut call = server.call().await.configured(seeded(1)).await;
    call.send(text("one voice.")).await;
    call.send(finish()).await;
    call.send(config(v1::SpeechConfig {
        voice: "BASS".into(),
        ..seeded(1)
    }))
    .await;
    call.send(text("one voice.")).await;
    call.send(finish()).await;
    let alto = call.utterance().await;
    let bass = call.utterance().await;
    assert!(alto.audio != bass.audio && alto.audio.len() == bass.audio.len());
    let voices: Vec<_> = call
        .history()
        .responses
        .iter()
        .filter_map(|response| match &response.event {
            Some(Event::Ready(ready)) => Some(ready.resolved.as_ref().unwrap().voice.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(voices, ["alto", "bass"]);
    call.send(text("open")).await;
    call.send(config(seeded(1))).await;
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::FailedPrecondition, "CONFIG_DURING_UTTERANCE")
    );
    server.stop().await;
}

#[tokio::test]
async fn ready_comes_behind_the_utterances_that_were_opened_before_its_config() {
    let server = server().await;
    let rate = |hz| v1::SpeechConfig {
        output: Some(v1::AudioDelivery {
            format: Some(v1::AudioFormat {
                sample_rate_hz: hz,
                ..v1::AudioFormat::default()
            }),
            ..v1::AudioDelivery::default()
        }),
        ..seeded(1)
    };
    let mut call = server.call().await.configured(rate(8_000)).await;
    for _ in 0..2 {
        call.send(text("a sentence that is heard for a while.")).await;
        call.send(finish()).await;
    }
    call.send(config(rate(24_000))).await;
    call.send(text("one more.")).await;
    call.send(finish()).await;
    // The history holds each utterance to the rate of the last ready before it.
    for _ in 0..3 {
        assert!(call.utterance().await.samples() > 0);
    }
    call.hang_up();
    let order: Vec<_> = call
        .history()
        .responses
        .iter()
        .filter_map(|response| match &response.event {
            Some(Event::Ready(_)) => Some("ready"),
            Some(Event::Done(_)) => Some("done"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["ready", "done", "done", "ready", "done"]);
    call.end().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_cancel_is_heard_behind_many_configs() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    script.talker.close();
    let mut call = server.call().await.configured(seeded(1)).await;
    call.send(text("hello.")).await;
    call.send(finish()).await;
    for seed in 0..20 {
        call.send(config(seeded(seed))).await;
    }
    call.send(cancel("")).await;
    assert_eq!(call.utterance().await.finish(), v1::FinishReason::Interrupted);
    for _ in 0..20 {
        call.ready().await;
    }
    script.talker.open();
    call.hang_up();
    call.end().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn the_first_message_must_be_config() {
    let server = server().await;
    for first in [text("hello"), finish(), flush()] {
        let call = server.call().await;
        call.send(first).await;
        let status = call.end().await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, "PROTOCOL_VIOLATION")
        );
    }
    server.idle(0).await;
    server.stop().await;
}

#[tokio::test]
async fn an_id_cannot_be_used_again_nor_change_within_an_utterance() {
    let server = server().await;
    let mut call = server.call().await.configured(seeded(1)).await;
    call.send(named("a", "first.")).await;
    call.send(finish()).await;
    call.utterance().await;
    call.send(named("a", "second.")).await;
    let status = call.end().await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::InvalidArgument, "UTTERANCE_ID_INVALID")
    );

    let call = server.call().await.configured(seeded(1)).await;
    call.send(named("a", "first")).await;
    call.send(named("b", " second")).await;
    assert_eq!(reason(&call.end().await.unwrap_err()), "UTTERANCE_ID_INVALID");

    let call = server.call().await.configured(seeded(1)).await;
    call.send(named("~1", "first")).await;
    assert_eq!(reason(&call.end().await.unwrap_err()), "UTTERANCE_ID_INVALID");
    server.stop().await;
}

#[tokio::test]
async fn wav_begins_with_one_header() {
    let server = server().await;
    let format = v1::AudioFormat {
        encoding: v1::AudioEncoding::Wav.into(),
        ..Default::default()
    };
    let output = v1::AudioDelivery {
        format: Some(format),
        ..Default::default()
    };
    let settings = v1::SpeechConfig {
        output: Some(output),
        ..seeded(5)
    };
    let (wav, _) = audio_of(&mut server.speech(), settings, "a file.").await.unwrap();
    let (pcm, _) = audio_of(&mut server.speech(), seeded(5), "a file.")
        .await
        .unwrap();
    assert_eq!(&wav[..4], b"RIFF");
    assert!(wav[44..] == pcm);
    assert_eq!(omni_audio::Wav::parse(&wav).unwrap().len().len(), pcm.len() / 2);
    server.stop().await;
}

#[tokio::test]
async fn max_tokens_ends_an_utterance_early_and_says_so() {
    let server = server().await;
    let sampling = v1::SamplingParams {
        max_tokens: Some(15),
        ..Default::default()
    };
    let settings = v1::SpeechConfig {
        sampling: Some(sampling),
        ..Default::default()
    };
    let text = "First sentence. Second sentence. Third sentence.";
    let (audio, outcome) = audio_of(&mut server.speech(), settings, text).await.unwrap();
    assert_eq!(outcome.finish_reason(), v1::FinishReason::Length);
    assert_eq!(outcome.usage.unwrap().output_audio_tokens, 15);
    assert!(!audio.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn text_beyond_a_limit_is_dropped_up_to_the_end_of_its_utterance() {
    let server = server().await;
    let sampling = v1::SamplingParams {
        max_tokens: Some(5),
        ..Default::default()
    };
    let settings = v1::SpeechConfig {
        sampling: Some(sampling),
        ..Default::default()
    };
    let mut call = server.call().await.configured(settings).await;
    call.send(named("a", "This is too long. And")).await;
    let cut = call.utterance().await;
    assert_eq!((cut.id.as_str(), cut.finish()), ("a", v1::FinishReason::Length));
    call.send(named("a", " the rest comes late.")).await;
    call.send(text(" And later.")).await;
    call.send(finish()).await;
    call.send(named("b", "abc")).await;
    call.send(finish()).await;
    let next = call.utterance().await;
    assert_eq!((next.id.as_str(), next.finish()), ("b", v1::FinishReason::Stop));
    server.stop().await;
}
