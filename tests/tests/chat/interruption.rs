//! Interruptions and disconnects: everything stops, and only the part that was heard is remembered.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::converse_request::Event as Request;
use omni_proto::v1::converse_response::Event;
use omni_session::Outcome;
use omni_tests::{
    ChatCall, FAKE_SAMPLES_PER_FRAME, FakeScript, TestServer, chat_config, interrupt, respond, said, text_of,
};
use tonic::Code;

async fn conversing(server: &TestServer, audio: bool) -> ChatCall {
    let mut chat = server.converse().await;
    chat.configure(chat_config(audio)).await;
    chat
}

async fn some_text(chat: &mut ChatCall) {
    chat.until(|event| matches!(event, Event::Text(_)).then_some(()))
        .await;
}

#[tokio::test]
async fn the_next_turn_may_follow_an_interruption_at_once() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = conversing(&server, false).await;
    chat.ask("forever").await;
    some_text(&mut chat).await;
    chat.send(interrupt(None)).await;
    chat.send(said(v1::Role::User, "recite")).await;
    chat.send(respond()).await;
    let cut = chat.answer().await;
    assert_eq!(cut.finish(), v1::FinishReason::Interrupted);
    assert!(!cut.kept.is_empty() && cut.text.starts_with(&cut.kept));
    let kept = cut.kept.clone();
    assert_eq!(
        chat.answer().await.text,
        format!("user:forever|assistant:{kept}|user:recite|")
    );
    chat.hang_up();
    chat.end().await.unwrap();
    server.chats_over(2).await;
    server.stop().await;
}

#[tokio::test]
async fn only_what_was_heard_is_remembered() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = conversing(&server, true).await;
    chat.ask("forever").await;
    chat.until(|event| matches!(event, Event::Audio(_)).then_some(()))
        .await;
    chat.send(interrupt(Some(0))).await;
    let answer = chat.answer().await;
    assert_eq!(answer.kept, "");
    assert_eq!(chat.turn("recite").await.text, "user:forever|user:recite|");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_was_done_is_cut_to_what_was_heard() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = conversing(&server, true).await;
    let text = "alpha beta gamma delta";
    let answer = chat.turn(&format!("say {text}")).await;
    assert_eq!(answer.kept, text);
    // One frame per letter: the middle of the third word has been heard.
    let frame = u64::from(FAKE_SAMPLES_PER_FRAME);
    for (played, left) in [
        (13 * frame, "alpha beta"),
        (7 * frame, "alpha"),
        (u64::MAX, "alpha"),
        (0, ""),
    ] {
        chat.send(interrupt(Some(played))).await;
        let cut = chat.until(|event| match event {
            Event::MessageCut(cut) => cut.message.clone(),
            _ => None,
        });
        assert_eq!(text_of(&cut.await), left, "{played} samples were played");
    }
    // Without a position, or for a response that does not exist, it does nothing.
    chat.send(interrupt(None)).await;
    let unknown = v1::Interrupt {
        response_id: "nobody".to_owned(),
        played_samples: Some(0),
    };
    chat.send(Request::Interrupt(unknown)).await;
    assert_eq!(
        chat.turn("recite").await.text,
        format!("user:say {text}|user:recite|")
    );
    server.stop().await;
}

#[tokio::test]
async fn what_was_heard_is_counted_at_the_rate_and_speed_that_it_was_heard_at() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = server.converse().await;
    let config = v1::ChatConfig {
        output_audio: Some(v1::AudioDelivery {
            format: Some(v1::AudioFormat {
                encoding: v1::AudioEncoding::Mulaw.into(),
                ..v1::AudioFormat::default()
            }),
            ..v1::AudioDelivery::default()
        }),
        speed: Some(2.0),
        ..chat_config(true)
    };
    let resolved = chat.configure(config).await.resolved.unwrap();
    assert_eq!(resolved.speed, Some(2.0));
    let answer = chat.turn("say alpha beta gamma delta").await;
    // 22 letters of a frame each, at half the rate and twice the speed; the fade at the ends is within a frame.
    let frame = u64::from(FAKE_SAMPLES_PER_FRAME) / 4;
    let sent: u64 = chat
        .history()
        .responses
        .iter()
        .filter_map(|response| match &response.event {
            Some(Event::Audio(chunk)) => Some(u64::from(chunk.sample_count)),
            _ => None,
        })
        .sum();
    assert!(sent.abs_diff(22 * frame) <= frame, "{sent}");
    assert_eq!(answer.kept, "alpha beta gamma delta");
    chat.send(interrupt(Some(13 * frame))).await;
    let cut = chat.until(|event| match event {
        Event::MessageCut(cut) => cut.message.clone(),
        _ => None,
    });
    assert_eq!(text_of(&cut.await), "alpha beta");
    server.stop().await;
}

