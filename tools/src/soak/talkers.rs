//! Callers of `Converse` and `Generate`.

use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::chat_service_client::ChatServiceClient;
use omni_proto::v1::converse_response::Event;
use omni_tests::{ChatCall, Dice, chat_config, chat_message, generate, interrupt, respond, said};

use super::callers::{Visit, ended_well, refused};
use super::speakers;

const QUESTIONS: [&str; 7] = [
    "Please spell the word library.",
    "What is the capital of France?",
    "Count to twenty.",
    "What is 12 plus 30?",
    "Hello!",
    "Name the days of the week, please, and the months after that.",
    "\u{4f60}\u{597d} \u{1f600}",
];

fn client(visit: &Visit) -> ChatServiceClient<tonic::transport::Channel> {
    ChatServiceClient::new(visit.channel())
}

fn settings(dice: &mut Dice) -> v1::ChatConfig {
    let mut settings = chat_config(!dice.one_in(3));
    settings.output_audio = speakers::settings(dice).output;
    settings.text_sampling = Some(v1::SamplingParams {
        max_tokens: Some(1 + dice.below(40) as u32),
        ..v1::SamplingParams::default()
    });
    if dice.one_in(3) {
        settings.history = vec![
            chat_message(v1::Role::System, "Be brief."),
            chat_message(v1::Role::User, "Hello."),
            chat_message(v1::Role::Assistant, "Hello."),
        ];
    }
    settings
}

/// A call with settings, and whether its answers are spoken; why it is none otherwise.
async fn begun(visit: &mut Visit) -> Result<(ChatCall, bool), String> {
    let call = ChatCall::try_open(&mut client(visit), None).await;
    let mut call = call.map_err(|status| refused(&status))?;
    let settings = settings(&mut visit.dice);
    let spoken = settings.output_modalities.contains(&v1::Modality::Audio.into());
    call.configure(settings).await;
    Ok((call, spoken))
}

/// Waits for the end of the answer.
async fn done(call: &mut ChatCall) -> &'static str {
    loop {
        match call.next().await {
            Some((_, Event::ResponseDone(done))) => {
                let outcome = done.outcome.expect("an outcome");
                return ended_well(outcome.finish_reason(), &omni_tests::error_reason(&outcome));
            }
            Some(_) => {}
            None => panic!(
                "the call ended without response_done: {:?}",
                call.history().ending
            ),
        }
    }
}

/// Several turns.
pub(super) async fn converses(visit: &mut Visit) -> String {
    let (mut call, _) = match begun(visit).await {
        Ok(begun) => begun,
        Err(refused) => return refused,
    };
    let mut came = "answered";
    for _ in 0..=visit.dice.below(3) {
        call.ask(visit.dice.of(&QUESTIONS)).await;
        match done(&mut call).await {
            "interrupted" => panic!("there was no interruption"),
            "overloaded" => came = "overloaded",
            _ => {}
        }
    }
    call.hang_up();
    call.end().await.expect("it ends well");
    came.to_owned()
}

/// Several turns, each interrupted at any moment.
pub(super) async fn interrupts(visit: &mut Visit) -> String {
    let (mut call, spoken) = match begun(visit).await {
        Ok(begun) => begun,
        Err(refused) => return refused,
    };
    let mut came = "too late";
    for _ in 0..=visit.dice.below(3) {
        call.send(said(v1::Role::User, visit.dice.of(&QUESTIONS))).await;
        call.send(respond()).await;
        match visit.dice.below(3) {
            0 => {}
            1 => tokio::time::sleep(visit.dice.moment(Duration::from_millis(80))).await,
            _ => _ = call.next().await,
        }
        let heard = (spoken && visit.dice.one_in(2)).then(|| visit.dice.below(20_000));
        call.send(interrupt(heard)).await;
        if done(&mut call).await == "interrupted" {
            came = "interrupted";
        }
    }
    call.hang_up();
    call.end().await.expect("it ends well");
    came.to_owned()
}

/// The connection breaks somewhere on the way.
pub(super) async fn vanishes(visit: &mut Visit) -> String {
    let (mut call, _) = match begun(visit).await {
        Ok(begun) => begun,
        Err(refused) => return refused,
    };
    call.ask(visit.dice.of(&QUESTIONS)).await;
    for _ in 0..visit.dice.below(5) {
        call.next().await;
    }
    visit.cut();
    call.broken().await;
    "gone".to_owned()
}

/// One answer to a whole conversation.
pub(super) async fn generates(visit: &mut Visit) -> String {
    let settings = v1::ChatConfig {
        history: Vec::new(),
        ..settings(&mut visit.dice)
    };
    let messages = vec![chat_message(v1::Role::User, visit.dice.of(&QUESTIONS))];
    match generate(&mut client(visit), settings, messages).await {
        Ok(answer) => ended_well(answer.finish(), &answer.error_reason()).to_owned(),
        Err(status) => refused(&status),
    }
}
