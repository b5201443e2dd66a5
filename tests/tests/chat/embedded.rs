//! The embedded checkpoint in the server, over a real socket: it answers as trained, remembers its answers, and
//! speaks.

use omni_config::{ModelSource, deploy::resolve};
use omni_proto::v1;
use omni_proto::v1::converse_response::Event;
use omni_server::app::load_model;
use omni_tests::{Answer, ChatCall, TestServer, chat_config, chat_message, generate};

async fn server() -> TestServer {
    let deploy = resolve(None, &[], 64).expect("the defaults").deploy;
    let load = move || load_model(&ModelSource::Embedded, &deploy, false);
    let mut server = TestServer::launch(&[], load).await;
    server.app.ready().await.expect("the embedded model loads");
    server
}

/// Greedy, deterministic answers.
fn config(audio: bool) -> v1::ChatConfig {
    let text_sampling = v1::SamplingParams {
        temperature: Some(0.0),
        ..v1::SamplingParams::default()
    };
    let speech_sampling = v1::SamplingParams {
        seed: Some(1),
        ..v1::SamplingParams::default()
    };
    v1::ChatConfig {
        text_sampling: Some(text_sampling),
        speech_sampling: Some(speech_sampling),
        ..chat_config(audio)
    }
}

/// Asks, and expects `word` in an answer that is all there: written, spoken and kept.
async fn expect(chat: &mut ChatCall, question: &str, word: &str) -> Answer {
    let answer = chat.turn(question).await;
    assert_eq!(answer.finish(), v1::FinishReason::Stop, "{question}: {answer:?}");
    let text = &answer.text;
    assert!(
        text.contains(word),
        "{question} is answered {text:?}, not with {word}"
    );
    assert_eq!(answer.kept, *text, "{question}");
    assert!(answer.warnings.is_empty(), "{question}: {:?}", answer.warnings);
    answer
}

/// Chunks of audio in an answer.
fn chunks(chat: &ChatCall, answer: &Answer) -> usize {
    let responses = chat.history().responses.iter();
    let own = responses.filter(|response| response.response_id == answer.id);
    own.filter(|response| matches!(response.event, Some(Event::Audio(_))))
        .count()
}

#[tokio::test]
async fn it_holds_a_conversation_aloud() {
    let server = server().await;
    let mut chat = server.converse().await;
    let ready = chat.configure(config(true)).await;
    let delivery = ready.resolved.and_then(|settings| settings.output_audio);
    let rate = delivery
        .and_then(|delivery| delivery.format)
        .expect("a format")
        .sample_rate_hz as usize;
    for (question, word) in [
        ("Hello!", "Hello"),
        ("What is the capital of France?", "Paris"),
        // Of which only the answer before tells.
        ("Please say that again.", "Paris"),
        ("What is 12 plus 7?", "19"),
        ("What comes after Tuesday?", "Wednesday"),
    ] {
        let answer = expect(&mut chat, question, word).await;
        // No word of it takes less than a fifth of a second, and no character half a second.
        let least = rate / 5;
        let most = answer.text.len() * rate / 2;
        let samples = answer.samples();
        assert!((least..most).contains(&samples), "{question}: {samples} samples");
        assert!(chunks(&chat, &answer) > 1, "{question}: its audio is streamed");
    }
    chat.hang_up();
    chat.end().await.expect("a good end");
    server.chats_over(5).await;
    server.stop().await;
}

#[tokio::test]
async fn a_whole_conversation_is_answered_like_one_that_grew() {
    let server = server().await;
    let mut chat = server.converse().await;
    chat.configure(config(false)).await;
    let first = expect(&mut chat, "What is the capital of Italy?", "Rome").await;
    let second = expect(&mut chat, "Once more, please.", "Rome").await;
    let conversation = vec![
        chat_message(v1::Role::User, "What is the capital of Italy?"),
        chat_message(v1::Role::Assistant, &first.text),
        chat_message(v1::Role::User, "Once more, please."),
    ];
    let again = generate(&mut server.chat(), config(false), conversation)
        .await
        .expect("an answer");
    assert_eq!(again.text, second.text);
    drop(chat);
    server.stop().await;
}

#[tokio::test]
async fn it_answers_aloud_although_its_instructions_do_not_fit() {
    let server = server().await;
    let rule = "- Write no lists, no code and no symbols: every word of an answer is spoken aloud.\n";
    let instructions = format!(
        "### Task:\nYou are in a voice call. Be brief.\n{}",
        rule.repeat(20)
    );
    let mut chat = server.converse().await;
    chat.configure(v1::ChatConfig {
        instructions,
        ..config(true)
    })
    .await;
    for question in ["What is the capital of France?", "Thank you!"] {
        let answer = chat.turn(question).await;
        assert!(
            matches!(
                answer.finish(),
                v1::FinishReason::Stop | v1::FinishReason::Length | v1::FinishReason::Repetition
            ),
            "{answer:?}"
        );
        assert!(
            !answer.text.trim().is_empty() && answer.samples() > 0,
            "{answer:?}"
        );
        let reasons: Vec<_> = answer
            .warnings
            .iter()
            .map(|warning| warning.reason.as_str())
            .collect();
        assert!(reasons.contains(&"PROMPT_TRIMMED"), "{reasons:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_goes_round_in_circles_is_ended_and_lists_and_spelling_are_not() {
    let server = server().await;
    for (question, ends) in [
        ("Can you count backwards from ten?", v1::FinishReason::Repetition),
        // As long as the model writes at most.
        ("Count to one hundred.", v1::FinishReason::Length),
        ("Count from one to twenty.", v1::FinishReason::Stop),
        ("How do you spell banana?", v1::FinishReason::Stop),
        ("How do you spell Mississippi?", v1::FinishReason::Stop),
        ("Name the months of the year.", v1::FinishReason::Stop),
        ("Name the days of the week.", v1::FinishReason::Stop),
    ] {
        let asked = vec![chat_message(v1::Role::User, question)];
        let answer = generate(&mut server.chat(), config(false), asked)
            .await
            .expect("an answer");
        assert_eq!(answer.finish(), ends, "{question}: {:?}", answer.text);
        if ends == v1::FinishReason::Repetition {
            assert!(answer.text.len() < 150, "{question}: {:?}", answer.text);
        }
    }
    server.stop().await;
}
