//! Turns, their history, and the text of answers.

use omni_proto::v1;
use omni_proto::v1::converse_request::Event as Request;
use omni_proto::v1::converse_response::Event;
use omni_session::Outcome;
use omni_tests::{FakeScript, TestServer, chat_config, chat_message, generate, reason, respond, said};

async fn server(script: FakeScript) -> TestServer {
    TestServer::fake(script, &[]).await
}

#[tokio::test]
async fn every_turn_is_answered_with_what_was_said_before_in_mind() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    let ready = chat.configure(chat_config(false)).await;
    let resolved = ready.resolved.unwrap();
    assert_eq!(resolved.output_modalities, [i32::from(v1::Modality::Text)]);
    assert_eq!(resolved.text_sampling.unwrap().temperature, Some(0.7));

    let first = chat.turn("hello").await;
    assert_eq!(
        (first.text.as_str(), first.finish()),
        ("You said: hello", v1::FinishReason::Stop)
    );
    let usage = first.outcome.usage.unwrap();
    assert_eq!((usage.input_characters, usage.input_text_tokens), (5, 6));
    assert_eq!((usage.output_text_tokens, usage.output_audio_tokens), (15, 0));
    let second = chat.turn("recite").await;
    assert_eq!(second.text, "user:hello|assistant:You said: hello|user:recite|");
    chat.hang_up();
    chat.end().await.unwrap();
    server.chats_over(2).await;
    let records = server.records.turns();
    assert!(
        records
            .iter()
            .all(|turn| turn.outcome == Outcome::Stop && turn.timings.first_token.is_some())
    );
    assert_eq!(records[0].timings.intervals.count, 14);
    assert!(server.records.all().is_empty(), "an answer is no utterance");
    server.stop().await;
}

#[tokio::test]
async fn text_is_read_while_the_rest_is_still_being_written() {
    let script = FakeScript::default();
    let server = server(script.clone()).await;
    script.thinker.close();
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    chat.ask("say one two").await;
    script.thinker.allow(4);
    let mut text = String::new();
    while text != "one " {
        text += &chat
            .until(|event| match event {
                Event::Text(delta) => Some(delta.text.clone()),
                _ => None,
            })
            .await;
        assert!("one ".starts_with(&text));
    }
    script.thinker.open();
    assert_eq!(chat.answer().await.text, "one two");
    server.stop().await;
}

#[tokio::test]
async fn characters_of_several_tokens_come_whole() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    let text = "naïve 漢字 🦀🇩🇪 e\u{301}";
    let answer = chat.turn(&format!("say {text}")).await;
    assert_eq!(answer.text, text);
    assert_eq!(
        answer.outcome.usage.unwrap().output_text_tokens as usize,
        text.len()
    );
    server.stop().await;
}

#[tokio::test]
async fn an_answer_ends_before_the_first_stop_string() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        stop: vec!["three".to_owned(), "END".to_owned()],
        ..chat_config(false)
    };
    assert_eq!(
        chat.configure(config.clone()).await.resolved.unwrap().stop,
        config.stop
    );
    let answer = chat.turn("say one two, threads, END and so on").await;
    assert_eq!(
        (answer.text.as_str(), answer.finish()),
        ("one two, threads, ", v1::FinishReason::Stop)
    );
    assert_eq!(chat.turn("recite").await.text.matches("END").count(), 0);
    server.stop().await;
}

#[tokio::test]
async fn most_tokens_end_an_answer_early() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        text_sampling: Some(v1::SamplingParams {
            max_tokens: Some(5),
            ..v1::SamplingParams::default()
        }),
        ..chat_config(false)
    };
    chat.configure(config).await;
    let answer = chat.turn("say one two three").await;
    assert_eq!(
        (answer.text.as_str(), answer.finish()),
        ("one t", v1::FinishReason::Length)
    );
    server.stop().await;
}

#[tokio::test]
async fn an_answer_may_be_empty_and_leaves_nothing_behind() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(true)).await;
    let answer = chat.turn("say ").await;
    assert_eq!(
        (answer.text.as_str(), answer.kept.as_str(), answer.samples()),
        ("", "", 0)
    );
    assert_eq!(answer.finish(), v1::FinishReason::Stop);
    assert_eq!(chat.turn("recite").await.text, "user:say |user:recite|");
    server.stop().await;
}