#[tokio::test]
async fn thinker_and_talker_stop_within_a_step() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut chat = conversing(&server, true).await;
    script.thinker.close();
    chat.ask("forever").await;
    script.thinker.reached().await;
    chat.send(interrupt(None)).await;
    assert_eq!(chat.answer().await.finish(), v1::FinishReason::Interrupted);
    let passed = script.thinker.passed();
    script.thinker.open();
    // The next answer takes as many steps as usual: one per token, and one to end.
    assert_eq!(chat.turn("say ab").await.text, "ab");
    assert!(
        script.thinker.passed() <= passed + 1 + 3,
        "the interrupted answer was stepped on"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_interruption_at_any_moment_gives_one_end_and_nothing_after_it() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    for n in 0..40_u64 {
        let mut chat = conversing(&server, n % 2 == 0).await;
        chat.ask("say a few words, and then a few more of them.").await;
        // The moments differ by how much was received before.
        for _ in 0..n % 7 {
            if chat
                .next()
                .await
                .is_none_or(|(_, event)| matches!(event, Event::ResponseDone(_)))
            {
                break;
            }
        }
        chat.send(interrupt((n % 2 == 0).then_some(n * 500))).await;
        chat.ask("say next").await;
        chat.hang_up();
        // The rules for every stream are checked at its end.
        let history = chat.end().await.unwrap();
        let done = history.responses.iter();
        let done = done.filter(|response| matches!(response.event, Some(Event::ResponseDone(_))));
        assert_eq!(done.count(), 2);
    }
    server.chats_over(80).await;
    server.stop().await;
}

#[tokio::test]
async fn a_caller_that_vanishes_leaves_nothing_behind() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    for audio in [false, true] {
        let mut chat = conversing(&server, audio).await;
        chat.ask("forever").await;
        some_text(&mut chat).await;
        drop(chat);
    }
    server
        .until("both answers are recorded", || server.records.turns().len() == 2)
        .await;
    server.chats_over(2).await;
    assert!(
        server
            .records
            .turns()
            .iter()
            .all(|turn| turn.outcome == Outcome::Aborted)
    );
    server.stop().await;
}

#[tokio::test]
async fn a_deadline_ends_the_call() {
    let server = TestServer::fake(FakeScript::default(), &[]).await;
    let mut chat = ChatCall::try_open(&mut server.chat(), Some(Duration::from_millis(300)))
        .await
        .unwrap();
    chat.configure(chat_config(false)).await;
    chat.ask("forever").await;
    // The client's own timer may be first.
    let code = chat.end().await.unwrap_err().code();
    assert!(
        matches!(code, Code::DeadlineExceeded | Code::Cancelled),
        "{code:?}"
    );
    server
        .until("the answer is recorded", || server.records.turns().len() == 1)
        .await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_drains_finishes_the_answer_and_begins_no_other() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &[]).await;
    let mut chat = conversing(&server, false).await;
    script.thinker.close();
    chat.ask("say goodbye").await;
    script.thinker.reached().await;
    let stopping = tokio::spawn(server.app.shut_down(std::future::pending()));
    let warning = chat.until(|event| match event {
        Event::Warning(warning) => Some(warning.reason.clone()),
        _ => None,
    });
    assert_eq!(warning.await, "DRAINING");
    script.thinker.open();
    assert_eq!(chat.answer().await.text, "goodbye");
    let status = chat.end().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_prompt_that_nobody_waits_for_any_more_keeps_its_place_until_it_is_done() {
    let script = FakeScript::default();
    let server = TestServer::fake(script.clone(), &["--max-active", "1"]).await;
    let mut chat = conversing(&server, false).await;
    script.template.close();
    chat.ask("say one").await;
    script.template.reached().await;
    chat.send(interrupt(None)).await;
    assert_eq!(chat.answer().await.finish(), v1::FinishReason::Interrupted);
    assert_eq!(
        server.app.orchestrator().admission().free(),
        0,
        "it is still being read"
    );
    script.template.open();
    assert_eq!(chat.turn("say two").await.text, "two");
    chat.hang_up();
    chat.end().await.unwrap();
    server.chats_over(2).await;
    server.stop().await;
}
