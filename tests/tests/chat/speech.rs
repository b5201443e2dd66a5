//! Answers that are spoken while they are being written.

use omni_pipeline::request::ContextRow;
use omni_proto::v1;
use omni_proto::v1::converse_response::Event;
use omni_tests::{
    ChatCall, Context, FAKE_SAMPLES_PER_FRAME, FakeScript, TestServer, chat_config, respond, said,
};

async fn server(script: FakeScript) -> TestServer {
    TestServer::fake(script, &[]).await
}

async fn first_audio(chat: &mut ChatCall) {
    chat.until(|event| match event {
        Event::Audio(_) => Some(()),
        Event::ResponseDone(done) => panic!("done without audio: {done:?}"),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn audio_is_heard_while_the_rest_is_still_being_written() {
    for speaks_words in [false, true] {
        let script = FakeScript {
            speaks_words,
            ..FakeScript::default()
        };
        let server = server(script.clone()).await;
        script.thinker.close();
        let mut chat = server.converse().await;
        chat.configure(chat_config(true)).await;
        let text = "One sentence is long enough to be heard. Another one follows it.";
        chat.ask(&format!("say {text}")).await;
        script.thinker.allow(50);
        first_audio(&mut chat).await;
        assert!(script.thinker.passed() <= 52, "the thinker is still at it");
        script.thinker.open();
        let answer = chat.answer().await;
        assert_eq!((answer.text.as_str(), answer.kept.as_str()), (text, text));
        assert!(answer.samples() > text.len() / 2 * FAKE_SAMPLES_PER_FRAME as usize);
        let stages: Vec<_> = answer.outcome.timings.unwrap().stages;
        let stages: Vec<_> = stages.iter().map(|stage| stage.stage.as_str()).collect();
        assert_eq!(stages, ["thinker", "talker", "code2wav"]);
        server.stop().await;
    }
}

#[tokio::test]
async fn tokens_are_spoken_as_one_sequence_behind_the_users_turns() {
    let script = FakeScript {
        opening: "<>".to_owned(),
        ..FakeScript::default()
    };
    let server = server(script.clone()).await;
    let before = script.contexts.all().len();
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    chat.turn("say one. two. three.").await;
    let answer = chat.turn("say four").await;
    // The opening is spoken too, as the template wrote it, and is no text of the answer.
    assert_eq!(answer.text, "four");
    assert_eq!(answer.outcome.usage.unwrap().output_audio_tokens, 6);

    let contexts = script.contexts.all().split_off(before);
    let told = |context: &Context| -> String {
        let rows = context.as_ref().expect("the talker is told").iter();
        rows.map(|row| match row {
            ContextRow::Token(token) => char::from_u32(*token).unwrap_or('|'),
            other => panic!("{other:?}"),
        })
        .collect()
    };
    let told: Vec<_> = contexts.iter().map(told).collect();
    assert_eq!(told, ["|say one. two. three.", "|say one. two. three.|say four"]);
    server.stop().await;
}

#[tokio::test]
async fn a_voice_of_words_speaks_sentence_by_sentence_and_is_told_nothing() {
    let script = FakeScript {
        speaks_words: true,
        ..FakeScript::default()
    };
    let server = server(script.clone()).await;
    let before = script.contexts.all().len();
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    let answer = chat.turn("say One is here. Two is there.").await;
    assert_eq!(answer.kept, "One is here. Two is there.");
    let contexts = script.contexts.all().split_off(before);
    assert_eq!(contexts, [None, None]);
    server.stop().await;
}

#[tokio::test]
async fn sentences_of_one_answer_are_spoken_by_one_replica() {
    let script = FakeScript {
        speaks_words: true,
        ..FakeScript::default()
    };
    let args = [
        "--set",
        "stages.talker.replicas=2",
        "--set",
        "stages.talker.routing=round-robin",
    ];
    let server = TestServer::fake(script.clone(), &args).await;
    let spoken = || {
        let edges = server.edges.all().into_iter();
        let to_talker = edges.filter(|edge| edge.hop.to.stage == "talker");
        to_talker.map(|edge| edge.hop.to.replica).collect::<Vec<_>>()
    };
    let before = spoken().len();
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    script.thinker.close();
    chat.ask("say One is here. Two is there.").await;
    script.thinker.allow(17);
    let heard = server.edges.all().len();
    // The first sentence is spoken to its end before the second is there.
    let ended = || {
        let edges = server.edges.all().split_off(heard);
        edges.iter().any(|edge| edge.hop.from.stage == "code2wav")
    };
    let read = async {
        server.until("a sentence has ended", ended).await;
        script.thinker.open();
    };
    let (answer, ()) = tokio::join!(chat.answer(), read);
    assert_eq!(answer.text, "One is here. Two is there.");
    let replicas = spoken().split_off(before);
    assert_eq!(replicas.len(), 2);
    assert_eq!(replicas[0], replicas[1]);
    server.stop().await;
}

#[tokio::test]
async fn a_talker_that_waits_for_the_thinker_is_counted_as_starved() {
    for speaks_words in [false, true] {
        let script = FakeScript {
            speaks_words,
            ..FakeScript::default()
        };
        let server = server(script.clone()).await;
        let mut chat = server.converse().await;
        chat.configure(chat_config(true)).await;
        script.thinker.close();
        chat.ask("say One sentence is long enough to be heard.").await;
        script.thinker.allow(30);
        let pool = server.app.orchestrator().pool("talker").unwrap();
        let starved = || pool.replicas().iter().any(|replica| replica.stats.starved > 0);
        server.until("the talker has run dry", starved).await;
        script.thinker.open();
        chat.answer().await;
        let speech = server.records.turns()[0].timings.speech.clone().unwrap();
        assert!(speech.first().starved > 0);
        server.stop().await;
    }
}

#[tokio::test]
async fn text_before_a_stop_string_within_a_token_is_spoken() {
    let script = FakeScript {
        spells_out: true,
        opening: "<>".to_owned(),
        ..FakeScript::default()
    };
    let server = server(script).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        stop: vec!["and".to_owned()],
        ..chat_config(true)
    };
    chat.configure(config).await;
    for (said, text) in [("say &", "yes "), ("say ab&", "abyes ")] {
        let answer = chat.turn(said).await;
        assert_eq!((answer.text.as_str(), answer.kept.as_str()), (text, text));
        let usage = answer.outcome.usage.unwrap();
        assert_eq!(usage.output_audio_tokens as usize, "<>".len() + text.len());
    }
    server.stop().await;
}

#[tokio::test]
async fn the_talkers_limit_bounds_what_it_is_told() {
    let script = FakeScript::default();
    let args = ["--set", "stages.talker.max_model_len=100"];
    let server = TestServer::fake(script.clone(), &args).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    for _ in 0..3 {
        chat.turn("say twenty characters").await;
    }
    let told = script.contexts.all().into_iter().flatten().map(|rows| rows.len());
    let told: Vec<_> = told.collect();
    assert_eq!(told, [22, 44, 44], "half of it");
    server.stop().await;
}

#[tokio::test]
async fn audio_alone_is_sent_without_text_but_the_words_are_kept() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        output_modalities: vec![v1::Modality::Audio.into()],
        ..v1::ChatConfig::default()
    };
    chat.configure(config).await;
    let answer = chat.turn("say listen").await;
    assert_eq!((answer.text.as_str(), answer.kept.as_str()), ("", "listen"));
    assert!(answer.samples() > 0);
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_spoken_is_written_all_the_same() {
    let script = FakeScript {
        speaks_words: true,
        ..FakeScript::default()
    };
    let server = server(script).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    let answer = chat
        .turn("say <speak><prosody>hello there</prosody></speak> my friend")
        .await;
    assert_eq!(answer.finish(), v1::FinishReason::Stop);
    assert_eq!(
        answer.text,
        "<speak><prosody>hello there</prosody></speak> my friend"
    );
    assert_eq!(answer.samples(), 0);
    assert_eq!(answer.warnings[0].reason, "MARKUP_NOT_SUPPORTED");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_turns_out_to_be_markup_while_it_is_spoken_ends_its_audio() {
    let script = FakeScript {
        speaks_words: true,
        ..FakeScript::default()
    };
    let server = server(script.clone()).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    let begins = "<speak>Here is a sentence. And another";
    script.thinker.close();
    chat.ask(&format!("say {begins} one. <prosody>hi</prosody></speak>"))
        .await;
    script.thinker.allow(begins.len() as u64);
    first_audio(&mut chat).await;
    script.thinker.open();
    let answer = chat.answer().await;
    assert_eq!(answer.finish(), v1::FinishReason::Stop);
    assert!(answer.text.ends_with("</speak>"));
    assert_eq!(answer.warnings[0].reason, "MARKUP_NOT_SUPPORTED");
    let audio = chat
        .history()
        .responses
        .iter()
        .filter_map(|response| match &response.event {
            Some(Event::Audio(audio)) => Some(audio.last),
            _ => None,
        });
    let lasts: Vec<_> = audio.collect();
    assert_eq!(lasts.iter().position(|last| *last), Some(lasts.len() - 1));
    server.stop().await;
}

#[tokio::test]
async fn a_limit_of_the_speech_ends_the_answer() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        speech_sampling: Some(v1::SamplingParams {
            max_tokens: Some(8),
            ..v1::SamplingParams::default()
        }),
        ..chat_config(true)
    };
    chat.configure(config).await;
    let answer = chat.turn("forever").await;
    assert_eq!(answer.finish(), v1::FinishReason::Length);
    assert_eq!(answer.outcome.usage.unwrap().output_audio_tokens, 8);
    server.stop().await;
}

#[tokio::test]
async fn a_reader_who_takes_nothing_stops_thinker_and_talker() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--max-buffered-audio", "1s"]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    chat.ask("forever").await;
    first_audio(&mut chat).await;
    // Nothing is read any more: both come to rest, far from the end.
    let steps = || (script.thinker.passed(), script.talker.passed());
    let mut last = steps();
    let mut same = 0;
    while same < 50 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        let now = steps();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    // An interruption still arrives.
    chat.send(omni_tests::interrupt(Some(0))).await;
    let answer = chat.answer().await;
    assert_eq!(
        (answer.finish(), answer.kept.as_str()),
        (v1::FinishReason::Interrupted, "")
    );
    chat.send(said(v1::Role::User, "say more")).await;
    chat.send(respond()).await;
    assert_eq!(chat.answer().await.text, "more");
    server.stop().await;
}