#[tokio::test]
async fn instructions_and_history_are_read_first() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        instructions: "be kind".to_owned(),
        history: vec![
            chat_message(v1::Role::User, "hi"),
            chat_message(v1::Role::Assistant, "hello"),
        ],
        ..chat_config(false)
    };
    chat.configure(config).await;
    let expected = "system:be kind|user:hi|assistant:hello|user:recite|";
    assert_eq!(chat.turn("recite").await.text, expected);

    // For one answer only, under a name of the caller's.
    chat.send(said(v1::Role::User, "recite")).await;
    let once = v1::CreateResponse {
        response_id: "mine".to_owned(),
        instructions: "be brief".to_owned(),
        output_modalities: vec![v1::Modality::Text.into()],
    };
    chat.send(Request::Respond(once)).await;
    let answer = chat.answer().await;
    assert_eq!(answer.id, "mine");
    assert!(
        answer.text.starts_with("system:be brief|user:hi|"),
        "{}",
        answer.text
    );

    // A later config replaces the settings, and the conversation stays.
    chat.configure(chat_config(false)).await;
    assert!(
        chat.turn("recite")
            .await
            .text
            .starts_with("user:hi|assistant:hello|user:recite|")
    );
    server.stop().await;
}

#[tokio::test]
async fn a_system_message_may_come_first() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    chat.send(said(v1::Role::System, "be kind")).await;
    assert_eq!(chat.turn("recite").await.text, "system:be kind|user:recite|");
    server.stop().await;
}

#[tokio::test]
async fn an_assistant_may_begin() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    chat.send(respond()).await;
    assert_eq!(chat.answer().await.text, "Hello.");
    server.stop().await;
}

#[tokio::test]
async fn the_oldest_turns_are_forgotten_when_the_context_is_full() {
    let script = FakeScript {
        max_context: 400,
        ..FakeScript::default()
    };
    let server = server(script).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        instructions: "be kind".to_owned(),
        ..chat_config(false)
    };
    chat.configure(config).await;
    let mut trimmed = false;
    for n in 0..20 {
        let answer = chat.turn(&format!("say number {n}")).await;
        assert_eq!(answer.text, format!("number {n}"));
        trimmed |= answer
            .warnings
            .iter()
            .any(|warning| warning.reason == "HISTORY_TRIMMED");
    }
    assert!(trimmed);
    let kept = chat.turn("recite").await;
    assert!(
        kept.text.starts_with("system:be kind|user:say number "),
        "{}",
        kept.text
    );
    assert!(!kept.text.contains("number 0|"), "{}", kept.text);
    // A quarter is left for the answer, and no more turns are dropped than that needs.
    let tokens = kept.outcome.usage.unwrap().input_text_tokens;
    assert!((250..=300).contains(&tokens), "{tokens}");

    // A turn too long for the context is cut, and the conversation continues.
    let answer = chat.turn(&format!("say {}!", "x".repeat(500))).await;
    assert_eq!(
        answer.finish(),
        v1::FinishReason::Length,
        "a quarter of the context is left for it"
    );
    let reasons = answer.warnings.iter().map(|warning| warning.reason.as_str());
    assert!(
        reasons.collect::<Vec<_>>().contains(&"PROMPT_TRIMMED"),
        "{:?}",
        answer.warnings
    );
    assert!(answer.text.starts_with("xxx"), "{}", answer.text);
    let tokens = answer.outcome.usage.unwrap().input_text_tokens;
    assert!((270..=300).contains(&tokens), "{tokens}");
    assert_eq!(chat.turn("say still here").await.text, "still here");
    server.stop().await;
}

#[tokio::test]
async fn a_strict_server_refuses_what_it_would_have_to_cut() {
    let script = FakeScript {
        max_context: 400,
        ..FakeScript::default()
    };
    let server = TestServer::fake(script, &["--strict"]).await;
    let mut chat = server.converse().await;
    chat.configure(chat_config(false)).await;
    let answer = chat.turn(&"x".repeat(500)).await;
    assert_eq!(
        (answer.finish(), answer.error_reason().as_str()),
        (v1::FinishReason::Error, "CONTEXT_TOO_LONG")
    );
    let message = answer.outcome.error.unwrap().message;
    assert!(
        message.contains("maximum context length is 400 tokens"),
        "{message}"
    );
    assert_eq!(chat.turn("say still here").await.text, "still here");
    server.stop().await;
}

