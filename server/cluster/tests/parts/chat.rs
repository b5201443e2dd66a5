//! Conversations through a process for every stage.

use omni_client::{
    ChatEvent, ChatSettings, Client, ClientError, Clip, ClipFormat, Code, Endpoint, Finish, Message,
    Part as Content, Role, RpcError, SampleRate, Sampling,
};

use crate::part::{Cluster, Part};

const LISTENING: [&str; 4] = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];

/// Received parts of an answer.
#[derive(Debug, PartialEq)]
struct Answer {
    text: String,
    pcm: Vec<u8>,
    heard: u32,
}

/// Short, deterministic answers.
fn settings() -> ChatSettings {
    let sampling = |max_tokens| Sampling {
        seed: Some(3),
        temperature: Some(0.0),
        max_tokens: Some(max_tokens),
        ..Sampling::default()
    };
    ChatSettings {
        text_sampling: sampling(48),
        speech_sampling: sampling(200),
        ..ChatSettings::default()
    }
}

/// The answer of a server to `messages`, or why there is none.
async fn answer(server: &Part, messages: &[Message]) -> Result<Answer, Box<RpcError>> {
    let endpoint = Endpoint::parse(&server.address()).expect("an address");
    let client = Client::connect(&endpoint).await.expect("it listens");
    let mut events = client.generate(&settings(), messages);
    let mut text = String::new();
    let mut pcm = Vec::new();
    loop {
        let event = match events.next().await {
            Err(ClientError::Rpc(error)) => return Err(error),
            event => event.expect("an answer").expect("it ends with its end"),
        };
        match event {
            ChatEvent::Text(_, piece) => text.push_str(&piece),
            ChatEvent::Audio(_, audio) => pcm.extend_from_slice(&audio.pcm),
            ChatEvent::Done(_, done) => {
                let heard = done.outcome.usage.input_audio_tokens;
                return match done.outcome.finish {
                    Finish::Error(error) => Err(error),
                    _ => Ok(Answer { text, pcm, heard }),
                };
            }
            _ => (),
        }
    }
}

/// One process, and a front end with a process for each of the stages.
fn servers(cluster: &Cluster, model: &[&str], stages: &[&str]) -> (Part, Part, Vec<Part>) {
    let alone = Part::start(&[&LISTENING[..], model].concat());
    alone.serves();
    let stages = stages.iter().map(|stage| cluster.stage(stage, model)).collect();
    let found = cluster.found();
    let found: Vec<_> = found.iter().map(String::as_str).collect();
    let front = Part::start(&[&["--role", "frontend"], &LISTENING[..], model, &found].concat());
    front.serves();
    (alone, front, stages)
}

#[tokio::test]
async fn four_processes_answer_what_one_process_answers() {
    let cluster = Cluster::new();
    let (alone, front, _stages) = servers(&cluster, &[], &["thinker", "talker", "code2wav"]);
    let said = |text: &str| vec![Message::user(text)];
    let longer = vec![
        Message::user("What is 30 plus 4?"),
        Message::assistant("30 plus 4 is 34."),
        Message::user("What is the capital of France?"),
    ];
    for messages in [said("What is 7 times 8?"), longer] {
        let expected = answer(&alone, &messages).await.expect("it answers");
        assert!(
            !expected.text.is_empty() && expected.pcm.len() > 10_000,
            "{expected:?}"
        );
        // In company, too.
        let (first, second) = tokio::join!(answer(&front, &messages), answer(&front, &messages));
        for said in [first, second] {
            assert!(said.expect("it answers") == expected, "{messages:?}");
        }
    }
}

#[tokio::test]
async fn a_recording_is_heard_by_a_process_of_its_own() {
    let cluster = Cluster::new();
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tests/data/qwen3-omni-tiny"
    );
    let stages = ["encoder", "thinker", "talker", "code2wav"];
    let (alone, front, _stages) = servers(&cluster, &["--model", folder], &stages);
    let wave = (0..16_000).map(|n| (n as f32 * 440.0 / 16_000.0 * std::f32::consts::TAU).sin() * 8_000.0);
    let data: Vec<u8> = wave.flat_map(|sample| (sample as i16).to_le_bytes()).collect();
    let rate = SampleRate::new(16_000).expect("a rate");
    let clip = Clip {
        format: ClipFormat::Pcm { rate, channels: 1 },
        data: data.into(),
    };
    let message = Message {
        id: String::new(),
        role: Role::User,
        parts: vec![Content::Audio(clip), Content::Text("And now?".to_owned())],
    };
    let expected = answer(&alone, std::slice::from_ref(&message))
        .await
        .expect("it answers");
    assert!(expected.heard > 0 && !expected.pcm.is_empty(), "{expected:?}");
    let placed = Part::start(
        &[
            &LISTENING[..],
            &["--model", folder, "--set", "stages.encoder.placement=process"],
        ]
        .concat(),
    );
    placed.serves();
    for server in [&front, &placed] {
        let said = answer(server, std::slice::from_ref(&message)).await;
        assert!(said.expect("it answers") == expected);
    }
}

#[tokio::test]
async fn without_a_thinker_an_answer_fails_with_its_name_and_another_thinker_gives_it() {
    let cluster = Cluster::new();
    let (_alone, front, mut stages) = servers(&cluster, &[], &["thinker", "talker", "code2wav"]);
    let messages = [Message::user("What is 30 plus 4?")];
    let expected = answer(&front, &messages).await.expect("it answers");
    stages[0].kill();
    let error = answer(&front, &messages).await.expect_err("no thinker is left");
    assert_eq!(error.code, Code::Unavailable, "{error:?}");
    assert!(error.message.contains("thinker"), "{error:?}");
    let _another = cluster.stage("thinker", &[]);
    front.says_times("replica ready", 4);
    assert!(answer(&front, &messages).await.expect("it answers") == expected);
}