#[tokio::test]
async fn a_limit_of_the_stage_is_the_context_that_callers_have() {
    let args = ["--set", "stages.thinker.max_model_len=300"];
    let server = TestServer::fake(FakeScript::default(), &args).await;
    let mut chat = server.converse().await;
    let ready = chat.configure(chat_config(false)).await;
    assert_eq!(ready.limits.unwrap().max_context_tokens, 300);
    for n in 0..20 {
        assert_eq!(
            chat.turn(&format!("say number {n}")).await.text,
            format!("number {n}")
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_goes_round_in_circles_is_ended_if_that_is_asked_for() {
    let endless = "abcabcabcabcabc";
    for (count, text, finish) in [
        ("0", endless, v1::FinishReason::Stop),
        ("3", "abcabcabc", v1::FinishReason::Repetition),
    ] {
        let set = format!("stages.thinker.repetition.count={count}");
        let server = TestServer::fake(FakeScript::default(), &["--set", &set]).await;
        let mut chat = server.converse().await;
        chat.configure(chat_config(true)).await;
        let answer = chat.turn(&format!("say {endless}")).await;
        assert_eq!((answer.text.as_str(), answer.finish()), (text, finish));
        assert_eq!(answer.kept, text);
        server.stop().await;
    }
}

#[tokio::test]
async fn what_was_computed_for_one_caller_is_used_for_another_only_if_the_operator_says_so() {
    for (sharing, shared) in [("session", false), ("all", true)] {
        let script = FakeScript::default();
        let set = format!("stages.thinker.prefix_sharing={sharing}");
        let server = TestServer::fake(script.clone(), &["--set", &set]).await;
        let config = v1::ChatConfig {
            instructions: "be kind. ".repeat(300),
            ..chat_config(false)
        };
        let mut first = server.converse().await;
        let mut second = server.converse().await;
        for chat in [&mut first, &mut second] {
            chat.configure(config.clone()).await;
        }
        let before = script.cached.all().len();
        first.turn("one").await;
        first.turn("two").await;
        second.turn("one").await;
        let cached = script.cached.all().split_off(before);
        assert_eq!(
            (cached[0], cached[1] > 0, cached[2] > 0),
            (0, true, shared),
            "{cached:?}"
        );
        server.stop().await;
    }
}

#[tokio::test]
async fn an_assistant_that_never_lets_go_is_forgotten_in_time() {
    let server = server(FakeScript::default()).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        history: (0..4_096)
            .map(|_| chat_message(v1::Role::Assistant, "x"))
            .collect(),
        ..chat_config(false)
    };
    chat.configure(config).await;
    for _ in 0..2 {
        chat.send(said(v1::Role::Assistant, "y")).await;
    }
    let warning = |event: &Event| match event {
        Event::Warning(warning) => Some(warning.reason.clone()),
        _ => None,
    };
    for _ in 0..2 {
        assert_eq!(chat.until(warning).await, "HISTORY_TRIMMED");
    }
    chat.send(respond()).await;
    assert_eq!(chat.answer().await.outcome.usage.unwrap().input_characters, 4_096);
    server.stop().await;
}

#[tokio::test]
async fn a_history_with_too_many_messages_is_refused() {
    let server = server(FakeScript::default()).await;
    let chat = server.converse().await;
    let config = v1::ChatConfig {
        history: (0..4_097)
            .map(|_| chat_message(v1::Role::Assistant, "x"))
            .collect(),
        ..chat_config(false)
    };
    chat.send(Request::Config(config)).await;
    let status = chat.end().await.unwrap_err();
    assert_eq!(reason(&status), "INVALID_FIELD");
    assert!(
        status.message().contains("4097 messages, expected at most 4096"),
        "{}",
        status.message()
    );
    server.stop().await;
}

#[tokio::test]
async fn generate_answers_as_converse_does() {
    let server = server(FakeScript::default()).await;
    let config = v1::ChatConfig {
        text_sampling: Some(v1::SamplingParams {
            seed: Some(7),
            ..v1::SamplingParams::default()
        }),
        ..chat_config(true)
    };
    let conversation = vec![
        chat_message(v1::Role::User, "hi"),
        chat_message(v1::Role::Assistant, "hello"),
        chat_message(v1::Role::User, "say something worth hearing."),
    ];
    let whole = generate(&mut server.chat(), config.clone(), conversation.clone())
        .await
        .unwrap();

    let mut chat = server.converse().await;
    chat.configure(config).await;
    for message in conversation {
        chat.send(Request::Message(message)).await;
    }
    chat.send(respond()).await;
    let answer = chat.answer().await;
    assert_eq!(answer.text, "something worth hearing.");
    assert_eq!((&whole.text, &whole.kept), (&answer.text, &answer.kept));
    assert!(answer.samples() > 0 && whole.audio == answer.audio);
    assert_eq!(whole.outcome.usage, answer.outcome.usage);
    server.stop().await;
}

#[tokio::test]
async fn sixteen_conversations_at_once_do_not_mix() {
    let server = server(FakeScript::default()).await;
    let chats = (0..16).map(|n| {
        let server = &server;
        async move {
            let mut chat = server.converse().await;
            chat.configure(chat_config(n % 2 == 0)).await;
            for turn in 0..3 {
                let text = format!("caller {n}, turn {turn}.");
                let answer = chat.turn(&format!("say {text}")).await;
                assert_eq!((&answer.text, answer.samples() > 0), (&text, n % 2 == 0));
            }
            let kept = chat.turn("recite").await.text;
            assert_eq!(kept.matches(&format!("caller {n}, ")).count(), 6, "{kept}");
        }
    });
    futures::future::join_all(chats).await;
    server.chats_over(64).await;
    server.stop().await;
}
